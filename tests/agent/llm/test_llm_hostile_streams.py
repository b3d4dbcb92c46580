"""Streams that no test of one API thinks of: the same answer of every API, cut, damaged and disguised in every way.

Whatever comes, an answer is whole or an error that says why; nothing is raised, nothing hangs, and what is reported on
the way follows the rules of the stream. The answers are constructed after the published formats, never recorded.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
import trio
from tests.agent.samples import failure, prices, served_model
from tests.parts import part

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.providers import find_provider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_campaigns.trials.model_streams import COMMAND, FAILURE, STREAMS, TEXT, THOUGHT, TOOL, ModelStream
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Reply
from pinnace_spec.records.messages import AssistantMessage, UserMessage

QUESTION: UserMessage = {"role": "user", "content": "hi", "timestamp": 0}
# Far above what any answer here takes, and far below what a test run can wait for.
HANG_S = 60.0
HUGE_CHARS = 8 * 1024 * 1024
_LF = 0x0A

each_api = pytest.mark.parametrize("stream", STREAMS, ids=[stream.api for stream in STREAMS])


def request_at(url: str, stream: ModelStream, idle_timeout_s: float | None = HANG_S) -> LlmRequest:
    model = served_model(api=stream.api, baseUrl=url, reasoning=True, cost=prices(1, 2))
    tool = ToolSpec(TOOL, "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}})
    return LlmRequest(
        model, "", (QUESTION,), (tool,), "low", "sk-0123456789abcdef", {}, "s1", idle_timeout_s=idle_timeout_s
    )


async def ask(server: RawServer, stream: ModelStream, idle_timeout_s: float | None = HANG_S) -> AssistantMessage:
    """Ask for one answer and judge how it came."""
    request = request_at(server.url, stream, idle_timeout_s)
    witness = StreamWitness()
    builder = MessageBuilder(request.model, witness, 0)
    provider = find_provider(stream.api)
    assert provider is not None
    with trio.fail_after(HANG_S):
        await provider.stream(request, builder)
    assert builder.is_finished
    assert witness.judge(builder.message) == []
    return builder.message


async def answer_to(stream: ModelStream, answer: Answer, idle_timeout_s: float | None = HANG_S) -> AssistantMessage:
    with RawServer(answer) as server:
        try:
            return await ask(server, stream, idle_timeout_s)
        finally:
            await close_clients()


def sending(*pieces: bytes, headers: Sequence[str] = (), content_type: str = "text/event-stream") -> Answer:
    """Answer with a success whose body comes in these chunks."""

    def answer(reply: Reply) -> None:
        reply.head(*headers, content_type=content_type)
        reply.chunks(*pieces)
        reply.end()

    return answer


def body_of(stream: ModelStream, text: str = TEXT) -> bytes:
    return b"".join(stream.events(text))


def cut_into(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def brief(message: AssistantMessage) -> list[object]:
    """Return what an answer says, without what only its API reads."""
    said: list[object] = []
    for block in message["content"]:
        match block["type"]:
            case "text":
                said.append(block["text"])
            case "thinking":
                said.append(("thought", block["thinking"]))
            case "toolCall":
                said.append((block["name"], block["arguments"], "argumentsError" in block))
    return said


def whole(text: str = TEXT) -> list[object]:
    return [("thought", THOUGHT), text, (TOOL, COMMAND, False)]


def assert_whole(message: AssistantMessage, text: str = TEXT) -> None:
    assert (message["stopReason"], message.get("errorMessage")) == ("toolUse", None)
    assert brief(message) == whole(text)


# The same answer in other bytes


def with_noise(stream: ModelStream) -> bytes:
    """Put between the events what servers send to keep a connection alive, and what no reader here knows."""
    ping = b'\n\n: ping\n\nevent: ping\ndata: {"type": "ping"}\n\n'
    noise = ping + b'id: 7\nretry: 3\n\nevent: new.kind\ndata: {"type":"new.kind"}\n\n'
    return noise + noise.join(stream.events(TEXT))


def in_many_lines(stream: ModelStream) -> bytes:
    """Write each event's JSON over several lines of data."""
    lines = (event.replace(b'{"', b'{\ndata: "').replace(b',"', b'\ndata:,"') for event in stream.events(TEXT))
    return b"".join(lines)


DISGUISES: dict[str, Callable[[ModelStream], bytes]] = {
    "as it is": body_of,
    "CR": lambda stream: body_of(stream).replace(b"\n", b"\r"),
    "CRLF": lambda stream: body_of(stream).replace(b"\n", b"\r\n"),
    "a byte order mark": lambda stream: b"\xef\xbb\xbf" + body_of(stream),
    "no space behind the colon": lambda stream: (
        body_of(stream).replace(b"data: ", b"data:").replace(b"event: ", b"event:")
    ),
    "comments, pings and unknown events": with_noise,
    "data in many lines": in_many_lines,
    "no blank line at the end": lambda stream: body_of(stream).rstrip(b"\n"),
    "empty events": lambda stream: b"data:\n\n" + body_of(stream).replace(b"\n\n", b"\n\ndata: \n\n\n\n"),
    "more behind the end": lambda stream: body_of(stream) + b": over\n\n",
}
CUTS: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    "one chunk": lambda data: [data],
    "a byte a chunk": lambda data: cut_into(data, 1),
    "a line a chunk": lambda data: data.splitlines(keepends=True),
    "two lines a chunk": lambda data: cut_into(data, len(data) // 3),
}


@each_api
@pytest.mark.parametrize("disguise", DISGUISES)
async def test_an_answer_is_whole_however_its_stream_is_written_and_cut(stream: ModelStream, disguise: str) -> None:
    data = DISGUISES[disguise](stream)
    for name, cut in CUTS.items():
        message = await answer_to(stream, sending(*cut(data)))

        assert brief(message) == whole(), name
        assert_whole(message)


@each_api
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_an_answer_may_be_compressed(stream: ModelStream, encoding: str, size: int) -> None:
    data = compressed(body_of(stream), encoding)

    assert_whole(await answer_to(stream, sending(*cut_into(data, size), headers=[f"Content-Encoding: {encoding}"])))


def compressed(data: bytes, encoding: str) -> bytes:
    deflater = zlib.compressobj(wbits=zlib.MAX_WBITS + (0 if encoding == "deflate" else 16))
    return deflater.compress(data) + deflater.flush()


@each_api
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "", "text/html; charset=utf-8"])
async def test_a_stream_under_a_wrong_name_is_read_all_the_same(stream: ModelStream, content_type: str) -> None:
    assert_whole(await answer_to(stream, sending(body_of(stream), content_type=content_type)))


@each_api
async def test_a_stream_without_chunks_ends_with_its_connection(stream: ModelStream) -> None:
    def answer(reply: Reply) -> None:
        reply.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body_of(stream))
        reply.close()

    assert_whole(await answer_to(stream, answer))


@each_api
async def test_one_event_may_be_huge(stream: ModelStream) -> None:
    text = 'ab\u2028d\u00e9\U0001f600\\"\n' * (HUGE_CHARS // 9)

    assert_whole(await answer_to(stream, sending(*cut_into(body_of(stream, text), 65_536))), text)


# Streams that end too early


def end_in_order(reply: Reply) -> None:
    reply.end()


def close(reply: Reply) -> None:
    reply.close()


def reset(reply: Reply) -> None:
    reply.reset()


def cuts(data: bytes, needed: int, of: int) -> list[int]:
    """Return where a stream is cut: around the ends of its lines and of what is needed, and one place in so many more.

    Those are others in each run, and all places in long ones.
    """
    lines = {place + near for place, byte in enumerate(data) if byte == _LF for near in (0, 1)}
    return sorted({*part(len(data) + 1, of), *lines, *range(needed - 4, needed + 2), len(data)})


@each_api
@pytest.mark.parametrize(("farewell", "of"), [(end_in_order, 6), (close, 35), (reset, 35)])
async def test_a_stream_that_is_cut_anywhere_is_whole_or_an_error(
    stream: ModelStream, farewell: Callable[[Reply], None], of: int
) -> None:
    """What it says how the answer ended decides: once that was read, nothing that is missing spoils the answer."""
    data = body_of(stream)
    needed = len(b"".join(stream.events(TEXT)[: stream.end + 1]))
    place = 0

    def answer(reply: Reply) -> None:
        reply.head()
        reply.chunks(data[:place])
        farewell(reply)

    with RawServer(answer) as server:
        for place in cuts(data, needed, of):
            message = await ask(server, stream)
            if message["stopReason"] == "error":
                # A reset may take with it what was not read yet.
                assert place < needed or farewell is reset, place
                assert message.get("errorMessage"), place
                assert_beginning(message)
            else:
                assert place >= needed - 3, place  # the blank line may be missing, and the object's end may not
                assert_whole(message)
        await close_clients()


def assert_beginning(message: AssistantMessage) -> None:
    """Hold an answer that failed to what it could have known."""
    for said, full in zip(brief(message), whole(), strict=False):
        match said, full:
            case str(), str():
                assert full.startswith(said.rstrip("\ufffd"))
            case ("thought", str(thought)), _:
                assert THOUGHT.startswith(thought.rstrip("\ufffd"))
            case _:
                assert isinstance(said, tuple)
                assert said[0] == TOOL


@each_api
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_stream_that_is_cut_anywhere_is_whole_or_an_error(
    stream: ModelStream, encoding: str
) -> None:
    data = compressed(body_of(stream), encoding)
    place = 0

    def answer(reply: Reply) -> None:
        sending(data[:place], headers=[f"Content-Encoding: {encoding}"])(reply)

    with RawServer(answer) as server:
        for place in part(len(data), 9):
            message = await ask(server, stream)
            if message["stopReason"] == "error":
                assert place < len(data) - 1
                assert_beginning(message)
            else:
                assert_whole(message)
        await close_clients()


@each_api
async def test_a_stream_without_its_last_word_is_an_error_that_keeps_what_came(stream: ModelStream) -> None:
    message = await answer_to(stream, sending(*stream.events(TEXT)[: stream.end]))

    assert "ended" in failure(message)
    assert brief(message)[:2] == whole()[:2]


@each_api
async def test_any_event_may_be_missing(stream: ModelStream) -> None:
    """Lost in a proxy: what is left is read, or refused with a reason."""
    events = stream.events(TEXT)
    for index in range(len(events)):
        message = await answer_to(stream, sending(*events[:index], *events[index + 1 :]))
        assert message["stopReason"] in {"toolUse", "stop", "error"}


@each_api
async def test_any_event_may_come_twice_or_too_early(stream: ModelStream) -> None:
    events = list(stream.events(TEXT))
    for index in range(len(events)):
        twice = [*events[: index + 1], *events[index:]]
        swapped = [*events[:index], *reversed(events[index : index + 2]), *events[index + 2 :]]
        for each in (twice, swapped):
            message = await answer_to(stream, sending(*each))
            assert message["stopReason"] in {"toolUse", "stop", "error"}


@each_api
async def test_an_error_inside_of_the_stream_is_reported_wherever_it_comes(stream: ModelStream) -> None:
    events = stream.events(TEXT)
    for index in range(stream.end + 1):
        message = await answer_to(stream, sending(*events[:index], stream.error, *events[index:]))

        assert FAILURE in failure(message)
        assert_beginning(message)


@each_api
@pytest.mark.parametrize("rubbish", [b"{", b"\xff\xfe", b"nonsense", b"[" * 2_000, b'{"a":1}}', b"\x00"])
async def test_data_that_cannot_be_read_is_an_error(stream: ModelStream, rubbish: bytes) -> None:
    first, *rest = stream.events(TEXT)
    message = await answer_to(stream, sending(first, b"data: " + rubbish + b"\n\n", *rest))

    assert failure(message)


@each_api
@pytest.mark.parametrize("value", [None, 0, "x", [], {}, [[]], {"type": None}, {"type": 5}, {"error": None}])
async def test_data_that_says_nothing_is_passed_over(stream: ModelStream, value: object) -> None:
    event = b"data: " + json.dumps(value).encode() + b"\n\n"
    events = stream.events(TEXT)

    assert_whole(await answer_to(stream, sending(*(each for pair in events for each in (event, pair)))))


@each_api
async def test_compressed_data_that_is_none_is_an_error(stream: ModelStream) -> None:
    message = await answer_to(stream, sending(body_of(stream), headers=["Content-Encoding: gzip"]))

    assert failure(message).startswith("The answer of 127.0.0.1 cannot be decoded: ")


def test_the_disguises_are_different() -> None:
    for stream in STREAMS:
        written = [disguise(stream) for disguise in DISGUISES.values()]
        assert all(one != other for one, other in pairwise(sorted(written)))
