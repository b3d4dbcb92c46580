"""Clients of one agent: what each gets, in which order, whatever the others do and however processes end."""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from tests.rpc.host.attached import OFFLINE, WITHOUT_RESTART, Connection, HostProcess, Record, environment_of, started

from pinnace_rpc.host.protocol import AgentAction, Answer, Detach, EndAgent, Ended, ListAgents

PROMPT = {"id": "p", "type": "prompt", "message": "hi"}
DIALOG = """
def extension(pi):
    async def ask(ctx, args):
        answer = await ctx.ui.input("Name?")
        ctx.ui.notify(f"answer {answer}")
    pi.register_command("ask", handler=ask)
"""
LEAVE = """
def extension(pi):
    @pi.on("session_before_switch")
    async def leave(ctx, event):
        if not await ctx.ui.confirm("Leave?", ""):
            return {"cancel": True}
"""


def without_seq(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in record.items() if name != "seq"} for record in records]


def events(records: list[Record]) -> list[Record]:
    return [record for record in records if record["type"] != "response"]


def cursor(attached: Record, seq: int) -> str:
    return f"{attached['journal']}.{attached['epoch']}:{seq}"


def run_prompt(connection: Connection) -> list[Record]:
    connection.send(PROMPT)
    return connection.until(type="agent_settled")


def test_clients_may_use_the_same_ids(host: HostProcess) -> None:
    with host.attach() as one, host.attach(start=()) as two:
        for connection, identity in [(one, "1"), (two, "1"), (one, 7), (two, None)]:
            connection.send({"id": identity, "type": "get_state"})
        assert [one.record()["id"], one.record()["id"]] == ["1", 7]
        assert [two.record()["id"], two.record()["id"]] == ["1", None]
        two.send({"type": "get_state"}, b"no JSON\n", b"{}\n", b'{"type":"get_state","id":[1]}\n')
        answers = [two.record() for _ in range(4)]
        assert [("id" in each, each["success"], each["command"]) for each in answers] == [
            (False, True, "get_state"),
            (False, False, "parse"),
            (False, False, "unknown"),
            (False, False, "get_state"),
        ]


def test_an_attach_without_flags_is_the_plain_protocol_from_the_present_on(host: HostProcess) -> None:
    with host.attach(has_cursors=True) as first:
        first.record()
        run_prompt(first)
        with host.attach(start=()) as plain:
            seen = run_prompt(plain)
            same = first.until(type="agent_settled")
    assert seen[0] == {"id": "p", "type": "response", "command": "prompt", "success": True, "data": seen[0]["data"]}
    assert events(seen) == without_seq(same)
    assert {"attached", "seq"}.isdisjoint(
        {record["type"] for record in seen} | {name for each in seen for name in each}
    )


def test_replay_and_live_records_have_no_gap_and_no_duplicate(host: HostProcess) -> None:
    with host.attach(has_cursors=True) as first:
        attached = first.record()
        assert (attached["type"], attached["seq"], attached["clients"]) == ("attached", 0, 1)
        before = events(run_prompt(first))
        assert Path(attached["sessionFile"]).exists()
        for seq in (0, 3, len(before)):
            with host.attach(since=cursor(attached, seq), start=()) as late:
                again = late.record()
                assert again["replay"] == "complete"
                run = events(run_prompt(late)) if seq == 3 else []
                if seq == 3:
                    assert run == before[3:]
        more = events(first.until(type="agent_settled"))
        with host.attach(since=cursor(attached, 0), start=()) as late:
            late.record()
            everything = late.until(seq=more[-1]["seq"])
    assert everything == before + more
    assert [each["seq"] for each in everything] == list(range(1, len(everything) + 1))


def test_a_line_without_its_end_is_not_executed(host: HostProcess) -> None:
    with host.attach() as one, host.attach(start=()) as two:
        two.ask({"id": "0", "type": "get_state"})
        two.send(b'{"id":"1","type":"set_session_name","name":"half"}')
        two.leave(Detach())
        assert two.ended().exit_code == 0
        assert "half" not in json.dumps(one.ask({"id": "1", "type": "get_state"}))


def test_a_detach_waits_for_the_answers_and_leaves_the_agent(host: HostProcess) -> None:
    with host.attach() as connection:
        connection.send(*({"id": str(number), "type": "get_state"} for number in range(50)))
        connection.leave(Detach())
        assert connection.ended().exit_code == 0
        assert [each["id"] for each in connection.rest()] == [str(number) for number in range(50)]
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    assert (row["name"], row["state"], row["clients"]) == ("main", "running", 0)


def test_a_detach_at_once_waits_for_no_answer(host: HostProcess) -> None:
    with host.attach() as connection, host.attach(start=()) as other:
        connection.send({"id": "long", "type": "bash", "command": "read x; echo $x"}, {"id": "1", "type": "get_state"})
        connection.until(type="response", id="1")
        connection.leave(Detach(at_once=True))
        assert connection.ended().exit_code == 0
        other.send({"type": "abort_bash"})


def test_an_end_ends_the_agent_as_the_end_of_stdin_does(host: HostProcess) -> None:
    with host.attach() as one, host.attach(start=()) as two:
        one.ask({"id": "1", "type": "get_state"})
        one.leave(EndAgent(at_once=False))
        assert (one.ended().exit_code, two.ended().exit_code) == (0, 0)
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    assert (row["state"], row["pid"]) == ("asleep", None)


def test_a_client_that_stops_reading_costs_the_others_nothing(host: HostProcess) -> None:
    """It reads the rest from the journal when it continues."""
    with host.attach(has_cursors=True) as lazy, host.attach(start=()) as busy:
        attached = lazy.record()
        for _ in range(20):
            run_prompt(busy)
        assert busy.ask({"id": "big", "type": "get_messages"})["success"]
        last = run_prompt(busy)[-1]
        assert last["type"] == "agent_settled"
        with host.attach(since=cursor(attached, 0), start=()) as other:
            other.record()
            marks = 0
            mine: list[Record] = []
            while marks < 21:
                mine.append(other.record())
                marks += mine[-1]["type"] == "agent_settled"
        assert lazy.until(seq=mine[-1]["seq"]) == mine


def test_a_crash_restarts_the_agent_with_its_session(host: HostProcess) -> None:
    """A plain client is sent away; one with cursors learns of it, and of the commands that are open."""
    with host.attach(has_cursors=True) as numbered, host.attach(start=()) as plain:
        attached = numbered.record()
        run_prompt(numbered)
        plain.until(type="agent_settled")
        (row,) = host.ask(ListAgents(watches=False))["agents"]
        os.kill(row["pid"], signal.SIGSTOP)
        numbered.send({"id": "open", "type": "set_session_name", "name": "x"})
        with host.attach(start=()) as other:
            os.kill(row["pid"], signal.SIGKILL)
            assert other.ended().exit_code == 75
        assert plain.ended().exit_code == 75
        answer, restarted = numbered.until(type="agent_restarted")
        assert (answer["id"], answer["errorCode"]) == ("open", "outcome_unknown")
        assert restarted == {
            "type": "agent_restarted",
            "epoch": 2,
            "reason": "crash",
            "complete": False,
            "interrupted": False,
            "pendingMessageCount": 0,
        }
        state = numbered.ask({"id": "s", "type": "get_state"})["data"]
        assert state["sessionId"] == attached["sessionId"]
        assert state["messageCount"] == 2


def test_an_epoch_that_the_disk_does_not_take_is_not_counted_on_from_a_former_one(host: HostProcess) -> None:
    """After the host's end its number is used again: a cursor of it must not be one of the journal on the disk."""
    with host.attach(has_cursors=True) as numbered:
        attached = numbered.record()
        run_prompt(numbered)
        (row,) = host.ask(ListAgents(watches=False))["agents"]
        (state,) = host.folder.rglob("journal.json")
        (state.parent / "journal.json.new").mkdir()  # where it would be written
        os.kill(row["pid"], signal.SIGKILL)
        assert numbered.ended().exit_code == 75
    with host.attach(since=cursor(attached, 5), start=()) as again:
        there = again.record()
        assert (there["epoch"], there["replay"]) == (2, "none")
        assert there["journal"] != attached["journal"]
        assert again.ask({"id": "s", "type": "get_state"})["data"]["messageCount"] == 2


def test_a_crash_before_the_first_message_keeps_the_session(host: HostProcess) -> None:
    with host.attach(has_cursors=True) as connection:
        attached = connection.record()
        (row,) = host.ask(ListAgents(watches=False))["agents"]
        os.kill(row["pid"], signal.SIGKILL)
        connection.until(type="agent_restarted")
        assert connection.ask({"id": "s", "type": "get_state"})["data"]["sessionId"] == attached["sessionId"]


def test_a_cursor_of_a_former_host_replays_what_followed(folder: Path) -> None:
    with started(folder, environment_of(folder)) as host:
        with host.attach(has_cursors=True) as connection:
            attached = connection.record()
            before = events(run_prompt(connection))
        host.process.kill()
        host.process.wait()
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(since=cursor(attached, 5), start=OFFLINE) as connection,
    ):
        again = connection.record()
        assert (again["epoch"], again["journal"], again["replay"]) == (2, attached["journal"], "complete")
        assert again["sessionId"] == attached["sessionId"]
        replayed = connection.until(type="agent_restarted")
        assert replayed[:-1] == before[5:]
        assert (replayed[-1]["epoch"], replayed[-1]["reason"]) == (2, "host")


def test_responses_of_a_former_host_go_to_no_client_of_this_one(folder: Path) -> None:
    """The journal has them. The first connections of both hosts are different clients'."""
    with started(folder, environment_of(folder)) as host, host.attach(has_cursors=True) as connection:
        attached = connection.record()
        run_prompt(connection)
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(since=cursor(attached, 0), start=OFFLINE) as connection,
    ):
        assert "response" not in [each["type"] for each in connection.until(type="agent_restarted")]


@pytest.mark.parametrize("ending", ["in order", "kill -9", "kill -9 in a run", "kill -9 behind the agent in a run"])
def test_what_the_end_of_a_host_has_cut_is_reported_by_the_next(folder: Path, ending: str) -> None:
    """Records that the agent wrote when no host read them are missing; its run is not continued."""
    with started(folder, environment_of(folder), program=WITHOUT_RESTART) as host:
        with host.attach(has_cursors=True) as connection:
            attached = connection.record()
            run_prompt(connection)
            if ending.endswith("in a run"):
                connection.send({"id": "r", "type": "prompt", "message": "count to 100000"})
                connection.until(type="agent_start")
            if "behind the agent" in ending:
                os.kill(host.ask(ListAgents(watches=False))["agents"][0]["pid"], signal.SIGKILL)
                while host.ask(ListAgents(watches=False))["agents"][0]["state"] != "backing_off":
                    pass
        if ending == "in order":
            host.end()
        else:
            host.process.kill()
            host.process.wait()
    with (
        started(folder, environment_of(folder)) as host,
        host.attach(since=cursor(attached, 0), start=OFFLINE) as connection,
    ):
        restarted = connection.until(type="agent_restarted")[-1]
        expected = (ending == "in order", ending.endswith("in a run"))
        assert (restarted["complete"], restarted["interrupted"]) == expected


def test_an_agent_of_a_dead_host_that_keeps_its_session_is_named(folder: Path) -> None:
    """The next host starts none beside it: the wait for its end is bounded."""
    environment = environment_of(folder)
    with started(folder, environment) as host, host.attach() as connection:
        connection.send({"id": "1", "type": "prompt", "message": "hello"})
        connection.until(type="agent_settled")
        former = connection.ask({"id": "2", "type": "get_state"})["data"]["pid"]
        os.kill(former, signal.SIGSTOP)
        host.process.kill()
        host.process.wait()
    try:
        with started(folder, environment) as host:
            done = host.attach_program("main")
            assert done.returncode == 1
            assert "Session is in use" in done.stderr
            assert f"process {former}," in done.stderr
            os.kill(former, signal.SIGKILL)
            with host.attach() as connection:
                assert connection.ask({"id": "1", "type": "get_state"})["data"]["messageCount"] > 0
    finally:
        with suppress(ProcessLookupError):
            os.kill(former, signal.SIGKILL)


def test_an_agent_without_a_session_is_not_restarted(host: HostProcess) -> None:
    with host.attach(start=(*OFFLINE, "--no-session")) as connection:
        connection.ask({"id": "1", "type": "get_state"})
        (row,) = host.ask(ListAgents(watches=False))["agents"]
        os.kill(row["pid"], signal.SIGKILL)
        assert connection.ended().exit_code == 1
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    assert row["state"] == "failed"
    assert "no session" in row["error"]


def test_the_first_answer_to_a_dialog_counts(host: HostProcess) -> None:
    """Every client is asked, also one that attaches while the dialog is open."""
    extension = host.folder / "ask.py"
    extension.write_text(DIALOG)
    with (
        host.attach(start=(*OFFLINE, "-e", str(extension))) as one,
        host.attach(start=(), has_cursors=True) as two,
    ):
        two.record()
        one.send({"id": "1", "type": "prompt", "message": "/ask"})
        dialog = one.until(type="extension_ui_request")[-1]
        with host.attach(start=()) as late:
            assert late.record() == dialog
            (row,) = host.ask(ListAgents(watches=False))["agents"]
            assert row["needsInput"]
            late.send({"type": "extension_ui_response", "id": dialog["id"], "value": "late"})
            late.until(type="extension_ui_request", method="notify", message="answer late")
        one.send({"type": "extension_ui_response", "id": dialog["id"], "value": "one"})
        asked, resolved, notified = two.until(type="extension_ui_request", method="notify")
        assert without_seq([asked]) == [dialog]
        expected = {"type": "extension_ui_resolved", "id": dialog["id"], "reason": "answered"}
        assert without_seq([resolved]) == [expected]
        assert notified["message"] == "answer late"
        seen = [each for each in one.until(method="notify") if each["type"] != "response"]
        assert seen == without_seq([resolved, notified])


def test_the_profile_is_fixed_at_the_start(host: HostProcess) -> None:
    with host.attach(profile="1.5") as one, host.attach(start=()) as two:
        one.send({"id": "1", "type": "hello", "protocol": "1.5"})
        assert one.record()["data"]["protocol"] == "1.5"
        two.send({"id": "1", "type": "hello", "protocol": "seed"})
        assert two.record()["errorCode"] == "profile_fixed"
        two.send({"id": "2", "type": "hello"})
        assert two.record()["data"]["protocol"] == "1.5"


def test_removing_an_agent_leaves_its_session(host: HostProcess) -> None:
    with host.attach(has_cursors=True) as connection:
        attached = connection.record()
        run_prompt(connection)
    assert host.ask(AgentAction("remove", "main")) == {"type": "done", "agent": "main"}
    assert not (host.folder / "agent" / "host" / "agents" / "main").exists()
    assert Path(attached["sessionFile"]).exists()
    assert "no such agent" in host.refusal(host.request(agent="main", since=cursor(attached, 1))).error


def test_a_session_is_found_by_its_id_and_its_file(host: HostProcess) -> None:
    with host.attach(has_cursors=True) as first:
        attached = first.record()
        for session in (attached["sessionId"], attached["sessionFile"]):
            with host.attach(None, session=session, start=(), has_cursors=True) as again:
                assert again.record()["agent"] == "main"


def test_many_clients_get_every_record(host: HostProcess) -> None:
    with host.attach() as first:
        first.ask({"id": "0", "type": "get_state"})
        others = [host.attach(start=()) for _ in range(199)]
        expected = events(run_prompt(first))
        for each in others:
            assert each.until(type="agent_settled") == expected
            each.__exit__()


def test_a_peer_that_only_connects_is_no_client(host: HostProcess) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(host.socket_path)
        with host.attach() as connection:
            assert connection.ask({"id": "1", "type": "get_state"})["success"]


def test_a_dialog_behind_the_end_of_others_is_open(host: HostProcess) -> None:
    """The answer of a command that replaces the session comes with the dialog of the next one."""
    extension = host.folder / "leave.py"
    extension.write_text(LEAVE)
    with host.attach(start=(*OFFLINE, "-e", str(extension))) as one:
        one.send({"id": "first", "type": "new_session"})
        for number in range(10):
            dialog = one.until(type="extension_ui_request", method="confirm")[-1]
            one.send(
                {"id": number, "type": "new_session"},
                {"type": "extension_ui_response", "id": dialog["id"], "confirmed": False},
            )


def test_agents_without_a_name_make_room_when_they_have_ended(folder: Path) -> None:
    """Each attach of an existing client begins one."""
    with started(folder, environment_of(folder), "--max-agents", "1") as host:
        for _ in range(2):
            with host.attach(None, is_new=True, on_eof="end") as connection:
                connection.ask({"id": "1", "type": "get_state"})
                assert "as many as it may" in host.refusal(host.request(is_new=True)).error
                connection.leave(EndAgent(at_once=False))
                assert connection.ended() == Ended(0, None)


def test_an_agent_without_a_name_is_removed_after_its_last_client(folder: Path) -> None:
    """Its session stays, and continues in an agent of its own."""
    at_once = "import pinnace_rpc.host.server as server; server.UNNAMED_S = 0.0"
    begun = f"import sys; {at_once}; from pinnace_rpc.cli.main import main; sys.exit(main())"
    with started(folder, environment_of(folder), program=(sys.executable, "-P", "-c", begun)) as host:
        with host.connect(ListAgents(watches=True)) as watching:
            watching.control()
            with host.attach(None, is_new=True, has_cursors=True) as connection:
                attached = connection.record()
                run_prompt(connection)
                journal = folder / "agent" / "host" / "agents" / attached["agent"]
                assert journal.exists()
            counts = [1]
            while counts[-1]:
                answer = watching.control()
                assert isinstance(answer, Answer)
                counts.append(len(cast("list[object]", answer.record["agents"])))
        assert not journal.exists()
        with host.attach(None, session=attached["sessionFile"], has_cursors=True) as connection:
            again = connection.record()
        assert (again["sessionId"], again["replay"]) == (attached["sessionId"], "none")
