"""What an agent writes to stderr reaches the user of a client, whatever its kind."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.rpc.client.conftest import STAND_IN, on_trio_and_asyncio

from pinnace_rpc.client import AgentExited, BlockingClient
from pinnace_rpc.client.connection import lifetime

StandIn = Callable[..., Any]

LAST = "the last wörd"
EXPECTED = [*(f"line {number}" for number in range(3)), LAST]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written last is waited for as long as a busy machine takes."""
    monkeypatch.setattr(lifetime, "DRAIN_S", 60.0)


@on_trio_and_asyncio
async def test_each_line_of_stderr_is_given_to_the_callback(stand_in: StandIn) -> None:
    """Without its end; one that the exit has cut as well."""
    told: list[str] = []
    async with stand_in(on_stderr=told.append) as client:
        await client.request("flood_stderr", count=3)
        with pytest.raises(AgentExited):
            await client.request("die", complaint=LAST)
    assert told == EXPECTED


@on_trio_and_asyncio
async def test_stderr_is_written_to_the_own_one_unless_a_callback_takes_it(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stand_in() as client:
        await client.request("flood_stderr", count=3)
        with pytest.raises(AgentExited):
            await client.request("die", complaint=LAST)
    assert capsys.readouterr().err.splitlines() == EXPECTED


def test_the_blocking_client_does_both(capsys: pytest.CaptureFixture[str]) -> None:
    """Also what is written just before the client is left."""
    told: list[str] = []
    for on_stderr in (told.append, None):
        with BlockingClient(STAND_IN, on_stderr=on_stderr) as client:
            client.request("flood_stderr", count=3)
    assert (told, EXPECTED[:3]) == (EXPECTED[:3], capsys.readouterr().err.splitlines())
