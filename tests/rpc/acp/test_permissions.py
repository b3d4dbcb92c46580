"""Calls that need the user's approval, and dialogs of extensions."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

CALL = {"tool_calls": [{"name": "write", "args": {"path": "new.txt", "content": "hello\n"}}]}


def _selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _asked(agent: AcpAgent, after: int = 0) -> Message:
    return agent.until(lambda message: message.get("method") == "session/request_permission", after)


@pytest.mark.parametrize(("option", "status"), [("allow_once", "completed"), ("reject_once", "failed")])
def test_a_call_is_asked_for_before_it_begins(acp: StartAcp, work: Path, option: str, status: str) -> None:
    agent = acp("--tool-approval", "ask", script=[CALL, {"text": "done"}])
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    asked = _asked(agent)
    call = asked["params"]["toolCall"]
    assert (call["status"], call["kind"]) == ("pending", "edit")
    assert call["content"][0] == {"type": "diff", "path": str(work / "new.txt"), "newText": "hello\n"}
    assert [each["kind"] for each in asked["params"]["options"]] == ["allow_once", "allow_always", "reject_once"]
    agent.respond(asked, _selected(option))
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    agent.update("tool_call_update", toolCallId=call["toolCallId"], status=status)
    statuses = [each["status"] for each in agent.updates() if each.get("toolCallId") and "status" in each]
    assert statuses == ["pending", *(["in_progress"] if status == "completed" else []), status]
    assert (work / "new.txt").exists() == (status == "completed")


def test_always_is_for_this_tool_in_this_session(acp: StartAcp, work: Path) -> None:
    agent = acp(
        "--tool-approval",
        "ask",
        script=[CALL, CALL, {"text": "done"}],
        answer=lambda message: _selected("allow_always") if message["method"].endswith("permission") else None,
    )
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    assert len([each for each in agent.messages if each.get("method") == "session/request_permission"]) == 1


@pytest.mark.parametrize("answer", [{"outcome": {"outcome": "cancelled"}}, _selected("no such option")])
def test_what_is_no_answer_rejects(acp: StartAcp, work: Path, answer: dict[str, Any]) -> None:
    agent = acp("--tool-approval", "ask", script=[CALL, {"text": "done"}], answer=lambda _message: answer)
    session = opened(agent, work)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"
    assert not (work / "new.txt").exists()


def test_an_error_or_a_malformed_answer_rejects_and_an_unknown_method_is_not_called_again(
    acp: StartAcp, work: Path
) -> None:
    """Read only mode asks nothing. Always counts for the tool of that name, and not after another mode."""
    bash = {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}
    script = [CALL, CALL, CALL, CALL, bash, CALL, CALL, {"text": "done"}]
    agent = acp("--tool-approval", "ask", script=script)
    session = opened(agent, work)
    seen = len(agent.messages)

    def asked() -> Message:
        nonlocal seen
        found = _asked(agent, seen)
        seen = agent.messages.index(found) + 1
        return found

    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.write(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":7}}\n' % asked()["id"])
    agent.refuse(asked(), -32603, "the window is closed")
    assert not (work / "new.txt").exists()
    agent.respond(asked(), _selected("allow_always"))
    shell = asked()
    assert shell["params"]["toolCall"]["kind"] == "execute"  # the call before it was not asked for
    for mode in ("read-only", "ask"):
        agent.call("session/set_mode", sessionId=session, modeId=mode)
    agent.respond(shell, _selected("reject_once"))
    agent.decline(asked())
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    ended = [each["status"] for each in agent.updates() if each.get("status") in ("completed", "failed")]
    assert ended == ["failed", "failed", "completed", "completed", "failed", "failed", "failed"]
    assert len([each for each in agent.messages if each.get("method") == "session/request_permission"]) == 5

    other = acp("--tool-approval", "read-only", script=[CALL, {"text": "done"}])
    assert other.call("session/prompt", sessionId=opened(other, work), prompt=text("Go"))["stopReason"] == "end_turn"
    assert [each["status"] for each in other.updates() if "status" in each] == ["pending", "failed"]


def test_a_cancellation_withdraws_the_question(acp: StartAcp, work: Path) -> None:
    agent = acp("--tool-approval", "ask", script=[CALL, {"text": "next"}])
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    asked = _asked(agent)
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"]["requestId"] == asked["id"]
    agent.respond(asked, _selected("allow_once"))
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"
    assert not (work / "new.txt").exists()


def test_a_question_of_one_session_keeps_no_other_waiting(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    server = llm([{**CALL, "match": "write"}, {"text": "other", "match": "talk"}])
    agent = acp("--tool-approval", "ask", server=server)
    first = opened(agent, work)
    agent.request("session/prompt", sessionId=first, prompt=text("write"))
    _asked(agent)
    second = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    assert agent.call("session/prompt", sessionId=second, prompt=text("talk"))["stopReason"] == "end_turn"


def test_the_mode_can_be_chosen_and_is_an_option_too(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[CALL, {"text": "done"}])
    session = opened(agent, work)
    agent.call("session/set_mode", sessionId=session, modeId="ask")
    changed = agent.call("session/set_config_option", sessionId=session, configId="mode", value="ask")
    options = {each["id"]: each["currentValue"] for each in changed["configOptions"]}
    assert options["mode"] == "ask"
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.respond(_asked(agent), _selected("reject_once"))
    agent.response(prompt)
    assert agent.error("session/set_mode", sessionId=session, modeId="no such mode")["code"] == -32602


def test_a_refused_prompt_is_no_part_of_the_next_request(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    server = llm([{"text": "", "finish": "content_filter"}, {"text": "fine"}])
    agent = acp(server=server)
    session = opened(agent, work)
    assert agent.call("session/prompt", sessionId=session, prompt=text("forbidden"))["stopReason"] == "refusal"
    assert agent.call("session/prompt", sessionId=session, prompt=text("allowed"))["stopReason"] == "end_turn"
    assert "forbidden" not in str(server.requests[-1].body)


EXTENSION = """
def extension(pi):
    @pi.command("choose", description="Choose")
    async def choose(ctx, args):
        ctx.ui.notify(f"chosen: {await ctx.ui.select('Which?', ['one', 'two'])}")
        ctx.ui.notify(f"confirmed: {await ctx.ui.confirm('Sure?', 'Really?')}")
"""


def _choosing(acp: StartAcp, work: Path, answer: Callable[[Message], dict[str, Any]], **capabilities: Any) -> AcpAgent:
    """Run the command of an extension that asks two questions."""
    path = work.parent / "choose.py"
    path.write_text(EXTENSION)
    agent = acp("-e", str(path), answer=answer)
    session = opened(agent, work, **capabilities)
    assert agent.call("session/prompt", sessionId=session, prompt=text("/choose"))["stopReason"] == "end_turn"
    return agent


def test_dialogs_of_extensions_are_forms(acp: StartAcp, work: Path) -> None:
    def answer(message: Message) -> dict[str, Any]:
        properties = message["params"]["requestedSchema"]["properties"]
        chosen = properties["choice"]["oneOf"][-1]["const"]
        return {"action": "accept", "content": {"choice": chosen}}

    agent = _choosing(acp, work, answer, elicitation={"form": {}}, session={"notices": {}})
    agent.update("notice", title="chosen: two", severity="info")
    agent.update("notice", title="confirmed: False")


def test_without_forms_a_question_is_declined_and_a_confirmation_is_a_permission(acp: StartAcp, work: Path) -> None:
    agent = _choosing(acp, work, lambda _message: _selected("allow_once"))
    assert "chosen: None" in agent.text()
    assert "confirmed: True" in agent.text()


OF_NO_CALL = """
def extension(pi):
    @pi.command("may")
    async def may(ctx, args):
        kinds = ["allow_once", "reject_once"]
        ctx.ui.notify(f"chosen: {await ctx.ui.select('May it?', ['Yes', 'No'], option_kinds=kinds)}")
"""


def test_without_forms_a_question_with_kinds_that_is_about_no_call_is_a_permission(acp: StartAcp, work: Path) -> None:
    """As those of sub-agents are that a client has started: to decline it would be an answer for all its clients."""
    (work / "may.py").write_text(OF_NO_CALL)
    answer = {"session/request_permission": _selected("allow_once")}
    agent = acp("-e", str(work / "may.py"), script=(), answer=lambda message: answer.get(message["method"]))
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("/may"))
    asked = _asked(agent)["params"]

    assert "chosen: Yes" in agent.text()
    assert ("May it?", ["Yes", "No"]) == (asked["toolCall"]["title"], [each["name"] for each in asked["options"]])


def test_texts_are_entered_in_forms_and_a_question_that_is_over_is_withdrawn(acp: StartAcp, work: Path) -> None:
    """What does not fit the form is no answer; an option that an extension changes is shown once."""
    path = work.parent / "texts.py"
    path.write_text(
        """
import trio

def extension(pi):
    @pi.command("texts")
    async def texts(ctx, args):
        pi.set_thinking_level("high")
        for answer in (await ctx.ui.input("Name?", "a name"), await ctx.ui.editor("Edit", "draft"),
                       await ctx.ui.input("Number?"), await ctx.ui.input("Late?", timeout=0.01)):
            ctx.ui.notify(f"got {answer}")
        with trio.move_on_after(0.01):
            await ctx.ui.input("Given up?")
"""
    )

    def answer(message: Message) -> dict[str, Any] | None:
        field = message["params"]["requestedSchema"]["properties"]["value"]
        entered = {"Name?": field.get("description"), "Edit": f"{field.get('default')} 2", "Number?": 7}
        said = entered.get(message["params"]["message"])
        return None if said is None else {"action": "accept", "content": {"value": said}}

    agent = acp("-e", str(path), "--model", "m2", answer=answer)
    session = opened(agent, work, elicitation={"form": {}}, session={"notices": {}})
    assert agent.call("session/prompt", sessionId=session, prompt=text("/texts"))["stopReason"] == "end_turn"
    notices = [each["title"] for each in agent.updates() if each["sessionUpdate"] == "notice"]
    assert notices == ["got a name", "got draft 2", "got None", "got None"]
    over = [each["id"] for each in agent.messages if each.get("params", {}).get("message") in ("Late?", "Given up?")]
    withdrawn = [each["params"]["requestId"] for each in agent.messages if each.get("method") == "$/cancel_request"]
    assert (2, over) == (len(over), withdrawn)
    changes = [each for each in agent.updates() if each["sessionUpdate"] == "config_option_update"]
    values = [{each["id"]: each["currentValue"] for each in change["configOptions"]} for change in changes]
    assert [each["thought_level"] for each in values] == ["high"]


@pytest.mark.parametrize(("action", "said"), [("accept", "Opened"), ("decline", "Decline"), ("cancel", None)])
def test_an_address_of_a_server_is_opened_by_the_editor(
    acp: StartAcp, work: Path, action: str, said: str | None
) -> None:
    """Where it can; the dialog is the same as that of a server of MCP. Else it is a form."""
    path = work.parent / "opening.py"
    path.write_text(
        """
def extension(pi):
    @pi.command("open")
    async def open(ctx, args):
        url = "https://example.org/sign-in"
        chosen = await ctx.ui.select(f"Open this:\\n{url}", ["Opened", "Decline", "Cancel"], url=url)
        ctx.ui.notify(f"chosen: {chosen}")
"""
    )
    agent = acp("-e", str(path), answer=lambda _: {"action": action})
    session = opened(agent, work, elicitation={"form": {}, "url": {}}, session={"notices": {}})
    assert agent.call("session/prompt", sessionId=session, prompt=text("/open"))["stopReason"] == "end_turn"

    asked = agent.until(lambda message: message.get("method") == "elicitation/create")["params"]
    assert (asked["mode"], asked["url"]) == ("url", "https://example.org/sign-in")
    assert agent.update("notice", title=f"chosen: {said}")
