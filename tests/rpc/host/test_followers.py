"""Followers of a journal: whom a record is brought to, and when."""

import pytest
import trio
import trio.testing

from pinnace_rpc.host.followers import Followers


class Calls:
    """Followers that keep who was called."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.followers = Followers(nursery)
        self.called: list[tuple[int, int]] = []
        self.left: list[int] = []

    async def add(self, *connections: int, ends: bool = False) -> None:
        async def follow(connection: int) -> None:
            def advance(place: int) -> bool:
                self.called.append((connection, place))
                return not ends

            await self.followers.follow(connection, advance)
            self.left.append(connection)

        for connection in connections:
            self.nursery.start_soon(follow, connection)
            await trio.testing.wait_all_tasks_blocked()

    def taken(self) -> list[tuple[int, int]]:
        called, self.called = self.called, []
        return called


@pytest.fixture
async def calls(nursery: trio.Nursery) -> Calls:
    return Calls(nursery)


async def test_a_response_is_brought_to_its_client_alone_and_an_event_to_all(
    calls: Calls, autojump_clock: trio.testing.MockClock
) -> None:
    """Nobody reads what was for others: the second client begins at the event."""
    await calls.add(7, 8)
    calls.followers.publish(0, 10, (7,))
    assert calls.taken() == [(7, 0)]
    calls.followers.publish(10, 20)
    assert calls.taken() == [(7, 10), (8, 10)]


async def test_events_wait_for_the_rest_after_a_pass_and_then_come_at_once(
    calls: Calls, autojump_clock: trio.testing.MockClock
) -> None:
    """A response does not wait, and comes behind the events before it."""
    await calls.add(7, 8)
    calls.followers.publish(0, 10)
    assert calls.taken() == [(7, 0), (8, 0)]
    calls.followers.publish(10, 11, (7,))
    assert calls.taken() == [(7, 10)]
    for end in range(12, 20):
        calls.followers.publish(end - 1, end)
    assert calls.taken() == []
    calls.followers.publish(19, 20, (8,))
    assert calls.taken() == [(8, 11)]  # where the events begin that it has not got
    await trio.sleep(1)
    assert calls.taken() == [(7, 11), (8, 11)]
    calls.followers.advance(7)
    assert calls.taken() == [(7, 20)]


async def test_what_is_published_during_a_pass_comes_with_the_next(
    calls: Calls, autojump_clock: trio.testing.MockClock
) -> None:
    """With many clients a pass leaves turns to other tasks; none gets less, and none is called in vain."""
    many = range(100, 140)
    await calls.add(*many)
    calls.followers.publish(0, 10)
    await trio.lowlevel.checkpoint()
    while not calls.called:
        await trio.lowlevel.checkpoint()
    assert len(calls.called) < len(many)
    calls.followers.publish(10, 20, (139,))
    calls.followers.publish(20, 30)
    calls.followers.publish(30, 40)
    await trio.sleep(1)
    assert sorted(calls.taken()) == sorted([*((each, 0) for each in (*many, 139)), *((each, 20) for each in many)])


async def test_a_connection_that_can_not_write_follows_no_longer(
    calls: Calls, autojump_clock: trio.testing.MockClock
) -> None:
    await calls.add(7, ends=True)
    await calls.add(8)
    calls.followers.publish(0, 10)
    await trio.testing.wait_all_tasks_blocked()
    assert (calls.taken(), calls.left) == ([(7, 0), (8, 0)], [7])
    await trio.sleep(1)
    calls.followers.publish(10, 20)
    assert calls.taken() == [(8, 10)]


async def test_an_error_of_one_concerns_no_other(calls: Calls, autojump_clock: trio.testing.MockClock) -> None:
    def fail(_place: int) -> bool:
        raise ValueError("of one")

    async def follow() -> None:
        with pytest.raises(ValueError, match="of one"):
            await calls.followers.follow(7, fail)
        calls.left.append(7)

    calls.nursery.start_soon(follow)
    await trio.testing.wait_all_tasks_blocked()
    await calls.add(8)
    calls.followers.publish(0, 10)
    await trio.testing.wait_all_tasks_blocked()
    assert (calls.taken(), calls.left) == ([(8, 0)], [7])
