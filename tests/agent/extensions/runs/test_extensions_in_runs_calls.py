"""What extensions have a say in when tools are called: gates, results, tools of their own."""

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_spec.rules import errors

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns


def raises(_ctx: object, _event: object) -> None:
    raise ValueError("rm is not allowed")


async def test_a_blocked_call_is_not_executed_and_the_model_reads_why(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("tool_call", lambda _ctx, event: rs.Block("not b") if event.input["text"] == "b" else None)
    results = list[str]()
    rig.on("tool_result", lambda _ctx, event: results.append(event.tool_call_id))
    calls = in_runs.calls('{"text":"a"}', '{"text":"b"}', '{"text":"c"}')
    async with in_runs.agent(calls, in_runs.says("end")) as agent:
        await agent.prompt("go")
        texts = [(each["content"][0]["text"], each["isError"]) for each in agent.results]
        assert [("said a", False), ("not b", True), ("said c", False)] == texts
        assert ["a", "c"] == sorted(str(each["text"]) for each in agent.echo.executed)
        blocked = next(each for each in agent.of("tool_execution_end") if each["toolCallId"] == "call-1")
        assert "durationMs" not in blocked
    assert ["call-0", "call-2"] == sorted(results)


@pytest.mark.parametrize(
    ("handler", "text"), [(raises, "rm is not allowed"), (lambda *_: {"block": True}, errors.TOOL_BLOCKED)]
)
async def test_a_gate_fails_closed(rig: "Rig", in_runs: "InRuns", handler: Any, text: str) -> None:
    rig.on("tool_call", handler)
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert ([], text) == (agent.echo.executed, agent.results[0]["content"][0]["text"])


async def test_approval_hooks_run_in_call_order_after_earlier_events(rig: "Rig", in_runs: "InRuns") -> None:
    order: list[str] = []

    async def slow(_ctx: object, event: Any) -> None:
        await trio.testing.wait_all_tasks_blocked()
        order.append(f"start {event.tool_call_id}")

    def gate(_ctx: object, event: ev.ToolCall) -> None:
        order.append(f"gate {event.tool_call_id} {agent.session.messages[-1]['role']}")

    rig.on("tool_execution_start", slow)
    rig.on("tool_call", gate)
    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
    assert ["start call-0", "gate call-0 assistant", "start call-1", "gate call-1 assistant"] == order


async def test_approval_hooks_are_not_called_for_invalid_calls(rig: "Rig", in_runs: "InRuns") -> None:
    asked: list[str] = []
    ended: list[str] = []
    rig.on("tool_call", lambda _ctx, event: asked.append(event.tool_call_id))
    rig.on("tool_execution_end", lambda _ctx, event: ended.append(event.tool_call_id))
    turns = (in_runs.calls("{}"), in_runs.calls("{}", name="nothing"), in_runs.calls("{", stop="toolUse"))
    async with in_runs.agent(*turns, in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert all(each["isError"] for each in agent.results)
    assert ([], 3) == (asked, len(ended))


async def test_arguments_changed_by_an_approval_hook_are_executed(rig: "Rig", in_runs: "InRuns") -> None:
    seen: list[Any] = []

    def gate(_ctx: object, event: ev.ToolCall) -> None:
        event.input["text"] = "changed"

    rig.on("tool_call", gate)
    rig.on("tool_call", lambda _ctx, event: seen.append(event.input["text"]))
    rig.on("tool_result", lambda _ctx, event: seen.append(event.input["text"]))
    rig.on("tool_execution_end", lambda _ctx, event: seen.append(event.args["text"]))
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert [{"text": "changed"}] == agent.echo.executed
        assert {"text": "a"} == agent.of("tool_execution_start")[0]["args"]
        call: Any = agent.session.messages[1]
        assert {"text": "a"} == call["content"][0]["arguments"]
    assert ["changed"] * 3 == seen


async def test_handlers_change_the_result_of_a_call(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("tool_result", lambda _ctx, _event: {"content": [{"type": "text", "text": "masked"}], "isError": True})
    rig.on("tool_result", lambda _ctx, event: {"details": {"was": event.details, "text": event.content[0]["text"]}})
    rig.on("tool_result", lambda _ctx, _event: {"structuredContent": {"s": 1}})
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        [result] = agent.results
        [end] = agent.of("tool_execution_end")
    assert ("masked", True, {"s": 1}) == (result["content"][0]["text"], result["isError"], result["structuredContent"])
    assert {"was": {"d": 1}, "text": "masked"} == result["details"]
    assert (True, {"s": 1}) == (end["isError"], end["result"]["structuredContent"])


async def test_handlers_of_results_see_calls_that_failed_and_not_those_that_were_aborted(
    rig: "Rig", in_runs: "InRuns"
) -> None:
    seen: list[bool] = []
    rig.on("tool_result", lambda _ctx, event: seen.append(event.is_error))

    async def fails(args: Any, _ctx: object) -> None:
        if args["text"] == "b":
            await trio.sleep_forever()
        raise ValueError("broken")

    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}')) as agent:
        agent.echo.works = fails
        agent.send("prompt", "go")
        await agent.until("tool_execution_end")
        agent.send("abort")
        await agent.until("agent_settled")
        assert ["broken", errors.OPERATION_ABORTED] == [each["content"][0]["text"] for each in agent.results]
    assert [True] == seen


async def test_an_abort_while_handlers_look_at_a_result_leaves_the_result(rig: "Rig", in_runs: "InRuns") -> None:
    async def hangs(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("tool_result", hangs)
    async with in_runs.agent(in_runs.calls('{"text":"a"}')) as agent:
        agent.send("prompt", "go")
        while not agent.echo.executed:
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await agent.until("agent_settled")
        assert "said a" == agent.results[0]["content"][0]["text"]


async def test_an_abort_while_a_gate_asks_ends_all_calls(rig: "Rig", in_runs: "InRuns") -> None:
    async def asks(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("tool_call", asks)
    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}')) as agent:
        agent.send("prompt", "go")
        await agent.until("tool_execution_start")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await agent.until("agent_settled")
        assert ([], [errors.OPERATION_ABORTED] * 2) == (
            agent.echo.executed,
            [each["content"][0]["text"] for each in agent.results],
        )


async def test_a_tool_of_an_extension_is_called_and_its_whole_result_kept(rig: "Rig", in_runs: "InRuns") -> None:

    async def greet(ctx: Any, params: Any) -> rs.ToolResult:
        await ctx.update("half way")
        return rs.ToolResult(f"hello {params['name']}", {"d": 1}, structured={"s": 2}, terminate=True)

    rig.tool("greet", greet)
    async with in_runs.agent(in_runs.calls('{"name":"Ann"}', name="greet"), in_runs.says("end")) as agent:
        await agent.prompt("go")
        [result] = agent.results
        assert ["half way"] == [
            each["partialResult"]["content"][0]["text"] for each in agent.of("tool_execution_update")
        ]
        assert "greet" in [tool.name for tool in agent.requests[0].tools]
    assert ("hello Ann", {"d": 1}, {"s": 2}) == (
        result["content"][0]["text"],
        result["details"],
        result["structuredContent"],
    )


@pytest.mark.parametrize(("ending", "expected"), [(("a",), False), (("a", "b"), True)])
async def test_the_run_may_end_with_its_calls_if_all_of_them_say_so(
    rig: "Rig", in_runs: "InRuns", ending: tuple[str, ...], expected: bool
) -> None:
    rig.on("tool_call", lambda _ctx, event: rs.Block("no", terminate=True) if event.input["text"] in ending else None)
    reported: list[bool] = []
    rig.on("turn_end", lambda _ctx, _event: reported.append(agent.log.terminates))
    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
    assert expected is reported[0]
