"""Anthropic's messages over real connections: whole answers, refusals, cuts, and going on after an abort.

The streams were constructed after the published format, never recorded.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
from tests.agent.llm.recording import RICH, Recorder, rich_content
from tests.agent.samples import failure, prices, served_model, user

from pinnace_agent.llm.anthropic.provider import AnthropicMessagesProvider
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import AssistantMessage, Message, Model, ThinkingLevel

KEY = "sk-ant-api03-0123456789abcdef"
PROVIDER = AnthropicMessagesProvider()
TOOL = ToolSpec("bash", "Runs.", {"type": "object"})


def model_at(base_url: str) -> Model:
    return served_model(api="anthropic-messages", baseUrl=base_url, reasoning=True, cost=prices(1, 2), maxTokens=30_000)


def request_at(base_url: str, *messages: Message, level: ThinkingLevel = "off", key: str = KEY) -> LlmRequest:
    asked = messages or (user("hi"),)
    return LlmRequest(model_at(base_url), "Be brief.", asked, (TOOL,), level, key, {}, "s1")


@asynccontextmanager
async def faking(*responses: Mapping[str, object]) -> AsyncIterator[FakeLlm]:
    """Serve a script; afterwards no connection is left."""
    with FakeLlm(responses) as llm:
        try:
            yield llm
        finally:
            await close_clients()


async def ask(request: LlmRequest, recorder: Recorder | None = None) -> AssistantMessage:
    builder = MessageBuilder(request.model, recorder or Recorder(), 0)
    await PROVIDER.stream(request, builder)
    assert builder.is_finished
    return builder.message


async def answer_to(response: Mapping[str, object], recorder: Recorder | None = None) -> AssistantMessage:
    async with faking(response) as llm:
        return await ask(request_at(llm.base_url), recorder)


RICH_CONTENT = rich_content("c2lnbmVk")


async def test_the_request_goes_where_the_model_is_and_the_answer_comes_block_by_block() -> None:
    recorder = Recorder()
    async with faking(RICH) as llm:
        message = await ask(request_at(llm.base_url, level="low"), recorder)
        (request,) = llm.requests

    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["user-agent"]) == (KEY, "pinnace")
    assert list(request.body) == ["model", "messages", "max_tokens", "stream", "system", "tools", "thinking"]
    assert recorder.starts == 1
    assert [word[:16].strip() for word in recorder.words if "_delta" not in word] == [
        *("thinking_start 0", "thinking_end 0 I"),
        *("text_start 1", "text_end 1 Héllo"),
        *("toolcall_start 2", "toolcall_end 2"),
        *("toolcall_start 3", "toolcall_end 3"),
    ]
    assert message["content"] == RICH_CONTENT
    assert (message["stopReason"], message.get("responseId")) == ("toolUse", "msg_fake")
    assert message["usage"]["totalTokens"] == 160
    assert message["usage"].get("reasoning") == 7


@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("cut_bytes", [1, 7, 1000])
async def test_an_answer_is_the_same_however_the_network_cuts_it(cut_bytes: int, is_compressed: bool) -> None:
    message = await answer_to({**RICH, "cut_bytes": cut_bytes, "gzip": is_compressed})

    assert message["content"] == RICH_CONTENT


async def test_a_huge_event_comments_pings_and_odd_line_ends_change_nothing() -> None:
    huge = {"type": "text_delta", "text": "x" * 1_000_000}
    event = json.dumps({"type": "content_block_delta", "index": 0, "delta": huge})
    pieces: list[Mapping[str, object]] = [
        {"text": "a"},
        {"raw": ": keep-alive\r\n\r\nevent:ping\rdata:{}\r\revent: vendor.note\ndata: not json\n\n"},
        {"raw": f"event:content_block_delta\r\ndata:{event}\r\n\r\n"},
    ]
    message = await answer_to({"chunks": pieces})

    assert message["content"] == [{"type": "text", "text": "a" + "x" * 1_000_000}]
    assert message["stopReason"] == "stop"


END: Mapping[str, object] = {"finish": "stop"}
LAST: Mapping[str, object] = {"raw": 'event: message_stop\ndata: {"type":"message_stop"}'}


async def test_a_last_event_without_a_blank_line_counts() -> None:
    message = await answer_to({"chunks": [{"text": "a"}, END, LAST], "usage": None, "done": False})

    assert message["stopReason"] == "stop"


async def test_under_a_login_a_tool_has_another_name_on_the_way_only() -> None:
    async with faking({"tool_calls": [{"name": "Bash", "args": {}}]}) as llm:
        message = await ask(request_at(llm.base_url, key="sk-ant-oat01-0123456789abcdef"))
        (request,) = llm.requests

    assert [tool["name"] for tool in request.body["tools"]] == ["Bash"]
    assert [block["name"] for block in message["content"] if block["type"] == "toolCall"] == ["bash"]


# Refusals

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, OutcomeKind.FATAL),
        (401, OutcomeKind.FATAL),
        (413, OutcomeKind.OVERFLOW),
        (429, OutcomeKind.TRANSIENT),
        (500, OutcomeKind.TRANSIENT),
        (529, OutcomeKind.TRANSIENT),
    ],
)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            {"type": "error", "error": {"type": "some_error", "message": "no"}, "request_id": "r1"},
            ' {"type":"error","error":{"type":"some_error","message":"no"},"request_id":"r1"}',
        ),
        ({"detail": "no"}, ' {"detail":"no"}'),
        (b"<html>no</html>", " <html>no</html>"),
        (b"", " status code (no body)"),
    ],
    ids=["json", "foreign json", "text", "empty"],
)
async def test_a_refusal_is_its_status_and_its_whole_body(
    status: int, outcome: OutcomeKind, body: object, text: str
) -> None:
    recorder = Recorder()
    message = await answer_to({"error": {"status": status, "body": body}}, recorder)

    assert failure(message) == f"{status}{text}"
    assert classify_failure(failure(message), "local").kind is outcome
    assert (recorder.starts, recorder.words) == (0, [])


async def test_an_error_inside_of_a_stream_is_its_data_and_worth_another_try() -> None:
    response = {"chunks": [{"text": "half"}, {"event": {**OVERLOADED}}], "finish": None, "usage": None, "done": False}
    async with faking(response) as llm:
        request = request_at(llm.base_url)
        builder = MessageBuilder(request.model, Recorder(), 0)
        await PROVIDER.stream(request, builder)

    text = failure(builder.message)
    assert json.loads(text) == OVERLOADED
    assert classify_failure(text, "local", builder.signs).kind is OutcomeKind.TRANSIENT
    assert builder.signs.codes == ("overloaded_error",)
    assert builder.message["content"] == [{"type": "text", "text": "half"}]


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("has_reason", [False, True])
async def test_a_connection_that_is_cut_keeps_what_came_and_is_an_error(how: str, has_reason: bool) -> None:
    """Also behind the stop reason: only the last event says that nothing is missing."""
    recorder = Recorder()
    pieces = [{"text": "half"}, *([END] if has_reason else []), {"gate": "g"}, {"disconnect": how}]
    async with faking({"chunks": pieces}) as llm, trio.open_nursery() as nursery:
        request = request_at(llm.base_url)
        builder = MessageBuilder(request.model, recorder, 0)
        nursery.start_soon(PROVIDER.stream, request, builder)
        await recorder.asked_after_delta.wait()
        llm.release("g")

    assert failure(builder.message).startswith("Connection lost: ")
    assert classify_failure(failure(builder.message), "local").kind is OutcomeKind.TRANSIENT
    assert builder.message["content"] == [{"type": "text", "text": "half"}]


async def test_an_orderly_end_without_the_last_event_is_an_error() -> None:
    message = await answer_to({"text": "half", "done": False})

    assert failure(message) == "Anthropic stream ended before message_stop"


@pytest.mark.parametrize("key", [KEY, "sk-ant-oat01-0123456789abcdef"])
@pytest.mark.parametrize(
    "echo",
    [
        lambda key: {"error": {"status": 401, "body": {"error": {"message": f"bad {key}"}}}},
        lambda key: {"error": {"status": 401, "body": f"Bearer {key}".encode()}},
        lambda key: {"chunks": [{"event": {"type": "error", "error": {"message": f"bad {key}"}}}]},
        lambda key: {"chunks": [{"raw": f"event: error\ndata: {key}\n\n"}]},
        lambda key: {"chunks": [{"raw": f"data: {{{key}\n\n"}]},
    ],
)
async def test_a_key_that_the_server_sends_back_is_not_shown(
    key: str, echo: Callable[[str], Mapping[str, object]]
) -> None:
    async with faking(echo(key)) as llm:
        text = failure(await ask(request_at(llm.base_url, key=key)))

    assert key[:10] not in text
    assert "[redacted]" in text


# Abort, and what comes after


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        ([], []),
        ([{"text": "half"}], ["text"]),
        (
            [{"reasoning": "hm"}, {"tool": {"index": 0, "id": "c1", "name": "bash"}}, {"args": '{"command":"l'}],
            ["thinking", "toolCall"],
        ),
    ],
    ids=["before the headers", "in the text", "in the arguments"],
)
async def test_the_conversation_goes_on_after_an_abort(pieces: list[Mapping[str, object]], kept: list[str]) -> None:
    response = {"chunks": [*pieces, {"gate": "g"}, {"text": "never"}]} if pieces else {"text": "never", "hold": "g"}
    async with faking(response, {"text": "next"}) as llm:
        request, recorder = request_at(llm.base_url, level="low"), Recorder()
        builder = MessageBuilder(request.model, recorder, 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            await trio.to_thread.run_sync(llm.wait_reached, "g")
            while pieces and len(builder.snapshot()["content"]) < len(kept):
                await recorder.asked_after_delta.wait()
                recorder.asked_after_delta = trio.Event()
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(llm.wait_disconnects, 1)
        builder.abort()
        assert [block["type"] for block in builder.message["content"]] == kept

        after = await ask(request_at(llm.base_url, user("hi"), builder.message, user("go on")))
        sent = llm.requests[1].body["messages"]
    assert [block["text"] for message in sent for block in message["content"]] == ["hi", "go on"]
    assert after["content"] == [{"type": "text", "text": "next"}]
