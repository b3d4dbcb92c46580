"""What all clients of an agent get of changes of its conversation and of dialogs that are over: R-SES-16, R-HST-04."""

import json
import signal
import subprocess
from collections.abc import Sequence

import pytest
from tests.rpc.host.attached import OFFLINE, PROGRAM, Connection, HostProcess, Record

EXTENSION = """
def extension(pi):
    @pi.command("change")
    async def change(ctx, args):
        await ctx.new_session()

    @pi.command("ask")
    async def ask(ctx, args):
        await ctx.ui.input("Name?", timeout=float(args) if args else None)
        ctx.ui.notify("asked")
"""
CHANGED = "session_changed"


def extended(host: HostProcess) -> Sequence[str]:
    """Return the arguments of an agent with the extension."""
    path = host.folder / "changes.py"
    path.write_text(EXTENSION)
    return (*OFFLINE, "-e", str(path))


def session_of(connection: Connection) -> str:
    identity: str = connection.ask({"id": "state", "type": "get_state"})["data"]["sessionId"]
    return identity


def texts_of(connection: Connection) -> list[str]:
    """Return the texts of the user in the conversation."""
    messages = connection.ask({"id": "messages", "type": "get_messages"})["data"]["messages"]
    return [each["content"][0]["text"] for each in messages if each["role"] == "user"]


def test_every_client_gets_a_change_of_the_conversation_and_a_later_one_the_current(host: HostProcess) -> None:
    """R-SES-16: by a client, by a move and by an extension."""
    with (
        host.attach(start=extended(host)) as one,
        host.attach(start=(), has_cursors=True) as two,
    ):
        attached = two.record()
        one.send({"id": "1", "type": "prompt", "message": "hi"})
        one.until(type="agent_settled")
        changes: list[tuple[Record, str, str]] = [
            ({"type": "navigate_tree", "entryId": None}, "navigate", "client"),
            ({"type": "new_session"}, "new", "client"),
            ({"type": "prompt", "message": "/change"}, "new", "extension"),
        ]
        for number, (command, reason, by) in enumerate(changes):
            one.send({"id": f"c{number}", **command})
            seen = one.until(id=f"c{number}")
            (changed,) = [each for each in seen if each["type"] == CHANGED]
            assert (reason, by) == (changed["reason"], changed["by"])
            known = two.until(type=CHANGED)[-1]
            assert changed == {name: value for name, value in known.items() if name != "seq"}
            assert [] == texts_of(two)
            assert changed["sessionId"] == session_of(two)
            with host.attach(start=(), has_cursors=True) as late:
                assert changed["sessionId"] == late.record()["sessionId"]
        assert changed["sessionId"] != attached["sessionId"]


@pytest.mark.parametrize("profile", ["pi", "seed"])
@pytest.mark.parametrize("ending", ["timeout", "cancelled"])
def test_a_dialog_that_its_extension_gave_up_is_taken_back_at_every_client(
    host: HostProcess, ending: str, profile: str
) -> None:
    """R-HST-04: clients without cursors get what their profile has; one that attaches later is not asked."""
    with (
        host.attach(start=extended(host), profile=profile) as one,
        host.attach(start=(), has_cursors=True) as two,
    ):
        two.record()
        one.send({"id": "1", "type": "prompt", "message": "/ask 0.3" if ending == "timeout" else "/ask"})
        dialog = two.until(type="extension_ui_request")[-1]
        if ending == "cancelled":
            two.send({"id": "2", "type": "abort"})
        resolved = two.until(type="extension_ui_resolved")[-1]
        assert (dialog["id"], ending) == (resolved["id"], resolved["reason"])
        two.until(method="notify", message="asked")
        two.send({"type": "extension_ui_response", "id": dialog["id"], "value": "late"})
        two.ask({"id": "3", "type": "get_state"})
        with host.attach(start=(), has_cursors=True) as late:
            late.record()
            assert "response" == late.ask({"id": "4", "type": "get_state"})["type"]
            assert b"" == late.received
        one.send({"id": "5", "type": "get_state"})
        plain = [each for each in one.until(id="5") if each["type"] == "extension_ui_resolved"]
        expected = [{name: value for name, value in resolved.items() if name != "seq"}]
        assert (expected if profile == "pi" else []) == plain


def test_a_client_that_was_killed_gets_the_change_when_it_returns(host: HostProcess) -> None:
    """R-SES-16: it has not seen the end of its own command, and loads the conversation that is."""
    with host.attach(start=extended(host), has_cursors=True) as one:
        attached = one.record()
        one.send({"id": "1", "type": "prompt", "message": "hi"})
        one.until(type="agent_settled")
        words = [*PROGRAM, "attach", "main", "--cursors"]
        with subprocess.Popen(
            words,
            env=dict(host.environment),
            cwd=host.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            begun: Record = json.loads(client.stdout.readline())
            client.stdin.write(json.dumps({"id": "n", "type": "new_session"}) + "\n")
            client.stdin.flush()
            one.until(type=CHANGED)  # before its client can have the response
            client.send_signal(signal.SIGKILL)
            assert -signal.SIGKILL == client.wait()
        since = f"{attached['journal']}.{begun['epoch']}:{begun['seq']}"
        with host.attach(since=since, start=()) as again:
            again.record()
            changed = again.until(type=CHANGED)[-1]
            assert ("new", session_of(again)) == (changed["reason"], changed["sessionId"])
            assert [] == texts_of(again)
