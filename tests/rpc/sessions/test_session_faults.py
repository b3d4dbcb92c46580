"""Disks that are full, slow or gone, files that others touch: nothing saved is harmed, nothing unsaved is hidden.

Each row of known losses over the real process. Rules R-SES-05, R-SES-06, R-SES-08.
"""

import base64
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.subagents.test_subagents import call as sub_agent_call
from tests.source_tree import PYTHONPATH

from pinnace_agent.session.child_agents import listed_children
from pinnace_agent.session.store.lease import Lease
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.agent_process import DriverTimeout
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.session_verdict import (
    branch_messages,
    entries_of,
    find_damage,
    find_losses,
    find_request_faults,
    text_of,
)
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_rpc.cli.main import main
from pinnace_spec.wire.json_text import encode_record

MakeGate = Callable[[], ShellGate]

# How long a second process waits for the first, and then ends.
BUSY_S: Final = 30.0
SETTLED = {"type": "agent_settled"}
TOLD = {"type": "extension_error", "event": "session_save"}
CALL = {"name": "write", "args": {"path": "made-by-a-tool", "content": "x"}}
TIME = "2026-01-02T03:04:05.678Z"


def state(pi: HomedAgent) -> dict[str, Any]:
    found: dict[str, Any] = pi.request({"type": "get_state"})["data"]
    return found


def status(pi: HomedAgent) -> dict[str, Any]:
    found: dict[str, Any] = state(pi)["sessionStatus"]
    return found


def session_file(pi: HomedAgent) -> Path:
    return Path(state(pi)["sessionFile"])


def messages_of(pi: HomedAgent) -> list[Record]:
    messages: list[Record] = pi.request({"type": "get_messages"})["data"]["messages"]
    return messages


def users(messages: list[Record]) -> list[str]:
    return [text_of(message) for message in messages if message["role"] == "user"]


def prompt(pi: HomedAgent, text: str) -> None:
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_start"})  # the prompts that were refused have settled too
    pi.wait(SETTLED)


def refusal(pi: HomedAgent, command: Record) -> str:
    """Send what has to be refused because nothing can be saved; return the text."""
    refused = pi.request(command)
    assert (False, "session_not_saved") == (refused["success"], refused.get("errorCode")), refused
    return str(refused["error"])


def check_saved(pi: HomedAgent, path: Path) -> list[Record]:
    """Everything that was told is in the file, in order, the file is whole, and a new process finds it so."""
    data = path.read_bytes()
    assert [] == find_damage(data, may_be_torn=False)
    assert [] == find_losses((each.record for each in pi.records), {}, {path.name: data})
    found = messages_of(pi)
    assert branch_messages(data) == found
    assert {"saved": True} == {key: value for key, value in status(pi).items() if key != "foreignEntries"}
    return found


def check_reopened(agent: AgentStarter, pi: HomedAgent, path: Path, messages: list[Record]) -> None:
    pi.check_end()
    again = agent((), "--session", str(path), again=pi)
    assert messages == messages_of(again)
    assert {"saved": True} == status(again)


# A full disk: a limit for the size of files says no in the same place, and can be set while the agent runs.


def limit(pi: HomedAgent, size: int) -> None:
    """Let no file of the agent grow beyond this."""
    _, hard = resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def lift_limit(pi: HomedAgent) -> None:
    limit(pi, resource.RLIM_INFINITY)


@pytest.mark.parametrize("room", [0, 1, 60, 200])
def test_l4_an_answer_that_can_not_be_saved_ends_the_run_before_its_tools(agent: AgentStarter, room: int) -> None:
    """The bytes that still fit are the beginning of the line, and it is finished there when there is room again."""
    pi = agent([{"text": "one"}, {"tool_calls": [CALL], "hold": "g"}, {"text": "fine"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    assert pi.request({"type": "prompt", "message": "two"})["success"]
    pi.llm.wait_reached("g")
    before = path.read_bytes()
    limit(pi, len(before) + room)
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert not (pi.home.work / "made-by-a-tool").exists()
    assert 2 == len(pi.llm.requests)
    now = path.read_bytes()
    assert now.startswith(before)
    assert len(now) == len(before) + room
    (told,) = pi.found(TOLD)
    assert str(path) in told["error"]
    assert "File too large" in told["error"]
    assert (False, told["error"]) == (status(pi)["saved"], status(pi)["problem"])
    assert status(pi)["unsavedEntries"] == 3  # the call, its result, and the error that ended the run
    assert told["error"] == refusal(pi, {"type": "prompt", "message": "three"})
    refusal(pi, {"type": "set_session_name", "name": "N"})
    assert now == path.read_bytes()

    lift_limit(pi)
    prompt(pi, "four")
    assert [] == find_request_faults(pi.llm.requests[-1].body)
    messages = check_saved(pi, path)
    assert path.read_bytes().startswith(now)
    assert ["one", "two", "four"] == users(messages)
    assert 1 == len(pi.found(TOLD))
    check_reopened(agent, pi, path, messages)


def test_l4_results_of_tools_that_can_not_be_saved_are_not_sent_to_the_model(
    agent: AgentStarter, gates: MakeGate
) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": f"{gate.reading}; echo done by the tool"}}
    pi = agent([{"tool_calls": [call]}, {"text": "fine"}], has_session=True)
    pi.request({"type": "prompt", "message": "one"})
    gate.wait_reached()
    path = session_file(pi)
    before = path.read_bytes()
    limit(pi, len(before))
    gate.release()
    pi.wait(SETTLED)

    assert 1 == len(pi.llm.requests)
    assert before == path.read_bytes()
    assert 1 == len(pi.found(TOLD))
    lift_limit(pi)
    prompt(pi, "two")
    assert "done by the tool" in pi.llm.requests[-1].text
    check_reopened(agent, pi, path, check_saved(pi, path))


@pytest.mark.parametrize("room", [0, 1, 90])
def test_l5_a_prompt_that_can_not_be_saved_is_refused_with_the_reason(agent: AgentStarter, room: int) -> None:
    pi = agent([{"text": "one"}, {"text": "fine"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    before = path.read_bytes()
    limit(pi, len(before) + room)
    text = refusal(pi, {"type": "prompt", "message": "never said"})
    assert "File too large" in text
    refusal(pi, {"type": "prompt", "message": "three"})

    assert 1 == len(pi.llm.requests)
    assert ["one"] == users(messages_of(pi))
    assert path.read_bytes().startswith(before)
    assert len(before) == path.stat().st_size
    lift_limit(pi)
    prompt(pi, "four")
    messages = check_saved(pi, path)
    assert ["one", "four"] == users(messages)
    assert "never said" not in pi.llm.requests[-1].text
    check_reopened(agent, pi, path, messages)


@pytest.mark.parametrize(
    "command",
    [
        {"type": "set_session_name", "name": "N"},
        {"type": "set_model", "provider": "fake", "modelId": "m2"},
        {"type": "set_active_tools", "names": ["read"]},
    ],
    ids=lambda command: command["type"],
)
def test_l5_a_choice_that_can_not_be_saved_is_refused_and_leaves_no_trace(agent: AgentStarter, command: Record) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    before, former, tools = path.read_bytes(), state(pi), pi.ask("get_tools")
    limit(pi, len(before))
    refusal(pi, command)
    now = state(pi)
    assert tools == pi.ask("get_tools")
    assert former["model"] == now["model"]
    assert former.get("sessionName") == now.get("sessionName")
    lift_limit(pi)
    prompt(pi, "two")

    check_saved(pi, path)
    kinds = [entry["type"] for entry in entries_of(path.read_bytes()[len(before) - 1 :])]
    assert ["message", "message"] == kinds


def test_a_prompt_of_which_a_part_was_saved_is_refused_without_a_trace(agent: AgentStarter) -> None:
    """Were the part completed, a crash could leave the prompt, and not what refuses it."""
    pi = agent([{"text": "one"}, {"text": "fine"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    before = path.read_bytes()
    limit(pi, path.stat().st_size + 50)
    refusal(pi, {"type": "prompt", "message": "refused"})
    assert path.read_bytes() == before
    lift_limit(pi)
    assert pi.request({"type": "set_session_name", "name": "N"})["success"]
    pi.check_end()

    assert b"refused" not in path.read_bytes()
    again = agent((), "--continue", again=pi)
    assert ["one"] == users(messages_of(again))
    prompt(again, "two")
    assert "refused" not in again.llm.requests[-1].text
    assert ["one", "two"] == users(check_saved(again, path))


@pytest.mark.parametrize("kind", ["steer", "follow_up"])
def test_a_message_of_which_a_part_was_saved_is_not_queued_after_a_crash(agent: AgentStarter, kind: str) -> None:
    pi = agent([{"text": "one", "hold": "g"}], has_session=True)
    pi.request({"type": "prompt", "message": "one"})
    pi.llm.wait_reached("g")
    path = session_file(pi)
    before = path.read_bytes()
    limit(pi, path.stat().st_size + 50)
    refusal(pi, {"type": kind, "message": "refused"})
    assert path.read_bytes() == before
    lift_limit(pi)
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()
    again = agent((), "--continue", again=pi)
    assert state(again)["pendingMessageCount"] == 0


def test_l5_everything_that_could_not_be_saved_is_saved_at_the_end_of_the_process(agent: AgentStarter) -> None:
    pi = agent([{"text": "one", "hold": "g"}], has_session=True)
    pi.request({"type": "prompt", "message": "one"})
    pi.llm.wait_reached("g")
    path = session_file(pi)
    limit(pi, path.stat().st_size + 10)
    pi.llm.release("g")
    pi.wait(SETTLED)
    assert pi.request({"type": "bash", "command": "echo direct"})["success"]
    assert status(pi)["unsavedEntries"] >= 2
    lift_limit(pi)
    messages = messages_of(pi)
    pi.check_end()

    assert [] == find_damage(path.read_bytes(), may_be_torn=False)
    assert messages == branch_messages(path.read_bytes())
    assert "direct\n" == messages[-1]["output"]


def test_l5_a_text_that_steers_is_kept_in_its_place_when_it_can_not_be_saved(agent: AgentStarter) -> None:
    """It is no prompt that could be refused; but no model sees it before it is safe."""
    pi = agent([{"text": "one", "hold": "g"}, {"text": "fine", "repeat": -1}], has_session=True)
    pi.request({"type": "prompt", "message": "one"})
    pi.llm.wait_reached("g")
    path = session_file(pi)
    assert pi.request({"type": "steer", "message": "steered"})["success"]
    limit(pi, path.stat().st_size)
    pi.llm.release("g")
    pi.wait(SETTLED)
    assert 1 == len(pi.llm.requests)

    lift_limit(pi)
    prompt(pi, "two")
    messages = check_saved(pi, path)
    assert ["one", "steered", "two"] == users(messages)
    check_reopened(agent, pi, path, messages)


def test_l4_a_session_that_can_not_even_begin_refuses_prompts_and_begins_later(agent: AgentStarter) -> None:
    pi = agent([{"text": "fine"}], has_session=True)
    limit(pi, 0)
    path = session_file(pi)
    refusal(pi, {"type": "prompt", "message": "one"})
    assert [] == list(pi.home.sessions.glob("*.jsonl"))
    assert [] == pi.llm.requests
    lift_limit(pi)
    prompt(pi, "two")

    assert ["two"] == users(check_saved(pi, path))


# A real full disk, and one that can't be written, where mounting is allowed.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on a disk."""
    path = folder / "filling"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return path


def test_l4_a_disk_that_fills_up_and_is_emptied_loses_nothing(agent: AgentStarter, small_disk: Path) -> None:
    """Disks give room by the page, so the answer is longer than the one that is begun."""
    script: list[Scripted] = [
        {"text": "one"},
        {"text": "y" * 6000, "tool_calls": [CALL], "hold": "g"},
        {"text": "fine"},
    ]
    pi = agent(script, "--session-dir", str(small_disk), has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    pi.request({"type": "prompt", "message": "two"})
    pi.llm.wait_reached("g")
    before = path.read_bytes()
    filling = fill(small_disk)
    pi.llm.release("g")
    pi.wait(SETTLED)

    (told,) = pi.found(TOLD)
    assert "No space left on device" in told["error"]
    assert "free some disk space" in told["error"]
    assert not (pi.home.work / "made-by-a-tool").exists()
    assert path.read_bytes().startswith(before)
    refusal(pi, {"type": "prompt", "message": "three"})
    filling.unlink()
    prompt(pi, "four")
    messages = check_saved(pi, path)
    assert ["one", "two", "four"] == users(messages)
    check_reopened(agent, pi, path, messages)


def test_l4_a_disk_that_can_not_be_written_refuses_prompts_until_it_can(agent: AgentStarter, small_disk: Path) -> None:
    def remount(mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", str(small_disk)], check=True)

    remount("ro")
    pi = agent([{"text": "fine"}], "--session-dir", str(small_disk), has_session=True)
    path = session_file(pi)
    assert "Read-only file system" in refusal(pi, {"type": "prompt", "message": "one"})
    assert [] == pi.llm.requests
    remount("rw")
    prompt(pi, "two")
    assert ["two"] == users(check_saved(pi, path))


def test_l4_a_session_on_a_disk_that_can_not_be_written_can_be_read_and_copied(
    agent: AgentStarter, small_disk: Path
) -> None:
    pi = agent([{"text": "one"}], "--session-dir", str(small_disk), has_session=True)
    prompt(pi, "one")
    path, messages = session_file(pi), messages_of(pi)
    pi.check_end()
    before = path.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    reader = agent((), "--session", str(path), has_session=True)
    assert messages == messages_of(reader)
    refusal(reader, {"type": "prompt", "message": "two"})
    reader.check_end()
    copy = agent([{"text": "fine"}], "--fork", str(path), has_session=True)
    prompt(copy, "two")
    assert ["one", "two"] == users(check_saved(copy, session_file(copy)))
    assert before == path.read_bytes()


@pytest.fixture
def bound_agent(llm: object, tmp_path: Path) -> Iterator[AgentStarter]:
    """Starts agents to which the modes of folders apply, also if root runs the tests."""
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and setpriv is not there")
    command = (*prefix, sys.executable, "-P", "-m", "pinnace_rpc")
    with AgentStarter(command, tmp_path / "bound", {"PYTHONPATH": PYTHONPATH}, is_specified=True) as starter:
        yield starter


def test_l4_a_folder_that_can_not_be_written_refuses_prompts_until_it_can(bound_agent: AgentStarter) -> None:
    pi = bound_agent([{"text": "fine"}], has_session=True)
    pi.home.sessions.chmod(0o500)
    assert "Permission denied" in refusal(pi, {"type": "prompt", "message": "one"})
    assert [] == pi.llm.requests
    pi.home.sessions.chmod(0o700)
    prompt(pi, "two")
    assert ["two"] == users(check_saved(pi, session_file(pi)))


def test_l4_a_folder_that_becomes_read_only_later_does_not_matter_to_an_open_session(bound_agent: AgentStarter) -> None:
    pi = bound_agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    pi.home.sessions.chmod(0o500)
    prompt(pi, "two")
    assert ["one", "two"] == users(check_saved(pi, session_file(pi)))
    copied = pi.request({"type": "clone"})
    assert (False, "io_error") == (copied["success"], copied["errorCode"])
    assert pi.request({"type": "new_session"})["success"]
    refusal(pi, {"type": "prompt", "message": "three"})
    pi.home.sessions.chmod(0o700)


def test_l4_a_file_that_can_not_be_written_can_be_read(bound_agent: AgentStarter) -> None:
    pi = bound_agent([{"text": "one"}], has_session=True)
    prompt(pi, "one")
    path, messages = session_file(pi), messages_of(pi)
    pi.check_end()
    path.chmod(0o400)
    again = bound_agent((), "--session", str(path), again=pi)
    assert messages == messages_of(again)
    assert "Permission denied" in refusal(again, {"type": "prompt", "message": "two"})


# What is on the disk when.


def test_l6_a_prompt_is_in_the_file_with_its_image_when_it_is_answered(agent: AgentStarter) -> None:
    image = base64.b64encode(bytes(range(256)) * 400).decode()
    block = {"type": "image", "data": image, "mimeType": "image/png"}
    pi = agent([{"text": "never", "hold": "g"}], has_session=True)
    path = session_file(pi)
    pi.send({"id": "p", "type": "prompt", "message": "look", "images": [block]})
    pi.wait_response("p")
    data = path.read_bytes()

    assert [] == find_damage(data, may_be_torn=False)
    (message,) = branch_messages(data)
    assert [{"type": "text", "text": "look"}, block] == message["content"]


@pytest.mark.parametrize(
    "command", [{"type": "bash", "command": "echo said"}, {"type": "set_session_name", "name": "N"}]
)
def test_l7_a_session_with_nothing_but_a_shell_or_a_name_is_kept(agent: AgentStarter, command: Record) -> None:
    pi = agent((), has_session=True)
    assert pi.request(command)["success"]
    path = session_file(pi)
    data = path.read_bytes()
    assert [] == find_damage(data, may_be_torn=False)
    pi.kill()

    again = agent((), "--continue", again=pi)
    assert str(path) == state(again)["sessionFile"]
    assert ("N" if "name" in command else None) == state(again).get("sessionName")
    assert (["said\n"] if "command" in command else []) == [message["output"] for message in messages_of(again)]


@pytest.fixture
def slow_disk(gates: MakeGate, llm: object, tmp_path: Path) -> Iterator[tuple[AgentStarter, ShellGate]]:
    """Starts agents whose system takes as long to bring a file to the disk as the gate says, or fails (`fail`).

    In the place of a disk, which can't be made slow from outside: the agent and what it calls are as always.
    """
    gate = gates()
    program = tmp_path / "slow_disk.py"
    program.write_text(
        "import errno, os, runpy, sys\n"
        "fdatasync = os.fdatasync\n"
        "def at_the_gate(number):\n"
        f"    with open({str(gate.path)!r}) as gate:\n"
        "        word = gate.readline().strip()\n"
        "    if word == 'fail':\n"
        "        raise OSError(errno.EIO, os.strerror(errno.EIO))\n"
        "    fdatasync(number)\n"
        "os.fdatasync = at_the_gate\n"
        "runpy.run_module('pinnace_rpc', run_name='__main__', alter_sys=True)\n"
    )
    command = (sys.executable, "-P", str(program))
    with AgentStarter(command, tmp_path / "slow", {"PYTHONPATH": PYTHONPATH}, is_specified=True) as starter:
        yield starter, gate


def disk_works_until(gate: ShellGate, is_true: Callable[[], bool]) -> None:
    while not is_true():
        with suppress(DriverTimeout):
            gate.release(timeout_s=0.05)


def test_l8_a_prompt_is_answered_when_the_disk_has_it_and_nothing_else_waits(
    slow_disk: tuple[AgentStarter, ShellGate],
) -> None:
    start, gate = slow_disk
    pi = start([{"text": "fine"}], has_session=True, is_checked=False)
    path = session_file(pi)
    pi.send({"id": "p", "type": "prompt", "message": "one"})
    gate.wait_reached()
    for _ in range(3):
        assert state(pi)["isStreaming"]
    assert "one" in path.read_text()
    assert (None, []) == (pi.response("p"), pi.llm.requests)
    gate.release()

    assert pi.wait_response("p")["success"]
    pi.llm.wait_requests(1)


@pytest.mark.parametrize("word", ["go", "fail"])
def test_l8_a_disk_that_fails_refuses_the_prompt_and_takes_it_out_of_the_branch(
    slow_disk: tuple[AgentStarter, ShellGate], word: str
) -> None:
    """The line is in the file and nobody knows whether it stays: it must not be answered with success.

    It is answered when the disk has that the message is left out, or can't have that, either.
    """
    start, gate = slow_disk
    pi = start([{"text": "fine"}], has_session=True, is_checked=False)
    pi.send({"id": "p", "type": "prompt", "message": "one"})
    gate.release("fail")
    gate.wait_reached()
    assert pi.response("p") is None
    gate.release(word)
    refused = pi.wait_response("p")

    assert (False, "session_not_saved") == (refused["success"], refused["errorCode"])
    assert "Input/output error" in refused["error"]
    assert [] == pi.llm.requests
    assert [] == users(messages_of(pi))


@pytest.mark.parametrize("word", ["go", "fail"])
def test_l8_a_message_to_a_sub_agent_is_answered_and_sent_when_the_disk_has_it(
    slow_disk: tuple[AgentStarter, ShellGate], word: str
) -> None:
    """R-SUB-12: until then nothing shows it. One that the disk refuses is not given, and its id is unknown."""
    start, gate = slow_disk
    answers = [{"text": "one mast", "match": "Message: masts"}] * (word == "go")
    script = [sub_agent_call("count"), {"chunks": [{"gate": "g"}, {"text": "two sails"}], "match": "Task: count"}]
    pi = start([*script, *answers, {"text": "fine"}], "--tools", "+subagent", has_session=True, is_checked=False)
    pi.send({"id": "p", "type": "prompt", "message": "delegate"})
    disk_works_until(gate, lambda: bool(pi.found({"type": "tool_execution_update"})))
    pi.llm.wait_reached("g")
    [child] = pi.ask("list_agents")["agents"]
    message = {"type": "message_agent", "agentId": child["agentId"], "message": "masts", "messageId": "m"}
    pi.send({**message, "id": "first"})
    pi.send({**message, "id": "again"})
    gate.wait_reached()
    [during] = pi.ask("list_agents")["agents"]
    unanswered = pi.response("first"), pi.response("again")
    sent = "masts" in Path(child["sessionFile"]).read_text()
    gate.release(word)
    answered = [pi.wait_response(each) for each in ("first", "again")]
    [after] = pi.ask("list_agents")["agents"]
    pi.llm.release("g")
    disk_works_until(gate, lambda: bool(pi.found(SETTLED)))
    [last] = pi.ask("list_agents")["agents"]

    assert ((None, None), False, None) == (unanswered, sent, during.get("messages"))
    states = [each["state"] for each in (*after.get("messages", ()), *last.get("messages", ()))]
    if word == "go":
        assert [{"messageId": "m", "state": "accepted"}] * 2 == [each["data"] for each in answered]
        assert ["accepted", "delivered"] == states
    else:
        assert ["session_not_saved"] * 2 == [each["errorCode"] for each in answered]
        assert [] == states
    assert "completed" == last["state"]


@pytest.mark.parametrize("room", [0, 60])
def test_l4_a_start_of_a_sub_agent_that_finds_the_disk_full_starts_nothing(agent: AgentStarter, room: int) -> None:
    """R-SUB-13: also where a part of its beginning is in the file, and the rest follows."""
    pi = agent([{"text": "one"}, {"text": "two sails", "match": "Task: count"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    limit(pi, path.stat().st_size + room)
    task = {"type": "start_agent", "task": "count", "messageId": "t"}
    refused = [pi.request(task) for _ in range(2)]
    during = pi.ask("list_agents")["agents"]
    lift_limit(pi)
    one = pi.request(task)["data"]["agent"]
    pi.ask("wait_agent", agentId=one["agentId"])
    after = pi.ask("list_agents")["agents"]
    header, *entries = [json.loads(line) for line in path.read_text().splitlines()]

    assert ["session_not_saved"] * 2 == [each["errorCode"] for each in refused]
    assert [] == during
    assert [(one["agentId"], "completed")] == [(each["agentId"], each["state"]) for each in after]
    assert after == listed_children(entries, header["id"], path)
    assert [f"{one['agentId']}.jsonl"] == [each.name for each in path.with_suffix(".children").iterdir()]


@pytest.mark.parametrize(("word", "is_newest"), [("go", True), ("fail", True), ("fail", False)])
def test_l8_a_start_of_a_sub_agent_is_answered_when_the_disk_has_it(
    slow_disk: tuple[AgentStarter, ShellGate], word: str, is_newest: bool
) -> None:
    """R-SUB-13: until then nothing shows it. One that the disk refuses starts nothing, also where something was
    appended behind it, and leaves nothing: its name may be used again."""
    start, gate = slow_disk
    pi = start([{"text": "two sails", "match": "Task: count"}], has_session=True, is_checked=False)
    file = session_file(pi)
    pi.ask("hello", subagents=True)
    task = {"type": "start_agent", "task": "count", "messageId": "t"}
    pi.send({**task, "id": "first"})
    pi.send({**task, "id": "again"})
    gate.wait_reached()
    has_it = "pinnace.child" in file.read_text()
    during = pi.ask("list_agents")["agents"]
    shown = pi.found({"type": "subagent_event"})
    if not is_newest:
        pi.ask("set_session_name", name="named")
    unanswered = pi.response("first"), pi.response("again")
    gate.release(word)
    answered = [pi.wait_response(each) for each in ("first", "again")]
    after = pi.ask("list_agents")["agents"]
    files = list(file.with_suffix(".children").iterdir())
    later = {**task, "id": "later"}
    pi.send(later)
    disk_works_until(gate, lambda: pi.response("later") is not None)
    one = pi.wait_response("later")["data"]["agent"]
    pi.send({"id": "w", "type": "wait_agent", "agentId": one["agentId"]})
    disk_works_until(gate, lambda: pi.response("w") is not None)
    header, *entries = [json.loads(line) for line in file.read_text().splitlines()]
    kept = listed_children(entries, header["id"], file)

    assert ((None, None), [], []) == (unanswered, during, shown)
    assert has_it
    if word == "go":
        assert answered[0]["data"] == answered[1]["data"]
        assert one["agentId"] == answered[0]["data"]["agent"]["agentId"]
    else:
        assert ["session_not_saved"] * 2 == [each["errorCode"] for each in answered]
        assert ([], []) == (after, files)
        assert "running" == one["state"]
    assert [(one["agentId"], "completed")] == [(each["agentId"], each["state"]) for each in kept]
    assert 1 == len(pi.llm.requests)


@pytest.mark.parametrize("word", ["go", "fail"])
def test_l8_a_file_that_was_opened_is_on_the_disk_before_a_repeated_message_is_answered(
    slow_disk: tuple[AgentStarter, ShellGate], agent: AgentStarter, word: str
) -> None:
    """A killed process may only have written it: the answer would outlive the message, if the power failed."""
    first = agent([{"text": "fine"}], has_session=True)
    message = {"type": "prompt", "message": "one", "messageId": "mine"}
    assert first.request(message)["success"]
    first.wait({"type": "agent_settled"})
    first.kill()
    start, gate = slow_disk
    pi = start((), "--continue", again=first, is_checked=False)
    pi.send({"id": "p", **message})
    gate.wait_reached()
    assert not state(pi)["isStreaming"]
    assert pi.response("p") is None
    gate.release(word)
    answered = pi.wait_response("p")

    if word == "fail":
        assert (False, "session_not_saved") == (answered["success"], answered["errorCode"])
    else:
        assert ("duplicate", "delivered") == (answered["data"]["disposition"], answered["data"]["state"])
        assert pi.request(message)["data"] == answered["data"]  # with no further flush


def test_l8_what_a_new_session_begins_is_reported_behind_its_response(
    slow_disk: tuple[AgentStarter, ShellGate],
) -> None:
    """The response waits until the disk has that the former session's messages were returned."""
    start, gate = slow_disk
    pi = start([{"chunks": [{"text": "one"}, {"hang": True}]}], has_session=True, is_checked=False)
    for kind in ("prompt", "follow_up"):
        pi.send({"id": kind, "type": kind, "message": "text"})
        gate.release()
        assert pi.wait_response(kind)["success"]
    pi.wait({"type": "message_update"})
    pi.send_many([{"id": "n", "type": "new_session"}, {"id": "b", "type": "bash", "command": "echo said"}])
    gate.wait_reached()
    for _ in range(20):  # time enough for a shell
        state(pi)
    assert pi.response("n") is None
    while pi.response("n") is None:  # the answer that was cut is brought to the disk with the mark, or before it
        with suppress(DriverTimeout):
            gate.release(timeout_s=0.05)
    pi.wait_response("b")

    ids = [record.get("id") for record in pi.found({"type": re.compile("response|bash_execution_update")})]
    assert ["n", "b", "b"] == ids[-3:]


def test_l8_a_disk_that_fails_keeps_the_messages_that_were_to_be_returned(
    slow_disk: tuple[AgentStarter, ShellGate], agent: AgentStarter
) -> None:
    """R-QUE-12: the mark is in the file, and may stay there. R-QUE-16: they are not listed as returned, too."""
    start, gate = slow_disk
    pi = start([{"chunks": [{"text": "one"}, {"hang": True}]}], has_session=True, is_checked=False)
    path = session_file(pi)
    for command in ({"type": "prompt"}, {"type": "follow_up"}):
        pi.send({"id": command["type"], "message": "text", **command})
        gate.release()
        assert pi.wait_response(command["type"])["success"]
        pi.wait({"type": "message_update"})
    pi.send({"id": "c", "type": "clear_queue"})
    gate.release("fail")
    refused = pi.wait_response("c")

    assert (False, "session_not_saved") == (refused["success"], refused["errorCode"])
    assert 1 == state(pi)["pendingMessageCount"]
    assert [] == pi.ask("get_queue", returned=True)["returned"]
    pi.kill()
    again = agent((), "--session", str(path), again=pi)
    assert 1 == state(again)["pendingMessageCount"]
    assert [] == again.ask("get_queue", returned=True)["returned"]


# Two that write.


REFUSED_BESIDE_OWNER: Final = (
    {"type": "prompt", "message": "two"},
    {"type": "steer", "message": "two"},
    {"type": "follow_up", "message": "two"},
    {"type": "bash", "command": "touch ran"},
    {"type": "compact"},
    {"type": "set_session_name", "name": "Other"},
    {"type": "set_thinking_level", "level": "off"},
    {"type": "set_active_tools", "names": ["read"]},
    {"type": "set_label", "entryId": "LEAF", "label": "here"},
    {"type": "navigate_tree", "entryId": "FIRST"},
)
"""Commands that append to the session."""


def test_l9_beside_its_owner_a_session_is_read_and_copied_and_what_appends_is_refused(agent: AgentStarter) -> None:
    """R-SES-06: the error names the owner, and nothing has happened."""
    first = agent([{"text": "one"}], has_session=True)
    prompt(first, "one")
    path = session_file(first)
    before = path.read_bytes()
    second = agent([{"text": "three"}], "--session", str(path), has_session=True)
    messages = messages_of(second)
    entries = second.request({"type": "get_entries"})["data"]["entries"]
    places = {"LEAF": entries[-1]["id"], "FIRST": entries[0]["id"]}

    assert ["one"] == users(messages)
    assert f"process {first.process.pid}" in status(second)["problem"]
    for command in REFUSED_BESIDE_OWNER:
        answer = second.request({name: places.get(str(value), value) for name, value in command.items()})
        assert (False, "session_not_saved") == (answer["success"], answer["errorCode"]), command
        assert f"process {first.process.pid}" in answer["error"], command
        assert "fork or clone" in answer["error"]
    assert messages == messages_of(second)
    assert 0 == state(second)["pendingMessageCount"]
    assert not (second.home.work / "ran").exists()
    assert second.request({"type": "get_session_stats"})["success"]
    assert second.request({"type": "export_html"})["success"]
    entry = second.request({"type": "get_fork_messages"})["data"]["messages"][0]["entryId"]
    assert second.request({"type": "fork", "entryId": entry})["success"]
    assert second.request({"type": "switch_session", "sessionPath": str(path)})["success"]
    assert second.request({"type": "clone"})["success"]
    prompt(second, "three")
    assert ["one", "three"] == users(messages_of(second))
    assert before == path.read_bytes()
    first.check_end()
    second.check_end()
    assert before == path.read_bytes()


@pytest.mark.parametrize("mode", [("-p", "two"), ("--mode", "json", "two")])
def test_l9_a_mode_that_appends_waits_for_the_owner_and_then_names_it(
    agent: AgentStarter, mode: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """R-SES-06: it is started to append."""
    first = agent([{"text": "one"}], has_session=True)
    prompt(first, "one")
    path = session_file(first)
    before = path.read_bytes()
    for name, value in first.home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(first.home.work)
    monkeypatch.setattr("pinnace_rpc.server.session_choice.LEASE_WAIT_S", 0.2)
    begun_s = time.monotonic()

    assert 1 == main(["--session", str(path), *mode])
    assert 0.2 <= time.monotonic() - begun_s
    written = capsys.readouterr()
    assert f"process {first.process.pid}" in written.err + written.out
    assert "--fork" in written.err + written.out
    assert before == path.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_l9_the_first_append_after_the_owners_end_continues_what_it_appended(
    agent: AgentStarter, number: signal.Signals
) -> None:
    """R-SES-06: the file is read anew: messages, the name, and what the owner has left queued."""
    replies: list[Scripted] = [{"text": "one"}, {"chunks": [{"text": "two"}, {"hang": True}]}]
    first = agent(replies, has_session=True, is_checked=False)
    prompt(first, "one")
    path = session_file(first)
    replies = [{"text": "fine"}, {"text": "queued"}]
    # Unchecked: what the first one has appended was not in records of the second one.
    second = agent(replies, "--session", str(path), has_session=True, is_checked=False)
    assert ["one"] == users(messages_of(second))
    assert first.request({"type": "set_session_name", "name": "Renamed"})["success"]
    first.request({"type": "prompt", "message": "two"})
    first.wait({"type": "message_update"})
    assert first.request({"type": "follow_up", "message": "queued"})["success"]
    assert not second.request({"type": "prompt", "message": "three"})["success"]
    first.signal(number)
    first.wait_exit(BUSY_S)

    assert ["one"] == users(messages_of(second))  # a read takes nothing over
    assert second.request({"type": "set_label", "entryId": leaf_of(second), "label": "here"})["success"]
    assert ["one", "two"] == users(messages_of(second))
    assert ("Renamed", 1) == (state(second)["sessionName"], state(second)["pendingMessageCount"])
    prompt(second, "three")
    assert ["one", "two", "three", "queued"] == users(check_saved(second, path))


def leaf_of(pi: HomedAgent) -> str:
    entry: str = pi.request({"type": "get_entries"})["data"]["entries"][-1]["id"]
    return entry


def test_l9_of_processes_beside_an_owner_that_has_ended_one_takes_the_session(agent: AgentStarter) -> None:
    """R-SES-06: the others are refused, with its name; each accepted message is in the file."""
    first = agent([{"text": "one"}], has_session=True)
    prompt(first, "one")
    path = session_file(first)
    others = [agent([{"text": "fine"}], "--session", str(path), has_session=True) for _ in range(2)]
    for each in others:
        assert ["one"] == users(messages_of(each))
    first.check_end()

    for each in others:
        each.send({"id": "n", "type": "set_session_name", "name": f"of {each.process.pid}"})
    answers = [each.wait_response("n") for each in others]
    assert [False, True] == sorted(answer["success"] for answer in answers)
    loser, winner = sorted(others, key=lambda each: each.wait_response("n")["success"])
    # When it answered first, the holder may not have signed the lease yet.
    again = loser.request({"type": "set_session_name", "name": "of the loser"})
    assert f"process {winner.process.pid}" in again["error"]
    assert f"of {winner.process.pid}" == entries_of(path.read_bytes())[-1]["name"]


def test_l9_an_opener_waits_for_an_owner_that_has_begun_to_end(agent: AgentStarter) -> None:
    """R-SES-06: a client ends its agent, and starts another one for the session at once."""
    first = agent([{"text": "one"}], has_session=True)
    prompt(first, "one")
    path = session_file(first)
    first.check_end()
    lease = Lease.take(path)
    lease.announce_end()
    second = agent([{"text": "fine"}], "--session", str(path), has_session=True)
    second.send({"id": "s", "type": "get_state"})
    # It can't be seen waiting; that it does not answer is what it does.
    assert not second.journal.wait_until(lambda: bool(second.journal.records), 0.5)
    lease.release()

    assert second.wait_response("s")["success"]
    assert "problem" not in status(second)


def ids(entries: list[Record]) -> list[str]:
    return sorted(entry["id"] for entry in entries)


def append_foreign(path: Path, parent_id: str | None, entry_id: str, text: str, *, is_whole: bool = True) -> bytes:
    """Write a line as a program does that knows of no lease; return it."""
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 5}
    entry = {"type": "message", "id": entry_id, "parentId": parent_id, "timestamp": TIME, "message": message}
    line = encode_record(entry)
    with path.open("ab", buffering=0) as file:
        file.write(line if is_whole else line[: len(line) // 2])
    return line


def test_l9_lines_of_a_program_without_a_lease_are_detected_and_both_branches_kept(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}, {"text": "three"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    leaf = entries_of(path.read_bytes())[-1]["id"]
    append_foreign(path, leaf, "f0000001", "from elsewhere")
    append_foreign(path, "f0000001", "f0000002", "again from elsewhere")
    before = path.read_bytes()
    prompt(pi, "two")

    assert 2 == status(pi)["foreignEntries"]
    assert path.read_bytes().startswith(before)
    assert ["one", "two"] == users(check_saved(pi, path))
    assert "elsewhere" not in pi.llm.requests[-1].text
    told = [line for line in pi.stderr_text.splitlines() if "Another program" in line]
    assert 1 == len(told)
    entries = pi.request({"type": "get_entries"})["data"]["entries"]
    assert ids(entries_of(path.read_bytes())) == ids(entries)
    texts = [row["text"] for row in pi.request({"type": "get_fork_messages"})["data"]["messages"]]
    assert ["again from elsewhere", "from elsewhere", "one", "two"] == sorted(texts)

    append_foreign(path, "f0000002", "f0000003", "and again")
    prompt(pi, "three")
    assert 3 == status(pi)["foreignEntries"]
    assert told == [line for line in pi.stderr_text.splitlines() if "Another program" in line]
    check_reopened_with(agent, pi, path, ["one", "two", "three"])


def check_reopened_with(agent: AgentStarter, pi: HomedAgent, path: Path, texts: list[str]) -> None:
    pi.check_end()
    again = agent((), "--session", str(path), again=pi)
    assert texts == users(messages_of(again))


def test_l9_a_line_that_another_program_has_not_finished_is_not_glued_to_ours(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    append_foreign(path, None, "f0000001", "from elsewhere", is_whole=False)
    before = path.read_bytes()
    prompt(pi, "two")

    after = path.read_bytes()
    assert after.startswith(before + b'\n{"type":')
    assert ["one", "two"] == users(branch_messages(after))
    check_reopened_with(agent, pi, path, ["one", "two"])


# Files that go away.


def test_a_deleted_file_is_written_again_whole(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    before = path.read_bytes()
    path.unlink()
    prompt(pi, "two")

    assert path.read_bytes().startswith(before)
    assert 0o600 == path.stat().st_mode & 0o777
    messages = check_saved(pi, path)
    assert ["one", "two"] == users(messages)
    assert "was deleted" in pi.stderr_text
    assert [] == pi.found(TOLD)
    check_reopened(agent, pi, path, messages)


def test_a_folder_that_was_deleted_is_made_again(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    shutil.rmtree(path.parent)
    prompt(pi, "two")

    assert ["one", "two"] == users(check_saved(pi, path))


@pytest.mark.parametrize("kind", ["another session", "a link", "a folder"])
def test_a_file_that_replaced_the_session_is_not_touched_and_prompts_are_rejected(
    agent: AgentStarter, kind: str
) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    kept = path.with_name("kept")
    path.rename(kept)
    former = kept.read_bytes()
    elsewhere = pi.home.root / "elsewhere"
    elsewhere.write_bytes(b"not ours")
    match kind:
        case "another session":
            path.write_bytes(b"not ours")
        case "a link":
            path.symlink_to(elsewhere)
        case _:
            path.mkdir()
    assert "was replaced" in refusal(pi, {"type": "prompt", "message": "two"})

    assert b"not ours" == elsewhere.read_bytes()
    if kind == "another session":
        assert b"not ours" == path.read_bytes()
    assert former == kept.read_bytes()
    assert 1 == len(pi.llm.requests)
    path.rmdir() if kind == "a folder" else path.unlink()
    kept.rename(path)
    prompt(pi, "three")
    messages = check_saved(pi, path)
    assert ["one", "three"] == users(messages)
    check_reopened(agent, pi, path, messages)


def test_a_file_that_was_cut_is_not_written_to(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], has_session=True)
    prompt(pi, "one")
    path = session_file(pi)
    os.truncate(path, 100)
    now = path.read_bytes()
    assert "shortened" in refusal(pi, {"type": "prompt", "message": "two"})

    assert now == path.read_bytes()


# The files beside sessions.


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def start_with(agent: AgentStarter, name: str, data: bytes, script: list[Scripted]) -> HomedAgent:
    """Start an agent in a home with this file of its configuration."""
    former = agent(script, has_session=True)
    former.check_end()
    (former.home.agent_dir / name).write_bytes(data)
    return agent((), again=former)


@pytest.mark.parametrize("name", ["auth.json", "settings.json"])
def test_a_half_written_file_is_reported_and_never_overwritten(agent: AgentStarter, name: str) -> None:
    half = b'{"fake": {"type": "api_key", "key": "sk-ha'
    pi = start_with(agent, name, half, [{"text": "fine"}])
    before = files_of(pi.home.agent_dir)
    prompt(pi, "one")
    pi.request({"type": "set_thinking_level", "level": "high"})
    pi.request({"type": "set_model", "provider": "fake", "modelId": "m2"})
    pi.check_end()

    assert name in pi.stderr_text
    assert "sk-ha" not in pi.stderr_text
    assert before == files_of(pi.home.agent_dir)


SETTINGS_COMMANDS: Final[list[Record]] = [
    {"type": "set_model", "provider": "fake", "modelId": "m2"},
    {"type": "cycle_model"},
    {"type": "set_thinking_level", "level": "high"},
    {"type": "cycle_thinking_level"},
    {"type": "set_steering_mode", "mode": "all"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "set_queue_mode", "mode": "all"},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_auto_retry", "enabled": False},
    {"type": "set_session_name", "name": "N"},
    {"type": "set_active_tools", "names": ["read"]},
    {"type": "set_tool_approval", "mode": "never"},
]


def test_no_command_changes_the_user_s_own_defaults(agent: AgentStarter) -> None:
    settings = b'{ "defaultProvider" :"fake",\n\t"defaultModel": "m1", "unheard": [1.50] }  '
    pi = start_with(agent, "settings.json", settings, [{"text": "fine"}])
    before = files_of(pi.home.agent_dir)
    known = pi.request({"type": "hello"})["data"]["commands"]
    changing = {name for name in known if name.startswith(("set_", "cycle_"))}
    changing -= {"set_label"}  # of an entry, which there is none of yet
    assert changing <= {command["type"] for command in SETTINGS_COMMANDS}
    for command in SETTINGS_COMMANDS:
        assert pi.request(command)["success"], command
    prompt(pi, "one")
    pi.check_end()

    assert before == files_of(pi.home.agent_dir)
    assert settings == before["settings.json"][0]


def test_an_expired_login_is_reported_and_no_refresh_is_begun(agent: AgentStarter) -> None:
    """This release can't use logins at all, so there is no refresh that could be interrupted: nothing is lost."""
    login = {"type": "oauth", "access": "sk-old", "refresh": "single-use", "expires": 1}
    data = json.dumps({"fake": login}).encode()
    models: Any = pi_models("http://127.0.0.1:9")
    del models["providers"]["fake"]["apiKey"]
    former = agent([{"text": "never"}], has_session=True)
    former.check_end()
    models["providers"]["fake"]["baseUrl"] = f"{former.llm.base_url}/v1"
    (former.home.agent_dir / "models.json").write_text(json.dumps(models))
    (former.home.agent_dir / "auth.json").write_bytes(data)
    pi = agent((), again=former)
    before = files_of(pi.home.agent_dir)
    refused = pi.request({"type": "prompt", "message": "one"})

    assert not refused["success"]
    told = "auth.json has a login for fake, which only the extension that registers the provider can use"
    assert told in refused["error"]
    pi.check_end()
    assert ([], []) == (pi.llm.requests, pi.llm.strays)
    assert before == files_of(pi.home.agent_dir)
    for secret in ("sk-old", "single-use"):
        assert secret not in pi.stderr_text + json.dumps([each.record for each in pi.records])
