"""How much of a conversation a request for its summary may hold.

Pure. A request that is to make room must not need more than there is: it is measured by bytes, which never takes a text
for shorter than it is, and gives way from its oldest part on. Must not know what the parts say. Rule R-CMP-01.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pinnace_agent.llm.output_cap import GOOD_ROOM_TOKENS, MARGIN_TOKENS
from pinnace_spec.messages import Model

# Of UTF-8. Prose has four and more, code more than three; Chinese has one character in three, and that is a token or
# less. Only what nobody wrote, such as base64, has fewer: for that the provider's refusal is the last word.
BYTES_PER_TOKEN: Final = 3
# Of the window, what the answer may take at most: a summary of much is worth more than a long one of little.
_MAX_OUTPUT_SHARE: Final = 4
_SEPARATOR_BYTES: Final = 2


def weight(text: str) -> int:
    """Return how many tokens a text may come to."""
    return -(-(_size(text)) // BYTES_PER_TOKEN)


def output_tokens(model: Model, wanted: int) -> int:
    """Return how long a summary may be.

    Args:
        model: Who writes it. One that thinks does so at the expense of its answer, so it may write more than is wanted.
        wanted: What the user's settings leave for it.
    """
    tokens = max(wanted, GOOD_ROOM_TOKENS) if model["reasoning"] else wanted
    if model["maxTokens"] > 0:
        tokens = min(tokens, model["maxTokens"])
    if model["contextWindow"] > 0:
        tokens = min(tokens, (model["contextWindow"] - MARGIN_TOKENS) // _MAX_OUTPUT_SHARE)
    return max(1, tokens)


def input_tokens(model: Model, output: int) -> int | None:
    """Return how long a request may be whose answer takes `output` tokens; None if nobody knows."""
    window = model["contextWindow"]
    return max(0, window - MARGIN_TOKENS - output) if window > 0 else None


def fitted(parts: Sequence[str], room_tokens: int, marker: Callable[[int], str]) -> list[str] | None:
    """Return the newest parts that fit, behind a marker if older ones do not; None if not even the newest one does.

    Args:
        parts: Oldest first.
        room_tokens: For all of them, with what separates them.
        marker: Words how many were left out.
    """
    sizes = [_size(part) + _SEPARATOR_BYTES for part in parts]
    room = room_tokens * BYTES_PER_TOKEN
    if sum(sizes) <= room:
        return list(parts)
    room -= _size(marker(len(parts))) + _SEPARATOR_BYTES
    first = len(parts)
    while first and sizes[first - 1] <= room:
        first -= 1
        room -= sizes[first]
    return None if first == len(parts) else [marker(first), *parts[first:]]


def shortened(part: str, room_tokens: int, marker: Callable[[int], str]) -> str | None:
    """Return the beginning and the end of a part around a marker, as much as fits; None if there is no room for words.

    Args:
        part: Longer than that.
        room_tokens: For both ends and the marker.
        marker: Words how many characters were left out.
    """
    end_bytes = (room_tokens * BYTES_PER_TOKEN - _size(marker(len(part))) - 2 * _SEPARATOR_BYTES) // 2
    if end_bytes <= 0:
        return None
    data = part.encode("utf-8", "surrogatepass")
    # A character that the cut divides is left out.
    head, tail = (end.decode("utf-8", "ignore") for end in (data[:end_bytes], data[-end_bytes:]))
    return "\n\n".join((head, marker(len(part) - len(head) - len(tail)), tail))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
