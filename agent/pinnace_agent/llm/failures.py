"""The texts of a provider's failures for users, and their signs for programs.

Decides wording only: whether a failure is tried again, or is an overflow of the context, is decided by `outcomes`,
from these texts and signs. So they contain status and body, and errors of the network keep their usual words. Keys
never appear. Pure; independent of httpx.
"""

import errno
import math
import os
import re
import socket
from collections.abc import Mapping
from datetime import UTC
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text, compact_json
from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.wire.json_text import JsonValue, WireError, decode_line

# Enough for every error text; HTML pages and echoed requests are longer.
MAX_BODY_CHARS: Final = 4000
# Of a body that is read at all: some servers echo the whole request.
MAX_BODY_BYTES: Final = 64 * 1024
# Of content that is not an error text, and is only shown so that it can be recognised.
_MAX_GLIMPSE_CHARS: Final = 200

_LOOKUP_CODES: Final[dict[int, str]] = {
    getattr(socket, name): name
    for name in ("EAI_AGAIN", "EAI_FAIL", "EAI_NONAME", "EAI_NODATA")
    if hasattr(socket, name)
}

STREAM_WITHOUT_REASON: Final = "Stream ended without finish_reason"


def finish_reason_failed(reason: str) -> str:
    """Return the error for an answer that ended for a reason other than success."""
    return f"Provider finish_reason: {reason}"


# The line that `failure_report` adds to a provider's text.
_REPORT: Final = re.compile(r"\nModel [^\n]*, attempt \d+(?: of \d+|, not tried again)?\.[^\n]*\Z")


def provider_words(text: str) -> str:
    """Return the text of a failure as the provider or the network worded it."""
    return _REPORT.sub("", text)


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return how long a server asks to wait; None if it does not, or in a form that cannot be read.

    Args:
        headers: Of the answer, names in lower case or found regardless of case.
        now_s: Seconds since the epoch, for servers that name a date.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # written as `-0000`: UTC, by RFC 5322
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now_s)


def _number(value: str | None) -> float | None:
    """Read a number that is finite and not negative."""
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


class RefusalForm(NamedTuple):
    """The form of an API's error texts, which clients may parse."""

    lead: str = "{status}: "
    """The text before the JSON."""
    is_whole: bool = False
    """Whether the JSON is the whole body, or the error inside of it."""


_OPENAI_FORM: Final = RefusalForm()


class RefusedResponse(NamedTuple):
    """A response whose status is not a success."""

    status: int
    body: bytes
    """As much of it as was read."""
    location: str | None = None
    """Where a redirect points to; redirects are not followed, since the request carries a key."""
    wanted_delay_s: float | None = None
    """How long the server asks to wait; it is not part of an error's text."""
    name: str | None = None
    """The name of the error, where a header has it; only some APIs have names."""


class FailureTexts:
    """Formats the errors of one request. Its secrets are redacted before a text is cut, so that no part remains."""

    def __init__(self, secrets: Secrets, form: RefusalForm = _OPENAI_FORM) -> None:
        """Hide these."""
        self._form = form
        self.signs = FailureSigns()
        """The signs of the last error."""
        self._secrets = secrets

    # DEVIATION D-13: status and the whole error object.
    def refused(self, response: RefusedResponse) -> str:
        """Return the error for a response whose status is not a success."""
        status, body, location, wanted_delay_s, _ = response
        self.signs = FailureSigns(status, (), wanted_delay_s)
        if location is not None and 300 <= status < 400:
            place = self.shown(location)
            return f"{status} The server redirects to {place}: set baseUrl to the address that answers"
        text = body.decode(errors="replace").strip()
        if not text:
            return f"{status} status code (no body)"
        try:
            value = decode_line(body)
        except WireError:
            return f"{status} {self.shown(text)}"
        error = _error_of(value)
        delay_s = _requested_delay_s(error) if wanted_delay_s is None else wanted_delay_s
        self.signs = FailureSigns(status, _codes(error or value), delay_s)
        lead = self._form.lead.format(status=status)
        if error is None or self._form.is_whole:
            return f"{lead}{self.shown(compact_json(value))}"
        shown = self.shown(error if isinstance(error, str) else compact_json(error))
        return f"{lead}{self._with_raw(shown, error)}"

    def broke_off(self, error: object) -> str:
        """Return the error for one inside of a stream: its message alone."""
        members = as_object(error)
        codes = _codes(error)
        status = next((int(code) for code in codes if _is_status(code)), None)
        self.signs = FailureSigns(status, codes, _requested_delay_s(error))
        message = as_text(members.get("message")) if members else as_text(error)
        return self._with_raw(self.shown(message or compact_json(error)), error)

    def error_event(self, data: bytes) -> str:
        """Return the error for an event named `error`, with any content."""
        try:
            value = decode_line(data)
        except WireError:
            return self.shown(data.decode(errors="replace"))
        return self.broke_off(_error_of(value) or value)

    def unreadable_chunk(self, problem: str, data: bytes) -> str:
        """Return the error for a piece of a stream that is not JSON."""
        self.signs = FailureSigns(kind="bad_answer")
        shown = self.shown(data.decode(errors="replace"), _MAX_GLIMPSE_CHARS)
        return f"The stream holds invalid JSON: {problem}: {shown}"

    def no_event_stream(self, content_type: str, body: bytes) -> str:
        """Return the error for a success without any event, such as a web page from a wrong address."""
        try:
            error = _error_of(decode_line(body.strip()))
        except WireError:
            error = None
        if error is not None:
            return self.broke_off(error)
        self.signs = FailureSigns(kind="bad_answer")
        shown = self.shown(body.decode(errors="replace").strip(), _MAX_GLIMPSE_CHARS)
        about = f"the server sent {content_type or 'no content type'} and no events"
        return f"{STREAM_WITHOUT_REASON}: {about}{': ' + shown if shown else ''}"

    def transport_failed(self, kind: str, error: BaseException) -> str:
        """Return the error for a failure of the network: what failed, and the deepest cause with its code."""
        cause = _deepest(error)
        text = _system_text(cause) or self.shown(str(cause)) or type(cause).__name__
        return f"{kind}: {text}"

    def _with_raw(self, text: str, error: object) -> str:
        """Add the error that a gateway got from its provider, unless the text contains it already."""
        metadata = as_object((as_object(error) or {}).get("metadata")) or {}
        raw = metadata.get("raw")
        shown = self.shown(raw if isinstance(raw, str) else compact_json(raw)) if raw else ""
        if not shown or shown in text or compact_json(shown)[1:-1] in text:
            return text
        return f"{text}\n{shown}"

    def shown(self, text: str, limit: int = MAX_BODY_CHARS) -> str:
        """Return a foreign text for the user: redacted, and cut to a maximal length."""
        text = self._secrets.hide(text)
        return text if len(text) <= limit else f"{text[:limit]}... [truncated {len(text) - limit} chars]"


def _system_text(error: BaseException) -> str | None:
    """Return the system's text for an error of its own, with the name of its number."""
    if not isinstance(error, OSError) or error.errno is None:
        return None
    if isinstance(error, socket.gaierror):
        return f"{error.strerror} ({_LOOKUP_CODES.get(error.errno, error.errno)})"
    # Others, such as those of ssl, have numbers of their own.
    is_own = type(error).__module__ == "builtins"
    return f"{os.strerror(error.errno)} ({errno.errorcode[error.errno]})" if is_own else error.strerror


def _error_of(value: JsonValue) -> object:
    """Find the error in a body: under `error`, also inside an array of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    members = as_object(value)
    return (members.get("error") or None) if members else None


def _codes(error: object) -> tuple[str, ...]:
    """Find the words and numbers by which an error is classified."""
    members = as_object(error) or {}
    values = (members.get(name) for name in ("code", "type", "status"))
    codes = (as_text(value) or as_count(value) for value in values)
    return tuple(str(code) for code in codes if code)


def _requested_delay_s(error: object) -> float | None:
    """Return how long Google asks to wait, from the error's details: `34s`, also with a fraction."""
    for detail in as_array((as_object(error) or {}).get("details")):
        members = as_object(detail) or {}
        if str(members.get("@type")).endswith("google.rpc.RetryInfo"):
            return _number((as_text(members.get("retryDelay")) or "").removesuffix("s"))
    return None


def _is_status(code: str) -> bool:
    return code.isascii() and code.isdigit() and 400 <= int(code[:4]) <= 599


def _deepest(error: BaseException) -> BaseException:
    seen = {id(error)}
    while (cause := _cause(error)) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    return error


def _cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        # cast: isinstance can't narrow the type of a group's members
        return cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    # httpcore cuts the chain of its errors, but makes each of the one that it caught.
    return error.__cause__ or next((each for each in error.args if isinstance(each, BaseException)), None)
