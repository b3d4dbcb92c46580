"""An answer with any number of calls: so many fail it, and so many are executed at once (R-LIM-04)."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import trio
import trio.testing

from pinnace_agent.engine import tool_calls
from pinnace_agent.engine.run_recorder import RunRecorder
from pinnace_agent.engine.tool_calls import run_calls
from pinnace_agent.tools.base import Tool, ToolContext, ToolResult, text_result
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.rules.limits import MAX_CONTENT_BLOCKS, MAX_TOOLS_AT_ONCE


def calls(number: int) -> dict[str, Any]:
    """Script an answer with so many calls."""
    return {"tool_calls": [{"name": "read", "id": f"t{n}", "args": {"path": "."}} for n in range(number)]}


def test_an_answer_with_too_many_calls_fails_and_none_is_executed(agent: AgentStarter) -> None:
    pi = agent([calls(4 * MAX_CONTENT_BLOCKS), {"text": "never", "repeat": -1}])
    pi.request({"id": "p", "type": "prompt", "message": "go"})
    end = pi.wait({"type": "message_end", "message": {"role": "assistant"}})["message"]
    pi.wait({"type": "agent_settled"})

    assert ("error", "provider_error") == (end["stopReason"], end["errorCode"])
    assert "more than 500 texts, thoughts and tool calls" in end["errorMessage"]
    assert [] == pi.found({"type": "tool_execution_start"})
    assert 1 == len(pi.found({"type": "agent_start"}))
    # Bounded whatever the model sends: a tenth of what 2,000 calls make without a limit.
    assert sum(each.size_bytes for each in pi.records) < 200 * 1024 * 1024


def test_an_answer_with_as_many_calls_as_may_be_is_carried_out(agent: AgentStarter) -> None:
    pi = agent([calls(MAX_TOOLS_AT_ONCE + 10), {"text": "done"}])
    pi.request({"id": "p", "type": "prompt", "message": "go"})
    pi.wait({"type": "agent_settled"})

    results = [each["toolCallId"] for each in pi.found({"type": "tool_execution_end"})]
    assert {f"t{n}" for n in range(MAX_TOOLS_AT_ONCE + 10)} == set(results)


class CountingTool:
    """Counts how many of its calls run at once, and in which order they begin."""

    name = "count"
    is_sequential = False
    checks_itself = False
    parameters: Mapping[str, object] = {"type": "object", "properties": {}}

    def __init__(self, gate: trio.Event) -> None:
        self.begun: list[str] = []
        self.running = self.most = 0
        self._gate = gate

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        return raw

    async def execute(self, _args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        self.begun.append(ctx.call_id)
        self.running += 1
        self.most = max(self.most, self.running)
        await self._gate.wait()
        self.running -= 1
        return text_result("done")


class Calls:
    """The part of a run's log that the execution of calls uses."""

    defect = None

    def __init__(self, number: int) -> None:
        self.calls = [{"type": "toolCall", "id": f"t{n}", "name": "count", "arguments": {}} for n in range(number)]
        self.ended: list[int] = []

    def start_call(self, _index: int, *, is_gated: bool) -> None: ...

    def update_call(self, _index: int, _partial: ToolResult) -> None: ...

    def let_abort(self, _index: int, _abort: Callable[[], None]) -> None: ...

    def end_call(self, index: int, _result: ToolResult, _duration_ms: int | None = None) -> None:
        self.ended.append(index)


async def run(log: Calls, tool: CountingTool) -> None:
    def context(call_id: str, progress: Any) -> ToolContext:
        return ToolContext("/", call_id, progress, {})

    await run_calls(cast(RunRecorder, log), {"count": cast(Tool, tool)}, context, lambda: None)


async def test_calls_beyond_those_at_once_wait_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "MAX_TOOLS_AT_ONCE", 3)
    gate = trio.Event()
    log, tool = Calls(8), CountingTool(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, log, tool)
        await trio.testing.wait_all_tasks_blocked()
        assert {"t0", "t1", "t2"} == set(tool.begun)
        gate.set()

    assert 3 == tool.most
    # Those that begin at the same moment have no order here; their contexts have.
    assert [{"t0", "t1", "t2"}, {"t3", "t4", "t5"}, {"t6", "t7"}] == [set(tool.begun[n : n + 3]) for n in (0, 3, 6)]
    assert list(range(8)) == sorted(log.ended)


async def test_an_abort_ends_calls_that_run_and_begins_none_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "MAX_TOOLS_AT_ONCE", 3)
    log, tool = Calls(8), CountingTool(trio.Event())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, log, tool)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [0, 1, 2] == sorted(log.ended)
    assert 3 == len(tool.begun)
