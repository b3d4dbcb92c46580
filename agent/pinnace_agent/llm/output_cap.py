"""The limit of an answer's tokens, so that request and answer fit the model's window.

Pure. Counts characters, since no tokenizer fits every model, and leaves a margin for the error. Independent of how
a limit is sent. Rule R-LLM-03.
"""

from typing import Final

from pinnace_agent.core.json_access import compact_json
from pinnace_agent.llm.message_size import last_count, message_chars
from pinnace_agent.llm.request import LlmRequest

# Code has fewer characters to a token than prose: a request must not be refused for a guess that was too low.
CHARS_PER_TOKEN: Final = 3.5
# The most that any text has: no answer must be cut to nothing for a guess that was too high.
_MOST_CHARS_PER_TOKEN: Final = 5
# The error of the estimate: absolute, or a part of it.
# DEVIATION D-55: in a small window by that part of the window, and never by more than half of what is left.
MARGIN_TOKENS: Final = 4096
MARGIN_SHARE: Final = 0.15
_MARGIN_OF_WINDOW: Final = 8
# Tokens for a useful answer; with fewer only the smaller margin is kept.
GOOD_ROOM_TOKENS: Final = 32_768
# The part of the window that an answer gets at least if only an estimate leaves it less.
_LEAST_SHARE: Final = 16


def output_cap(request: LlmRequest) -> int | None:
    """Return the most tokens that an answer may have, at least one; None if the model has no such limit."""
    model = request.model
    wanted = request.max_tokens or model["maxTokens"]
    if wanted <= 0:
        return None
    window = model["contextWindow"]
    if window <= 0:
        return wanted
    room = _room(request, window) if request.input_tokens is None else window - request.input_tokens
    return max(1, min(wanted, room))


def _room(request: LlmRequest, window: int) -> int:
    """Return the tokens that a window has for an answer, less a margin for the estimated part."""
    counted, chars = _known(request)
    used = counted + _tokens(chars)
    left = window - used
    margin = min(MARGIN_TOKENS, window // _MARGIN_OF_WINDOW, max(0, left // 2))
    room = left - max(margin, int(used * MARGIN_SHARE))
    if room < GOOD_ROOM_TOKENS:
        room = min(GOOD_ROOM_TOKENS, left - margin)
    at_most_left = window - counted - chars // _MOST_CHARS_PER_TOKEN
    return max(room, min(window // _LEAST_SHARE, at_most_left // 2))


def input_tokens(request: LlmRequest) -> int:
    """Estimate the tokens of a request: the provider's last count, and an estimate of the messages after it."""
    counted, chars = _known(request)
    return counted + _tokens(chars)


def _known(request: LlmRequest) -> tuple[int, int]:
    """Return the tokens that the provider has counted, and the characters that it has not."""
    messages = request.messages
    count = last_count(messages)
    if count is not None:
        return count.tokens, sum(map(message_chars, messages[count.place + 1 :]))
    chars = sum(map(message_chars, messages)) + len(request.system_prompt)
    for tool in request.tools:
        chars += len(tool.name) + len(tool.description) + len(compact_json(tool.parameters))
    return 0, chars


def _tokens(chars: int) -> int:
    return int(-(-chars // CHARS_PER_TOKEN))
