"""What a crash of an agent leaves of its queue: `--on-crash`."""

import os
import signal
from pathlib import Path

import pytest
from tests.rpc.host.attached import Connection, HostProcess, environment_of, started

from pinnace_rpc.host.protocol import ListAgents

HANG = {"id": "go", "type": "prompt", "message": "run `cat gate`"}
FOLLOW_UP = {"id": "f", "type": "follow_up", "message": "later"}


def agent_pid(host: HostProcess) -> int:
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    pid: int = row["pid"]
    return pid


def begin_run(host: HostProcess, connection: Connection) -> None:
    """Begin a run that does not end."""
    if not (host.folder / "gate").exists():
        os.mkfifo(host.folder / "gate")
    connection.record()
    connection.send(HANG)
    connection.until(type="tool_execution_start")


@pytest.mark.parametrize("on_crash", ["pause", "continue"])
def test_after_a_crash_the_queue_is_paused_or_continued(folder: Path, on_crash: str) -> None:
    """R-QUE-18."""
    with (
        started(folder, environment_of(folder), "--on-crash", on_crash) as host,
        host.attach(has_cursors=True) as connection,
    ):
        begin_run(host, connection)
        connection.ask(FOLLOW_UP)
        os.kill(agent_pid(host), signal.SIGKILL)
        restarted = connection.until(type="agent_restarted")[-1]
        assert (restarted["reason"], restarted["interrupted"]) == ("crash", True)
        if on_crash == "continue":
            connection.until(type="agent_settled")
        state = connection.ask({"id": "s", "type": "get_state"})["data"]
        is_paused = on_crash == "pause"
        assert (state["pendingMessageCount"], state["queuePaused"]) == (int(is_paused), is_paused)
        messages = connection.ask({"id": "m", "type": "get_messages"})["data"]["messages"]
        texts = [each["content"][0]["text"] for each in messages if each["role"] == "user"]
        assert texts == [HANG["message"], *([] if is_paused else ["later"])]
