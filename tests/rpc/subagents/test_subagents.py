"""The tool `subagent`: agents that a run starts, as a client of the agent that starts them sees them."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.conftest import await_gone

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

TOOLS = ("--tools", "+subagent")
DELEGATE = "delegate"
SERVER = Path(__file__).parents[1] / "mcp" / "hostile_server.py"


def call(*tasks: str, **arguments: object) -> dict[str, Any]:
    """The answer to the user's prompt: a call for each task."""
    calls = [{"name": "subagent", "args": {"task": task, **arguments}} for task in tasks]
    return {"tool_calls": calls, "match": DELEGATE}


def text_of(end: Record) -> str:
    return "".join(block["text"] for block in end["result"]["content"])


def ends(pi: HomedAgent) -> list[tuple[str, bool]]:
    return [(text_of(each), each["isError"]) for each in pi.found({"type": "tool_execution_end"})]


def entries_of(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def counted(path: str | Path) -> list[dict[str, Any]]:
    """The usage entries of sub-agents in a session's file."""
    return [entry for entry in entries_of(path) if entry.get("type") == "usage"]


def stopped_child(pi: HomedAgent, gate: str) -> list[int]:
    """Begin, wait until a sub-agent waits for its model, and return the processes below the agent."""
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached(gate)
    return pi.descendants()


WAITING = {"chunks": [{"text": "half"}, {"gate": "g"}, {"text": " done"}], "match": "Task: count"}


def test_its_answer_is_the_result_and_its_usage_counts_once(agent: AgentStarter) -> None:
    """R-SUB-01, R-SUB-02, R-SUB-06: the session of the child names that of its parent, which counts its usage."""
    pi = agent(
        [call("count the sails"), {"text": "two sails", "match": "Task: count"}, {"text": "thanks"}],
        *TOOLS,
        has_session=True,
    )
    pi.say(DELEGATE)
    [end] = pi.found({"type": "tool_execution_end"})
    details = end["result"]["details"]["agent"]
    parent, child = pi.ask("get_state")["sessionFile"], details["sessionFile"]
    header, *inside = entries_of(child)
    begun = [each["data"] for each in entries_of(parent) if each.get("customType") == "pinnace.child"]
    stats = pi.ask("get_session_stats")
    own = [each["message"]["usage"]["totalTokens"] for each in entries_of(parent) if _is_answer(each)]

    assert [("two sails", False)] == ends(pi)
    assert (parent, details["agentId"]) == (header["parentSession"], header["id"])
    assert [(details["agentId"], "count the sails")] == [(each["agentId"], each["task"]) for each in begun]
    assert ["completed"] == [each["outcome"] for each in counted(parent)]
    assert details["usage"]["totalTokens"] == sum(
        each["message"]["usage"]["totalTokens"] for each in inside if _is_answer(each)
    )
    assert sum(own) + details["usage"]["totalTokens"] == stats["session"]["tokens"]["total"]
    assert 3 == len(pi.llm.requests)
    assert [parent] == [each["path"] for each in pi.ask("list_sessions")["sessions"]]


def _is_answer(entry: dict[str, Any]) -> bool:
    return entry.get("type") == "message" and entry["message"]["role"] == "assistant"


def test_without_being_named_the_tool_does_not_exist(agent: AgentStarter) -> None:
    """R-SUB-01."""
    assert "subagent" not in [each["name"] for each in agent([]).ask("get_tools")["tools"]]


def test_an_abort_ends_it_before_the_agent_has_settled(agent: AgentStarter) -> None:
    """R-SUB-05: what it has said so far is the result, and its usage counts."""
    pi = agent([call("count"), WAITING], *TOOLS, has_session=True)
    below = stopped_child(pi, "g")
    pi.ask("abort")
    parent = pi.ask("get_state")["sessionFile"]

    assert below
    assert [] == await_gone(below)
    assert ["cancelled"] == [each["outcome"] for each in counted(parent)]
    assert [True] == [is_error for _, is_error in ends(pi)]
    assert "did not complete its task" in ends(pi)[0][0]


def test_an_abort_of_its_call_ends_it_and_the_run_continues(agent: AgentStarter) -> None:
    """R-SUB-05, R-SUB-07."""
    pi = agent([call("count"), WAITING, {"text": "without it"}], *TOOLS)
    below = stopped_child(pi, "g")
    [begun] = pi.found({"type": "tool_execution_start"})
    pi.ask("abort_tool", entryId=begun["entryId"])
    settled = pi.wait({"type": "agent_settled"})
    [listed] = pi.ask("list_agents")["agents"]

    assert [] == await_gone(below)
    assert (begun["toolCallId"], "cancelled") == (listed["toolCallId"], listed["state"])
    assert "without it" == pi.ask("get_last_assistant_text")["text"]
    assert not settled.get("aborted")


def test_one_is_cancelled_by_its_id_and_the_run_continues(agent: AgentStarter) -> None:
    """R-SUB-05, R-SUB-08: the other one goes on; what has ended, or never was, is refused without effect."""
    gated = [{"chunks": [{"text": gate}, {"gate": gate}], "match": "Task: "} for gate in ("g0", "g1")]
    pi = agent([call("a", "b"), *gated, {"text": "with one"}], *TOOLS, has_session=True)
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached("g0")
    pi.llm.wait_reached("g1")
    one, other = [each["agentId"] for each in pi.ask("list_agents")["agents"]]
    unknown = pi.request({"type": "cancel_agent", "agentId": "nobody"})
    pi.ask("cancel_agent", agentId=one)
    end = pi.wait({"type": "tool_execution_end"})
    again = pi.request({"type": "cancel_agent", "agentId": one})
    works = {each["agentId"]: each["state"] for each in pi.ask("list_agents")["agents"]}
    pi.llm.release("g0", "g1")
    settled = pi.wait({"type": "agent_settled"})
    states = {each["agentId"]: each["state"] for each in pi.ask("list_agents")["agents"]}

    assert ["agent_not_found"] * 2 == [each["errorCode"] for each in (unknown, again)]
    assert {one: "cancelled", other: "running"} == works
    assert {one: "cancelled", other: "completed"} == states
    assert (one, "cancelled", True) == (*_agent_of(end), end["isError"])
    assert "with one" == pi.ask("get_last_assistant_text")["text"]
    assert not settled.get("aborted")
    assert ["cancelled", "completed"] == [each["outcome"] for each in counted(pi.ask("get_state")["sessionFile"])]


def _agent_of(end: Record) -> tuple[str, str]:
    agent = end["result"]["details"]["agent"]
    return agent["agentId"], agent["state"]


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        ({"tools": ["ls"]}, {}, 'tools: this agent has no active tool "ls"'),
        ({"cwd": ".."}, {}, "cwd: .. is no folder within"),
        ({"model": "nowhere/none"}, {}, 'model: "nowhere/none" is no provider/id'),
        ({"maxTurns": 0}, {}, "maxTurns: expected a whole number above 0"),
        ({"timeout": -1}, {}, "timeout: expected"),
        ({}, {"tools": {"maxSubagents": 0}}, "tools.maxSubagents is 0"),
        ({}, {"tools": {"maxSubagentDepth": 0}}, "tools.maxSubagentDepth is 0"),
    ],
)
def test_more_than_the_agent_has_is_refused_by_name(
    agent: AgentStarter, arguments: dict[str, object], settings: dict[str, Any], expected: str
) -> None:
    """R-SUB-03, R-SUB-04: nothing is started, and nothing is kept."""
    pi = agent([call("count", **arguments), {"text": "done"}], *TOOLS, settings=settings, has_session=True)
    pi.say(DELEGATE)
    [(text, is_error)] = ends(pi)

    assert text.startswith(expected)
    assert is_error
    assert 2 == len(pi.llm.requests)
    assert [] == counted(pi.ask("get_state")["sessionFile"])


def test_it_has_the_tools_and_the_approval_of_its_parent_and_no_sub_agents(agent: AgentStarter) -> None:
    """R-SUB-03, R-SUB-04: its own call needs the same approval, which the same user gives."""
    write = {"tool_calls": [{"name": "write", "args": {"path": "a.txt", "content": "x"}}], "match": "Task: count"}
    script = [call("count"), write, {"text": "refused", "match": "Task: count"}, {"text": "done"}]
    pi = agent(script, *TOOLS, "--tool-approval", "ask")
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    first = pi.wait({"type": "extension_ui_request", "method": "select"})
    pi.send({"type": "extension_ui_response", "id": first["id"], "value": "Allow once"})
    second = pi.wait({"type": "extension_ui_request", "method": "select"}, since=pi.mark())
    pi.send({"type": "extension_ui_response", "id": second["id"], "value": "Deny"})
    pi.wait({"type": "agent_settled"})
    tools = [each["function"]["name"] for each in pi.llm.requests[1].body["tools"]]

    assert first["title"].startswith("Allow tool: subagent")
    assert second["title"].startswith("Allow tool: write")
    assert "Asked by the sub-agent " in second["title"]
    assert first["toolCallId"] == second["toolCallId"]
    assert ["read", "bash", "edit", "write"] == tools
    assert not (pi.home.work / "a.txt").exists()
    assert "did not approve" in str(pi.llm.requests[2].body)
    assert [("refused", False)] == ends(pi)


def test_a_mode_that_allows_less_applies_to_it_at_once(agent: AgentStarter) -> None:
    """R-SUB-03."""
    write = {"tool_calls": [{"name": "write", "args": {"path": "a", "content": "x"}}], "match": "Task: count"}
    begun = {"tool": {"id": "w", "name": "write"}}, {"args": '{"path": "a", "content": "x"}'}, {"finish": "tool_calls"}
    gated = {"chunks": [{"gate": "g"}, *begun], "match": "Task: count"}
    refused = {"text": "refused", "match": "this session is read-only"}
    # It may begin with some more calls before it learns of the change, but never with as many as these.
    pi = agent([call("count"), gated, refused, *[write] * 40, {"text": "done"}], *TOOLS)
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached("g")
    pi.ask("set_tool_approval", mode="read-only")
    pi.llm.release("g")
    pi.wait({"type": "agent_settled"})

    assert [("refused", False)] == ends(pi)


KILLER = """
import os, signal
from pathlib import Path

step, victim = {step!r}, {victim!r}
pid = Path(os.environ["PI_CODING_AGENT_DIR"], "parent")
is_child = "PINNACE_SUBAGENT_DEPTH" in os.environ
if not is_child and not pid.exists():
    pid.write_text(str(os.getpid()))

def kill():
    if is_child:
        os.kill(os.getpid() if victim == "child" else int(pid.read_text()), signal.SIGKILL)

if step == "start":
    kill()

def extension(pi):
    @pi.on("tool_call")
    def called(ctx, event):
        if step == "call":
            kill()

    @pi.on("session_shutdown")
    def shutdown(ctx, event):
        if step == "end":
            kill()
"""


@pytest.mark.parametrize(
    ("step", "victim", "outcome", "answers"),
    [
        ("start", "child", "failed", 0),
        ("call", "child", "failed", 1),
        ("end", "child", "completed", 2),
        ("start", "parent", "interrupted", 0),
        ("call", "parent", "interrupted", 1),
        ("end", "parent", "interrupted", 2),
    ],
)
def test_kill_9_at_each_step_ends_and_counts_it_once(
    agent: AgentStarter, tmp_path: Path, step: str, victim: str, outcome: str, answers: int
) -> None:
    """R-SUB-02, R-SUB-05, R-SUB-06: killed by itself at that step, so that no clock decides. Whether or not the next
    agent has the tool, it finds the same."""
    killer = tmp_path / "killer.py"
    killer.write_text(KILLER.format(step=step, victim=victim))
    bash = {"tool_calls": [{"name": "bash", "args": {"command": "true"}}], "match": "Task: count"}
    script = [call("count"), bash, {"text": "done", "match": "Task: count"}, {"text": "thanks"}]
    script = [script[0], *script[1 : 1 + answers], *([script[3]] if victim == "child" else [])]
    pi = agent(script, *TOOLS, "-e", str(killer), is_checked=victim == "child", has_session=True)
    file = pi.ask("get_state")["sessionFile"]
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    if victim == "child":
        pi.wait({"type": "agent_settled"})
        assert (outcome != "completed") == ends(pi)[0][1]
    else:
        pi.wait_exit()
    [begun] = [each["data"] for each in entries_of(file) if each.get("customType") == "pinnace.child"]
    child = Path(file).with_suffix(".children") / f"{begun['agentId']}.jsonl"
    used = sum(each["message"]["usage"]["totalTokens"] for each in entries_of(child) if _is_answer(each))
    for _ in range(1 if victim == "child" else 2):
        again = agent((), "--session", file, again=pi) if victim == "parent" else pi
        total = again.ask("get_session_stats")["session"]["tokens"]["total"]
        [listed] = again.ask("list_agents")["agents"]
        [ended] = counted(file)
        own = sum(each["message"]["usage"]["totalTokens"] for each in entries_of(file) if _is_answer(each))

        assert outcome == listed["state"] == ended["outcome"]
        assert used == ended["usage"]["totalTokens"] == total - own
        assert (answers > 0) == (used > 0)
        if victim == "parent":
            again.close_stdin()


def test_they_are_listed_while_they_work_and_after_a_crash(agent: AgentStarter) -> None:
    """R-SUB-07: a list is what the session's file holds, so that it is the same in another process. R-SUB-11: of two
    calls of one answer, the one whose sub-agent had ended has its result there, and the other one was cut."""
    measured, weighed = [
        {"text": text, "match": f"Task: {task}"} for task, text in (("measure", "9"), ("weigh", "5 t"))
    ]
    script = [call("measure"), measured, {"text": "ok"}, call("weigh", "count"), weighed, WAITING]
    pi = agent(script, *TOOLS, is_checked=False, has_session=True)
    empty = pi.ask("list_agents")["agents"]
    pi.say(DELEGATE)
    below = stopped_child(pi, "g")
    starts = pi.found({"type": "tool_execution_start"})
    calls = [each["toolCallId"] for each in starts]
    pi.wait({"type": "tool_execution_end", "toolCallId": calls[1]})
    [update, *_] = [each for each in pi.found({"type": "tool_execution_update"}) if each["toolCallId"] == calls[2]]
    state, works = pi.ask("get_state"), pi.ask("list_agents")["agents"]
    os.kill(pi.process.pid, signal.SIGKILL)
    gone = await_gone(below)
    again = agent([{"text": "and then"}], "--session", state["sessionFile"], again=pi)
    later, cut = again.ask("list_agents")["agents"], again.ask("get_state")["interrupted"]["cutCalls"]
    assert [each["agentId"] for each in works] == [each["agentId"] for each in later]
    for each in (works, later):
        each.sort(key=lambda row: calls.index(row["toolCallId"]))  # two of one answer begin in either order
    again.say("continue")
    messages = [
        each for each in entries_of(state["sessionFile"]) if each.get("message", {}).get("role") == "toolResult"
    ]

    assert [] == empty == gone
    tasks = [("measure", "completed"), ("weigh", "completed"), ("count", "running")]
    assert tasks == [(each["task"], each["state"]) for each in works]
    assert calls == [each["toolCallId"] for each in works]
    assert update["partialResult"]["details"]["agent"]["agentId"] == works[2]["agentId"]
    assert {state["cwd"]} == {each["cwd"] for each in works}
    assert [state["model"]["id"]] * 3 == [each["model"] for each in works]
    assert [each["id"] for each in (entries_of(each["sessionFile"])[0] for each in works)] == [
        each["agentId"] for each in works
    ]
    assert ["usage" in each for each in works] == [True, True, False]
    assert works[:2] == later[:2]
    assert {**works[2], "state": "interrupted", "usage": later[2]["usage"]} == later[2]
    assert [calls[2]] == [each["id"] for each in cut]
    assert [each["entryId"] for each in starts[:2]] == [each["id"] for each in messages]
    assert calls[:2] == [each["message"]["toolCallId"] for each in messages]
    assert "5 t" in str(again.llm.requests[-1].body)


def test_in_memory_it_has_no_file(agent: AgentStarter) -> None:
    """R-SUB-02."""
    pi = agent([call("count"), {"text": "two", "match": "Task: count"}, {"text": "done"}], *TOOLS)
    pi.say(DELEGATE)
    [end] = pi.found({"type": "tool_execution_end"})
    details = end["result"]["details"]["agent"]

    assert [("two", False)] == ends(pi)
    assert "sessionFile" not in details
    [listed] = pi.ask("list_agents")["agents"]
    assert details == {"turns": 1, **{name: listed[name] for name in details if name != "turns"}}
    assert "sessionFile" not in listed
    assert 0 < details["usage"]["totalTokens"]


def test_several_work_side_by_side_and_each_shows_its_progress(agent: AgentStarter) -> None:
    """R-SUB-01, R-SUB-03, R-SUB-04: beyond the limit one is refused by name; they share the cost that is left."""
    gated = [{"chunks": [{"text": gate}, {"gate": gate}], "match": "Task: "} for gate in ("g0", "g1")]
    script = [call("a", "b", "c"), *gated, {"text": "done"}]
    pi = agent(script, *TOOLS, "--max-cost", "1", settings={"tools": {"maxSubagents": 2}})
    pi.send({"id": "p", "type": "prompt", "message": DELEGATE})
    pi.llm.wait_reached("g0")
    pi.llm.wait_reached("g1")
    words = [words_of(pid) for pid in pi.descendants()]
    shares = [float(each[each.index(b"--max-cost") + 1]) for each in words if b"--max-cost" in each]
    pi.llm.release("g0", "g1")
    pi.wait({"type": "agent_settled"})
    updates = [each["partialResult"]["details"]["agent"] for each in pi.found({"type": "tool_execution_update"})]

    assert {("g0", False), ("g1", False)} < set(ends(pi))
    assert any("tools.maxSubagents is 2" in text for text, _ in ends(pi))
    assert 2 == len({each["agentId"] for each in updates if each["state"] == "running"})
    # What the first answer has cost is spent.
    assert 2 == len(shares)
    assert 0.9 < sum(shares) < 1
    assert shares[0] == pytest.approx(shares[1])


def test_it_has_the_servers_of_an_editor_and_its_commands_have_no_variable_of_them(agent: AgentStarter) -> None:
    """R-SUB-03: its process has what its parent has taken out of the environment."""
    server = {"command": sys.executable, "args": ["-S", str(SERVER), "plain"]}
    environment = {
        "PINNACE_MCP_SERVERS": json.dumps({"given": server}),
        "OTEL_EXPORTER_OTLP_HEADERS": "key=of-the-collector",
    }
    show = {"tool_calls": [{"name": "bash", "args": {"command": "env"}}], "match": "Task: count"}
    script = [call("count"), show, {"text": "shown", "match": "Task: count"}, {"text": "done"}]
    pi = agent(script, *TOOLS, env=environment)
    pi.say(DELEGATE)
    tools = [each["function"]["name"] for each in pi.llm.requests[1].body["tools"]]

    assert "mcp__given__echo" in tools
    shown = str(pi.llm.requests[2].body)
    assert "PINNACE_SUBAGENT_DEPTH" in shown
    assert [] == [each for each in environment if each in shown]


needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (bwrap)")
DENY = """
def extension(pi):
    @pi.on("tool_call")
    def guard(ctx, event):
        if event.tool_name == "bash":
            return {"block": True, "reason": "no shell here"}
"""


@needs_bubblewrap
def test_its_commands_are_in_the_sandbox_of_its_parent(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SUB-03: what the parent's commands can't write, its own can't either."""
    outside = tmp_path / "outside"
    command = f"echo x > inside; echo x > {outside}"
    bash = {"tool_calls": [{"name": "bash", "args": {"command": command}}], "match": "Task: count"}
    script = [call("count"), bash, {"text": "tried", "match": "Task: count"}, {"text": "done"}]
    pi = agent(script, *TOOLS, "--sandbox", "workspace-write", has_session=True)
    pi.say(DELEGATE)

    assert [("tried", False)] == ends(pi)
    assert (pi.home.work / "inside").exists()
    assert not outside.exists()


def test_extensions_guard_its_calls_as_those_of_its_parent(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SUB-03: a guard of the command line is loaded by the sub-agent, too."""
    guard = tmp_path / "guard.py"
    guard.write_text(DENY)
    bash = {"tool_calls": [{"name": "bash", "args": {"command": "touch made"}}], "match": "Task: count"}
    script = [call("count"), bash, {"text": "tried", "match": "Task: count"}, {"text": "done"}]
    pi = agent(script, *TOOLS, "-e", str(guard))
    pi.say(DELEGATE)

    assert ("tried", False) in ends(pi)
    assert "no shell here" in str(pi.llm.requests[2].body)
    assert not (pi.home.work / "made").exists()


def test_it_works_without_a_client(print_agent: OneShotStarter) -> None:
    """R-SUB-01: the agent that starts it may be in any mode."""
    script: list[Scripted] = [call("count"), {"text": "two", "match": "Task: count"}, {"text": "done"}]
    one_shot = print_agent(["-p", DELEGATE, *TOOLS], script)

    assert (0, "done\n", "") == one_shot.end()
