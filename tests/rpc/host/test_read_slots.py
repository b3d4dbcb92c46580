"""The reads that an agent's process has at once: clients take turns, and none waits for long."""

import trio
import trio.testing

from pinnace_rpc.host.read_slots import ReadSlots

SLOTS = 32


async def filled() -> ReadSlots:
    slots = ReadSlots()
    for number in range(SLOTS):
        assert await slots.take()
        slots.hold(number)
    return slots


async def test_clients_take_turns(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    """One that has thousands of reads has one that waits, as each other."""
    slots = await filled()
    taken: list[str] = []

    async def read(client: str, count: int) -> None:
        for number in range(count):
            assert await slots.take()
            taken.append(client)
            slots.hold(SLOTS * (1 + number) + len(client))

    nursery.start_soon(read, "flood", 3)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(read, "other", 1)
    await trio.testing.wait_all_tasks_blocked()
    for number in range(4):
        slots.answered(number)
        await trio.testing.wait_all_tasks_blocked()
    assert taken == ["flood", "other", "flood", "flood"]


async def test_a_read_does_not_wait_for_long(autojump_clock: trio.testing.MockClock) -> None:
    """What lets the agent answer may be behind it."""
    slots = await filled()
    begun_s = trio.current_time()
    assert not await slots.take()
    assert trio.current_time() - begun_s < 1


async def test_the_end_of_the_process_frees_all(autojump_clock: trio.testing.MockClock) -> None:
    slots = await filled()
    slots.give_up()
    for _ in range(SLOTS):
        assert await slots.take()
    assert not await slots.take()
