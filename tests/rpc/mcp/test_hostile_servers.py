"""No server blocks, floods, fills or ends the agent: each costs its own tools, and nothing else."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.mcp.conftest import HERE, Start, hostile, memory_mib, status

from pinnace_agent.mcp.limits import PROMPTS
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.trials.workbench import HomedAgent

pytestmark = pytest.mark.slow

LEFT_OUT = "hostile: left out: prompt "
LIMIT_S = 2
"""Of a server that takes for ever; the others have a minute, since only a slow machine makes them need any of it."""
OUT_OF_TIME = f"has not answered within {LIMIT_S} seconds"
CONNECTED = {
    # What the model is offered of each of these, beside the resource tools.
    "noise-first": ["echo", "bad"],
    "half-line-first": ["echo", "bad"],
    "deep": ["echo", "bad"],
    "stderr-flood": ["echo", "bad"],
    "ignores-term": ["echo", "bad"],
    "child-holds-stdout": ["echo", "bad"],
    "setsid-child": ["echo", "bad"],
    "answers-twice": ["echo", "bad"],
    "invalid-tools": ["echo"],
    "same-names": ["echo", "bad"],
    "large-tool": ["echo"],
    "same-cursor": ["echo"],
    "endless-pages": ["echo"],
    "many-tools": ["echo", *(f"t{number}" for number in range(99))],
    "odd-names": [
        *("a_b", "new_line", "mcp__inside__it", "_right", "dot_ted_618a4859", "dot_ted_0957d3aa", "_", "echo"),
    ],
    "references": ["echo", "recursive", "remote", "array", "types"],
    "list-is-text": [],
    "list-changed-flood": ["echo", "bad"],
    "log-flood": ["echo", "bad"],
    "odd-schemas": ["index", "required", "booleans", "odd", "results", "echo"],
    "requests-flood": ["echo", "bad"],
    "stops-reading": ["echo", "bad"],
}
FAILED = {
    "dies-at-once": "exit code 3",
    "long-line": "message over 16 MiB",
    "endless-line": "message over 16 MiB",
    "no-newline-and-exit": "exit code 0",
    "invalid-lines": "lines in a row that are no messages",
    "hangs-at-once": OUT_OF_TIME,
    "hangs-in-initialize": OUT_OF_TIME,
    "dies-in-initialize": "exit code 4",
    "refuses-initialize": "no",
    "strange-version": "9999-01-01",
    "strange-capabilities": "not one of the protocol",
    "hangs-in-list": OUT_OF_TIME,
    "dies-in-list": "exit code 5",
}
CALLED = {
    "hangs-in-call": (f"{OUT_OF_TIME}. The call may have taken effect.", True),
    "dies-in-call": (
        "ended during the call (it has exited with exit code 6: the reason is on stderr). The call may",
        True,
    ),
    "progress-flood": ("done", False),
    "strange-progress": ("done", False),
    "large-error": ("MCP tool hostile/bad: eee", True),
    "error-without-content": ("MCP tool hostile/bad returned an error", True),
    "strange-content": ("not valid base64", False),
    "no-content": ("", False),
    "many-blocks": ("[99000 more omitted]", False),
    "many-images": ("[49000 more omitted]", False),
    "deep-structured": ("nested deeper than 400 levels", True),
    "large-structured": ("chars truncated", False),
    "odd-numbers": (OUT_OF_TIME, True),
    "result-is-text": (OUT_OF_TIME, True),
    "large-result": ("chars truncated", False),
    "answers-late": ("late", False),
    # Of a later version of the protocol, where the server asks within a result.
    "discovers": ("['2026-07-28', 'pinnace'] work s", False),
    "knows-no-handshake": ("fine", False),
}
BUILT_IN = {"tool_calls": [{"name": "bash", "args": {"command": "echo one"}}]}


def limited(mode: str, outcome: str = "") -> Mapping[str, Any]:
    """Return the entry of a server with the time that it may take for what comes of it."""
    return {**hostile(mode), "timeout": LIMIT_S if OUT_OF_TIME in outcome else 60}


def declared(pi: HomedAgent) -> list[str]:
    """Return the tools of servers in the last request, without what the names begin with."""
    tools = [each["function"]["name"] for each in pi.llm.requests[-1].body.get("tools", ())]
    return [name.removeprefix("mcp__hostile__") for name in tools if name.startswith("mcp__")]


def prompt(pi: HomedAgent, text: str) -> None:
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_settled"}, since=mark)


def answers_quickly(pi: HomedAgent) -> bool:
    """Whether `get_state` is answered at once, at last: the machine may have other things to do for a while."""
    give_up_s = time.monotonic() + 60
    while True:
        begun_s = time.monotonic()
        pi.request({"type": "get_state"})
        taken_s = time.monotonic() - begun_s
        if taken_s < 0.05 or begun_s > give_up_s:
            return taken_s < 0.05


@pytest.mark.parametrize("mode", [*CONNECTED, *FAILED])
def test_a_hostile_server_costs_its_own_tools(with_servers: Start, mode: str) -> None:
    """The first request waits for it as long as its time limit, other tools work, and no process is left."""
    pi = with_servers({"hostile": limited(mode, FAILED.get(mode, ""))}, [BUILT_IN, {"text": "fine"}])
    before = memory_mib(pi)
    assert answers_quickly(pi)
    prompt(pi, "go")
    assert declared(pi) == CONNECTED.get(mode, [])
    (end,) = pi.found({"type": "tool_execution_end"})
    assert not end["isError"], str(end)[-300:]
    assert answers_quickly(pi)
    shown = status(pi)
    if mode in FAILED:
        assert "hostile: failed" in shown
        assert FAILED[mode] in shown
    else:
        assert "hostile: connected" in shown
    # The library takes 45 of these.
    assert memory_mib(pi) - before < 110
    pi.check_end()


@pytest.mark.parametrize("mode", CALLED)
def test_a_call_has_one_result_whatever_the_server_does(with_servers: Start, mode: str) -> None:
    bad = {"tool_calls": [{"name": "mcp__hostile__bad", "args": {}}]}
    said, is_error = CALLED[mode]
    pi = with_servers({"hostile": limited(mode, said)}, [bad, {"text": "fine"}])
    prompt(pi, "go")
    (end,) = pi.found({"type": "tool_execution_end"})
    shown = "".join(block.get("text", "") for block in end["result"]["content"])
    assert said in shown
    assert end["isError"] is is_error
    assert len(shown) < 40_000 or mode == "large-error"
    assert answers_quickly(pi)
    pi.check_end()


def test_a_call_is_aborted_although_the_server_does_not_listen(with_servers: Start) -> None:
    bad = {"tool_calls": [{"name": "mcp__hostile__bad", "args": {}}]}
    pi = with_servers({"hostile": hostile("hangs-in-call")}, [bad])
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    pi.wait({"type": "tool_execution_start"})
    assert pi.request({"type": "abort"})["success"]
    (end,) = pi.found({"type": "tool_execution_end"})
    assert end["isError"]
    pi.check_end()
    assert "still working" not in pi.stderr_text  # else the abort has waited for the call, for some seconds


def test_a_server_that_dies_is_started_again(with_servers: Start) -> None:
    bad = {"tool_calls": [{"name": "mcp__hostile__bad", "args": {}}]}
    echo = {"tool_calls": [{"name": "mcp__hostile__echo", "args": {"a": 1}}]}
    pi = with_servers({"hostile": hostile("dies-in-call")}, [bad, echo, {"text": "fine"}])
    prompt(pi, "go")
    first, second = pi.found({"type": "tool_execution_end"})
    assert (first["isError"], second["isError"]) == (True, False)
    assert second["result"]["content"] == [{"type": "text", "text": 'echo {"a": 1}'}]
    pi.check_end()


def test_a_call_that_finds_no_server_says_that_it_was_not_executed(with_servers: Start, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text((HERE / "hostile_server.py").read_text())
    bad = {"tool_calls": [{"name": "mcp__hostile__bad", "args": {}}]}
    entry = {"command": sys.executable, "args": ["-S", str(program), "dies-in-call"]}
    pi = with_servers({"hostile": entry}, [bad, bad, {"text": "fine"}])
    pi.wait({"type": "mcp_status", "name": "hostile", "state": "connected"}, since=0)
    program.unlink()
    prompt(pi, "go")
    first, second = (end["result"]["content"][0]["text"] for end in pi.found({"type": "tool_execution_end"}))
    assert first.endswith("The call may have taken effect.")
    assert second.startswith("The MCP server hostile can't be reached: it has exited with exit code 2")
    assert second.endswith(". The call was not executed.")
    pi.check_end()


@pytest.mark.parametrize("mode", ["ignores-term", "setsid-child", "hangs-in-initialize"])
def test_no_process_of_a_server_outlives_an_agent_that_is_killed(with_servers: Start, mode: str) -> None:
    pi = with_servers({"hostile": hostile(mode)}, [{"text": "fine"}], is_checked=False)
    if mode != "hangs-in-initialize":
        prompt(pi, "go")
    # By its words: until the watchdog is on its own, a process of its start is one of the agent's, too.
    until(lambda: any(mode.encode() in words_of(each) for each in pi.descendants()))
    children = pi.descendants()
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()
    until(lambda: not any(is_alive(each) for each in children))


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until(is_true: Callable[[], bool], limit_s: float = 60) -> None:
    """Wait for what another process does."""
    deadline_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.mark.parametrize(("mode", "offered"), [("odd-prompts", {"greet", "deep"}), ("many-prompts", None)])
def test_an_odd_prompt_costs_itself(with_servers: Start, mode: str, offered: set[str] | None) -> None:
    """Also where the list has no end."""
    pi = with_servers({"hostile": limited(mode)}, [BUILT_IN, {"text": "fine"}])
    prompt(pi, "go")
    deadline_s = time.monotonic() + 60
    while not (found := prompts(pi)) and time.monotonic() < deadline_s:
        time.sleep(0.05)

    assert {each["name"].removeprefix("mcp__hostile__") for each in found} == offered or len(found) == PROMPTS
    assert [] == [each for each in found if not str(each.get("description", "")).isprintable()]
    assert answers_quickly(pi)
    shown = status(pi)
    assert "hostile: connected, 2 tools" in shown
    assert "left out: " in shown
    # A surface that is not asked for shows it, too: prompts are listed after the report of all servers, or before it.
    pi.wait({"type": "extension_ui_request", "notifyType": "warning", "message": names_what_is_left_out})
    warnings = pi.request({"type": "get_state"})["data"]["warnings"]
    assert [each for each in warnings if LEFT_OUT in each["text"]]
    pi.check_end()


def names_what_is_left_out(text: str) -> bool:
    return LEFT_OUT in text


def prompts(pi: HomedAgent) -> list[dict[str, Any]]:
    """Return the commands that are prompts of the server."""
    commands = pi.request({"type": "get_commands"})["data"]["commands"]
    return [each for each in commands if each["name"].startswith("mcp__hostile__")]


def test_prompts_that_can_not_be_listed_are_warned_of(with_servers: Start) -> None:
    """R-WRN-01: on the surfaces that other failures of a server have."""
    pi = with_servers({"hostile": limited("refuses-prompts")}, [BUILT_IN, {"text": "fine"}])
    prompt(pi, "go")
    text = "MCP server hostile: its prompts can't be listed: "
    notified = pi.wait({"type": "extension_ui_request", "notifyType": "warning", "message": lambda it: text in it})
    warnings = pi.request({"type": "get_state"})["data"]["warnings"]

    assert "no prompts today" in notified["message"]
    assert [("mcp", "hostile", notified["message"])] == [
        (each["kind"], each["source"], each["text"]) for each in warnings if text in each["text"]
    ]
    pi.check_end()
