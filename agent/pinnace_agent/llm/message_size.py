"""The size of messages: in characters that a model reads, and in tokens where a provider has counted.

Pure. Characters are code points; an image counts as a fixed number. The caller decides how many characters make a
token. Content may be missing: other programs have written null.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_count, as_object, compact_json
from pinnace_spec.records.messages import AssistantContent, AssistantMessage, Message, UserContent

# What an image costs at the providers that document it, at four characters a token.
IMAGE_CHARS: Final = 4800
_IMAGE: Final = " " * IMAGE_CHARS
# Answers that ended so are not sent to a provider: they are incomplete.
FAILED_STOPS: Final = ("error", "aborted")


class Count(NamedTuple):
    """A provider's count: the context up to and including a message."""

    place: int
    """Of the message."""
    tokens: int


def message_chars(message: Message) -> int:
    """Count the characters of a message that a model reads."""
    match message["role"]:
        case "bashExecution":
            is_kept_back = bool(message.get("excludeFromContext"))
            return 0 if is_kept_back else len(message["command"]) + len(message["output"])
        case "branchSummary" | "compactionSummary":
            return len(message["summary"])
        case "assistant":
            return sum(_assistant_chars(message))
        case _:
            content: str | list[UserContent] | None = message.get("content")
            if isinstance(content, str):
                return len(content)
            return sum(len(block["text"]) if block["type"] == "text" else IMAGE_CHARS for block in content or ())


def message_bytes(message: Message) -> int:
    """Count the bytes of a message that a model reads, as UTF-8; without thoughts, which servers may leave out."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in _texts(message))


def _texts(message: Message) -> Iterator[str]:
    match message["role"]:
        case "bashExecution":
            if not message.get("excludeFromContext"):
                yield message["command"]
                yield message["output"]
        case "branchSummary" | "compactionSummary":
            yield message["summary"]
        case "assistant":
            if message["stopReason"] not in FAILED_STOPS:
                answer: list[AssistantContent] | None = message.get("content")
                for part in answer or ():
                    if part["type"] == "text":
                        yield part["text"]
                    elif part["type"] == "toolCall":
                        yield part["name"]
                        yield compact_json(part["arguments"])
        case _:
            content: str | list[UserContent] | None = message.get("content")
            if isinstance(content, str):
                yield content
            else:
                yield from (block["text"] if block["type"] == "text" else _IMAGE for block in content or ())


def last_count(messages: Sequence[Message]) -> Count | None:
    """Return the last count that can be trusted, None if there is none.

    It is that of a successful answer, is not 0, and belongs to the current context: an answer that is older than the
    entry before it counted a context which a compaction has replaced since.
    """
    newest: list[int] | None = None
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] != "assistant" or not (tokens := counted_tokens(message)):
            continue
        if newest is None:
            newest = list(accumulate((each["timestamp"] for each in messages), max))
        if place == 0 or newest[place - 1] <= message["timestamp"]:
            return Count(place, tokens)
    return None


def input_counts(messages: Sequence[Message]) -> list[Count]:
    """Return what the provider has counted of the context before each answer of the model that answered last.

    Oldest first; each `place` is that of the answer, which is not in the count itself. Only counts that can be trusted,
    as of `last_count`.
    """
    counts: list[Count] = []
    model: tuple[str, str] | None = None
    newest = list(accumulate((each["timestamp"] for each in messages), max))
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message["role"] != "assistant" or not (tokens := _counted_input(message)):
            continue
        own = (message["provider"], message["model"])
        model = model or own
        if own == model and (place == 0 or newest[place - 1] <= message["timestamp"]):
            counts.append(Count(place, tokens))
    return counts[::-1]


def _counted_input(message: AssistantMessage) -> int:
    if message["stopReason"] in FAILED_STOPS:
        return 0
    usage = as_object(message.get("usage")) or {}
    return sum(as_count(usage.get(part)) or 0 for part in ("input", "cacheRead", "cacheWrite"))


def counted_tokens(message: AssistantMessage) -> int:
    """Return the tokens of the context that a provider has counted for an answer, 0 if none or if the answer failed."""
    if message["stopReason"] in FAILED_STOPS:
        return 0
    # Sessions of old releases have no total, or no usage at all.
    usage = as_object(message.get("usage")) or {}
    parts = (as_count(usage.get(part)) or 0 for part in ("input", "output", "cacheRead", "cacheWrite"))
    return as_count(usage.get("totalTokens")) or sum(parts)


def _assistant_chars(message: AssistantMessage) -> Iterable[int]:
    if message["stopReason"] in FAILED_STOPS:
        return
    content: list[AssistantContent] | None = message.get("content")
    for block in content or ():
        match block["type"]:
            case "text":
                yield len(block["text"])
            case "thinking":
                yield len(block["thinking"])
            case "toolCall":
                yield len(block["name"]) + len(compact_json(block["arguments"]))
