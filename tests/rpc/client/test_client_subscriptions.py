"""Events for many readers: who holds whom up, who may fall behind, and that nothing is lost in silence."""

from collections.abc import Callable

import anyio
import pytest
import trio
import trio.testing
from tests.rpc.client.conftest import on_trio_and_asyncio

from pinnace_rpc.client import AgentExited, Client, FellBehind
from pinnace_rpc.client.subscriptions import KEPT_BYTES, PAUSE_BYTES, Hub

StandIn = Callable[..., Client]
# A fault shows as a hang; only then this is waited for.
PATIENCE_S = 60.0
FILLER = {"type": "filler"}


async def is_paused(hub: Hub) -> bool:
    """Whether whoever reads stdout would have to wait."""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                await hub.room()
                nursery.cancel_scope.cancel()

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    return scope.cancelled_caught


async def test_reading_pauses_while_a_reader_is_behind_and_no_one_waits() -> None:
    hub = Hub()
    events = hub.subscribe()
    assert not await is_paused(hub)
    hub.publish(FILLER, PAUSE_BYTES + 1)
    assert await is_paused(hub)

    await anext(events)

    assert not await is_paused(hub)


async def test_reading_goes_on_while_someone_waits_for_the_agent() -> None:
    hub = Hub()
    behind = hub.subscribe()
    hub.publish(FILLER, PAUSE_BYTES + 1)

    with hub.waiting():
        assert not await is_paused(hub)
    assert await is_paused(hub)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(anext, hub.subscribe())
        await trio.testing.wait_all_tasks_blocked()
        assert not await is_paused(hub)
        nursery.cancel_scope.cancel()
    assert FILLER == await anext(behind)


async def test_a_pause_ends_as_soon_as_someone_waits() -> None:
    hub = Hub()
    behind = hub.subscribe()
    hub.publish(FILLER, PAUSE_BYTES + 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.room)
        await trio.testing.wait_all_tasks_blocked()
        with hub.waiting():
            pass  # nothing else ends the nursery
        assert behind is not None
        events = hub.subscribe()
        nursery.start_soon(anext, events)
        await trio.testing.wait_all_tasks_blocked()
        hub.publish(FILLER, 1)


async def test_a_reader_that_keeps_too_much_gets_that_and_then_an_error() -> None:
    hub = Hub()
    events = hub.subscribe()
    hub.publish({"type": "first"}, KEPT_BYTES)
    hub.publish({"type": "second"}, 1)

    assert {"type": "first"} == await anext(events)
    with pytest.raises(FellBehind):
        await anext(events)
    assert not await is_paused(hub)


async def test_a_reader_that_was_dropped_or_closed_holds_no_one_up() -> None:
    hub = Hub()
    dropped, closed = hub.subscribe(), hub.subscribe()
    hub.publish(FILLER, PAUSE_BYTES + 1)
    del dropped
    with closed:
        assert await is_paused(hub)

    assert not await is_paused(hub)
    assert [] == [event async for event in closed]


async def test_taking_takes_everything_that_is_there() -> None:
    hub = Hub()
    events = hub.subscribe()
    for number in range(3):
        hub.publish({"type": "filler", "number": number}, 1)
    assert [0, 1, 2] == [dict(event)["number"] for event in await events.take()]
    hub.end(None)

    assert [] == await events.take()


async def test_being_cancelled_loses_no_event() -> None:
    hub = Hub()
    events = hub.subscribe()
    hub.publish(FILLER, 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(events)
    assert scope.cancelled_caught

    assert FILLER == await anext(events)


async def test_a_late_reader_gets_the_end_as_well() -> None:
    hub = Hub()
    hub.end(lambda: AgentExited(["agent"], 3, "", None))

    with pytest.raises(AgentExited, match=r"agent.*code 3"):
        await anext(hub.subscribe())


@on_trio_and_asyncio
async def test_a_slow_reader_gets_everything_in_order(stand_in: StandIn) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            events = client.events()
            with anyio.move_on_after(0.2):
                await client.request("flood", count=1_000, size=10_000)
            await anyio.sleep(0.05)
            seen = [dict(await anext(events))["number"] for _ in range(1_000)]

    assert list(range(1_000)) == seen


@on_trio_and_asyncio
async def test_a_reader_may_send_commands_however_much_is_written(stand_in: StandIn) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client, anyio.create_task_group() as nursery:
            events = client.events()

            async def flood() -> None:
                await client.request("flood", count=1_000, size=10_000)

            nursery.start_soon(flood)
            seen = 0
            while seen < 1_000:
                await anext(events)
                seen += 1
                if seen % 100 == 0:
                    await client.request("anything")


@on_trio_and_asyncio
async def test_a_reader_that_never_reads_hinders_no_one(stand_in: StandIn) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            lazy = client.events()
            await client.request("flood", count=70, size=1_000_000)
            assert {} == await client.request("anything")
            with pytest.raises(FellBehind):
                while True:
                    await anext(lazy)
