"""How long an answer may be, so that it and its question fit the model's window.

Pure. Counts characters, since no tokenizer fits every model, and leaves a margin for the error. Must not know how
a limit is sent.
"""

from itertools import accumulate
from typing import Final

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.json_edge import as_count, as_object, compact_json
from pinnace_agent.message_size import message_chars
from pinnace_spec.messages import AssistantMessage

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
    chars = 0
    newest = list(accumulate((message["timestamp"] for message in messages), max))
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        # A count is of the context as it was: not of what a compaction has put before the message since.
        is_current = index == 0 or newest[index - 1] <= message["timestamp"]
        if message["role"] == "assistant" and is_current and (counted := _counted(message)):
            return counted + _tokens(chars)
        chars += message_chars(message)
    for tool in request.tools:
        chars += len(tool.name) + len(tool.description) + len(compact_json(tool.parameters))
    return _tokens(chars + len(request.system_prompt))


def _counted(message: AssistantMessage) -> int:
    if message["stopReason"] in {"error", "aborted"}:
        return 0
    # Sessions of old releases have no total, or no usage at all.
    usage = as_object(message.get("usage")) or {}
    parts = (as_count(usage.get(part)) or 0 for part in ("input", "output", "cacheRead", "cacheWrite"))
    return as_count(usage.get("totalTokens")) or sum(parts)


def _tokens(chars: int) -> int:
    return int(-(-chars // CHARS_PER_TOKEN))
