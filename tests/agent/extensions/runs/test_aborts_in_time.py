"""An abort ends whatever it is, within its bound: also a tool, a handler or a provider that ignores cancellation."""

import logging
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from pinnace_agent.core.jobs import ABORT_GRACE_S
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.tools.base import text_result
from pinnace_spec.rules import errors

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import Agent, InRuns

ABANDONED = errors.tool_abandoned(f"{ABORT_GRACE_S:g}")


class Shield:
    """Work that ignores cancellation until it is released."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.released = trio.Event()
        self.over = trio.Event()

    async def __call__(self, *_: object) -> None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1000):
            self.begun.set()
            await self.released.wait()
        self.over.set()

    async def release(self) -> None:
        self.released.set()
        await self.over.wait()
        await trio.testing.wait_all_tasks_blocked()


async def abort(agent: "Agent", last: str = "agent_settled") -> float:
    """Abort, wait for the last record of what it ends, and return how long that took."""
    began = trio.current_time()
    agent.send("abort")
    await agent.until(last)
    taken_s = trio.current_time() - began
    await trio.testing.wait_all_tasks_blocked()
    assert "accept" == agent.answers[-1][0]
    return taken_s


def ends(agent: "Agent") -> list[tuple[str, str, bool]]:
    found = agent.of("tool_execution_end")
    return [(each["toolCallId"], each["result"]["content"][0]["text"], each["isError"]) for each in found]


async def test_an_abort_ends_a_run_whose_tool_ignores_it_and_discards_the_late_result(
    rig: "Rig",
    in_runs: "InRuns",
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-ABT-02."""
    rig.on("tool_execution_end", lambda *_: None)
    shield, late = Shield(), list[object]()

    async def works(arguments: Any, ctx: Any) -> None:
        if arguments["text"] == "b":
            await shield()
            ctx.on_update(text_result("late progress"))
            late.append("updated")

    calls = in_runs.calls('{"text":"a"}', '{"text":"b"}')
    async with in_runs.agent(calls, in_runs.says("fine")) as agent:
        agent.echo.works = works
        agent.send("prompt", "go")
        await shield.begun.wait()
        with caplog.at_level(logging.WARNING):
            assert ABORT_GRACE_S <= await abort(agent) < ABORT_GRACE_S + 0.1

        assert [("call-0", "said a", False), ("call-1", ABANDONED, True)] == ends(agent)
        assert ["turn_end", "agent_end", "agent_settled"] == [each["type"] for each in agent.records[-3:]]
        assert "still working 3 s after the abort, and no longer waited for: tool echo" in caplog.text

        # The next prompt does not wait for it, and what it makes in the end is nowhere.
        await agent.prompt("and now?")
        written, messages = len(agent.records), list(agent.session.messages)
        await shield.release()

        assert ["updated"] == late
        assert written == len(agent.records)
        assert messages == agent.session.messages
        assert ABANDONED in [each["content"][0]["text"] for each in agent.results]


async def test_an_abort_of_a_tool_that_ends_in_time_waits_for_its_result(
    rig: "Rig", in_runs: "InRuns", autojump_clock: trio.testing.MockClock
) -> None:
    begun = trio.Event()

    async def works(_arguments: Any, _ctx: Any) -> None:
        begun.set()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1000):
            await trio.sleep(ABORT_GRACE_S - 1)

    async with in_runs.agent(in_runs.calls('{"text":"a"}')) as agent:
        agent.echo.works = works
        agent.send("prompt", "go")
        await begun.wait()

        assert ABORT_GRACE_S - 1 <= await abort(agent) < ABORT_GRACE_S
        assert [("call-0", "said a", False)] == ends(agent)


async def test_a_call_behind_an_abandoned_one_does_not_start(
    rig: "Rig", in_runs: "InRuns", autojump_clock: trio.testing.MockClock
) -> None:
    shield = Shield()

    async def works(arguments: Any, _ctx: Any) -> None:
        if arguments["text"] == "a":
            await shield()

    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}')) as agent:
        agent.echo.works, agent.echo.is_sequential = works, True
        agent.send("prompt", "go")
        await shield.begun.wait()
        await abort(agent)
        await shield.release()

        assert [{"text": "a"}] == agent.echo.executed
        assert [("call-0", ABANDONED, True), ("call-1", ABANDONED, True)] == ends(agent)


async def test_an_abort_ends_an_answer_whose_provider_ignores_it(
    rig: "Rig", in_runs: "InRuns", autojump_clock: trio.testing.MockClock
) -> None:
    shield = Shield()

    async def turn(_request: LlmRequest, builder: MessageBuilder) -> None:
        builder.start()
        builder.text_delta("text", "so far ")
        await shield()
        builder.text_delta("text", "late")
        builder.finish("stop")

    async with in_runs.agent(turn, in_runs.says("fine")) as agent:
        agent.send("prompt", "go")
        await shield.begun.wait()
        assert await abort(agent) < ABORT_GRACE_S + 0.1

        message: Any = agent.session.messages[-1]
        assert ("aborted", "so far ") == (message["stopReason"], message["content"][0]["text"])
        await agent.prompt("and now?")
        written = len(agent.records)
        await shield.release()

        assert written == len(agent.records)
        assert ["aborted", "stop"] == [
            each["stopReason"] for each in agent.session.messages if each["role"] == "assistant"
        ]


async def test_an_abort_ends_a_compaction_whose_handler_ignores_it(
    rig: "Rig", in_runs: "InRuns", autojump_clock: trio.testing.MockClock
) -> None:
    shield = Shield()
    rig.on("session_before_compact", shield)
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        await agent.prompt("go")
        await agent.prompt("on")
        agent.send("compact")
        await shield.begun.wait()
        assert await abort(agent, "compaction_end") < ABORT_GRACE_S + 0.1

        [end] = agent.of("compaction_end")
        assert (True, None) == (end["aborted"], end["result"])
        written = len(agent.records)
        await shield.release()
        assert written == len(agent.records)
