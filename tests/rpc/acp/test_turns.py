"""Prompts of a client of the Agent Client Protocol: what is shown, and how each ends, exactly once."""

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import AcpAgent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]


USAGE = {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 0, "cachedWriteTokens": 0}
"""Of one request, as the scripted model reports it."""


def test_a_conversation_is_shown_and_ends(acp: StartAcp, work: Path) -> None:
    script = [
        {"reasoning": "hm", "text": "I look.", "tool_calls": [{"name": "bash", "args": {"command": "echo hello"}}]},
        {"text": ["It says ", "hello."]},
    ]
    agent = acp(script=script)
    session = opened(agent, work, plan={})
    result = agent.call("session/prompt", sessionId=session, prompt=text("What does it say?"))
    assert result["stopReason"] == "end_turn"
    assert result["usage"] == {**USAGE, "totalTokens": 30, "inputTokens": 20, "outputTokens": 10}  # two requests
    assert result["_meta"]["pinnace"]["entryId"]
    shown = agent.updates(session)
    assert agent.text() == "I look.It says hello."
    assert "".join(each["content"]["text"] for each in shown if each["sessionUpdate"] == "agent_thought_chunk") == "hm"
    call = next(each for each in shown if each["sessionUpdate"] == "tool_call")
    assert (call["status"], call["kind"], call["name"]) == ("pending", "execute", "bash")
    later = [each for each in shown if each["sessionUpdate"] == "tool_call_update"]
    assert [each["status"] for each in later if "status" in each] == ["in_progress", "completed"]
    assert later[0]["title"] == "echo hello"
    assert later[-1]["content"][0]["content"]["text"] == "```\nhello\n```"
    assert agent.end() == 0


def test_a_session_has_the_title_of_its_first_message_live_and_in_the_list(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}, {"text": "two"}])
    session = opened(agent, work)
    for said in (f"Look {'x' * 100}\nat this", "and that"):
        agent.call("session/prompt", sessionId=session, prompt=text(said))
    shown = [each for each in agent.updates(session) if each["sessionUpdate"] == "session_info_update"]
    titles = [each["title"] for each in shown if "title" in each]
    assert titles == [f"Look {'x' * 75}"]
    [listed] = agent.call("session/list", cwd=str(work))["sessions"]
    assert listed["title"] == titles[0]
    times = [each["updatedAt"] for each in shown if "updatedAt" in each]
    assert len(times) == 2
    assert sorted(times) == times
    assert agent.end() == 0


def test_an_embedded_resource_reaches_the_model_and_is_shown_again(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "one"}])
    first = acp(server=server)
    session = opened(first, work)
    resource = {"type": "resource", "resource": {"uri": "file:///open.txt", "text": "not saved yet"}}
    first.call("session/prompt", sessionId=session, prompt=[*text("See "), resource])
    assert first.end() == 0
    sent = "".join(part["text"] for part in server.requests[0].body["messages"][-1]["content"])
    assert sent == 'See [open.txt](file:///open.txt)<file name="file:///open.txt">\nnot saved yet\n</file>\n'

    second = acp()
    second.call("initialize", protocolVersion=1)
    second.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    shown = [each["content"] for each in second.updates(session) if each["sessionUpdate"] == "user_message_chunk"]
    assert shown == [*text("See [open.txt](file:///open.txt)"), resource]
    assert second.end() == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"text": "cut", "finish": "length"}, "max_tokens"),
        ({"text": "all", "finish": "stop"}, "end_turn"),
    ],
)
def test_the_stop_reason_of_the_last_answer(acp: StartAcp, work: Path, answer: Scripted, reason: str) -> None:
    agent = acp(script=[answer])
    session = opened(agent, work)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == reason


def test_a_limit_is_its_own_stop_reason(acp: StartAcp, work: Path) -> None:
    call = {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}
    agent = acp("--max-turns", "1", script=[call, call])
    session = opened(agent, work)
    result = agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    assert result["stopReason"] == "max_turn_requests"
    assert result["_meta"]["pinnace"]["limit"]


def test_a_failed_answer_is_an_error_and_the_next_prompt_runs(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"error": {"status": 400, "message": "no such thing"}}, {"text": "better"}])
    session = opened(agent, work)
    error = agent.error("session/prompt", sessionId=session, prompt=text("Go"))
    assert error["code"] == -32603
    assert "no such thing" in error["message"]
    assert agent.call("session/prompt", sessionId=session, prompt=text("Again"))["stopReason"] == "end_turn"


def test_prompts_run_one_after_the_other_each_with_its_own_end(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "one", "hold": "first"}, {"text": "two"}, {"text": "three"}])
    agent = acp(server=server)
    session = opened(agent, work, subagents={})
    requests = [agent.request("session/prompt", sessionId=session, prompt=text(said)) for said in ("a", "b", "c")]
    server.wait_reached("first")
    server.release("first")
    for request in requests:
        result = agent.response(request)["result"]
        assert (result["stopReason"], result["usage"]) == ("end_turn", USAGE)
    responses = [message["id"] for message in agent.messages if "result" in message][-3:]
    assert responses == requests
    assert agent.text() == "onetwothree"


def test_two_sessions_do_not_wait_for_each_other(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "slow", "hold": "gate", "match": "slowly"}, {"text": "quick", "match": "quickly"}])
    agent = acp(server=server)
    first = opened(agent, work)
    other = work.parent / "other"
    other.mkdir()
    second = agent.call("session/new", cwd=str(other), mcpServers=[])["sessionId"]
    slow = agent.request("session/prompt", sessionId=first, prompt=text("slowly"))
    server.wait_reached("gate")
    assert agent.call("session/prompt", sessionId=second, prompt=text("quickly"))["stopReason"] == "end_turn"
    server.release("gate")
    assert agent.response(slow)["result"]["stopReason"] == "end_turn"


def test_a_steered_message_belongs_to_the_turn(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"tool_calls": [{"name": "bash", "args": {"command": "true"}}], "hold": "gate"}, {"text": "both"}])
    agent = acp(server=server)
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    server.wait_reached("gate")
    assert agent.call("_session/steering", sessionId=session, prompt=text("left"))["outcome"] == "injected"
    server.release("gate")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert not [each for each in agent.updates() if each["sessionUpdate"] == "user_message_chunk"]
    meta = {"steering": {"idleBehavior": "promptRequired"}}
    idle = agent.call("_session/steering", sessionId=session, prompt=text("late"), _meta=meta)
    assert idle == {"outcome": "promptRequired", "reason": "noRunningTurn"}


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def _stored(work: Path) -> list[dict[str, Any]]:
    """Return the messages in the only session file."""
    [path] = (work.parent / "agent" / "sessions").glob("*/*.jsonl")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [entry["message"] for entry in entries if entry["type"] == "message"]


def test_every_kind_of_block_has_its_place_in_the_message(acp: StartAcp, work: Path) -> None:
    """One text, then each embedded resource, then the images: that of a block and that of a resource."""
    agent = acp(script=[{"text": "one"}])
    session = opened(agent, work)
    image = {"data": PIXEL, "mimeType": "image/png"}
    blocks = [
        {"type": "resource", "resource": {"uri": f"file://{work}/a%20b.txt", "text": "/compact"}},
        *text(" and "),
        {"type": "image", **image},
        {"type": "resource_link", "name": "/name", "uri": "https://example.org/x"},
        {"type": "resource", "resource": {"uri": "mem:1", "mimeType": "image/png", "blob": PIXEL}},
        {"type": "resource", "resource": {"uri": "http://[x.bin", "blob": base64.b64encode(b"12345").decode()}},
        *text("!"),
    ]
    agent.call("session/prompt", sessionId=session, prompt=blocks)
    uri = f"file://{work}/a%20b.txt"
    said = (
        f"[a b.txt]({uri}) and [/name](https://example.org/x)[[x.bin](http://[x.bin) (binary, 5 bytes, not included)!"
    )
    assert _stored(work)[0]["content"] == [
        {"type": "text", "text": said},
        {"type": "text", "text": f'<file name="{uri}">\n/compact\n</file>\n'},
        {"type": "image", **image},
        {"type": "image", **image},
    ]


EXTENSION = """
from pathlib import Path

import trio

from pinnace.extensions import ToolResult

print("noise of the start")

def extension(pi):
    @pi.command("say", description="Say something")
    async def say(ctx, args):
        print("noise of a command")
        pi.send_user_message(args)

    @pi.command("level")
    async def level(ctx, args):
        pi.set_thinking_level(args)

    @pi.command("model")
    async def model(ctx, args):
        await pi.set_model(ctx.model_registry.find("fake", args))

    @pi.command("elsewhere")
    async def elsewhere(ctx, args):
        await ctx.new_session()

    @pi.command("timer")
    async def timer(ctx, args):
        async def expire():
            while not Path("expired").exists():
                await trio.sleep(0.005)
            pi.send_user_message("It is time")

        pi.background.start_soon(expire)

    @pi.tool
    def finish(ctx) -> ToolResult:
        '''End.'''
        return ToolResult("ended", terminate=True)

    @pi.on("input")
    def refuse(ctx, event):
        if "forbidden" in event.text:
            return {"no such key": 1}

    @pi.on("tool_execution_start")
    def stop(ctx, event):
        if event.tool_name == "bash":
            ctx.abort()
"""


@pytest.fixture
def extended(acp: StartAcp, work: Path, llm: MakeLlm, tmp_path: Path) -> Callable[..., tuple[AcpAgent, FakeLlm, str]]:
    """Starts an agent with an extension, a template and a skill, and a session of it."""

    def start(*script: Scripted, **capabilities: Any) -> tuple[AcpAgent, FakeLlm, str]:
        files = {
            "prompts/review.md": "---\nargument-hint: FOCUS\n---\nReview with $1 in mind.",
            "skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidy up\n---\nSweep.",
        }
        for name, content in files.items():
            path = tmp_path / "home" / "agent" / name
            path.parent.mkdir(parents=True)
            path.write_text(content)
        path = work.parent / "extension.py"
        path.write_text(EXTENSION)
        server = llm(script)
        agent = acp(
            "-e",
            str(path),
            server=server,
            settings={"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 1}},
        )
        return agent, server, opened(agent, work, **capabilities)

    return start


Extended = Callable[..., tuple[AcpAgent, FakeLlm, str]]


def test_a_text_that_begins_with_a_slash_is_a_command_a_template_or_a_skill(extended: Extended, work: Path) -> None:
    """Only if its first word names one; what an extension prints is no line of the protocol."""
    agent, server, session = extended({"text": "answer", "repeat": -1})
    commands = agent.update("available_commands_update")["availableCommands"]
    assert {
        "review": {"hint": "FOCUS"},
        "skill:tidy": None,
        "say": None,
        "compact": {"hint": "instructions"},
    }.items() <= {each["name"]: each.get("input") for each in commands}.items()

    resource = {"type": "resource", "resource": {"uri": "mem:a", "text": "/say no"}}
    asked = ["/review speed", "/skill:tidy now", "/say extra", "/no-such command", "either/or"]
    for said in asked:
        result = agent.call("session/prompt", sessionId=session, prompt=text(said))
        assert result["stopReason"] == "end_turn"
    agent.call("session/prompt", sessionId=session, prompt=[resource, *text(" /say not")])
    received = [_last_said(request.body) for request in server.requests]
    assert received[0] == "Review with speed in mind."
    assert "Sweep." in received[1]
    assert received[2:5] == ["extra", "/no-such command", "either/or"]
    assert "[a](mem:a) /say not" in received[5]
    shown = [each["content"]["text"] for each in agent.updates() if each["sessionUpdate"] == "user_message_chunk"]
    assert shown == ["extra"]  # what the extension has sent in the place of the prompt

    assert agent.call("session/prompt", sessionId=session, prompt=text("/compact briefly"))["stopReason"] == "end_turn"
    assert "briefly" in str(server.requests[-1].body)
    assert agent.update("tool_call_update", status="completed")["content"][0]["content"]["text"].startswith("answer")

    live = agent.update("tool_call", title="Compaction")
    agent.call("session/close", sessionId=session)
    since = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert live["toolCallId"] == agent.update("tool_call", since, title="Compaction")["toolCallId"]


def _last_said(body: Any) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_work_that_no_prompt_has_begun_is_shown_between_two_marks(extended: Extended) -> None:
    """A steered message without a run begins one; a prompt that comes meanwhile has its own response."""
    agent, server, session = extended({"text": "one", "hold": "gate"}, {"text": "two"}, {"text": "three"})
    assert agent.call("_session/steering", sessionId=session, prompt=text("a")) == {"outcome": "startedNewTurn"}
    agent.update("session_info_update", _meta={"pinnace": {"running": True}})
    server.wait_reached("gate")
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("b"))
    meta = {"pinnace": {"deliverAs": "followUp"}}
    agent.call("_session/steering", sessionId=session, prompt=text("c"), _meta=meta)
    bad = {"steering": {"idleBehavior": "whatever"}}
    server.release("gate")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert agent.text() == "onetwothree"
    error = agent.error("_session/steering", sessionId=session, prompt=text("d"), _meta=bad)
    assert (error["code"], error["data"]["path"]) == (-32602, "params._meta.steering.idleBehavior")


def test_the_timer_of_an_extension_begins_a_run(extended: Extended, work: Path) -> None:
    """It is shown live, and again; a prompt that comes meanwhile waits for it."""
    agent, server, session = extended({"text": "one", "hold": "gate"}, {"text": "two"})
    assert agent.call("session/prompt", sessionId=session, prompt=text("/timer"))["stopReason"] == "end_turn"
    (work / "expired").touch()
    agent.update("session_info_update", _meta={"pinnace": {"running": True}})
    server.wait_reached("gate")
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("meanwhile"))
    server.release("gate")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert agent.text() == "onetwo"
    asked = {"type": "text", "text": "It is time"}
    live = agent.update("user_message_chunk", content=asked)
    seen = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert agent.update("user_message_chunk", seen, content=asked) == live


def test_a_change_that_an_extension_makes_is_one_update(extended: Extended) -> None:
    """With what follows from it: another model has other levels, and the level is one of them."""
    agent, _, session = extended()
    levels = ["off", "minimal", "low", "medium", "high"]

    def shown(said: str) -> list[dict[str, Any]]:
        """Return the values of model and level of each update that a command brings about, and the levels."""
        since = len(agent.messages)
        agent.call("session/prompt", sessionId=session, prompt=text(said))
        changes = [each for each in agent.updates(after=since) if each["sessionUpdate"] == "config_option_update"]
        return [{option["id"]: option for option in change["configOptions"]} for change in changes]

    [one] = shown("/model m2")
    assert one["model"]["currentValue"] == "fake/m2"
    assert [each["value"] for each in one["thought_level"]["options"]] == levels
    [two] = shown("/level high")
    assert two["thought_level"]["currentValue"] == "high"
    assert shown("/level high") == []
    [three] = shown("/model m1")
    assert (three["model"]["currentValue"], "thought_level" in three) == ("fake/m1", False)

    fields = {"sessionId": session, "configId": "model", "value": "fake/m2"}
    changed = agent.call("session/set_config_option", fields)
    options = {each["id"]: each for each in changed["configOptions"]}
    assert [each["value"] for each in options["thought_level"]["options"]] == levels
    assert options["thought_level"]["currentValue"] in levels
    error = agent.error("session/set_config_option", {**fields, "configId": "thought_level", "value": "xhigh"})
    assert (error["code"], error["data"]["path"]) == (-32602, "params.value")


def test_a_session_that_an_extension_opens_is_named_to_the_user(extended: Extended, work: Path) -> None:
    """The client keeps its id; what follows is in the other session, which it can open."""
    agent, _, session = extended({"text": "one"}, {"text": "two"}, session={"notices": {}})
    agent.call("session/prompt", sessionId=session, prompt=text("here"))
    agent.call("session/prompt", sessionId=session, prompt=text("/elsewhere"))
    agent.call("session/prompt", sessionId=session, prompt=text("there"))
    [notice] = [each for each in agent.updates(session) if each["sessionUpdate"] == "notice"]
    details = [each.get("_meta", {}).get("pinnace", {}) for each in agent.updates(session)]
    [changed] = [each["conversation"] for each in details if "conversation" in each]
    agent.call("session/close", sessionId=session)
    listed = {each["sessionId"] for each in agent.call("session/list", cwd=str(work))["sessions"]}
    [other] = listed - {session}
    assert notice["title"] == f"An extension has opened another session. What follows is kept as {other}."
    assert changed == {"reason": "new", "by": "extension", "sessionId": other, "leafId": None}
    said = []
    for each in (session, other):
        since = len(agent.messages)
        agent.call("session/load", sessionId=each, cwd=str(work), mcpServers=[])
        said.append(agent.text(since))
    assert said == ["one", "two"]


def test_each_end_of_a_run_has_its_own_response(extended: Extended) -> None:
    """What was not done for a reason that is not the user's is an error; the next prompt runs all the same."""
    call = {"name": "bash", "args": {"command": "true"}}
    agent, server, session = extended(
        {"error": {"status": 401, "message": "bad key"}},
        {"tool_calls": [{"name": "finish", "args": {}}]},
        {"tool_calls": [call]},
        {"tool_calls": [{"name": "read", "args": {"path": "x"}}], "finish": "length"},
        {"text": "cut", "finish": "length"},
        {"error": {"status": 500}, "repeat": 4},
    )

    def outcome(said: str) -> tuple[object, object]:
        response = agent.response(agent.request("session/prompt", sessionId=session, prompt=text(said)))
        if "error" in response:
            return response["error"]["code"], response["error"]["data"]["errorCode"]
        return response["result"]["stopReason"], response["result"].get("_meta", {}).get("pinnace", {}).get("abortedBy")

    assert outcome("rejected key") == (-32603, "authentication")
    assert outcome("finish") == ("end_turn", None)
    assert outcome("stopped by the extension") == ("cancelled", "agent")
    assert outcome("cut, with a call") == ("max_tokens", None)
    assert outcome("forbidden") == (-32603, "refused_by_extension")
    assert outcome("server fails") == (-32603, "server_error")
    assert len(server.requests) == 5 + 4


def test_an_answer_that_is_tried_again_is_shown_once_more_only_live(extended: Extended, work: Path) -> None:
    agent, _, session = extended(
        {"error": {"status": 500, "message": "busy"}},
        {"chunks": [{"text": "half"}, {"disconnect": "rst"}]},
        {"text": "whole"},
        session={"notices": {}},
    )
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"
    assert [each["severity"] for each in agent.updates() if each["sessionUpdate"] == "notice"] == ["warning"] * 2
    assert agent.text() == "halfwhole"
    seen = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert agent.text(seen) == "whole"


def test_an_extension_that_can_not_be_loaded_is_the_error_of_its_session(acp: StartAcp, work: Path) -> None:
    """The reads of an agent that can't start are answered before its end; the connection is not affected."""
    path = work.parent / "broken.py"
    path.write_text("def extension(pi):\n    if pi.exec:\n        raise ValueError('broken')\n")
    agent = acp("-e", str(path))
    agent.call("initialize", protocolVersion=1)
    error = agent.error("session/new", cwd=str(work), mcpServers=[])
    assert (error["code"], error["data"]) == (-32603, {"errorCode": "agent_ended"})
    assert error["message"].startswith(f"{path}: ValueError: broken")
    assert agent.call("session/list") == {"sessions": []}


def test_every_session_that_a_sandbox_refuses_says_why(acp: StartAcp) -> None:
    """The first agent is a new process, later ones are forks."""
    agent = acp("--sandbox", "workspace-write")
    agent.call("initialize", protocolVersion=1)
    for _ in range(3):
        error = agent.error("session/new", cwd="/", mcpServers=[])
        assert error["data"] == {"errorCode": "agent_ended"}
        assert "makes the working folder writable, and / is the root of the file system" in error["message"]


def test_a_compaction_without_anything_to_compact_ends_its_prompt_with_a_text(acp: StartAcp, work: Path) -> None:
    """Whether the session is new, too small, or was compacted before; one that an extension cancels is cancelled."""
    extension = work / "cancels.py"
    extension.write_text(
        "from pinnace.extensions import Cancel\n"
        "def extension(pi):\n"
        "    def decide(ctx, event):\n"
        "        return Cancel() if event.custom_instructions == 'never' else None\n"
        "    pi.on('session_before_compact', decide)\n"
    )
    agent = acp(
        "-e",
        str(extension),
        script=[{"text": "one"}, {"text": "summary"}],
        settings={"compaction": {"keepRecentTokens": 1}},
    )
    session = opened(agent, work)
    said = []
    for prompt in ("/compact", "a", "/compact never", "/compact", "/compact"):
        since = len(agent.messages)
        reason = agent.call("session/prompt", sessionId=session, prompt=text(prompt))["stopReason"]
        said.append((reason, agent.text(since)))
    assert said == [
        ("end_turn", "Nothing to compact (session too small)"),
        ("end_turn", "one"),
        ("cancelled", ""),
        ("end_turn", ""),
        ("end_turn", "Already compacted"),
    ]


def test_a_plan_that_a_tool_reports_is_shown_live_and_again(acp: StartAcp, work: Path) -> None:
    """Whole each time; what is cancelled is left out, since this version has no word for it."""
    path = work.parent / "planning.py"
    path.write_text(
        """
from pinnace.extensions import ToolResult

def extension(pi):
    @pi.tool
    def plan(ctx) -> ToolResult:
        '''Plan.'''
        entries = ["look", {"content": "act", "status": "completed"}, {"content": "not", "status": "cancelled"}]
        return ToolResult("planned", details={"plan": entries})
"""
    )
    agent = acp("-e", str(path), script=[{"tool_calls": [{"name": "plan", "args": {}}]}, {"text": "done"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    since = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])

    expected = [("look", "pending", "medium"), ("act", "completed", "medium")]
    for plan in (agent.update("plan"), agent.update("plan", since)):
        assert [(each["content"], each["status"], each["priority"]) for each in plan["entries"]] == expected
