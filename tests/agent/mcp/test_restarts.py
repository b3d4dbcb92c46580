"""When a server is connected again: how often, after how long, and for how long as it asks to wait itself."""

import itertools
import math
import random
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_agent.config.server_entries import read_entry
from pinnace_agent.mcp.ports import LinkLost, OnProgress, ServerError, ServerLink, Unreachable
from pinnace_agent.mcp.server import RENEWAL_S, VIEW_S, Server

Outcome = Exception | float
"""What becomes of a connection: it can't be made, or it lasts for so many seconds."""


class Listed:
    """A connection to a server without tools."""

    capabilities: Mapping[str, object] = {}
    instructions = protocol = reason = ""

    def __init__(self, is_current: Callable[[], bool] | None = None) -> None:
        """Be connected; `is_current` is that of a program in a sandbox."""
        self.ended = trio.Event()
        self.is_current = is_current
        self.called = trio.Event()
        self.may_answer = trio.Event()
        """Calls wait for it."""
        self.may_answer.set()
        self.announces: Sequence[str] = ()
        self.listened_s: list[float] = []
        self.heard: Callable[[], Awaitable[None]] = trio.sleep_forever
        """What comes of listening."""

    async def listen(self) -> None:
        self.listened_s.append(trio.current_time())
        await self.heard()

    async def listen_to(self, task_id: str) -> None:
        raise AssertionError(task_id)

    def declare(self, schemas: Mapping[str, Mapping[str, object]]) -> Mapping[str, str]:
        del schemas
        return {}

    async def request(
        self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        assert not self.ended.is_set()
        if method == "tools/call":
            self.called.set()
            await self.may_answer.wait()
        return {"answers": method}

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        return asked


class Tries:
    """The connections of one server, and when each began."""

    def __init__(self, *outcomes: Outcome, url: bool = True) -> None:
        """Have these outcomes, the last one for ever."""
        self._outcomes = list(outcomes)
        self.begun_s: list[float] = []
        self.states: list[str] = []
        self.links: list[Listed] = []
        self.began_again = trio.Event()
        self.is_current: Callable[[], bool] | None = None
        """That of the next connection."""
        self.ending_s = 0.0
        """How long the processes of a server take to end."""
        raw = {"url": "http://127.0.0.1:9/mcp"} if url else {"command": "x"}
        self.server = Server(read_entry("s", raw, "user", ""), self.open, self._report)

    async def open(self, server: Server, use: Callable[[ServerLink], Awaitable[None]]) -> None:
        assert server is self.server
        self.begun_s.append(trio.current_time())
        if len(self.begun_s) > 1:
            self.began_again.set()
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        link = Listed(self.is_current)
        self.links.append(link)
        with trio.move_on_after(outcome):
            await use(link)
        link.ended.set()
        await trio.sleep(self.ending_s)
        raise LinkLost("it has exited with exit code 1")

    def _report(self, server: Server) -> None:
        self.states.append(server.state)

    async def run(self, for_s: float) -> list[float]:
        """Serve for so long; return the times between one try and the next."""
        with trio.move_on_after(for_s):
            await self.server.serve()
        return [round(later - sooner, 3) for sooner, later in zip(self.begun_s, self.begun_s[1:], strict=False)]


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let restarts come as late as on the average."""
    monkeypatch.setattr(random, "uniform", lambda _least, _most: 1.0)


async def test_a_server_that_ends_is_started_again_although_it_can_not_be_reached_at_first(
    autojump_clock: MockClock,
) -> None:
    refused = Unreachable("connection refused")
    tries = Tries(5.0, refused, refused, refused, math.inf)
    assert await tries.run(100) == [6.0, 2.0, 4.0, 8.0]
    assert tries.server.state == "connected"
    assert "failed" not in tries.states


async def test_a_program_that_does_not_start_again_fails_after_five_tries(autojump_clock: MockClock) -> None:
    tries = Tries(5.0, LinkLost("it has exited with exit code 1"), url=False)
    assert await tries.run(1000) == [6.0, 2.0, 4.0, 8.0, 16.0]
    assert (tries.server.state, tries.server.error) == ("failed", "it has exited with exit code 1")
    assert tries.states.count("failed") == 1


async def test_a_server_that_was_never_there_is_tried_again_twice_over_http_alone(autojump_clock: MockClock) -> None:
    refused = Unreachable("HTTP status 503")
    assert await Tries(refused).run(1000) == [0.25, 1.0]
    assert await Tries(refused, url=False).run(1000) == []
    assert await Tries(LinkLost("HTTP status 404")).run(1000) == []


async def test_a_server_is_tried_again_when_it_asks_to_be_but_for_a_long_time(autojump_clock: MockClock) -> None:
    """`Retry-After`: shorter than the usual delay it changes nothing."""
    soon, later, much_later = (Unreachable("HTTP status 429", wait_s) for wait_s in (0.1, 7.0, 3600.0))
    assert await Tries(soon, later, math.inf).run(100) == [0.25, 7.0]
    tries = Tries(much_later)
    assert await tries.run(10_000) == []
    assert tries.server.settled.is_set()


async def test_a_connection_that_is_wanted_anew_counts_for_no_restart(autojump_clock: MockClock) -> None:
    tries = Tries(math.inf)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tries.server.serve)
        for _ in range(10):
            await tries.server.connect_anew()
            assert tries.server.state == "connected"
        nursery.cancel_scope.cancel()
    assert "failed" not in tries.states
    assert "disconnected" not in tries.states


async def test_a_call_while_a_connection_ends_waits_for_the_next_one(autojump_clock: MockClock) -> None:
    tries = Tries(5.0, math.inf, url=False)
    tries.ending_s = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tries.server.serve)
        await trio.sleep(5.5)
        assert tries.server.state == "connected"
        assert await tries.server.request("tools/call", {}) == {"answers": "tools/call"}
        assert len(tries.begun_s) == 2
        nursery.cancel_scope.cancel()


async def test_a_call_that_waits_for_a_server_fails_when_the_session_has_it_no_longer(
    autojump_clock: MockClock,
) -> None:
    tries = Tries(LinkLost("no"), url=False)
    serving = trio.CancelScope()
    failed: list[str] = []

    async def serve() -> None:
        with serving:
            await tries.server.serve()

    async def call() -> None:
        for _ in range(2):  # it waits for a try, and there will be none
            try:
                await tries.server.request("tools/call", {})
            except LinkLost as error:
                failed.append(str(error))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await tries.server.settled.wait()
            serving.cancel()
            nursery.start_soon(call)
            await wait_all_tasks_blocked()
            tries.server.end()
    assert failed == ["the session has it no longer"] * 2


# The clock of these does not wait for threads: what comes of a look is waited for.


async def test_a_server_in_a_sandbox_is_replaced_when_it_sees_something_else_than_a_new_one(
    autojump_clock: MockClock,
) -> None:
    """Also when nothing calls it; and it is looked at no more often than needed."""
    tries, looks = Tries(math.inf), 0
    is_outdated = False

    def is_current() -> bool:
        nonlocal looks
        looks += 1
        return not is_outdated

    tries.is_current = is_current
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tries.server.serve)
        await tries.server.settled.wait()
        await trio.sleep(10 * VIEW_S)
        assert len(tries.begun_s) == 1
        assert looks <= 11
        tries.is_current = lambda: True
        is_outdated = True
        await tries.began_again.wait()
        assert await tries.server.ready() is tries.links[1]
        await trio.sleep(10 * VIEW_S)
        nursery.cancel_scope.cancel()
    assert len(tries.begun_s) == 2
    assert "failed" not in tries.states
    assert "disconnected" not in tries.states


async def test_a_call_meets_no_server_that_sees_something_else_than_a_new_one(autojump_clock: MockClock) -> None:
    tries = Tries(math.inf)
    tries.is_current = lambda: False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tries.server.serve)
        first = await tries.server.ready()
        tries.is_current = lambda: True
        await tries.server.request("tools/call", {})
        assert await tries.server.ready() is not first
        nursery.cancel_scope.cancel()
    assert len(tries.begun_s) == 2


@pytest.mark.parametrize("is_endless", [False, True])
async def test_open_calls_end_before_their_server_is_replaced_but_not_for_ever(
    mock_clock: MockClock, is_endless: bool
) -> None:
    tries, ended = Tries(math.inf), trio.Event()
    was_seen = threading.Event()
    is_outdated = False

    def is_current() -> bool:
        if is_outdated:
            was_seen.set()
        return not is_outdated

    async def call() -> None:
        await tries.server.request("tools/call", {})
        ended.set()

    tries.is_current = is_current
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tries.server.serve)
        await tries.server.ready()
        (link,) = tries.links
        link.may_answer = trio.Event()
        nursery.start_soon(call)
        await link.called.wait()
        tries.is_current = lambda: True
        is_outdated = True
        mock_clock.jump(VIEW_S)
        await trio.to_thread.run_sync(was_seen.wait)
        assert len(tries.begun_s) == 1
        if not is_endless:
            link.may_answer.set()
            await tries.began_again.wait()
        while not tries.began_again.is_set():
            mock_clock.jump(RENEWAL_S)
            await wait_all_tasks_blocked(0.001)
        assert ended.is_set() is not is_endless
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("lasts_s", "error", "expected"),
    [
        (0.0, ServerError(-32601, "unknown method"), []),
        (0.0, ServerError(-32603, "too many"), [1.0, 2.0, 4.0, 8.0, 16.0]),
        (10.0, None, [11.0, 12.0, 14.0, 18.0, 26.0]),
        (100.0, ServerError(-32000, "cut"), [101.0] * 9),
        (0.0, LinkLost("it has ended"), []),
    ],
)
async def test_a_server_that_ends_the_stream_of_changes_is_asked_again_after_a_while(
    autojump_clock: MockClock, lasts_s: float, error: Exception | None, expected: list[float]
) -> None:
    """R-MCP-09: not where it knows no such request, and five times in a row at most; its tools stay."""
    link = Listed()
    link.announces = ("tools",)

    async def heard() -> None:
        await trio.sleep(lasts_s)
        if error is not None:
            raise error

    async def open_it(server: Server, use: Callable[[ServerLink], Awaitable[None]]) -> None:
        del server
        await use(link)

    link.heard = heard
    server = Server(read_entry("s", {"command": "x"}, "user", ""), open_it, lambda _: None)
    with trio.move_on_after(1000):
        await server.serve()

    assert server.state == "connected"
    times = link.listened_s
    assert [round(later - sooner, 3) for sooner, later in itertools.pairwise(times)] == expected


@pytest.mark.parametrize(("ttl_ms", "lists"), [(60_000, 2), (0, 1), ("soon", 1), (None, 1)])
async def test_a_list_is_asked_for_again_when_it_is_wanted_and_counts_no_longer(
    mock_clock: MockClock, ttl_ms: object, lists: int
) -> None:
    """R-MCP-10: not before, and not while nothing wants it. The clock stands while a page is counted in a thread."""
    listed = [trio.Event(), trio.Event(), trio.Event()]

    class Lasting(Listed):
        capabilities: Mapping[str, object] = {"tools": {}}

        async def request(
            self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None = None
        ) -> Mapping[str, object]:
            next(each for each in listed if not each.is_set()).set()
            return {"tools": [], "ttlMs": ttl_ms}

    async def open_it(server: Server, use: Callable[[ServerLink], Awaitable[None]]) -> None:
        del server
        await use(Lasting())

    async def pass_time(time_s: float) -> None:
        mock_clock.jump(time_s)
        await wait_all_tasks_blocked()

    server = Server(read_entry("s", {"command": "x"}, "user", ""), open_it, lambda _: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        await server.settled.wait()
        await pass_time(59)
        server.refresh()
        await pass_time(1)
        await pass_time(1)
        assert not listed[1].is_set()
        server.refresh()
        await wait_all_tasks_blocked()
        await pass_time(1)
        if lists > 1:
            await listed[1].wait()
        await pass_time(1000)
        nursery.cancel_scope.cancel()

    assert [each.is_set() for each in listed] == [True, lists > 1, False]
