"""What servers report of a model's context window, and that nothing waits for those that don't."""

import json
from collections.abc import Callable

import pytest
import trio

from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.llm.transport.reported_window import MAX_BYTES, TIMEOUT_S, reported_window
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply

Pages = dict[str, object]


def answering(pages: Pages) -> Callable[[Reply], None]:
    def answer(reply: Reply) -> None:
        page = pages.get(reply.request.path)
        if page is None:
            reply.whole(b"not here", status="404 Not Found")
        else:
            body = page if isinstance(page, bytes) else json.dumps(page).encode()
            reply.whole(body, content_type="application/json")

    return answer


def listed(**fields: object) -> object:
    return {"object": "list", "data": [{"id": "other", "max_model_len": 1}, {"id": "m", **fields}]}


LLAMA: Pages = {"/props": {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}}


@pytest.mark.parametrize(
    ("pages", "window"),
    [
        ({"/v1/models": listed(max_model_len=8192)}, 8192),
        ({"/v1/models": listed(context_length=16384), **LLAMA}, 16384),
        ({"/v1/models": {"data": [{"id": "another name", "max_model_len": 2048}]}}, 2048),
        ({"/v1/models": listed(), **LLAMA}, 4096),
        (LLAMA, 4096),
        ({}, None),
        ({"/v1/models": listed(max_model_len="many")}, None),
        ({"/v1/models": listed(max_model_len=True)}, None),
        ({"/v1/models": b"<html>", "/props": [1]}, None),
        ({"/v1/models": b"[" + b" " * MAX_BYTES + b"]"}, None),
    ],
)
async def test_the_window_is_what_the_server_reports(pages: Pages, window: int | None) -> None:
    with RawServer(answering(pages)) as server:
        found = await reported_window(f"{server.url}/v1", "m", "key", {"X-More": "1"})
        await close_clients()

    assert window == found
    assert {"GET"} == {request.method for request in server.requests}
    assert {("Bearer key", "1")} == {
        (request.headers["authorization"], request.headers["x-more"]) for request in server.requests
    }


async def test_a_server_that_does_not_answer_is_left_in_time() -> None:
    with RawServer(lambda reply: reply.wait_gone()) as server:
        began = trio.current_time()
        found = await reported_window(f"{server.url}/v1", "m", None, {})
        taken_s = trio.current_time() - began
        await close_clients()

    assert found is None
    assert TIMEOUT_S <= taken_s < TIMEOUT_S + 60  # the rest is for a busy machine: it would wait for ever


async def test_a_server_that_is_gone_reports_nothing() -> None:
    with RawServer(answering({})) as server:
        url = server.url

    assert await reported_window(f"{url}/v1", "m", None, {}) is None
    await close_clients()
