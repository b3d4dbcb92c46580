"""A cancelled prompt is answered `cancelled`, whatever was going on, and the next one runs."""

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.harness.agent_process import DEFAULT_TIMEOUT_S
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]


def test_while_the_model_is_silent(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "never", "hold": "gate"}, {"text": "next"}])
    agent = acp(server=server)
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    server.wait_reached("gate")
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"
    assert agent.text() == "next"


def test_in_the_same_write_as_the_prompt_and_the_next_prompt(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one", "repeat": -1}])
    session = opened(agent, work)
    first = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.notify("session/cancel", sessionId=session)
    second = agent.request("session/prompt", sessionId=session, prompt=text("Go on"))
    assert agent.response(first)["result"]["stopReason"] == "cancelled"
    assert agent.response(second)["result"]["stopReason"] == "end_turn"


def test_all_that_wait_and_none_that_come_later(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "never", "hold": "gate"}, {"text": "next"}])
    agent = acp(server=server)
    session = opened(agent, work)
    cancelled = [agent.request("session/prompt", sessionId=session, prompt=text(said)) for said in ("a", "b", "c")]
    server.wait_reached("gate")
    agent.notify("session/cancel", sessionId=session)
    fourth = agent.request("session/prompt", sessionId=session, prompt=text("d"))
    for request in cancelled:
        assert agent.response(request)["result"]["stopReason"] == "cancelled"
    assert agent.response(fourth)["result"]["stopReason"] == "end_turn"
    waiting = agent.response(cancelled[1])["result"]
    assert waiting["_meta"]["pinnace"]["started"] is False


def test_one_of_those_that_wait(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "one", "hold": "gate"}, {"text": "three"}])
    agent = acp(server=server)
    session = opened(agent, work)
    first, second, third = (
        agent.request("session/prompt", sessionId=session, prompt=text(said)) for said in ("a", "b", "c")
    )
    server.wait_reached("gate")
    agent.notify("$/cancel_request", requestId=second)
    assert agent.response(second)["result"]["stopReason"] == "cancelled"
    server.release("gate")
    assert agent.response(first)["result"]["stopReason"] == "end_turn"
    assert agent.response(third)["result"]["stopReason"] == "end_turn"
    assert agent.text() == "onethree"


def test_while_a_tool_runs(acp: StartAcp, work: Path, gates: Callable[[], ShellGate]) -> None:
    gate = gates()
    agent = acp(script=[{"tool_calls": [{"name": "bash", "args": {"command": gate.reading}}]}])
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    gate.wait_reached()
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    assert agent.updates()[-2]["sessionUpdate"] != "tool_call"
    agent.update("tool_call_update", status="failed")


def test_nothing_is_kept_for_the_next_prompt(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}])
    session = opened(agent, work)
    agent.notify("session/cancel", sessionId=session)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"


def test_the_end_of_stdin_answers_what_is_open_and_leaves_no_process(
    acp: StartAcp, work: Path, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    agent = acp(script=[{"tool_calls": [{"name": "bash", "args": {"command": gate.reading}}]}])
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    gate.wait_reached()
    assert agent.end() == 0
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    assert agent.process.left_behind(LEFT_BEHIND_TIMEOUT_S) == []


def test_the_death_of_one_agent_costs_its_session_alone(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "never", "hold": "gate"}, {"text": "other", "match": "other"}])
    agent = acp(server=server)
    first = opened(agent, work)
    victims = set(agent.process.descendants())
    second = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    prompt = agent.request("session/prompt", sessionId=first, prompt=text("Go"))
    server.wait_reached("gate")
    pid = next(pid for pid in victims if _is_agent(pid))
    os.kill(pid, signal.SIGKILL)
    response = agent.response(prompt)
    assert "error" in response, (response, agent.stderr)
    error = response["error"]
    assert error["code"] == -32603
    assert agent.error("session/prompt", sessionId=first, prompt=text("Go"))["code"] == -32002
    assert agent.call("session/prompt", sessionId=second, prompt=text("other"))["stopReason"] == "end_turn"
    agent.call("session/load", sessionId=first, cwd=str(work), mcpServers=[])


def test_a_request_to_steer_that_the_agent_does_not_live_to_answer_is_refused(
    acp: StartAcp, work: Path, llm: MakeLlm
) -> None:
    server = llm([{"text": "never", "hold": "gate"}])
    agent = acp(server=server)
    session = opened(agent, work)
    [pid] = [each for each in agent.process.descendants() if _is_agent(each)]
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    server.wait_reached("gate")
    os.kill(pid, signal.SIGSTOP)
    steered = agent.request("_session/steering", sessionId=session, prompt=text("Left"))
    # Read after it, so it was passed on to an agent that reads no more.
    assert agent.error("session/prompt", sessionId="none", prompt=text("Go"))["code"] == -32002
    os.kill(pid, signal.SIGKILL)
    for request in (prompt, steered):
        assert agent.response(request)["error"]["data"] == {"errorCode": "agent_ended"}


def test_a_prompt_that_waits_in_the_agent_behind_a_steered_message(acp: StartAcp, work: Path) -> None:
    """It is returned from the queue, and no run of it ends."""
    agent = acp(script=[{"text": "next", "repeat": -1}])
    session = opened(agent, work)
    first, second = {"jsonrpc": "2.0", "id": 10}, {"jsonrpc": "2.0", "id": 11}
    agent.send(
        {**first, "method": "_session/steering", "params": {"sessionId": session, "prompt": text("Left")}},
        {**second, "method": "session/prompt", "params": {"sessionId": session, "prompt": text("Go")}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
    )
    assert agent.response(11)["result"]["stopReason"] == "cancelled"
    agent.response(10)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go on"))["stopReason"] == "end_turn"


def _is_agent(pid: int) -> bool:
    return b"rpc" in words_of(pid)


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
"""


def test_in_each_state_in_which_a_prompt_may_be(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """An extension checks it, a form, arguments that come, a delay before another try, a compaction, a steered text."""
    arguments = {"tool": {"index": 0, "id": "c", "name": "bash"}}
    server = llm(
        [
            {"chunks": [arguments, {"args": '{"comm', "index": 0}, {"hang": True}]},
            {"error": {"status": 500}, "match": "fails"},
            {"text": "fine", "match": "fine"},
            {"text": "summary", "hold": "summary", "match": "ummar"},
            {"text": "never", "hold": "steered"},
            {"text": "last"},
        ]
    )
    path = work.parent / "extension.py"
    path.write_text(EXTENSION)
    settings = {"retry": {"baseDelayMs": 600_000}, "compaction": {"keepRecentTokens": 1}}
    agent = acp("-e", str(path), server=server, settings=settings)
    session = opened(agent, work, elicitation={"form": {}}, session={"notices": {}, "compaction": {}})

    def cancelled(said: str, reached: Callable[[], object]) -> Any:
        prompt = agent.request("session/prompt", sessionId=session, prompt=text(said))
        reached()
        agent.notify("session/cancel", sessionId=session)
        result = agent.response(prompt)["result"]
        assert result["stopReason"] == "cancelled", said
        return result.get("_meta", {}).get("pinnace", {})

    assert "entryId" not in cancelled("preflight", lambda: agent.update("notice", title="checking"))
    cancelled("/ask", lambda: agent.until(lambda message: message.get("method") == "elicitation/create"))
    form = agent.until(lambda message: message.get("method") == "elicitation/create")
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"]["requestId"] == form["id"]
    agent.respond(form, {"action": "accept", "content": {"value": "late"}})
    cancelled("call", lambda: agent.update("tool_call", name="bash"))
    agent.update("tool_call_update", status="failed")
    cancelled("fails", lambda: agent.update("notice", severity="warning"))
    assert agent.call("session/prompt", sessionId=session, prompt=text("fine"))["stopReason"] == "end_turn"
    cancelled("/compact", lambda: server.wait_reached("summary"))
    assert agent.update("compaction_update", status="cancelled")

    def steer() -> None:
        server.wait_reached("steered")
        agent.call("_session/steering", sessionId=session, prompt=text("left"))

    assert cancelled("steered", steer)["returned"] == ["left"]
    assert agent.update("notice", title="Not delivered:")["description"] == "left"
    assert agent.call("session/prompt", sessionId=session, prompt=text("last"))["stopReason"] == "end_turn"
    assert "left" not in str(server.requests[-1].body)
    assert "preflight" not in str(server.requests[-1].body)


def test_a_closed_session_cancels_its_prompt_and_no_other(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    server = llm([{"text": "one", "hold": "a", "match": "FROM-ONE"}, {"text": "two", "hold": "b", "match": "FROM-TWO"}])
    agent = acp(server=server)
    first = opened(agent, work)
    second = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    prompts = [
        agent.request("session/prompt", sessionId=each, prompt=text(said))
        for each, said in ((first, "FROM-ONE"), (second, "FROM-TWO"))
    ]
    server.wait_reached("a")
    server.wait_reached("b")
    agent.call("session/close", sessionId=first)
    assert agent.response(prompts[0])["result"]["stopReason"] == "cancelled"
    assert agent.error("session/prompt", sessionId=first, prompt=text("more"))["code"] == -32002
    agent.notify("session/cancel", sessionId=first)
    server.release("b")
    assert agent.response(prompts[1])["result"]["stopReason"] == "end_turn"


def test_a_client_that_has_stopped_reading_can_cancel(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """What an agent writes and its client does not read waits in its pipes, not in memory."""
    server = llm([{"gen": {"n": 400_000, "size": 40}}, {"text": "next"}])
    agent = acp(server=server)
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.update("agent_message_chunk")
    agent.process.pause_reading()
    agent.notify("session/cancel", sessionId=session)
    agent.process.wait_drained(DEFAULT_TIMEOUT_S)
    assert agent.process.memory_kib() < 120_000
    agent.process.resume_reading()
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    assert len(agent.text()) < 16_000_000
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"
