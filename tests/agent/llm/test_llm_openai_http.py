"""Chat completions over real connections: streams whole and cut, refusals, and what is said of them."""

import json
import zlib
from collections.abc import Mapping

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.llm.recording import RICH, Recorder, rich_content
from tests.agent.samples import failure, prices, served_model, text_of

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.openai_chat.provider import OpenAICompletionsProvider
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import AssistantMessage, Message, Model, UserMessage

KEY = "sk-0123456789abcdef"
PROVIDER = OpenAICompletionsProvider()
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
PARTS = "model messages stream stream_options store max_completion_tokens tools".split()


def model_at(base_url: str, **compat: object) -> Model:
    return served_model(baseUrl=base_url, reasoning=True, cost=prices(1, 2), compat=compat)


def request_at(
    base_url: str, *messages: Message, headers: Mapping[str, str] | None = None, key: str | None = KEY
) -> LlmRequest:
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    return LlmRequest(
        model_at(base_url), "Be brief.", messages or (QUESTION,), (tool,), "off", key, headers or {}, "s1"
    )


async def ask(request: LlmRequest, recorder: Recorder | None = None) -> AssistantMessage:
    builder = MessageBuilder(request.model, recorder or Recorder(), 0)
    try:
        await PROVIDER.stream(request, builder)
    finally:
        await close_clients()
    assert builder.is_finished
    return builder.message


async def ask_fake(llm: FakeLlm, recorder: Recorder | None = None) -> AssistantMessage:
    return await ask(request_at(f"{llm.base_url}/v1"), recorder)


async def answer_to(response: Mapping[str, object], recorder: Recorder | None = None) -> AssistantMessage:
    """Ask a server that answers with one response in short form."""
    with FakeLlm([response]) as llm:
        return await ask_fake(llm, recorder)


# Whole answers

RICH_CONTENT = rich_content("reasoning_content")


async def test_the_request_goes_where_the_model_is_with_what_it_needs() -> None:
    with FakeLlm([{"text": "Hello"}]) as llm:
        message = await ask_fake(llm)
        (request,) = llm.requests

    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "pinnace"
    assert list(request.body) == PARTS
    assert request.body["messages"] == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert text_of(message) == "Hello"
    assert message["stopReason"] == "stop"
    assert message.get("responseId") == "chatcmpl-fake"


async def test_configured_headers_are_sent_and_win() -> None:
    headers = {"authorization": "Token other", "X-Team": "blue", "User-Agent": "mine"}
    with FakeLlm([{"text": "Hello"}]) as llm:
        await ask(request_at(llm.base_url, headers=headers))
        (request,) = llm.requests

    assert {name: request.headers[name.lower()] for name in headers} == headers


async def test_without_a_key_no_authorization_is_sent() -> None:
    with FakeLlm([{"text": "Hello"}]) as llm:
        await ask(request_at(llm.base_url, key=None))

    assert "authorization" not in llm.requests[0].headers


async def test_updates_come_in_order_between_one_start_and_the_end() -> None:
    recorder = Recorder()
    message = await answer_to(RICH, recorder)

    assert recorder.starts == 1
    assert recorder.words[:6] == [
        "thinking_start 0",
        "thinking_delta 0 I th",
        "thinking_delta 0 ink 𝄞",
        "text_start 1",
        "text_delta 1 Hé",
        "text_delta 1 llo\u2028wo\u0085rld",
    ]
    assert [word.partition(" ")[0] for word in recorder.words[-4:]] == [
        *("thinking_end", "text_end"),
        *("toolcall_end", "toolcall_end"),
    ]
    assert message["content"] == RICH_CONTENT
    assert message["stopReason"] == "toolUse"
    assert message["usage"]["input"] == 100
    assert message["usage"]["cacheRead"] == 40
    assert message["usage"].get("reasoning") == 7


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("cut_bytes", [1, 2, 3, 7, 64, 1000])
async def test_an_answer_is_the_same_however_the_network_cuts_it(cut_bytes: int, is_compressed: bool) -> None:
    message = await answer_to({**RICH, "cut_bytes": cut_bytes, "gzip": is_compressed})

    assert message["content"] == RICH_CONTENT
    assert message["usage"]["totalTokens"] == 160


async def test_parallel_calls_may_arrive_interleaved() -> None:
    chunks: list[Mapping[str, object]] = [
        {"tool": {"index": 0, "id": "c1", "name": "bash"}},
        {"tool": {"index": 1, "id": "c2", "name": "bash"}},
        {"args": '{"a"', "index": 0},
        {"args": '{"b"', "index": 1},
        {"text": "between"},
        {"args": ":1}", "index": 0},
        {"args": ":2}", "index": 1},
    ]
    message = await answer_to({"chunks": chunks})

    assert [block.get("arguments", block.get("text")) for block in message["content"]] == [
        {"a": 1},
        {"b": 2},
        "between",
    ]


async def test_pings_comments_and_unknown_events_change_nothing() -> None:
    chunks = [
        {"raw": ": OPENROUTER PROCESSING\n\n"},
        {"text": "a"},
        {"raw": "event: ping\ndata: {}\n\n: keep-alive\n\ndata: \n\nid: 7\nretry: 5\n\n"},
        {"event": {"type": "heartbeat", "choices": None}},
        {"event": []},
        {"text": "b"},
    ]

    assert text_of(await answer_to({"chunks": chunks, "cut_bytes": 5})) == "ab"


async def test_lines_may_end_as_they_like() -> None:
    def event(delta: Mapping[str, object], reason: str | None, end: str) -> bytes:
        value = json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}, indent=1)
        return "".join(f"data:{line}{end}" for line in value.split("\n")).encode() + end.encode()

    raw = event({"content": "a"}, None, "\r\n") + event({"content": "b"}, None, "\r") + event({}, "stop", "\n")
    message = await answer_to({"chunks": [{"raw": raw}], "finish": None, "usage": None, "cut_bytes": 1})

    assert (text_of(message), message["stopReason"]) == ("ab", "stop")


async def test_usage_may_be_absent() -> None:
    message = await answer_to({"text": "a", "usage": None})

    assert message["usage"]["totalTokens"] == 0
    assert message["stopReason"] == "stop"


FINISH = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}'


@pytest.mark.parametrize(
    "last", [FINISH, FINISH + "\n", FINISH + "\n\n", FINISH + "\n\ndata: [DONE]", FINISH + "\n\ndata: [DO"]
)
async def test_the_last_event_counts_however_the_stream_ends_after_it(last: str) -> None:
    message = await answer_to({"chunks": [{"text": "a"}, {"raw": last}], "finish": None, "usage": None, "done": False})

    assert (text_of(message), message["stopReason"]) == ("a", "stop")


async def test_nothing_after_the_end_mark_is_read() -> None:
    chunks = [{"text": "a"}, {"finish": "stop"}, {"raw": "data: [DONE]\n\n"}, {"text": "b"}, {"raw": "data: oops\n\n"}]

    assert text_of(await answer_to({"chunks": chunks})) == "a"


async def test_rubbish_behind_the_finish_reason_spoils_nothing() -> None:
    chunks = [{"text": "a"}, {"finish": "stop"}, {"raw": "data: oops\n\n"}]
    message = await answer_to({"chunks": chunks})

    assert (text_of(message), message["stopReason"]) == ("a", "stop")


# Streams that break


@pytest.mark.parametrize("how", ["rst", "fin"])
async def test_a_connection_that_is_lost_before_the_answer_is_an_error_without_a_start(how: str) -> None:
    recorder = Recorder()
    message = await answer_to({"refuse": how}, recorder)

    assert failure(message).startswith("Connection error: ")
    assert (recorder.starts, recorder.words) == (0, [])
    assert message["content"] == []


async def test_a_connection_that_is_lost_in_the_middle_keeps_what_came_and_ends_no_block() -> None:
    recorder = Recorder()
    message = await answer_to({"chunks": [{"text": "half"}, {"disconnect": "fin"}]}, recorder)

    assert failure(message).startswith("Connection lost: ")
    assert text_of(message) == "half"
    assert recorder.words == ["text_start 0", "text_delta 0 half"]


async def test_a_connection_that_is_lost_inside_of_a_network_chunk_is_an_error() -> None:
    chunks = [{"text": "half"}, {"socket": "40\r\ndata: {"}, {"disconnect": "fin"}]

    assert failure(await answer_to({"chunks": chunks})).startswith("Connection lost: ")


async def test_framing_that_is_none_is_an_error() -> None:
    message = await answer_to({"chunks": [{"text": "half"}, {"socket": "zz\r\nrubbish\r\n"}, {"disconnect": "fin"}]})

    assert failure(message).startswith("Connection lost: ")


async def test_an_orderly_end_without_a_finish_reason_is_an_error() -> None:
    message = await answer_to({"text": "half", "finish": None, "done": False})

    assert failure(message) == "Stream ended without finish_reason"
    assert text_of(message) == "half"


async def test_an_orderly_end_inside_of_an_event_is_no_different() -> None:
    message = await answer_to(
        {"chunks": [{"text": "half"}, {"raw": 'data: {"choices":[{"del'}], "finish": None, "usage": None, "done": False}
    )

    assert failure(message) == "Stream ended without finish_reason"


async def test_an_end_mark_without_a_finish_reason_is_an_error_too() -> None:
    assert failure(await answer_to({"text": "half", "finish": None})) == "Stream ended without finish_reason"


async def test_a_stream_that_is_no_json_is_an_error_that_shows_it() -> None:
    message = await answer_to({"chunks": [{"text": "a"}, {"raw": "data: <oops>\n\n"}, {"text": "b"}]})

    assert failure(message).startswith("The stream holds invalid JSON: ")
    assert "<oops>" in failure(message)
    assert text_of(message) == "a"


@pytest.mark.parametrize(
    "piece",
    [
        {"event": {"error": {"message": "overloaded", "code": 529}}},
        {"event": {"error": "overloaded"}},
        {"raw": 'event: error\ndata: {"message": "overloaded"}\n\n'},
        {"raw": "event: error\ndata: overloaded\n\n"},
        {"raw": 'data: {"error": {"message": "overloaded"}}'},
    ],
)
async def test_an_error_inside_of_a_stream_is_worded_by_its_message(piece: Mapping[str, object]) -> None:
    message = await answer_to({"chunks": [{"text": "a"}, piece], "finish": None, "usage": None, "done": False})

    assert failure(message) == "overloaded"
    assert text_of(message) == "a"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_an_encoding_that_is_none_is_an_error(encoding: str) -> None:
    message = await answer_to({"text": "a", "headers": {"Content-Encoding": encoding}})

    assert failure(message).startswith("The answer of 127.0.0.1 cannot be decoded: ")


async def test_a_refusal_may_be_compressed() -> None:
    headers = {"Content-Encoding": "deflate"}
    body = zlib.compress(b'{"error": "no"}')

    assert failure(await answer_to({"error": {"status": 400, "headers": headers, "body": body}})) == "400: no"
    broken = await answer_to({"error": {"status": 400, "headers": headers, "body": body[1:]}})
    assert failure(broken) == "400 status code (no body)"


WHOLE = (
    b'data: {"choices":[{"delta":{"content":"ab"}}]}\n\n'
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"{}"}}]}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"cd"}}]}\r\n\r\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)


@given(st.lists(st.integers(0, len(WHOLE)), min_size=1, max_size=4), st.sampled_from(["rst", "fin", None]))
@settings(max_examples=25)
def test_wherever_a_stream_breaks_there_is_an_end(places: list[int], how: str | None) -> None:
    """The connection is lost at the last of the places; with None the body ends there in order."""
    *cuts, end = sorted(places)
    pieces: list[Mapping[str, object]] = [
        {"raw": WHOLE[start:stop]} for start, stop in zip([0, *cuts], [*cuts, end], strict=True)
    ]
    farewell: list[Mapping[str, object]] = [{"disconnect": how}] if how else []

    chunks = {"chunks": [*pieces, *farewell], "finish": None, "usage": None, "done": False}
    message = trio.run(answer_to, chunks)
    is_complete = message["stopReason"] == "toolUse"
    assert message["stopReason"] in {"toolUse", "error"}
    assert "abcd".startswith(text_of(message))
    assert text_of(message) == "abcd" or not is_complete
    assert is_complete or message.get("errorMessage")
    if how != "rst":
        # What a lost connection has cut may be more than the blank line that ends an event.
        unneeded = "data: [DONE]\n\n" if how == "fin" else "\n\ndata: [DONE]\n\n"
        assert is_complete == (end >= len(WHOLE) - len(unneeded))


# Refusals


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 529])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no", "type": "x"}}, ': {"message":"no","type":"x"}'),
        ({"detail": "no"}, ': {"detail":"no"}'),
        (b"<html>no</html>", " <html>no</html>"),
        (b"", " status code (no body)"),
    ],
    ids=["json", "foreign json", "text", "empty"],
)
async def test_a_refusal_is_an_error_with_status_and_body(status: int, body: object, text: str) -> None:
    recorder = Recorder()
    message = await answer_to({"error": {"status": status, "body": body}}, recorder)

    assert failure(message) == f"{status}{text}"
    assert (recorder.starts, recorder.words) == (0, [])


async def test_a_huge_refusal_is_cut() -> None:
    message = await answer_to({"error": {"status": 500, "body": b"x" * 1_000_000}})

    assert failure(message).startswith("500 xxx")
    assert "[truncated " in failure(message)
    assert len(failure(message)) < 5_000


async def test_a_redirect_is_not_followed_since_it_would_take_the_key_along() -> None:
    with FakeLlm([{"text": "stolen"}]) as other:
        elsewhere = f"{other.base_url}/chat/completions"
        message = await answer_to({"error": {"status": 307, "headers": {"Location": elsewhere}, "body": b""}})

        assert failure(message).startswith(f"307 The server redirects to {elsewhere}")
        assert other.requests == []


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/html", b"<html>hello</html>", "the server sent text/html and no events: <html>hello</html>"),
        ("application/json", b'{"error": {"message": "no such model"}}', "no such model"),
        ("text/event-stream", b"", "the server sent text/event-stream and no events"),
        ("text/event-stream", b": ping\n\n", "the server sent text/event-stream and no events: : ping"),
    ],
)
async def test_a_success_that_is_no_stream_is_an_error(kind: str, body: bytes, text: str) -> None:
    message = await answer_to({"error": {"status": 200, "headers": {"Content-Type": kind}, "body": body}})

    assert failure(message).endswith(text)


# Keys


@pytest.mark.parametrize(
    "response",
    [
        {"error": {"status": 401, "body": {"error": {"message": f"Incorrect API key: {KEY}"}}}},
        {"error": {"status": 401, "body": f"Bearer {KEY}".encode()}},
        {"error": {"status": 400, "body": b"x" * 3_990 + KEY.encode() + b"y" * 5_000}},
        {"error": {"status": 200, "body": f"you sent {KEY}".encode()}},
        {"error": {"status": 302, "headers": {"Location": f"http://h/?key={KEY}"}, "body": b""}},
        {"chunks": [{"event": {"error": {"message": f"key {KEY}"}}}]},
        {"chunks": [{"raw": f"event: error\ndata: {KEY}\n\n"}]},
        {"chunks": [{"raw": f"data: {KEY}\n\n"}]},
    ],
)
async def test_a_key_that_the_server_sends_back_is_not_shown(response: Mapping[str, object]) -> None:
    text = failure(await answer_to(response))

    assert KEY[:6] not in text


@pytest.mark.parametrize("key", ["sk-é123456789", "sk-12345\n6789", "sk-1234\x006789", "sk-\ud83d123456"])
async def test_a_key_that_http_cannot_carry_is_an_error_that_does_not_show_it(key: str) -> None:
    with FakeLlm([]) as llm:
        text = failure(await ask(request_at(llm.base_url, key=key)))

        assert text.startswith("The request cannot be sent: ")
        assert "sk-" not in text
        assert llm.requests == []
