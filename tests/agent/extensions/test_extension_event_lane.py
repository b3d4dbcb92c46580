"""The lane: events of places that can't await handlers are delivered in order."""

from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.runtime.event_lane import EventLane

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig


def turn(number: int) -> ev.TurnStart:
    return ev.TurnStart(turn_index=number, timestamp=1)


async def test_events_are_delivered_in_order(rig: "Rig") -> None:
    seen: list[object] = []
    rig.on("turn_start", lambda _ctx, event: seen.append(event.turn_index))
    rig.on("agent_start", lambda _ctx, _event: seen.append("agent"))
    lane = EventLane(rig.runner().chains)
    lane.put("agent_start", rig.started)
    lane.put("turn_start", lambda: turn(0))
    lane.put("agent_end", lambda: pytest.fail("created without a handler"))
    assert ([], 2) == (seen, len(lane))
    await lane.drain()
    assert (["agent", 0], 0) == (seen, len(lane))


async def test_draining_without_events_is_not_a_checkpoint(rig: "Rig") -> None:
    lane = EventLane(rig.runner().chains)
    with trio.testing.assert_no_checkpoints():
        await lane.drain()


async def test_several_tasks_that_drain_wait_for_all_that_came_before(rig: "Rig") -> None:
    seen: list[object] = []

    async def slow(_ctx: object, event: ev.TurnStart) -> None:
        await trio.testing.wait_all_tasks_blocked()
        seen.append(event.turn_index)

    rig.on("turn_start", slow)
    lane = EventLane(rig.runner().chains)

    async def step(name: str) -> None:
        await lane.drain()
        seen.append(name)

    lane.put("turn_start", lambda: turn(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(step, "a")
        await trio.lowlevel.checkpoint()
        nursery.start_soon(step, "b")
        lane.put("turn_start", lambda: turn(1))
    assert [0, 1] == seen[:2]
    assert {"a", "b"} == set(seen[2:])


async def test_undelivered_events_of_a_cancelled_run_stay_queued(rig: "Rig") -> None:
    seen: list[int] = []

    async def handler(_ctx: object, event: ev.TurnStart) -> None:
        seen.append(event.turn_index)
        if event.turn_index == 0:
            scope.cancel()
            await trio.lowlevel.checkpoint()

    rig.on("turn_start", handler)
    lane = EventLane(rig.runner().chains)
    lane.put("turn_start", lambda: turn(0))
    lane.put("turn_start", lambda: turn(1))
    with trio.CancelScope() as scope:
        await lane.drain()
    assert scope.cancelled_caught
    await lane.drain()
    assert [0, 1] == seen
