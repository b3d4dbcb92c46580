"""The texts of Amazon Bedrock's errors, before an answer and inside of its stream.

An error has a name, which is in a header of a refusal or in a frame, and a message. The text begins with words for the
name, by which `outcomes` recognises what is tried again. Pure.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_object, as_text
from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.llm.failures import FailureTexts, RefusedResponse
from pinnace_spec.wire.json_text import WireError, decode_line


class _Known(NamedTuple):
    words: str
    status: int
    """That of a refusal with this name."""


# As pi words them; others are named as they are.
_KNOWN: Final[Mapping[str, _Known]] = {
    "InternalServerException": _Known("Internal server error", 500),
    "ModelStreamErrorException": _Known("Model stream error", 424),
    "ServiceUnavailableException": _Known("Service unavailable", 503),
    "ThrottlingException": _Known("Throttling error", 429),
    "ValidationException": _Known("Validation error", 400),
}


class BedrockTexts(FailureTexts):
    """Formats the errors of one request."""

    def refused(self, response: RefusedResponse) -> str:
        """Return the error for a response whose status is not a success. As `FailureTexts.refused`."""
        members = _members(response.body)
        name = (response.name or as_text(members.get("__type")) or "").partition(":")[0].rpartition("#")[2]
        message = as_text(members.get("message")) or as_text(members.get("Message"))
        if not name or message is None:
            return super().refused(response)
        return self.named(name, message, response.status, response.wanted_delay_s)

    def named(self, name: str, message: str, status: int | None = None, wanted_delay_s: float | None = None) -> str:
        """Return the error for a name and a message; inside of a stream the name decides about the status."""
        name = name[:1].upper() + name[1:]
        known = _KNOWN.get(name)
        if status is None and known is not None:
            status = known.status
        self.signs = FailureSigns(status, (name,), wanted_delay_s)
        words = known.words if known is not None else name
        return self.shown(f"{words}: {message}")

    def damaged(self, problem: str) -> str:
        """Return the error for a stream that cannot be read any further."""
        self.signs = FailureSigns(kind="bad_answer")
        return f"The event stream cannot be read: {problem}"


def _members(body: bytes) -> Mapping[str, object]:
    try:
        return as_object(decode_line(body)) or {}
    except WireError:
        return {}
