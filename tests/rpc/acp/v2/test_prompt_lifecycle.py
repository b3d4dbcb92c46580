"""Prompts of version 2: accepted with an identity, worked on in states, ended with a reason, and cancelled."""

import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import begun, idle, opened, states, text, transcript, turn

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.script import Scripted

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]


def test_a_prompt_is_accepted_with_the_id_of_its_message(acp2: StartAcp, work: Path, llm: MakeLlm) -> None:
    """Before the model answers: the message is shown, the response names it, and the end of work is a state."""
    server = llm([{"text": "one", "hold": "gate"}])
    agent = acp2(server=server)
    session = opened(agent, work)
    accepted = agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    server.wait_reached("gate")
    shown = agent.update("user_message")
    server.release("gate")
    end = idle(agent)

    assert (shown["messageId"], shown["content"]) == (accepted["messageId"], text("Go"))
    assert (end["stopReason"], agent.text()) == ("end_turn", "one")
    assert states(agent.updates(session)) == ["running", "idle:end_turn"]


def test_a_session_is_shown_again_as_it_was(acp2: StartAcp, work: Path) -> None:
    """From its start if the client asks for it, and with its state in any case; the response has options and commands.

    Nothing follows the response.
    """
    calls = [{"name": "bash", "args": {"command": "echo one; exit 3"}}, {"name": "ls", "args": {}}]
    agent = acp2(script=[{"reasoning": "hm", "text": "I look.", "tool_calls": calls}, {"text": "done"}])
    session = opened(agent, work)
    turn(agent, session, "Go")
    live = agent.updates(session)
    agent.call("session/close", sessionId=session)

    since = len(agent.messages)
    resumed = agent.call("session/resume", sessionId=session, cwd=str(work))
    assert [each["sessionUpdate"] for each in agent.updates(session, since)] == ["usage_update", "state_update"]
    assert {"mode", "model"} <= {each["configId"] for each in resumed["configOptions"]}
    assert "compact" in {each["name"] for each in resumed["availableCommands"]}

    since = len(agent.messages)
    start = {"type": "start"}
    response = agent.request("session/resume", sessionId=session, cwd=str(work), replayFrom=start)
    last = agent.messages.index(agent.response(response))
    agent.call("session/list")
    again = agent.updates(session, since)
    assert transcript(again) == transcript(live)
    assert again[-1] == {"sessionUpdate": "state_update", "state": "idle"}
    assert agent.updates(session, last) == []

    error = agent.error("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "end"})
    assert (error["code"], error["data"]["path"]) == (-32602, "params.replayFrom.type")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"text": "cut", "finish": "length"}, "max_tokens"),
        ({"text": "", "finish": "content_filter"}, "refusal"),
        ({"error": {"status": 400, "message": "no such thing"}}, "error"),
    ],
)
def test_each_end_of_work_has_its_reason_and_the_prompt_stays_accepted(
    acp2: StartAcp, work: Path, answer: Scripted, reason: str
) -> None:
    agent = acp2(script=[answer, {"text": "better"}])
    session = opened(agent, work)
    end = turn(agent, session, "Go")
    if reason == "error":
        assert end["error"]["code"] == -32603
        assert "no such thing" in end["error"]["message"]

    assert (end["stopReason"], bool(end["messageId"])) == (reason, True)
    again = turn(agent, session, "Again")
    used = {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 0, "cachedWriteTokens": 0}
    assert (again["stopReason"], again["usage"]) == ("end_turn", used)  # not that of the turn before


def test_a_limit_is_its_own_reason(acp2: StartAcp, work: Path) -> None:
    call = {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}
    agent = acp2("--max-turns", "1", script=[call, call])
    end = turn(agent, opened(agent, work), "Go")

    assert (end["stopReason"], "limit" in end["_meta"]["pinnace"]) == ("max_turn_requests", True)


def test_a_prompt_without_a_key_is_refused_and_no_message_is_shown(acp2: StartAcp, work: Path, tmp_path: Path) -> None:
    """It may be sent again after the login."""
    first = acp2(script=[{"text": "one"}, {"text": "two"}])
    session = opened(first, work)
    turn(first, session, "a")
    assert first.end() == 0
    models = tmp_path / "home" / "agent" / "models.json"
    described = json.loads(models.read_text())
    described["providers"]["fake"]["apiKey"] = "$MISSING_KEY"
    agent = acp2(models=described)
    begun(agent)
    assert agent.error("session/new", cwd=str(work))["code"] == -32000
    agent.call("session/resume", sessionId=session, cwd=str(work))
    since = len(agent.messages)
    error = agent.error("session/prompt", sessionId=session, prompt=text("b"))
    end = idle(agent, since)

    assert (error["code"], error["data"]["errorCode"]) == (-32000, "no_api_key")
    assert (end["stopReason"], end["error"]["code"]) == ("error", -32000)
    assert transcript(agent.updates(session, since)) == []
    (models.parent / "auth.json").write_text(json.dumps({"fake": {"type": "api_key", "key": "sk-key-of-the-test"}}))
    agent.call("auth/login", methodId="api-key")
    assert turn(agent, session, "b")["stopReason"] == "end_turn"


def test_a_second_prompt_is_accepted_when_the_work_of_the_first_has_ended(
    acp2: StartAcp, work: Path, llm: MakeLlm
) -> None:
    """Each has its message, its response and its end; one that waits can be cancelled."""
    server = llm([{"text": "one", "hold": "gate"}, {"text": "two"}])
    agent = acp2(server=server)
    session = opened(agent, work)
    first, second, third = (
        agent.request("session/prompt", sessionId=session, prompt=text(said)) for said in ("a", "b", "c")
    )
    server.wait_reached("gate")
    agent.notify("$/cancel_request", requestId=third)
    agent.notify("$/cancel_request", requestId=first)  # which has its response
    assert agent.response(third)["error"]["code"] == -32800
    server.release("gate")
    agent.response(second)
    after = len(agent.messages)
    agent.until(lambda message: message.get("id") == second)
    agent.update("state_update", agent.messages.index(agent.response(second)), state="idle")

    assert after
    assert states(agent.updates(session)) == ["running", "idle:end_turn"] * 2
    assert [each["text"] for each in transcript(agent.updates(session))] == ["a", "one", "b", "two"]


def _cancelled(agent: AcpAgent, session: str, said: str, reached: Callable[[], object]) -> Message:
    """Cancel a prompt when something is reached, and return the end of its work."""
    since = len(agent.messages)
    agent.request("session/prompt", sessionId=session, prompt=text(said))
    reached()
    agent.notify("session/cancel", sessionId=session)
    return idle(agent, since)


EXTENSION = """
import trio

def extension(pi):
    @pi.on("input")
    async def check(ctx, event):
        if event.text == "preflight":
            ctx.ui.notify("checking")
            await trio.sleep_forever()

    @pi.command("ask")
    async def ask(ctx, args):
        ctx.ui.notify(f"said: {await ctx.ui.input('What?')}")

    @pi.command("say")
    async def say(ctx, args):
        pi.send_user_message(args)

    @pi.command("quiet")
    async def quiet(ctx, args):
        ctx.ui.notify("quiet")
"""


def test_a_cancellation_ends_work_in_each_state(acp2: StartAcp, work: Path, llm: MakeLlm) -> None:
    """While an extension checks the prompt, a form is open, the model is silent, a tool runs, a compaction is made.

    A prompt without a message is refused; the others stay accepted. The next prompt runs.
    """
    server = llm(
        [
            {"text": "never", "hold": "silent", "match": "silent"},
            {"tool_calls": [{"name": "bash", "args": {"command": "sleep 600"}}], "match": "sleeps"},
            {"text": "fine", "match": "fine"},
            {"text": "summary", "hold": "summary", "match": "ummar"},
            {"text": "last"},
        ]
    )
    path = work.parent / "extension.py"
    path.write_text(EXTENSION)
    agent = acp2("-e", str(path), server=server, settings={"compaction": {"keepRecentTokens": 1}})
    session = opened(agent, work, elicitation={"form": {}})
    ends = [
        _cancelled(agent, session, "preflight", lambda: agent.update("notice", title="checking")),
        _cancelled(agent, session, "/ask", lambda: agent.update("state_update", state="requires_action")),
        _cancelled(agent, session, "silent", lambda: server.wait_reached("silent")),
        _cancelled(agent, session, "sleeps", lambda: agent.update("terminal_update")),
    ]
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")["params"]["requestId"]
    assert agent.until(lambda message: message.get("method") == "elicitation/create")["id"] == withdrawn
    assert turn(agent, session, "fine")["stopReason"] == "end_turn"
    ends.append(_cancelled(agent, session, "/compact", lambda: server.wait_reached("summary")))

    assert ["cancelled"] * 5 == [each["stopReason"] for each in ends]
    [refused] = [message for message in agent.messages if "error" in message]
    assert refused["error"]["code"] == -32800
    assert agent.update("compaction_update", status="cancelled")
    assert agent.update("tool_call_update", status="cancelled")
    assert agent.update("terminal_update", exitStatus={})
    assert turn(agent, session, "last")["stopReason"] == "end_turn"


def test_a_command_is_a_message_of_its_own_and_work_that_it_begins_belongs_to_it(acp2: StartAcp, work: Path) -> None:
    path = work.parent / "extension.py"
    path.write_text(EXTENSION)
    agent = acp2("-e", str(path), script=[{"text": "answer"}])
    session = opened(agent, work)
    quiet, say = turn(agent, session, "/quiet"), turn(agent, session, "/say hello")
    nothing = turn(agent, session, "/compact")

    messages = [each for each in transcript(agent.updates(session)) if each["of"].endswith("message")]
    assert [each["text"] for each in messages] == ["/quiet", "/say hello", "hello", "answer", "/compact"]
    assert [messages[0]["id"], messages[1]["id"]] == [quiet["messageId"], say["messageId"]]
    assert [quiet["stopReason"], say["stopReason"], nothing["stopReason"]] == ["end_turn"] * 3
    assert states(agent.updates(session)) == ["running", "idle:end_turn"] * 3
    assert agent.update("notice", title="quiet", severity="info")


def test_a_steered_message_is_shown_and_work_without_a_prompt_has_states(
    acp2: StartAcp, work: Path, llm: MakeLlm
) -> None:
    server = llm([{"text": "one", "hold": "gate"}, {"text": "two"}])
    agent = acp2(server=server)
    session = opened(agent, work)
    assert agent.call("_session/steering", sessionId=session, prompt=text("a")) == {"outcome": "startedNewTurn"}
    server.wait_reached("gate")
    assert agent.call("_session/steering", sessionId=session, prompt=text("b")) == {"outcome": "injected"}
    server.release("gate")
    idle(agent)

    assert [each["text"] for each in transcript(agent.updates(session))] == ["a", "one", "b", "two"]
    assert states(agent.updates(session)) == ["running", "idle:end_turn"]


def test_a_session_that_is_closed_ends_its_work_before_the_response(acp2: StartAcp, work: Path, llm: MakeLlm) -> None:
    """Held prompts are refused, and nothing of the session follows; to close one that is not open is a success."""
    server = llm([{"text": "one", "hold": "gate"}])
    agent = acp2(server=server)
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    held = agent.request("session/prompt", sessionId=session, prompt=text("b"))
    server.wait_reached("gate")
    agent.call("session/close", sessionId=session)
    unknown = agent.error("session/prompt", sessionId=session, prompt=text("c"))

    assert agent.response(held)["error"]["code"] == -32800
    assert states(agent.updates(session)) == ["running", "idle:cancelled"]
    assert (unknown["code"], unknown["data"]["sessionId"]) == (-32002, session)
    assert agent.call("session/close", sessionId=session) == {"_meta": {}}


def test_the_death_of_an_agent_ends_its_work_with_an_error(acp2: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "one", "hold": "gate"}])
    agent = acp2(server=server)
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    held = agent.request("session/prompt", sessionId=session, prompt=text("b"))
    server.wait_reached("gate")
    children = agent.process.descendants()
    [core] = [pid for pid in children if b"rpc" in words_of(pid)]
    os.kill(core, signal.SIGKILL)

    end = idle(agent)
    assert (end["stopReason"], end["error"]["code"]) == ("error", -32603)
    assert agent.response(held)["error"]["code"] == -32603


def test_an_accepted_prompt_survives_a_kill_with_its_id(acp2: StartAcp, work: Path, llm: MakeLlm) -> None:
    """Of the adapter and of the agent; exactly once, and with the id that the response had."""
    server = llm([{"text": "one", "hold": "gate"}, {"text": "two"}])
    first = acp2(server=server)
    session = opened(first, work)
    accepted = first.call("session/prompt", sessionId=session, prompt=text("keep this"))["messageId"]
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.kill()

    second = acp2(server=server)
    begun(second)
    second.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})
    shown = [each for each in transcript(second.updates(session)) if each["of"] == "user_message"]
    assert [(each["id"], each["text"]) for each in shown] == [(accepted, "keep this")]
    server.release("gate")
    assert turn(second, session, "go on")["stopReason"] == "end_turn"


def test_a_session_at_work_is_resumed_with_its_state(acp2: StartAcp, work: Path) -> None:
    """What has been said so far is shown, and what comes follows it."""
    call = {"name": "bash", "args": {"command": "echo out; while [ ! -e next ]; do sleep 0.01; done"}}
    agent = acp2(script=[{"text": "I look.", "tool_calls": [call]}, {"text": "done"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    agent.update("terminal_output_chunk")
    since = len(agent.messages)
    start = {"type": "start"}
    agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom=start)
    resumed = agent.updates(session, since)
    (work / "next").touch()
    idle(agent, since)

    assert states(resumed) == ["running"]
    assert [each.get("status") for each in transcript(resumed) if each["of"] == "call"] == ["in_progress"]
    shown = transcript(agent.updates(session, since))
    assert [each["text"] for each in shown if "text" in each] == ["Go", "I look.", "done"]
    assert [(each["output"], each["exitStatus"]) for each in shown if each["of"] == "terminal"] == [
        ("out\n", {"exitCode": 0})
    ]
    again = len(agent.messages)
    agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom=start)
    assert transcript(agent.updates(session, again)) == shown


def test_a_session_that_an_extension_moves_is_reported_and_shown_as_it_is_when_it_is_resumed(
    acp2: StartAcp, work: Path
) -> None:
    """R-SES-16: no update takes back what an editor shows."""
    extension = work.parent / "moves.py"
    extension.write_text(
        "def extension(pi):\n"
        '    @pi.command("back")\n'
        "    async def back(ctx, args):\n"
        "        await ctx.navigate_tree(None)\n"
    )
    agent = acp2("-e", str(extension), script=[{"text": "one"}])
    session = opened(agent, work)
    turn(agent, session, "Go")
    turn(agent, session, "/back")
    assert "An extension has moved the session" in agent.update("notice", severity="warning")["title"]
    since = len(agent.messages)
    agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})
    assert not [each for each in agent.updates(session, since) if "messageId" in each]
