"""The end of stdin, a signal or an abort while extensions begin: starting is waited for, or nothing is let through."""

import signal
import time

from tests.rpc.extensions.conftest import MakeExtension, Start, call
from tests.waiting import wait_until

from pinnace_fuzz.records import Record

# Begins when a file is there; only then it guards tools, and has a command.
SLOW: str = """
import os
from pathlib import Path

import trio


def extension(pi):
    async def begin(ctx, event):
        Path("begins").touch()
        while not Path("may-begin").exists():
            await trio.sleep(0.01)
        pi.on("tool_call", lambda ctx, event: {"block": True, "reason": "guarded"})
        pi.register_command("late", lambda ctx, args: None)

    pi.on("session_start", begin)
"""
# What goes on is not taken for ended, nor left behind, within some seconds.
PATIENT = """
import pinnace_rpc.server.process as process
process.ABANDON_S = process.UNWIND_S = 900.0
"""
# Ends when a file is there.
SLOW_TO_END = """
import pinnace_rpc.server.process as process
from pathlib import Path

import trio

process.LAST_WORD_S = process.SHUTDOWN_S = process.LAST_RESORT_S = 900.0


def extension(pi):
    async def end(ctx, event):
        Path("ends").touch()
        while not Path("may-end").exists():
            await trio.sleep(0.01)

    pi.on("session_shutdown", end)
"""
SCRIPT = [call("bash", command="touch went-through"), {"text": "done"}]


def test_what_is_read_after_the_end_has_begun_is_refused(extended: Start, written: MakeExtension) -> None:
    """R-EOF-03: stdin is open, so a client may send until it sees the exit."""
    pi = extended(written(PATIENT + SLOW_TO_END), [{"text": "done"}])
    accepted = {"type": "prompt", "message": "first", "messageId": "m1"}
    pi.pi.send({"id": "first", **accepted})
    pi.pi.wait({"type": "agent_settled"})
    pi.pi.signal(signal.SIGTERM)
    wait_until((pi.work / "ends").exists)
    refused: list[Record] = [
        *[{"type": name, "message": "late"} for name in ("prompt", "steer", "follow_up")],
        *[{"type": name} for name in ("new_session", "compact", "reload", "clone")],
        {"type": "bash", "command": "touch went-through"},
        {"type": "switch_session", "sessionPath": "none.jsonl"},
        {"type": "fork", "entryId": "00000000"},
        {"type": "navigate_tree", "entryId": None},
    ]
    pi.pi.send_many([{"id": str(number), **command} for number, command in enumerate(refused)])
    for number in range(len(refused)):
        assert pi.pi.wait_response(str(number))["errorCode"] == "shutting_down"
    pi.pi.send_many([{"id": "state", "type": "get_state"}, {"id": "again", **accepted}])
    assert pi.pi.wait_response("state")["data"]["messageCount"] == 2
    assert pi.pi.wait_response("again")["success"]
    (pi.work / "may-end").touch()
    assert pi.pi.wait_exit() == 128 + signal.SIGTERM
    assert not (pi.work / "went-through").exists()


def test_a_drain_waits_for_extensions_to_begin_so_that_their_gates_hold(
    extended: Start, written: MakeExtension
) -> None:
    pi = extended(written(SLOW), SCRIPT, "--on-eof", "drain")
    pi.begin("go")
    wait_until((pi.work / "begins").exists)
    pi.pi.close_stdin()
    time.sleep(0.2)  # time enough for a fault to show
    (pi.work / "may-begin").touch()
    assert pi.pi.wait_exit() == 0
    assert pi.ends == [("guarded", True)]
    assert not (pi.work / "went-through").exists()
    assert pi.errors == []


def test_reads_before_the_end_of_stdin_are_answered_when_extensions_have_begun(
    extended: Start, written: MakeExtension
) -> None:
    pi = extended(written(PATIENT + SLOW), SCRIPT)
    pi.pi.send_many(
        [
            {"id": "state", "type": "get_state"},
            {"id": "p", "type": "prompt", "message": "go"},
            {"id": "level", "type": "set_auto_retry", "enabled": False},
            {"id": "commands", "type": "get_commands"},
        ]
    )
    wait_until((pi.work / "begins").exists)
    pi.pi.close_stdin()
    refused = pi.pi.wait_response("p")
    assert (refused["success"], refused["error"]) == (False, "Shutting down")
    (pi.work / "may-begin").touch()
    assert pi.pi.wait_exit() == 0
    assert [pi.pi.response(each)["success"] for each in ("state", "level", "commands")] == [True] * 3  # type: ignore[index]
    commands = pi.pi.wait_response("commands")["data"]["commands"]
    assert "late" in [each["name"] for each in commands]
    assert pi.errors == []


def test_a_signal_does_not_wait_for_extensions_to_begin_when_nothing_was_asked(
    extended: Start, written: MakeExtension
) -> None:
    pi = extended(written(PATIENT + SLOW), SCRIPT)
    wait_until((pi.work / "begins").exists)
    pi.pi.signal(signal.SIGTERM)
    assert pi.pi.wait_exit() == 143
    assert "pinnace: error" not in pi.pi.stderr_text  # what ends a process that waits names what it waits for


def test_no_command_runs_when_an_abort_has_cut_an_extension_short(extended: Start, written: MakeExtension) -> None:
    path = written(SLOW)
    pi = extended(path, SCRIPT)
    wait_until((pi.work / "begins").exists)
    assert pi.pi.request({"type": "abort"})["success"]
    pi.say("go")
    [(text, is_error)] = pi.ends
    assert is_error
    assert str(path) in text
    assert "has not started" in text
    bash = pi.pi.request({"type": "bash", "command": "touch went-through"})
    assert "has not started" in str(bash)
    assert not (pi.work / "went-through").exists()
