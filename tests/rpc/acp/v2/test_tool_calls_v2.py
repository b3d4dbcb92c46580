"""Calls of tools in version 2: terminals of commands, changes with patches, permissions with titles and subjects."""

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import decoded, idle, opened, states, text, transcript, turn

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_rpc.acp.translation.v2.diffs import diff, quoted
from pinnace_rpc.acp.translation.v2.terminals import EndedCommand, Terminals, ended_command

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]
DONE = {"text": "done"}


def calls(*each: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args} for name, args in each]}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def of(agent: AcpAgent, kind: str) -> list[Message]:
    return [each for each in transcript(agent.updates()) if each["of"] == kind]


def test_a_command_has_a_terminal_and_its_output_is_chunks(acp2: StartAcp, work: Path) -> None:
    command = "echo one; while [ ! -e next ]; do sleep 0.01; done; echo two; exit 3"
    agent = acp2(script=[calls(("bash", {"command": command})), DONE])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    agent.update("terminal_output_chunk")
    (work / "next").touch()
    idle(agent)

    [terminal], [call] = of(agent, "terminal"), of(agent, "call")
    chunks = [each["data"] for each in agent.updates() if each["sessionUpdate"] == "terminal_output_chunk"]
    assert [decoded(each) for each in chunks] == ["one\n", "two\n"]
    assert (terminal["command"], terminal["cwd"], terminal["exitStatus"]) == (command, str(work), {"exitCode": 3})
    assert call["content"] == [{"type": "terminal", "terminalId": terminal["id"]}]
    assert call["status"] == "failed"


def test_changes_are_operations_with_patches_that_git_applies(acp2: StartAcp, work: Path, tmp_path: Path) -> None:
    """Before a call is carried out, what it intends is a text: no operation is reported that has not happened."""
    edits = [{"oldText": "two", "newText": "2"}, {"oldText": "nine", "newText": "9"}]
    before = "".join(f"{word}\n" for word in ("one", "two", "three", *"abcdefghij", "nine"))
    agent = acp2(
        script=[
            calls(("edit", {"path": "a b.txt", "edits": edits}), ("write", {"path": "new/ü.txt", "content": "x\ny"})),
            calls(("write", {"path": "a b.txt", "content": "over\n"}), ("edit", {"path": "none", "edits": edits})),
            DONE,
        ]
    )
    (work / "a b.txt").write_text(before)
    session = opened(agent, work)
    turn(agent, session, "Go")

    edited, written, over, failed = of(agent, "call")
    path = str(work / "a b.txt")
    [change] = edited["content"]
    assert change["changes"] == [{"operation": "modify", "path": path, "fileType": "text"}]
    assert written["content"][0]["changes"][0]["operation"] == "add"
    assert over["content"] == [{"type": "diff", "changes": [{"operation": "modify", "path": path, "fileType": "text"}]}]
    assert (failed["status"], failed["content"][0]["type"]) == ("failed", "content")
    patches = [each["content"][0]["patch"] for each in (edited, written)]
    assert {"git_patch"} == {each["format"] for each in patches}

    # As they were before, below another root, since git follows no absolute path.
    root = tmp_path / "root"
    (root / path[1:]).parent.mkdir(parents=True)
    (root / path[1:]).write_text(before)
    patch = "".join(each["text"] for each in patches)
    for mark in (" ", '"'):
        patch = patch.replace(f"{mark}{work}", f"{mark}a{work}")
    subprocess.run(["git", "apply", "-p1"], input=patch.encode(), cwd=root, check=True)
    assert (root / path[1:]).read_text() == before.replace("two", "2").replace("nine", "9")
    assert (root / str(work / "new/ü.txt")[1:]).read_text() == "x\ny"

    intended = [each for each in agent.updates() if each.get("rawInput")]
    assert "```diff\n-two\n+2\n-nine\n+9\n```" in json.dumps(intended[0]["content"]).replace("\\n", "\n")
    assert all(item["type"] == "content" for each in intended for item in each["content"])


@pytest.mark.parametrize("option", ["allow_once", "reject_once", "no such option", "_later"])
def test_a_permission_has_a_title_and_a_subject_and_the_work_waits(acp2: StartAcp, work: Path, option: str) -> None:
    """What is no approval is none, whatever it is."""
    outcome = {"outcome": {"outcome": "_later"}} if option == "_later" else selected(option)
    script = [calls(("bash", {"command": "touch made"})), calls(("write", {"path": "w", "content": "x"})), DONE]
    agent = acp2("--tool-approval", "ask", script=script, answer=lambda _: outcome)
    session = opened(agent, work)
    turn(agent, session, "Go")

    asked = [message["params"] for message in agent.messages if message.get("method") == "session/request_permission"]
    command, write = (each["subject"] for each in asked)
    shell, _ = of(agent, "call")
    assert ["Allow tool: bash", "Allow tool: write"] == [each["title"] for each in asked]
    assert command == {"type": "command", "command": "touch made", "cwd": str(work), "toolCallId": shell["id"]}
    assert (write["type"], write["toolCall"]["status"]) == ("tool_call", "pending")
    assert "touch made" in asked[0]["description"]
    waits = ["running", "requires_action"]
    assert states(agent.updates(session)) == [*waits, *waits, "running", "idle:end_turn"]
    assert (work / "made").exists() == (work / "w").exists() == (option == "allow_once")
    assert of(agent, "terminal") == [] if option != "allow_once" else of(agent, "terminal")


def test_work_waits_for_the_user_only_if_nothing_else_goes_on(acp2: StartAcp, work: Path) -> None:
    """A question of one call beside another call that runs changes no state until that one has ended."""
    path = work.parent / "asking.py"
    path.write_text(
        '''
def extension(pi):
    @pi.tool
    async def sure(ctx) -> str:
        """Ask."""
        return str(await ctx.ui.confirm("Sure?", "Really?"))
'''
    )
    command = "while [ ! -e next ]; do sleep 0.01; done"
    agent = acp2("-e", str(path), script=[calls(("bash", {"command": command}), ("sure", {})), DONE])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    question = agent.until(lambda message: message.get("method") == "session/request_permission")
    assert states(agent.updates(session)) == ["running"]
    (work / "next").touch()
    agent.update("state_update", state="requires_action")
    agent.respond(question, selected("allow_once"))
    idle(agent)

    assert "subject" in question["params"] or question["params"]["title"] == "Sure?"
    assert states(agent.updates(session)) == ["running", "requires_action", "running", "idle:end_turn"]


@pytest.mark.parametrize("by", ["call", "terminal"])
def test_one_call_is_cancelled_and_the_others_go_on(acp2: StartAcp, work: Path, by: str) -> None:
    """Whichever of both is cancelled: the command ends, its call is cancelled, and the work continues."""
    command = "echo begun; exec sleep 600"
    other = "while [ ! -e next ]; do sleep 0.01; done; echo other"
    agent = acp2(script=[calls(("bash", {"command": command}), ("bash", {"command": other})), DONE])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    first = agent.update("terminal_update", command=command)
    agent.update("terminal_output_chunk", terminalId=first["terminalId"])
    offered = agent.update("tool_call_update", toolCallId=first["terminalId"], status="in_progress")
    agent.update("terminal_update", command=other)
    fields = {"sessionId": session, f"{'toolCallId' if by == 'call' else 'terminalId'}": first["terminalId"]}
    method = "tool_call/cancel" if by == "call" else "terminal/cancel"
    assert agent.call(method, fields) == {}
    agent.update("tool_call_update", toolCallId=first["terminalId"], status="cancelled")
    late = agent.error(method, fields)
    (work / "next").touch()
    end = idle(agent)

    assert first["capabilities"] == offered["capabilities"] == {"cancel": {}}
    assert (late["code"], end["stopReason"]) == (-32602, "end_turn")
    assert [each["status"] for each in of(agent, "call")] == ["cancelled", "completed"]
    ends = [(each["output"], each["exitStatus"]) for each in of(agent, "terminal")]
    assert ends == [("begun\n", {}), ("other\n", {"exitCode": 0})]


def test_a_plan_that_a_tool_reports_is_shown_and_replayed(acp2: StartAcp, work: Path) -> None:
    path = work.parent / "planning.py"
    path.write_text(
        '''
from pinnace.extensions import ToolResult

def extension(pi):
    @pi.tool
    def plan(ctx) -> ToolResult:
        """Plan."""
        entries = ["look", {"content": "act", "status": "in_progress", "priority": "high"}, {"status": "pending"}, 7]
        return ToolResult("planned", details={"plan": {"id": "p", "entries": entries}})
'''
    )
    agent = acp2("-e", str(path), script=[calls(("plan", {})), DONE])
    session = opened(agent, work)
    turn(agent, session, "Go")
    live = transcript(agent.updates(session))
    since = len(agent.messages)
    agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})

    [plan] = of(agent, "plan")
    assert (plan["id"], plan["entries"]) == (
        "p",
        [
            {"content": "look", "priority": "medium", "status": "pending"},
            {"content": "act", "priority": "high", "status": "in_progress"},
        ],
    )
    assert transcript(agent.updates(session, since)) == live


def test_an_answer_that_is_tried_again_is_taken_back(acp2: StartAcp, work: Path) -> None:
    """Live as in a replay: the text of the failed one is gone."""
    failing = {"chunks": [{"text": "half"}, {"disconnect": "rst"}]}
    agent = acp2(script=[failing, {"text": "whole"}], settings={"retry": {"baseDelayMs": 1}})
    session = opened(agent, work)
    assert turn(agent, session, "Go")["stopReason"] == "end_turn"

    assert [each["text"] for each in transcript(agent.updates(session))] == ["Go", "whole"]
    assert agent.update("notice", severity="warning")


def test_options_are_set_by_their_id_and_the_type_of_their_value(acp2: StartAcp, work: Path) -> None:
    agent = acp2()
    session = opened(agent, work)

    def changed(**fields: Any) -> dict[str, object]:
        options = agent.call("session/set_config_option", sessionId=session, **fields)["configOptions"]
        return {each["configId"]: each["currentValue"] for each in options}

    assert changed(configId="mode", type="id", value="ask")["mode"] == "ask"
    assert changed(configId="auto_compaction", type="boolean", value=False)["auto_compaction"] is False
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"configId": "mode", "type": "_other", "value": 1}, "params.type"),
        ({"configId": "mode", "type": "id", "value": "none"}, "params.value"),
        ({"configId": "none", "type": "id", "value": "ask"}, "params.configId"),
        ({"configId": "auto_compaction", "type": "id", "value": "x"}, "params.value"),
    ]
    for fields, path in wrong:
        error = agent.error("session/set_config_option", sessionId=session, **fields)
        assert (error["code"], error["data"]["path"]) == (-32602, path), fields


def test_servers_need_their_type_and_what_is_left_out_is_empty(acp2: StartAcp, work: Path) -> None:
    agent = acp2()
    session = opened(agent, work)
    servers: list[tuple[dict[str, Any], str]] = [
        ({"type": "sse", "name": "a", "url": "http://x"}, "params.mcpServers[0].type"),
        ({"type": "stdio", "name": "a"}, "params.mcpServers[0].command"),
    ]
    for server, path in servers:
        line = {"jsonrpc": "2.0", "id": path, "method": "session/new"}
        params = {"cwd": str(work), "mcpServers": [server]}
        agent.write(json.dumps({**line, "params": params}).encode() + b"\n")
        assert agent.response(path)["error"]["data"]["path"] == path
    described = {"type": "stdio", "name": "a", "command": "/bin/false"}
    opened_with = agent.call("session/new", cwd=str(work), mcpServers=[described])
    assert opened_with["sessionId"] != session
    assert [each["name"] for each in opened_with["_meta"]["pinnace"]["mcpServers"]] == ["a"]


# Pure.


def test_paths_are_quoted_as_git_quotes_them() -> None:
    assert quoted("/a b.txt") == "/a b.txt"
    assert quoted('/ü"\\\n') == '"/\\303\\274\\"\\\\\\n"'


def test_a_new_file_without_text_has_a_patch_without_hunks() -> None:
    found = diff("write", {"path": "a", "content": ""}, {"details": {"created": True}}, "/w")

    assert found is not None
    assert found["patch"] == {"format": "git_patch", "text": "diff --git /w/a /w/a\nnew file mode 100644\n"}


@pytest.mark.parametrize(
    ("said", "status", "expected"),
    [
        ("(no output)", "completed", EndedCommand("", {"exitCode": 0})),
        ("out\n\n\nCommand exited with code 3", "failed", EndedCommand("out\n", {"exitCode": 3})),
        ("(no output)\n\nCommand exited with code -9", "failed", EndedCommand("", {"exitCode": -9})),
        ("out\n\nCommand timed out after 1.5 seconds", "failed", EndedCommand("out", {})),
        ("Command aborted", "cancelled", EndedCommand("", {})),
        ("The user has denied it", "failed", None),
    ],
)
def test_the_end_of_a_command_is_read_from_its_result(said: str, status: Any, expected: EndedCommand | None) -> None:
    assert ended_command({"content": [{"type": "text", "text": said}]}, status) == expected


def test_output_that_is_no_longer_its_beginning_is_sent_anew() -> None:
    """Of a long output the agent shows the end alone."""
    terminals = Terminals()
    terminals.begin("t", "yes", "/")
    first, more, same, anew = (terminals.write("t", said) for said in ("a", "ab", "ab", "b"))

    assert first is not None
    assert more is not None
    assert anew is not None
    assert [first["sessionUpdate"], more["sessionUpdate"], same] == ["terminal_output_chunk"] * 2 + [None]
    assert anew["sessionUpdate"] == "terminal_update"
    assert "output" not in terminals.end("t", EndedCommand("b", {"exitCode": 0}))
