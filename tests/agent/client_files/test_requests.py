"""Requests to the client: each ends once, by answer, time, abort, or the end of the offer. R-FIL-02 to R-FIL-05."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
from tests.agent.client_files.conftest import ScriptedClient
from trio.testing import wait_all_tasks_blocked

from pinnace_agent.client_files.requests import (
    ABORTED_WRITE_S,
    READ_S,
    WRITE_S,
    ClientRefused,
    Unanswered,
    Unavailable,
)
from pinnace_agent.redaction.redactor import REDACTOR

OK = {"success": True, "content": "x"}


def answered(fields: Mapping[str, object], _request: Mapping[str, Any]) -> Mapping[str, object]:
    return fields


async def test_an_answer_counts_once_and_only_as_it_must_be(client: ScriptedClient) -> None:
    """R-FIL-02."""
    client.answer = lambda _: OK
    assert "x" == await client.requests.read("/a", "c1")
    [asked] = client.asked

    assert not client.requests.answer({**OK, "id": asked["id"]})
    for identity in (None, 1, ["x"], "x"):
        assert not client.requests.answer({**OK, "id": identity})
    odd: tuple[Mapping[str, object], ...] = (
        {},
        {"success": 1, "content": "x"},
        {"success": True},
        {"success": True, "content": ["x"]},
        {"success": False, "error": {}, "errorCode": []},
    )
    for fields in odd:
        client.answer = partial(answered, fields)
        with pytest.raises(ClientRefused):
            await client.requests.read("/a", "c1")
    assert 0 == len(client.requests)
    assert len(client.asked) == len({each["id"] for each in client.asked})


async def test_a_silent_client_is_waited_for_as_long_as_the_request_says(
    client: ScriptedClient, autojump_clock: trio.testing.MockClock
) -> None:
    """R-FIL-03, R-FIL-04."""
    begun = trio.current_time()
    with pytest.raises(Unanswered, match="10 seconds"):
        await client.requests.read("/a", "c1")
    assert begun + READ_S == pytest.approx(trio.current_time())
    with pytest.raises(Unanswered, match="30 seconds"):
        await client.requests.write("/a", "x", "c1")

    assert begun + READ_S + WRITE_S == pytest.approx(trio.current_time())
    assert [10_000, 30_000] == [each["timeout"] for each in client.asked]
    assert 0 == len(client.requests)


async def test_an_abort_leaves_a_read_at_once_and_waits_shortly_for_a_write(
    client: ScriptedClient, autojump_clock: trio.testing.MockClock
) -> None:
    """R-FIL-05."""
    with trio.move_on_after(1) as scope:
        await client.requests.read("/a", "c1")
    assert scope.cancelled_caught
    assert 1 == pytest.approx(trio.current_time())
    with trio.move_on_after(1) as scope:
        await client.requests.write("/a", "x", "c1")

    assert scope.cancelled_caught
    assert 2 + ABORTED_WRITE_S == pytest.approx(trio.current_time())
    assert 0 == len(client.requests)


@pytest.mark.parametrize("ending", ["withdrawn", "closed"])
async def test_open_requests_end_with_the_offer(client: ScriptedClient, ending: str) -> None:
    """R-FIL-05: and later ones are not sent."""
    ended: list[str] = []

    async def write() -> None:
        with pytest.raises(Unanswered, match="gone"):
            await client.requests.write("/a", "x", "c1")
        ended.append("write")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await wait_all_tasks_blocked()
        client.requests.offer(["read_text_file", "write_text_file"])  # the same offer again ends nothing
        await wait_all_tasks_blocked()
        assert not ended
        if ending == "withdrawn":
            client.requests.offer(["read_text_file"])
        else:
            client.requests.close()
            client.requests.offer(["write_text_file"])
    with pytest.raises(Unavailable):
        await client.requests.write("/a", "x", "c1")

    assert ["write"] == ended
    assert 1 == len(client.asked)


async def test_a_path_that_is_configured_somewhere_is_asked_for(client: ScriptedClient) -> None:
    """The environment of an MCP server names the project; its files are the editor's all the same."""
    REDACTOR.learn_values({"PROJECT_DIR": "/srv/alice/project", "MEMORY_KEY_PATH": "/srv/alice/project/memory.json"})
    try:
        client.answer = lambda _: {"success": True}
        await client.requests.write("/srv/alice/project/memory.json", "in /srv/alice/project", "c1")
    finally:
        REDACTOR.forget()

    assert ["/srv/alice/project/memory.json"] == [each["path"] for each in client.asked]


async def test_a_text_with_a_key_of_the_process_is_not_sent(client: ScriptedClient) -> None:
    """The client would write it without the key."""
    REDACTOR.learn("sk-very-secret-0123456789")
    try:
        with pytest.raises(Unavailable):
            await client.requests.write("/a", "key = sk-very-secret-0123456789", "c1")
    finally:
        REDACTOR.forget()

    assert [] == client.asked
