"""The chunks of Mistral's answers, as they stream in.

Decides what each chunk adds to the message. Chunks are those of chat completions (`openai_chat.stream`), except that a
content may be a list of parts, of which some are thoughts, that a change of kind begins another block, and that an id
may be the word "null". Independent of HTTP.
"""

import secrets
from typing import Final

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.mistral.messages import ID_CHARS
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.stream import TEXT, THINKING, ChunkReader, StreamedCall

_NO_ID: Final = "null"
# The cached part of a prompt, in the order of precedence: its object, if it has one, and its field.
_CACHED: Final = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_token_details", "cached_tokens"),
    (None, "num_cached_tokens"),
)


class MistralReader(ChunkReader):
    """Reads the chunks of one answer into its builder."""

    def __init__(self, builder: MessageBuilder, texts: FailureTexts) -> None:
        """Fill `builder`; `texts` formats errors."""
        super().__init__(builder, compat_of(builder.model), texts)
        self._open_block: str | None = None

    def _read_delta(self, delta: dict[str, object]) -> None:
        """Take the content, part by part, then calls."""
        content = delta.get("content")
        for part in [content] if isinstance(content, str) else as_array(content):
            self._read_part(part)
        for call in as_array(delta.get("tool_calls")):
            if (members := as_object(call)) is not None:
                has_id = members.get("id") != _NO_ID
                self._read_call(members if has_id else {**members, "id": None})

    def _read_part(self, part: object) -> None:
        members = as_object(part) or {}
        match members.get("type"):
            case "thinking":
                thoughts = members.get("thinking")
                pieces = [thoughts] if isinstance(thoughts, str) else as_array(thoughts)
                self._add_thought("", "".join(map(_text_of, pieces)))
            case None | "text":
                self._add_text(_text_of(part))
            case _:
                pass  # references to documents, which no request of ours asks for

    def _add_text(self, text: str) -> None:
        if text:
            self._begin(TEXT)
            self._builder.text_delta(TEXT, text)

    def _add_thought(self, field: str, thought: str) -> None:
        if thought:
            self._begin(THINKING)
            self._builder.thinking_delta(THINKING, thought)

    def _add_piece(self, call: StreamedCall, piece: str) -> None:
        self._begin(None)
        super()._add_piece(call, piece)

    def _begin(self, kind: str | None) -> None:
        """End the block of another kind: what follows is in order behind it."""
        if self._open_block not in {None, kind}:
            self._builder.end_block(self._open_block)
        self._open_block = kind

    def _failed(self, reason: str) -> str:
        # The server's own failures are worth another attempt.
        return f"Provider stopped with: {reason}{' (server error)' if reason == 'error' else ''}"

    def _new_id(self) -> str:
        return secrets.token_hex(ID_CHARS)[:ID_CHARS]

    def _read_usage(self, value: object) -> None:
        usage = as_object(value)
        if usage is None:
            return
        prompt = as_count(usage.get("prompt_tokens")) or 0
        cached = min(prompt, _cached(usage))
        tokens = RequestTokens(
            input=prompt - cached, output=as_count(usage.get("completion_tokens")) or 0, cache_read=cached
        )
        self._builder.usage = usage_of(self._builder.model, tokens)


def _cached(usage: dict[str, object]) -> int:
    for place, field in _CACHED:
        members = usage if place is None else as_object(usage.get(place)) or {}
        if (count := as_count(members.get(field))) is not None:
            return count
    return 0


def _text_of(part: object) -> str:
    if isinstance(part, str):
        return part
    return as_text((as_object(part) or {}).get("text")) or ""
