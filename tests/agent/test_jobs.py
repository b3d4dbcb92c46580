"""Jobs: started by effects, cancelled by name, ended exactly once."""

from collections.abc import AsyncIterator

import pytest
import trio

from pinnace_agent.core.jobs import Jobs

Ends = list[tuple[bool, str | None]]


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    async with trio.open_nursery() as nursery:
        yield Jobs(nursery)
        nursery.cancel_scope.cancel()


def record_into(ends: Ends) -> "Ended":
    return Ended(ends)


class Ended:
    """Notes how a job ended, and wakes whoever waits."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.event = trio.Event()

    def __call__(self, cancelled: bool, failure: BaseException | None) -> None:
        self.ends.append((cancelled, str(failure) if failure else None))
        self.event.set()


async def test_a_job_that_returns_ends_once_and_not_as_cancelled(jobs: Jobs) -> None:
    ends: Ends = []
    ended = record_into(ends)
    jobs.start("a", trio.lowlevel.checkpoint, ended)
    await ended.event.wait()

    assert [(False, None)] == ends
    assert 0 == len(jobs)


async def test_a_cancelled_job_ends_after_it_has_unwound(jobs: Jobs) -> None:
    """Cancelling is not ending: the report comes when the cleanup is over."""
    order: list[str] = []
    begun = trio.Event()

    async def work() -> None:
        try:
            begun.set()
            await trio.sleep_forever()
        finally:
            order.append("cleaned up")

    ends: Ends = []
    ended = record_into(ends)

    def end(cancelled: bool, failure: BaseException | None) -> None:
        order.append("ended")
        ended(cancelled, failure)

    jobs.start("a", work, end)
    await begun.wait()
    jobs.cancel("a")
    order.append("cancelled")
    await ended.event.wait()

    assert ["cancelled", "cleaned up", "ended"] == order
    assert [(True, None)] == ends


async def test_a_job_cancelled_before_its_first_step_does_nothing(jobs: Jobs) -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("worked")

    ends: Ends = []
    ended = record_into(ends)
    jobs.start("a", work, ended)
    jobs.cancel("a")
    await ended.event.wait()

    assert [] == done
    assert [(True, None)] == ends


async def test_a_defect_ends_its_own_job_and_no_other(jobs: Jobs) -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("a defect")

    ends: Ends = []
    ended = record_into(ends)
    jobs.start("other", trio.sleep_forever, record_into([]))
    jobs.start("a", fail, ended)
    await ended.event.wait()

    assert [(False, "a defect")] == ends
    assert 1 == len(jobs)


async def test_cancelling_a_job_that_is_gone_is_no_error(jobs: Jobs) -> None:
    jobs.cancel("nobody")

    assert 0 == len(jobs)
