"""The bus between extensions."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.registration.registrations import Extension, Generation, StaleContextError
from pinnace_agent.extensions.services.bus import EventBus, ExtensionBus


class Bench:
    """A bus with two extensions on it."""

    def __init__(self) -> None:
        self.generation = Generation()
        self.lines: list[str] = []
        self.bus = EventBus(self.generation, self.lines.append)
        self.extensions = {name: self._extension(name) for name in ("one", "two")}
        self.one, self.two = (ExtensionBus(self.bus, each, self.generation.check) for each in self.extensions.values())

    def _extension(self, name: str) -> Extension:
        path = f"{name}.py"
        return Extension(
            path, {"path": path, "source": "auto", "scope": "user", "origin": "top-level"}, self.generation, "live"
        )


def test_sync_listeners_have_run_when_emit_returns() -> None:
    bench = Bench()
    received: list[object] = []
    bench.one.on("news", received.append)
    bench.two.emit("news", {"a": 1})
    assert [{"a": 1}] == received


def test_on_is_also_a_decorator() -> None:
    bench = Bench()
    received: list[object] = []

    @bench.one.on("news")
    def listen(data: object) -> None:
        received.append(data)

    bench.two.emit("news")
    listen("directly")
    assert [None, "directly"] == received


def test_the_result_of_on_ends_exactly_its_subscription() -> None:
    bench = Bench()
    received: list[object] = []
    off = bench.one.on("news", received.append)
    bench.one.on("news", received.append)
    off()
    off()
    bench.two.emit("news", 1)
    assert [1] == received


def test_a_listener_added_during_emit_receives_the_next_data() -> None:
    bench = Bench()
    received: list[object] = []

    @bench.one.on("news")
    def listen(data: object) -> None:
        bench.one.on("news", received.append)

    bench.two.emit("news", 1)
    assert [] == received
    bench.two.emit("news", 2)
    assert [2] == received


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), RecursionError("deep")])
def test_an_exception_of_a_listener_is_only_logged(error: BaseException) -> None:
    bench = Bench()
    received: list[object] = []

    @bench.one.on("news")
    def listen(data: object) -> None:
        raise error

    bench.two.on("news", received.append)
    bench.two.emit("news", 1)
    assert [1] == received
    assert 1 == len(bench.lines)
    assert bench.lines[0].startswith("one.py: a listener of 'news' failed: ")


def test_an_interrupt_passes() -> None:
    bench = Bench()

    @bench.one.on("news")
    def listen(data: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.two.emit("news")


async def test_an_async_listener_is_started_as_a_task_of_its_extension() -> None:
    bench = Bench()
    received = trio.Event()
    started: list[tuple[str, str]] = []

    @bench.one.on("news")
    async def listen(data: object) -> None:
        received.set()

    async with trio.open_nursery() as nursery:

        def start(path: str, event: str, work: Callable[[], Awaitable[object]], /) -> None:
            started.append((path, event))
            nursery.start_soon(work)

        bench.bus.attach(start)
        bench.two.emit("news")
        assert not received.is_set()
        await received.wait()
    assert [("one.py", "bus:news")] == started


async def test_async_listeners_wait_for_the_session_to_begin() -> None:
    """The bus is allowed while loading; tasks are not."""
    bench = Bench()
    received: list[object] = []

    @bench.one.on("news")
    async def listen(data: object) -> None:
        await trio.lowlevel.checkpoint()
        received.append(data)

    bench.two.emit("news", 1)
    async with trio.open_nursery() as nursery:
        bench.bus.attach(lambda path, event, work: nursery.start_soon(work))
    assert [1] == received


async def test_a_failing_async_listener_is_logged_and_ends_nothing() -> None:
    bench = Bench()

    @bench.one.on("news")
    async def listen(data: object) -> None:
        raise ExceptionGroup("both", [ValueError("first"), ValueError("second")])

    async with trio.open_nursery() as nursery:
        bench.bus.attach(lambda path, event, work: nursery.start_soon(work))
        bench.two.emit("news")
    assert ["one.py: a listener of 'news' failed: first"] == bench.lines


async def test_a_cancelled_listener_is_not_a_failure() -> None:
    bench = Bench()

    @bench.one.on("news")
    async def listen(data: object) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        bench.bus.attach(lambda path, event, work: nursery.start_soon(work))
        bench.two.emit("news")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [] == bench.lines


def test_listeners_that_wait_without_end_are_let_go() -> None:
    """A loop of a loading extension must not fill the memory."""
    bench = Bench()

    @bench.one.on("news")
    async def listen(data: object) -> None:
        raise AssertionError("never started")

    for _ in range(1_002):
        bench.two.emit("news")
    assert 2 == len(bench.lines)
    bench.bus.close()


def test_a_dropped_extension_receives_nothing() -> None:
    """One that failed to load."""
    bench = Bench()
    received: list[object] = []
    bench.one.on("news", received.append)
    bench.bus.drop(bench.extensions["one"])
    bench.two.emit("news")
    assert [] == received


def test_the_bus_of_an_instance_that_is_over_is_dead() -> None:
    """Also in the middle of an emit."""
    bench = Bench()
    received: list[object] = []

    @bench.one.on("news")
    def listen(data: object) -> None:
        bench.generation.end("the session was replaced")

    bench.one.on("news", received.append)
    bench.two.emit("news")
    assert [] == received
    with pytest.raises(StaleContextError, match="the session was replaced"):
        bench.two.emit("news")
    with pytest.raises(StaleContextError):
        bench.two.on("news", received.append)
