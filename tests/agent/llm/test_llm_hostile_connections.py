"""Connections that behave badly, for every API: silent, slow, early, dropped, and used a second time.

Whatever comes, an answer is whole or an error that says why; nothing is raised, and nothing hangs. A connection that
was kept and turns out to be dead costs nothing: what was sent on it is sent again.
"""

import threading
from collections.abc import Callable

import pytest
import trio
from tests.agent.samples import failure, prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.llm.providers import find_provider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_campaigns.trials.model_streams import STREAMS, TEXT, TOOL, ModelStream
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage, UserMessage

# Short, since it is waited for; only servers that say nothing at all are given it.
IDLE_S = 0.2
# Far above what any answer here takes, and far below what a test run can wait for.
HANG_S = 60.0

each_api = pytest.mark.parametrize("stream", STREAMS, ids=[stream.api for stream in STREAMS])
# What follows is decided without knowing the API.
(COMPLETIONS,) = (stream for stream in STREAMS if stream.api == "openai-completions")


def request_at(url: str, stream: ModelStream, idle_timeout_s: float | None, question: str) -> LlmRequest:
    model = served_model(api=stream.api, baseUrl=url, reasoning=True, cost=prices(1, 2))
    user: UserMessage = {"role": "user", "content": question, "timestamp": 0}
    tool = ToolSpec(TOOL, "Runs.", {"type": "object"})
    return LlmRequest(model, "", (user,), (tool,), "low", "sk-key-0123456789", {}, "s", idle_timeout_s=idle_timeout_s)


async def ask(
    server: RawServer, stream: ModelStream, idle_timeout_s: float | None = HANG_S, question: str = "hi"
) -> AssistantMessage:
    request = request_at(server.url, stream, idle_timeout_s, question)
    witness = StreamWitness()
    builder = MessageBuilder(request.model, witness, 0)
    provider = find_provider(stream.api)
    assert provider is not None
    with trio.fail_after(HANG_S):
        await provider.stream(request, builder)
    assert witness.judge(builder.message) == []
    return builder.message


async def answer_to(
    stream: ModelStream, *answers: Answer, idle_timeout_s: float | None = HANG_S, unread: Answer | None = None
) -> AssistantMessage:
    with RawServer(*answers, unread=unread) as server:
        message = await ask(server, stream, idle_timeout_s)
        await close_clients()
    return message


def answering(stream: ModelStream) -> Answer:
    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(*stream.events(TEXT))
        reply.end()

    return answer


def is_whole(message: AssistantMessage) -> bool:
    return message["stopReason"] == "toolUse" and len(message["content"]) == 3


# Silence and slowness


def before_the_head(reply: Reply) -> None:
    reply.wait_gone()


def inside_of_the_head(reply: Reply) -> None:
    reply.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    reply.wait_gone()


def behind_the_head(reply: Reply) -> None:
    reply.head()
    reply.wait_gone()


def inside_of_an_event(stream: ModelStream) -> Answer:
    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(b"".join(stream.events(TEXT)[:3])[:-9])
        reply.wait_gone()

    return answer


@each_api
@pytest.mark.parametrize("place", ["before the head", "inside of it", "behind it", "inside of an event"])
async def test_a_server_that_falls_silent_is_given_up(stream: ModelStream, place: str) -> None:
    answers = [before_the_head, inside_of_the_head, behind_the_head, inside_of_an_event(stream)]
    places = ["before the head", "inside of it", "behind it", "inside of an event"]
    text = failure(await answer_to(stream, answers[places.index(place)], idle_timeout_s=IDLE_S))

    assert text == "Request timed out: nothing came from 127.0.0.1 for 0.2 s"
    assert classify_failure(text, "local").kind is OutcomeKind.TRANSIENT


@each_api
async def test_a_head_may_come_a_byte_at_a_time(stream: ModelStream) -> None:
    def answer(reply: Reply) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX-Padding: abc\r\nTransfer-Encoding: chunked\r\n\r\n":
            reply.send(bytes([byte]))
        reply.chunks(*stream.events(TEXT))
        reply.end()

    assert is_whole(await answer_to(stream, answer))


@each_api
async def test_a_server_may_wait_where_it_likes_as_long_as_it_is_not_too_long(stream: ModelStream) -> None:
    """The pause is between two bytes of one character."""
    has_paused = threading.Event()
    data = b"".join(stream.events(TEXT))
    middle = data.index("é".encode()) + 1

    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(data[:middle])
        has_paused.wait(0.05)
        reply.chunks(data[middle:])
        reply.end()

    assert is_whole(await answer_to(stream, answer))


@each_api
async def test_an_interim_answer_is_none(stream: ModelStream) -> None:
    def answer(reply: Reply) -> None:
        reply.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        answering(stream)(reply)

    assert is_whole(await answer_to(stream, answer))


# Answers that come too early, from elsewhere, or are none


@each_api
async def test_an_answer_may_come_before_the_request_was_read(stream: ModelStream) -> None:
    question = "x" * 3_000_000  # more than any buffer on the way holds

    with RawServer(reading_it_all, unread=answering(stream)) as server:
        assert is_whole(await ask(server, stream, question=question))
        await close_clients()


def reading_it_all(reply: Reply) -> None:
    reply.wait_gone()


@each_api
async def test_a_server_that_refuses_without_reading_is_understood_or_lost(stream: ModelStream) -> None:
    """It closes with bytes unread, so that a reset may overtake what it said."""

    def refuse(reply: Reply) -> None:
        reply.whole(b"too much", "Connection: close", status="413 Content Too Large", content_type="text/plain")
        reply.close()

    with RawServer(reading_it_all, unread=refuse) as server:
        text = failure(await ask(server, stream, question="x" * 3_000_000))
        await close_clients()

    assert text in {"413 too much", "Connection error: Connection reset by peer (ECONNRESET)"}


@each_api
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_not_followed_since_the_request_carries_a_key(stream: ModelStream, status: str) -> None:
    with RawServer(answering(stream)) as other:
        place = f"{other.url}/elsewhere"
        text = failure(await answer_to(stream, lambda reply: reply.whole(b"", f"Location: {place}", status=status)))

        assert text.startswith(f"{status[:3]} The server redirects to {place}")
        assert other.connections == 0


@each_api
@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00", b"nonsense\r\n\r\n", b"\0" * 200_000, b"HTTP/1.1 99\r\n\r\n", b"[]"]
)
async def test_an_answer_that_is_no_http_is_an_error(stream: ModelStream, data: bytes) -> None:
    def answer(reply: Reply) -> None:
        reply.send(data)
        reply.close()

    with RawServer(answer) as server:
        assert failure(await ask(server, stream)).startswith("Connection error: ")
        assert len(server.requests) == 1
        await close_clients()


# Connections that are used again


@each_api
async def test_the_next_request_uses_the_same_connection(stream: ModelStream) -> None:
    with RawServer(answering(stream)) as server:
        for _ in range(3):
            assert is_whole(await ask(server, stream))
        await close_clients()

        assert [request.connection for request in server.requests] == [0, 0, 0]
        assert server.connections == 1


def closes(reply: Reply) -> None:
    reply.close()


def resets(reply: Reply) -> None:
    reply.reset()


def says_half_a_head(reply: Reply) -> None:
    reply.send(b"HTTP/1.1 200 OK\r\nContent-")
    reply.close()


@each_api
@pytest.mark.parametrize("death", [closes, resets, says_half_a_head])
async def test_a_request_on_a_kept_connection_that_dies_is_sent_again_on_a_new_one(
    stream: ModelStream, death: Callable[[Reply], None]
) -> None:
    with RawServer(answering(stream), death, answering(stream)) as server:
        for _ in range(2):
            assert is_whole(await ask(server, stream))
        await close_clients()

        assert [request.connection for request in server.requests] == [0, 0, 1]
        assert server.requests[1].body == server.requests[2].body


async def test_all_kept_connections_may_be_dead() -> None:
    """Each was kept at the same time, and each is tried."""
    both_came = threading.Barrier(2, timeout=HANG_S)

    def answer_together(reply: Reply) -> None:
        both_came.wait()
        answering(COMPLETIONS)(reply)

    with RawServer(answer_together, answer_together, closes, resets, answering(COMPLETIONS)) as server:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask, server, COMPLETIONS)
        assert is_whole(await ask(server, COMPLETIONS))
        await close_clients()

        assert sorted(request.connection for request in server.requests[2:]) == [0, 1, 2]


@pytest.mark.parametrize("death", [closes, resets])
async def test_a_request_on_a_new_connection_that_dies_is_not_sent_again(death: Callable[[Reply], None]) -> None:
    """Whether it is tried again, and when, is decided elsewhere."""
    with RawServer(death) as server:
        assert failure(await ask(server, COMPLETIONS)).startswith("Connection error: ")
        await close_clients()

        assert len(server.requests) == 1


@pytest.mark.parametrize("base_url", ["http://model.example", "https://model.example"])
async def test_a_new_connection_through_a_proxy_is_a_new_one(base_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(closes) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        request = request_at(base_url, COMPLETIONS, HANG_S, "hi")
        builder = MessageBuilder(request.model, StreamWitness(), 0)
        provider = find_provider(COMPLETIONS.api)
        assert provider is not None
        await provider.stream(request, builder)
        await close_clients()

        assert failure(builder.message).startswith("Connection error: ")
        assert len(proxy.requests) == 1


async def test_a_kept_connection_to_a_proxy_may_die_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(answering(COMPLETIONS), closes, answering(COMPLETIONS)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        for _ in range(2):
            request = request_at("http://model.example", COMPLETIONS, HANG_S, "hi")
            builder = MessageBuilder(request.model, StreamWitness(), 0)
            provider = find_provider(COMPLETIONS.api)
            assert provider is not None
            await provider.stream(request, builder)
            assert is_whole(builder.message)
        await close_clients()

        assert [each.connection for each in proxy.requests] == [0, 0, 1]


async def test_a_request_is_sent_again_only_once_on_a_new_connection() -> None:
    with RawServer(answering(COMPLETIONS), closes) as server:
        assert is_whole(await ask(server, COMPLETIONS))
        assert failure(await ask(server, COMPLETIONS)).startswith("Connection error: ")
        await close_clients()

        assert [request.connection for request in server.requests] == [0, 0, 1]


def says_no_http(reply: Reply) -> None:
    reply.send(b"nonsense\r\n\r\n")
    reply.close()


def dies_behind_its_head(reply: Reply) -> None:
    reply.head()
    reply.reset()


@pytest.mark.parametrize("answer", [says_no_http, dies_behind_its_head, before_the_head])
async def test_what_was_answered_in_any_way_or_is_just_slow_is_not_sent_again(answer: Answer) -> None:
    with RawServer(answering(COMPLETIONS), answer) as server:
        assert is_whole(await ask(server, COMPLETIONS))
        assert failure(await ask(server, COMPLETIONS, IDLE_S))
        await close_clients()

        assert len(server.requests) == 2


async def test_a_stream_that_breaks_on_a_kept_connection_is_not_sent_again() -> None:
    def break_off(reply: Reply) -> None:
        reply.head()
        reply.chunks(*COMPLETIONS.events(TEXT)[:3])
        reply.close()

    with RawServer(answering(COMPLETIONS), break_off) as server:
        assert is_whole(await ask(server, COMPLETIONS))
        message = await ask(server, COMPLETIONS)
        await close_clients()

        assert failure(message).startswith("Connection lost: ")
        assert len(message["content"]) == 2
        assert len(server.requests) == 2


async def test_a_refusal_on_a_kept_connection_is_reported_at_once() -> None:
    with RawServer(answering(COMPLETIONS), lambda reply: reply.whole(b"later", status="503 Busy")) as server:
        assert is_whole(await ask(server, COMPLETIONS))
        assert failure(await ask(server, COMPLETIONS)) == "503 later"
        await close_clients()

        assert len(server.requests) == 2


async def test_an_answer_that_is_not_read_to_its_end_does_not_spoil_the_next() -> None:
    """What is left of it would be taken for the beginning of the next one's."""

    def never_end(reply: Reply) -> None:
        reply.head()
        reply.chunks(*COMPLETIONS.events(TEXT), b": and so on\n\n")

    with RawServer(never_end, answering(COMPLETIONS)) as server:
        for _ in range(2):
            assert is_whole(await ask(server, COMPLETIONS))
        await close_clients()

        assert server.connections == 2
