"""pi's gateway over real connections: a whole answer in pieces, refusals, an answer that breaks off."""

import json
from typing import Any, Final

import pytest
from tests.agent.llm.recording import Recorder
from tests.agent.llm.test_llm_pi_messages_like_the_original import ANSWERS, MODEL, body_of, read
from tests.agent.samples import user

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.pi_messages.provider import PiMessagesProvider
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply

KEY: Final = "radius-secret-marker-1"


async def ask(server: RawServer) -> MessageBuilder:
    model: Any = {**MODEL, "baseUrl": f"http://127.0.0.1:{server.port}/v1/"}
    request = LlmRequest(model, "Be brief.", (user("hi"),), (), "low", KEY, {"X-Mine": "1"}, "s1")
    builder = MessageBuilder(model, Recorder(), 0)
    with surrounded_by(Surroundings({})):
        try:
            await PiMessagesProvider().stream(request, builder)
        finally:
            await close_clients()
    assert builder.is_finished
    return builder


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", ["a thought and a call", "cut for its length"])
async def test_an_answer_in_pieces_is_read_whole(name: str, size: int) -> None:
    body = body_of(ANSWERS[name]).replace("\n", "\r\n").encode()

    def reply(reply: Reply) -> None:
        reply.head()
        reply.chunks(*(body[place : place + size] for place in range(0, len(body), size)))
        reply.end()

    with RawServer(reply) as server:
        message = (await ask(server)).message
        [request] = server.requests

    expected = read(ANSWERS[name])
    assert (message["content"], message["stopReason"]) == (expected["content"], expected["stopReason"])
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert (request.headers["authorization"], request.headers["x-mine"]) == (f"Bearer {KEY}", "1")
    assert json.loads(request.body)["options"] == {"reasoning": "low", "sessionId": "s1"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [("503 Unavailable", OutcomeKind.TRANSIENT), ("401 Unauthorized", OutcomeKind.FATAL)],
)
async def test_a_refusal_is_shown_without_the_key(status: str, kind: OutcomeKind) -> None:
    body = json.dumps({"error": {"code": "denied", "message": f"no {KEY}"}}).encode()
    with RawServer(lambda reply: reply.whole(body, status=status, content_type="application/json")) as server:
        builder = await ask(server)

    text = builder.message.get("errorMessage", "")
    assert text.startswith(status[:3])
    assert "no [redacted]" in text
    assert builder.signs.codes == ("denied",)
    assert classify_response(builder.message, builder.model, builder.signs).kind is kind


async def test_an_answer_that_breaks_off_is_worth_another_attempt() -> None:
    body = body_of(ANSWERS["no last event"]).encode()
    with RawServer(lambda reply: reply.whole(body)) as server:
        builder = await ask(server)

    assert "stream ended without a terminal event" in builder.message.get("errorMessage", "")
    assert classify_response(builder.message, builder.model, builder.signs).kind is OutcomeKind.TRANSIENT
