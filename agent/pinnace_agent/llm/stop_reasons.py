"""Why an answer has ended: the words of providers and servers for it, and what an end without content means.

Pure. OpenAI's, Anthropic's and Google's words are known in any case and with any separator, and so are those that
servers of their formats use instead. A word that is not known is a success if the answer has content: servers invent
new words for ordinary ends more often than for failures, and those are listed. Rules R-RTY-04, R-LLM-05.
"""

from typing import Final

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.records.messages import StopReason

MAX_SHOWN_CHARS: Final = 100
"""Of a word that a warning quotes."""

_ENDS: Final[dict[StopReason, str]] = {
    "stop": "stop end eos eos_token end_turn endturn end_of_turn end_of_text end_of_sequence stop_sequence stop_token "
    "stop_word pause_turn complete completed done finish finished success",
    "length": "length max_tokens max_token max_length max_output_tokens max_new_tokens max_completion_tokens "
    "token_limit length_limit model_length",
    "toolUse": "tool_calls tool_call tool_use tool function_call function_calls",
}
_KNOWN: Final[dict[str, StopReason]] = {word: reason for reason, words in _ENDS.items() for word in words.split()}
_FAILURES: Final = frozenset(
    """
    error failed failure network_error internal_error server_error timeout
    abort aborted cancelled canceled interrupted insufficient_system_resource overloaded eof
    model_context_window_exceeded context_length_exceeded context_window_exceeded
    content_filter content_filtered safety sensitive refusal refused blocked guardrail_intervened violation
    recitation language other blocklist prohibited_content spii unexpected_tool_call missing_thought_signature
    malformed_function_call malformed_tool_use malformed_model_output malformed_response too_many_tool_calls
    image_safety image_prohibited_content image_recitation image_other no_image
    """.split()
)


def stop_reason(word: str) -> StopReason | None:
    """Return the stop reason that a word means; None: it means a failure, or is unknown."""
    return _KNOWN.get(_plain(word))


def end_answer(builder: MessageBuilder, word: str, failure: str, *, calls_as: StopReason | None = None) -> None:
    """End a message with the word that its provider has for it.

    Args:
        builder: Of the message. A word that is not known is kept in it, for a warning.
        word: The provider's.
        failure: The error text, if the word means a failure, or is unknown and nothing came.
        calls_as: What `stop` means in an answer with tool calls, for APIs without a word of their own.
    """
    reason = stop_reason(word)
    if reason is None and (_plain(word) in _FAILURES or not builder.has_content):
        builder.finish("error", failure)
        return
    if reason is None:
        builder.unknown_stop_reason = word[:MAX_SHOWN_CHARS]
        reason = "toolUse" if builder.has_calls else "stop"
    builder.finish(calls_as if calls_as is not None and reason == "stop" and builder.has_calls else reason)


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")
