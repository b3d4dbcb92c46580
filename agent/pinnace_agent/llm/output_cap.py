"""How long an answer may be, so that it and its question fit the model's window.

Pure. Counts characters, since no tokenizer fits every model, and leaves a margin for the error. Must not know how
a limit is sent.
"""

from typing import Final

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.json_edge import compact_json
from pinnace_agent.message_size import last_count, message_chars

# Code has fewer characters to a token than prose: a request must not be refused for a guess that was too low.
CHARS_PER_TOKEN: Final = 3.5
# The guess is off by this much, or by this part of it.
MARGIN_TOKENS: Final = 4096
MARGIN_SHARE: Final = 0.15
# Room for an answer that is worth having; only the smaller margin is kept when there is less.
GOOD_ROOM_TOKENS: Final = 32_768


def output_cap(request: LlmRequest) -> int | None:
    """Return the most tokens that an answer may have, at least one; None if the model has no such limit."""
    model = request.model
    wanted = request.max_tokens or model["maxTokens"]
    if wanted <= 0:
        return None
    window = model["contextWindow"]
    if window <= 0:
        return wanted
    used = input_tokens(request)
    room = window - used - max(MARGIN_TOKENS, int(used * MARGIN_SHARE))
    if room < GOOD_ROOM_TOKENS:
        room = min(GOOD_ROOM_TOKENS, window - used - MARGIN_TOKENS)
    return max(1, min(wanted, room))


def input_tokens(request: LlmRequest) -> int:
    """Estimate the tokens of a request: what the provider last counted, and a guess of what came after."""
    messages = request.messages
    count = last_count(messages)
    if count is not None:
        return count.tokens + _tokens(sum(map(message_chars, messages[count.place + 1 :])))
    chars = sum(map(message_chars, messages)) + len(request.system_prompt)
    for tool in request.tools:
        chars += len(tool.name) + len(tool.description) + len(compact_json(tool.parameters))
    return _tokens(chars)


def _tokens(chars: int) -> int:
    return int(-(-chars // CHARS_PER_TOKEN))
