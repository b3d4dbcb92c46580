"""What clients are told of servers."""

import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.config.server_entries import read_entry
from pinnace_agent.mcp.ports import LinkLost
from pinnace_agent.mcp.reporting import State, StateReports, paced
from pinnace_agent.mcp.server import Server

STATES = ("connecting", "connected", "disconnected", "failed")


def server(name: str) -> Server:
    return Server(read_entry(name, {"command": "x"}, "user", "mcp.json"), cast("Any", None), lambda _server: None)


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(STATES), st.sampled_from([0.0, 0.01, 0.09, 0.2])), max_size=30
    )
)
def test_at_most_ten_a_second_are_published_and_the_last_one_always(changes: list[tuple[int, str, float]]) -> None:
    servers = [server("a"), server("b")]
    published: list[tuple[float, Sequence[State]]] = []

    async def main() -> None:
        reports = StateReports(
            lambda: servers, lambda _server: 0, lambda states: published.append((trio.current_time(), states))
        )
        assert reports.publish() is None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run)
            for number, state, pause_s in changes:
                servers[number].state = cast("Any", state)
                reports.changed()
                await trio.sleep(pause_s)
            await trio.sleep(0.3)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [each["state"] for each in published[-1][1]] == [each.state for each in servers]
    for number in range(2):
        shown = [(at_s, states[number]) for at_s, states in published]
        changed_s = [at_s for (_, before), (at_s, now) in itertools.pairwise(shown) if before != now]
        assert all(later - sooner > 0.0999 for sooner, later in itertools.pairwise(changed_s))


def test_progress_is_shown_ten_times_a_second_and_the_last_of_it_always() -> None:
    shown: list[tuple[float, str]] = []

    async def main() -> None:
        with pytest.raises(LinkLost, match="gone"):  # a call that fails behind its progress
            async with paced(lambda text: shown.append((trio.current_time(), text))) as take:
                for number in range(1000):
                    take(number, 1000, None)
                    await trio.sleep(0.001)
                take(1000, None, "the end")
                raise LinkLost("gone")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert shown[0][1] == "Progress 0/1000"
    assert shown[-1][1] == "the end"
    assert 10 <= len(shown) <= 12
