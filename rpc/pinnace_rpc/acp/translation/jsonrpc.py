"""Lines to JSON-RPC messages and back.

Decides what is a message, and the error of what is none; must not know methods. Nothing is refused twice: a message
that can't be answered, such as a response, has no error.
Source: JSON-RPC 2.0, without batches, which ACP does not use.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from pinnace_spec.wire.framing import TooLong
from pinnace_spec.wire.json_text import WireError, decode_line, encode_record

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
UNSUPPORTED_VERSION: Final = -32022

RequestId: TypeAlias = "str | int | None"

_LARGEST_ID: Final = 2**63 - 1


class RequestError(Exception):
    """The error of a request. The text is for people; nothing secret is in it."""

    def __init__(self, code: int, text: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data

    def record(self) -> dict[str, object]:
        """Return the error object."""
        record: dict[str, object] = {"code": self.code, "message": self.text}
        if self.data:
            record["data"] = self.data
        return record


class Request(NamedTuple):
    """A message that gets exactly one response."""

    id: RequestId
    method: str
    params: object


class Notification(NamedTuple):
    """A message without a response."""

    method: str
    params: object


class Reply(NamedTuple):
    """The response of the other side to a request of ours."""

    id: RequestId
    result: object
    error: object
    """None: there is a result."""


class MalformedMessage(NamedTuple):
    """What is no message; it is answered with the error."""

    id: RequestId
    error: RequestError


Message: TypeAlias = Request | Notification | Reply | MalformedMessage


def parse_message(line: bytes | TooLong) -> Message:
    """Read a line without its end."""
    if isinstance(line, TooLong):
        return _malformed(None, PARSE_ERROR, f"the line is longer than {line.limit_bytes} bytes")
    try:
        value = decode_line(line)
    except WireError as error:
        return _malformed(None, PARSE_ERROR, f"not JSON: {error.text}")
    if not isinstance(value, dict):
        kind = "a batch, which is not supported" if isinstance(value, list) else "no object"
        return _malformed(None, INVALID_REQUEST, f"a message must be an object; this is {kind}")
    message = cast("dict[str, object]", value)
    identity = message.get("id")
    if not _is_id(identity):
        return _malformed(None, INVALID_REQUEST, "id: must be a string, an integer or null")
    known = cast("RequestId", identity)
    if message.get("jsonrpc") != "2.0":
        return _malformed(known, INVALID_REQUEST, 'jsonrpc: must be "2.0"')
    if "method" not in message:
        if "id" in message and ("result" in message) != ("error" in message):
            return Reply(known, message.get("result"), message.get("error") if "error" in message else None)
        return _malformed(known, INVALID_REQUEST, "method: is missing")
    method = message["method"]
    if not isinstance(method, str):
        return _malformed(known, INVALID_REQUEST, "method: must be a string")
    params = message.get("params")
    return Request(known, method, params) if "id" in message else Notification(method, params)


def encode_result(identity: RequestId, result: Mapping[str, object]) -> bytes:
    """Return the line of a successful response."""
    return encode_record({"jsonrpc": "2.0", "id": identity, "result": result})


def encode_error(identity: RequestId, error: RequestError) -> bytes:
    """Return the line of a response that reports an error."""
    return encode_record({"jsonrpc": "2.0", "id": identity, "error": error.record()})


def encode_request(identity: int, method: str, params: Mapping[str, object]) -> bytes:
    """Return the line of a request of ours."""
    return encode_record({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})


def encode_notification(method: str, params: Mapping[str, object]) -> bytes:
    """Return the line of a notification of ours."""
    return encode_record({"jsonrpc": "2.0", "method": method, "params": params})


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return abs(value) <= _LARGEST_ID
    return value is None or isinstance(value, str)


def _malformed(identity: RequestId, code: int, text: str) -> MalformedMessage:
    return MalformedMessage(identity, RequestError(code, text))
