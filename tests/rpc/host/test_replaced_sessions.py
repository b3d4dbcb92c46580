"""An agent returns in the session in which it has accepted a message, whatever is killed right after.

Rules R-HST-06, R-HST-10.
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.rpc.host.attached import OFFLINE, Connection, HostProcess, environment_of, started

from pinnace_rpc.host.protocol import AgentAction, ListAgents

NEVER_ASKS = """
import sys, trio
from pinnace_rpc.host.own_commands import OwnCommands
ask = OwnCommands.ask_state
async def at_a_start(self):
    if self._process.takes_commands:
        await trio.sleep_forever()
    await ask(self)
OwnCommands.ask_state = at_a_start
from pinnace_rpc.cli.main import main
sys.exit(main())
"""
"""A host that asks no agent for its session after a replacement: the time until it would have is as long as can be."""
PROGRAM = (sys.executable, "-P", "-c", NEVER_ASKS)


def texts(connection: Connection) -> list[str]:
    messages = connection.ask({"id": "m", "type": "get_messages"})["data"]["messages"]
    return [each["content"][0]["text"] for each in messages if each["role"] == "user"]


def run(connection: Connection, text: str) -> None:
    assert connection.ask({"id": f"p {text}", "type": "prompt", "message": text})["success"]
    connection.until(type="agent_settled")


def session_file(connection: Connection) -> str:
    path: str = connection.ask({"id": "s", "type": "get_state"})["data"]["sessionFile"]
    return path


def test_a_killed_agent_returns_in_the_session_that_has_the_accepted_message(folder: Path) -> None:
    """For each command that replaces a session; the message follows in the same write."""
    with started(folder, environment_of(folder), program=PROGRAM) as host:
        with host.attach() as client:
            run(client, "first")
            former = session_file(client)
            entry = client.ask({"id": "f", "type": "get_fork_messages"})["data"]["messages"][0]["entryId"]
        commands: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
            "new_session": ({}, []),
            "switch_session": ({"sessionPath": former}, ["first"]),
            "clone": ({}, ["first", "after switch_session"]),
            "fork": ({"entryId": entry}, []),
        }
        for name, (fields, kept) in commands.items():
            with host.attach() as client:
                before = session_file(client)
                text = f"after {name}"
                message = {"id": "p", "type": "prompt", "message": text}
                client.send({"id": "r", "type": name, **fields}, message)
                assert client.until(id="p")[-1]["success"]
                (row,) = host.ask(ListAgents(watches=False))["agents"]
                os.kill(row["pid"], signal.SIGKILL)
                assert client.ended().exit_code == 75
            host.ask(AgentAction("restart", "main"))
            with host.attach() as client:
                assert [*kept, text] == texts(client), name
                assert before != session_file(client)


def test_a_killed_host_is_followed_by_one_that_knows_the_session(folder: Path) -> None:
    environment = environment_of(folder)
    with started(folder, environment, program=PROGRAM) as host, host.attach() as client:
        run(client, "first")
        client.send({"id": "n", "type": "new_session"}, {"id": "p", "type": "prompt", "message": "second"})
        assert client.until(id="p")[-1]["success"]
        host.process.kill()
        host.process.wait()
    with started(folder, environment) as host, host.attach(start=()) as client:
        assert ["second"] == texts(client)


def test_a_new_agent_whose_session_cannot_be_kept_does_not_start(folder: Path) -> None:
    """The error names the reason. It starts when there is none, and a host that is killed forgets nothing."""
    environment = environment_of(folder)
    obstacle = folder / "agent" / "host" / "agents" / "main" / "agent.json.new"
    prompt = {"id": "p", "type": "prompt", "message": "first"}
    with started(folder, environment) as host:
        obstacle.mkdir(parents=True)
        obstacle.parent.chmod(0o700)
        with host.attach() as client:
            client.send(prompt)
            ended = client.ended()
            answers = client.rest()
        with host.attach(start=(*OFFLINE, "--no-session")) as client:
            assert client.ask({"id": "s", "type": "get_state"})["success"]  # it has no session to be forgotten
            host.ask(AgentAction("stop", "main"))
        obstacle.rmdir()
        with host.attach() as client:
            assert client.ask(prompt)["success"]
            client.until(type="agent_settled")
            host.process.kill()
            host.process.wait()
    with started(folder, environment) as host, host.attach(start=()) as client:
        assert ["first"] == texts(client)

    assert 1 == ended.exit_code
    assert f"the host can't keep which session the agent has: {obstacle.with_suffix('')}: Is a directory" == ended.error
    assert [] == answers  # nothing was accepted


def test_a_session_that_cannot_be_named_replaces_none(host: HostProcess) -> None:
    """The former one stays, nothing is left of the new one, and the next attempt succeeds."""
    naming = host.folder / "agent" / "host" / "agents" / "main" / "session.json"
    with host.attach() as client:
        run(client, "first")
        former = session_file(client)
        (naming / "in the way").mkdir(parents=True)
        files = sorted(Path(former).parent.iterdir())
        for command in ({"type": "new_session"}, {"type": "clone"}):
            answer = client.ask({"id": "n", **command})
            assert (False, "io_error") == (answer["success"], answer["errorCode"])
        assert former == session_file(client)
        assert files == sorted(Path(former).parent.iterdir())
        (naming / "in the way").rmdir()
        naming.rmdir()
        assert client.ask({"id": "n", "type": "new_session"})["success"]
