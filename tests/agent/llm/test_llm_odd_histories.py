"""What a session becomes that holds empty messages, results without a call, or thoughts of nothing. Rule R-LLM-04.

Each row was compared with the request that release 1.5.2 of the original sends for the same session: those marked
`as the original` are the same, the others depart from it on purpose (D-58, D-59).
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest
from tests.agent.samples import answer_of, served_model, text_block, tool_call, tool_result, user

from pinnace_agent.llm.anthropic.compat import compat_of as anthropic_compat
from pinnace_agent.llm.anthropic.request import http_request as anthropic_request
from pinnace_agent.llm.openai_chat.compat import compat_of as chat_compat
from pinnace_agent.llm.openai_chat.request import http_request as chat_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    ThinkingContent,
    UserMessage,
)

Wire = dict[str, Any]

CHAT: Final = served_model(reasoning=True, input=["text", "image"])
ANTHROPIC: Final = served_model(reasoning=True, input=["text", "image"], api="anthropic-messages")
IMAGE: Final[ImageContent] = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
PICTURE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SOURCE: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
LEAD: Final = "Attached image(s) from tool result:"
CALLED: Final = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
USED: Final[Wire] = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}


def _answer(*content: AssistantContent, **fields: object) -> AssistantMessage:
    return answer_of(CHAT, *content, **fields)


def _thought(text: str, signature: str = "reasoning_content", **more: bool) -> ThinkingContent:
    thought: ThinkingContent = {"type": "thinking", "thinking": text, "thinkingSignature": signature}
    return {**thought, "redacted": True} if more else thought


def _said(text: str) -> Wire:
    return {"role": "user", "content": [text_block(text)]}


def _tool(content: object) -> Wire:
    return {"role": "tool", "tool_call_id": "c1", "content": content}


def _results(content: object, *behind: Mapping[str, Any], is_error: bool = False) -> Wire:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": is_error}
    return {"role": "user", "content": [result, *behind]}


def _used(*before: Wire) -> Wire:
    return {"role": "assistant", "content": [*before, USED]}


class Row(NamedTuple):
    """Messages between two others, and what becomes of them."""

    messages: tuple[Message, ...]
    chat: list[Wire]
    anthropic: list[Wire]


EMPTY: Final[UserMessage] = {"role": "user", "content": "", "timestamp": 0}
CALL: Final = _answer(tool_call("c1"))
CHAT_CALL: Final[Wire] = {"role": "assistant", "content": None, "tool_calls": [CALLED]}
ORPHAN: Final = tool_result("c9", "r", IMAGE)
ABORTED: Final = _answer(tool_call("c1"), stopReason="aborted")
IMAGES: Final[Wire] = {"role": "user", "content": [text_block(LEAD), PICTURE]}
SEEN: Final = text_block("(see attached image)")

ROWS: Final[dict[str, Row]] = {
    "an empty message": Row((EMPTY,), [], []),
    "no content (as the original)": Row((user(), user("")), [], []),
    "an image without a call": Row((ORPHAN,), [], []),
    "a result of an aborted answer": Row((ABORTED, tool_result("c1", IMAGE)), [], []),
    "an image without a call beside a result": Row(
        (CALL, ORPHAN, tool_result("c1", "r")), [CHAT_CALL, _tool("r")], [_used(), _results("r")]
    ),
    "two results of a call": Row(
        (CALL, tool_result("c1", "r"), tool_result("c1", IMAGE)), [CHAT_CALL, _tool("r")], [_used(), _results("r")]
    ),
    "a late result": Row(
        (CALL, user("wait"), tool_result("c1", "r", IMAGE)),
        [CHAT_CALL, _tool("r"), IMAGES, _said("wait")],
        [_used(), _results([text_block("r"), SOURCE]), _said("wait")],
    ),
    "a call without a result (as the original)": Row(
        (CALL, user("wait")),
        [CHAT_CALL, _tool("No result provided"), _said("wait")],
        [_used(), _results("No result provided", is_error=True), _said("wait")],
    ),
    "a blank result": Row(
        (CALL, tool_result("c1", " \n")),
        [CHAT_CALL, _tool("(no tool output)")],
        [_used(), _results("(no tool output)")],
    ),
    "a blank text beside an image": Row(
        (CALL, tool_result("c1", " ", IMAGE)),
        [CHAT_CALL, _tool("(see attached image)"), IMAGES],
        [_used(), _results([SEEN, SOURCE])],
    ),
    "an image of a failed result": Row(
        (CALL, tool_result("c1", IMAGE, is_error=True)),
        [CHAT_CALL, _tool("(see attached image)"), IMAGES],
        [_used(), _results("(see attached image)", text_block(LEAD), SOURCE, is_error=True)],
    ),
    "nothing but blank thoughts (as the original)": Row(
        (_answer(_thought(" \n", "")), _answer(_thought("", ""))), [], []
    ),
    "redacted thinking without its data": Row((_answer(_thought("", "", redacted=True)),), [], []),
    "a blank text before another (as the original)": Row(
        (_answer(text_block(" "), text_block("a")),),
        [{"role": "assistant", "content": "a"}],
        [{"role": "assistant", "content": [text_block("a")]}],
    ),
}


def _sent(messages: tuple[Message, ...], api: str) -> list[Wire]:
    model = CHAT if api == "chat" else ANTHROPIC
    history: list[Message] = [user("first")]
    for each in messages:
        history.append(
            answer_of(model, *each["content"], stopReason=each["stopReason"]) if each["role"] == "assistant" else each
        )
    request = LlmRequest(model, "", (*history, user("last")), (), "off", None, {}, "s")
    if api == "chat":
        body = json.loads(chat_request(request, chat_compat(model)).body)
    else:
        body = json.loads(anthropic_request(request, anthropic_compat(model)).body)
    first, *between, last = body["messages"]
    assert (first, last) == (_said("first"), _said("last"))
    return list(between)


@pytest.mark.parametrize("api", ["chat", "anthropic"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_request_has_of_an_odd_history_what_strict_servers_accept(
    row: Row, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-LLM-04."""
    # What marks the cached part is no matter of this.
    monkeypatch.setenv("PI_CACHE_RETENTION", "none")

    assert _sent(row.messages, api) == (row.chat if api == "chat" else row.anthropic)


@pytest.mark.parametrize("blank", ["", " \n"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thoughts_of_nothing_are_not_sent_back(field: str, blank: str) -> None:
    """As the original: neither alone, nor beside a text, a call or a thought of words."""
    rest: tuple[list[AssistantContent], ...] = ([text_block("a")], [_thought("hm", field), text_block("a")])

    bare, with_words = (_sent((_answer(_thought(blank, field), *each),), "chat") for each in rest)
    called = _sent((_answer(_thought(blank, field), tool_call("c1")), tool_result("c1", "r")), "chat")

    assert _sent((_answer(_thought(blank, field)),), "chat") == []
    assert bare == [{"role": "assistant", "content": "a"}]
    assert with_words == [{"role": "assistant", "content": "a", field: "hm"}]
    assert called == [CHAT_CALL, _tool("r")]
