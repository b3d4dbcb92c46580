"""What a user reads when a provider fails.

Decides wording only: whether a failure is tried again, or is an overflow of the context, is decided elsewhere,
from these texts. So status and body stay in them, and what the network says keeps its usual words. Keys never
appear. Pure; must not know httpx.
"""

import errno
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Final, cast

from pinnace_agent.llm.json_edge import as_object, as_text, compact_json
from pinnace_spec.wire import JsonValue, WireError, decode_line

# Enough for every error that was written to be read; HTML pages and echoed requests are longer.
MAX_BODY_CHARS: Final = 4000
# Of a body that is read at all: some servers echo the whole request.
MAX_BODY_BYTES: Final = 64 * 1024

REDACTED: Final = "[redacted]"
# Shorter ones are words that servers without authentication ask for, such as `none`: hidden only where they
# stand alone, so that they do not riddle the text.
_SHORT_SECRET_CHARS: Final = 8
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|credential|password", re.IGNORECASE)
_SCHEME: Final = re.compile(r"\A(?:Bearer|Basic|Token)\s+", re.IGNORECASE)

_LOOKUP_CODES: Final[dict[int, str]] = {
    getattr(socket, name): name
    for name in ("EAI_AGAIN", "EAI_FAIL", "EAI_NONAME", "EAI_NODATA")
    if hasattr(socket, name)
}

STREAM_WITHOUT_REASON: Final = "Stream ended without finish_reason"


def finish_reason_failed(reason: str) -> str:
    """Word that the provider ended the answer for a reason that is no success."""
    return f"Provider finish_reason: {reason}"


# DEVIATION D-13: status and the whole error object.
def refused(status: int, body: bytes, location: str | None = None) -> str:
    """Word an answer that is no success.

    Args:
        status: Of HTTP.
        body: As much of it as was read.
        location: Where a redirect points to; redirects are not followed, since the request carries a key.
    """
    if location is not None and 300 <= status < 400:
        return f"{status} The server redirects to {location}: set baseUrl to the address that answers"
    text = body.decode(errors="replace").strip()
    if not text:
        return f"{status} status code (no body)"
    try:
        value = decode_line(body)
    except WireError:
        return f"{status} {_cut(text)}"
    error = _error_of(value)
    if error is None:
        return f"{status}: {_cut(compact_json(value))}"
    return f"{status}: {_with_raw(_cut(error if isinstance(error, str) else compact_json(error)), error)}"


def broke_off(error: object) -> str:
    """Word an error that came inside of a stream: its message alone."""
    members = as_object(error)
    message = as_text(members.get("message")) if members else as_text(error)
    return _with_raw(_cut(message or compact_json(error)), error)


def unreadable_chunk(problem: str, data: bytes) -> str:
    """Word that a piece of a stream was no JSON."""
    return f"The stream holds invalid JSON: {problem}: {_cut(data.decode(errors='replace'), 200)}"


def no_event_stream(content_type: str, body: bytes) -> str:
    """Word a success that held no event at all, such as a web page from a wrong address."""
    try:
        error = _error_of(decode_line(body.strip()))
    except WireError:
        error = None
    if error is not None:
        return broke_off(error)
    shown = _cut(body.decode(errors="replace").strip(), 200)
    about = f"the server sent {content_type or 'no content type'} and no events"
    return f"{STREAM_WITHOUT_REASON}: {about}{': ' + shown if shown else ''}"


def transport_failed(kind: str, error: BaseException) -> str:
    """Word a failure of the network: what failed, and the deepest cause with its code."""
    cause = _deepest(error)
    code = ""
    text = str(cause)
    if isinstance(cause, OSError) and cause.errno is not None:
        text = cause.strerror or text
        names = _LOOKUP_CODES if isinstance(cause, socket.gaierror) else errno.errorcode
        code = names.get(cause.errno, "")
    text = text or type(cause).__name__
    return f"{kind}: {text} ({code})" if code else f"{kind}: {text}"


def secrets_of(api_key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """List what must not appear in any text: the key, and the values of headers that carry credentials."""
    values = [_SCHEME.sub("", value) for name, value in headers.items() if _SECRET_HEADER.search(name)]
    stripped = {value.strip() for value in [api_key or "", *values]}
    return tuple(sorted((secret for secret in stripped if secret), key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Take secrets out of a text, also where they are written as JSON."""
    for secret in secrets:
        for form in {secret, compact_json(secret)[1:-1]}:
            if len(form) >= _SHORT_SECRET_CHARS:
                text = text.replace(form, REDACTED)
            else:
                text = re.sub(rf"(?<![\w-]){re.escape(form)}(?![\w-])", REDACTED, text)
    return text


def _error_of(value: JsonValue) -> object:
    """Find the error in a body: under `error`, also inside an array of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    members = as_object(value)
    return members.get("error") if members else None


def _with_raw(text: str, error: object) -> str:
    """Add what a gateway got from the provider behind it, unless the text says it already."""
    metadata = as_object((as_object(error) or {}).get("metadata")) or {}
    raw = metadata.get("raw")
    shown = raw if isinstance(raw, str) else compact_json(raw) if raw else ""
    if not shown or shown in text or compact_json(shown)[1:-1] in text:
        return text
    return f"{text}\n{_cut(shown)}"


def _deepest(error: BaseException) -> BaseException:
    seen = {id(error)}
    while (cause := _cause(error)) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    return error


def _cause(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        # cast: isinstance can't say of what it is a group
        return cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error.__cause__


def _cut(text: str, limit: int = MAX_BODY_CHARS) -> str:
    return text if len(text) <= limit else f"{text[:limit]}... [truncated {len(text) - limit} chars]"
