"""What a user reads when a response fails in the middle of its stream.

Decides wording only, as `failures`: the code stands before the message, and both are signs for `verdicts`.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.json_edge import as_object

NO_END: Final = "Stream ended before the response was complete"


def call_incomplete(name: str) -> str:
    """Word that a response was said to be complete while a call was not."""
    return f"Stream ended before the tool call {name or 'without a name'} was complete"


def error_text(texts: FailureTexts, event: Mapping[str, object]) -> str:
    """Word an event that is an error; some have it under `error`."""
    error = event.get("error") or {name: value for name, value in event.items() if name in {"code", "message"}}
    text = texts.broke_off(error or event)
    code = _code(error)
    return f"Error Code {texts.shown(code)}: {text}" if code else text


def failure_text(texts: FailureTexts, response: Mapping[str, object]) -> str:
    """Word why a response has failed."""
    error = response.get("error")
    if not error:
        return "Response failed: the provider gave no reason"
    text = texts.broke_off(error)
    code = _code(error)
    return f"{texts.shown(code)}: {text}" if code else text


def _code(error: object) -> str:
    """Return how an error is classified, empty if it is not."""
    members = as_object(error) or {}
    for name in ("code", "type"):
        value = members.get(name)
        if isinstance(value, str | int) and value and not isinstance(value, bool):
            return str(value)
    return ""
