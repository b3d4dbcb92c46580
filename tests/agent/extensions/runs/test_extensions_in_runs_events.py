"""What extensions hear of a run, in which order, and what an abort leaves."""

from itertools import groupby
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.tools.base import text_result

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns

ALL = (
    "agent_start", "turn_start", "message_start", "message_update", "message_end", "tool_execution_start", "tool_call",
    "tool_execution_update", "tool_result", "tool_execution_end", "turn_end", "agent_end", "context",
)  # fmt: skip


def listen(rig: "Rig", *names: str) -> list[Any]:
    seen: list[Any] = []
    extension = rig.extension("listener")
    for name in names or ALL:
        rig.on(name, lambda _ctx, event: seen.append(event), extension=extension)
    return seen


def short(event: Any) -> str:
    if event.type in ("message_start", "message_end"):
        return f"{event.type} {event.message['role']}"
    return str(event.type)


async def test_a_run_fires_events_from_its_start_to_its_end(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig)
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("well done")) as agent:
        await agent.prompt("go")

    assert [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "context",
        "message_start assistant",
        "message_update",
        "message_end assistant",
        "tool_execution_start",
        "tool_call",
        "tool_result",
        "tool_execution_update",
        "tool_execution_end",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end",
        "turn_start",
        "context",
        "message_start assistant",
        "message_update",
        "message_end assistant",
        "turn_end",
        "agent_end",
    ] == [name for name, _ in groupby(map(short, seen))]  # how many updates there are is a matter of time
    assert [0, 1] == [event.turn_index for event in seen if event.type == "turn_start"]
    assert ["user", "assistant", "toolResult", "assistant"] == [each["role"] for each in seen[-1].messages]
    assert [] == rig.host.reported


async def test_turn_end_names_the_entries_of_the_turn(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "turn_end")
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        entries = {entry["id"]: entry for entry in agent.session.tree.entries}

    first = seen[0]
    assert first.message == entries[first.message_entry_id]["message"]
    assert list(first.tool_results) == [entries[each]["message"] for each in first.tool_result_entry_ids]
    assert (1, 0) == (len(first.tool_results), len(seen[1].tool_results))


async def test_records_are_the_same_whether_extensions_listen_or_not(rig: "Rig", in_runs: "InRuns") -> None:
    listen(rig)
    reported: list[list[str]] = []
    for extended in (False, True):
        turns = (in_runs.calls('{"text":"a"}', '{"text":"b"}'), in_runs.says("end of it"))
        async with in_runs.agent(*turns, extended=extended) as agent:
            await agent.prompt("go")
            # Where extensions may refuse a call, a first progress record says that it begins.
            begun = [record for record in agent.records if record.get("partialResult") != {"content": []}]
            reported.append([record["type"] for record in begun])
    assert reported[0] == reported[1]


async def test_deltas_of_one_pause_are_delivered_as_one(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "message_update")

    async def turn(_request: object, builder: Any) -> None:
        builder.start()
        for word in ("a", "b", "c"):
            builder.text_delta("text", word)
        await builder.room()
        builder.text_delta("text", "d")
        builder.finish("stop")

    async with in_runs.agent(turn) as agent:
        await agent.prompt("go")
    events = [event.assistant_message_event for event in seen]
    assert ["text_start", "text_delta", "text_delta", "text_end"] == [event["type"] for event in events]
    assert ["abc", "d"] == [event["delta"] for event in events if "delta" in event]
    assert "abc" == seen[1].message["content"][0]["text"]
    assert events[1]["partial"] is seen[1].message


async def test_the_stream_waits_for_a_handler(rig: "Rig", in_runs: "InRuns") -> None:
    order: list[str] = []

    async def slow(_ctx: object, event: ev.MessageUpdate) -> None:
        await trio.testing.wait_all_tasks_blocked()
        order.append(str(event.assistant_message_event["type"]))

    rig.on("message_update", slow)

    async def turn(_request: object, builder: Any) -> None:
        builder.start()
        builder.text_delta("text", "a")
        await builder.room()
        order.append("next piece")
        builder.finish("stop")

    async with in_runs.agent(turn) as agent:
        await agent.prompt("go")
    assert ["text_start", "text_delta", "next piece", "text_end"] == order


async def test_progress_events_fire_during_a_call_with_the_newest_update(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "tool_execution_update")
    received = trio.Event()
    rig.on("tool_execution_update", lambda _ctx, _event: received.set())

    async def works(_args: object, ctx: Any) -> None:
        for text in ("1", "2"):
            ctx.on_update(text_result(text))
        await received.wait()

    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        agent.echo.works = works
        await agent.prompt("go")
        assert 2 == len(agent.of("tool_execution_update"))
    assert [{"content": [{"type": "text", "text": "2"}]}] == [event.partial_result for event in seen]


async def test_a_surviving_task_delivers_events_left_by_an_abort(rig: "Rig", in_runs: "InRuns") -> None:
    seen = listen(rig, "message_end", "tool_execution_end", "turn_end", "agent_end")

    async def works(_args: object, _ctx: object) -> None:
        await trio.sleep_forever()

    async with in_runs.agent(in_runs.calls('{"text":"a"}')) as agent:
        agent.echo.works = works
        agent.send("prompt", "go")
        await agent.until("tool_execution_start")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await trio.testing.wait_all_tasks_blocked()
    assert [
        "message_end user",
        "message_end assistant",
        "tool_execution_end",
        "message_end toolResult",
        "turn_end",
        "agent_end",
    ] == [short(event) for event in seen]
    assert [] == rig.host.reported


async def test_an_abort_ends_the_handler_for_which_the_stream_waits(rig: "Rig", in_runs: "InRuns") -> None:
    ends = listen(rig, "message_end", "agent_end")

    async def hangs(_ctx: object, _event: object) -> None:
        await trio.sleep_forever()

    rig.on("message_update", hangs)
    async with in_runs.agent(in_runs.says("some words")) as agent:
        agent.send("prompt", "go")
        await agent.until("message_update")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await agent.until("agent_settled")
    rig.on("message_update", lambda *_: None)()
    assert "aborted" == agent.session.messages[-1]["stopReason"]  # type: ignore[typeddict-item]
    assert [] == rig.host.reported
    assert ends


async def test_events_left_by_a_run_are_delivered_before_the_next_run(rig: "Rig", in_runs: "InRuns") -> None:
    seen: list[str] = []

    async def slow(_ctx: object, event: Any) -> None:
        await trio.testing.wait_all_tasks_blocked()
        seen.append(event.type)

    rig.on("agent_start", slow)
    rig.on("agent_end", slow)
    async with in_runs.agent(in_runs.says("one"), in_runs.says("two")) as agent:
        agent.send("prompt", "go")
        agent.send("follow_up", "and on")
        await agent.until("agent_settled")
        agent.turns.append(in_runs.says("three"))
        await agent.prompt("again")
    assert ["agent_start", "agent_end", "agent_start", "agent_end"] == seen


async def test_a_failing_handler_is_reported_and_the_run_continues(rig: "Rig", in_runs: "InRuns") -> None:

    def fails(_ctx: object, _event: object) -> None:
        raise ValueError("broken")

    for name in ALL:
        if name != "tool_call":
            rig.on(name, fails)
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert ["user", "assistant", "toolResult", "assistant"] == [each["role"] for each in agent.session.messages]
    assert {name for name in ALL if name not in ("tool_call", "tool_execution_update")} == {
        event for _, event, _ in rig.host.reported
    }
