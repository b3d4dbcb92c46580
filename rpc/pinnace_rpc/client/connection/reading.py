"""Parses a line of an agent's stdout: a JSON object with a type.

Pure. Strict about JSON, tolerant of depth: the tree of a long session is thousands of levels deep, more than any
parser with recursion takes. Independent of the record types.
"""

import json
import re
from typing import Final, cast

from pinnace_rpc.client.failures import ProtocolError
from pinnace_rpc.client.records.events import Record
from pinnace_spec.wire.json_text import MAX_NESTING, WireError, decode_line

# A bracket, colon or comma; a string; or a run of anything else, which json judges.
_TOKEN: Final = re.compile(r'[ \t\r\n]*+(?:([\[\]{}:,])|("(?:[^"\\]|\\.)*+"|[^\[\]{}:,"\s]++))')


def read_record(line: bytes) -> Record:
    """Read a line without its LF.

    Raises:
        ProtocolError: It is not a JSON object with a string as its `type`. The error has the line's beginning.
    """
    try:
        value: object = decode_line(line)
    except WireError as error:
        if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
            raise ProtocolError(f"not JSON ({error.text})", line) from None
        value = _read_deep(line)
    if not isinstance(value, dict):
        raise ProtocolError("not a JSON object", line)
    record = cast("Record", value)  # JSON's keys are text
    if not isinstance(record.get("type"), str):
        raise ProtocolError("a record without a type", line)
    return record


def _read_deep(line: bytes) -> object:
    """Read JSON without recursion: slower, but as deep as it may be."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise ProtocolError("not UTF-8", line) from None
    root: list[object] = []
    open_containers: list[list[object] | dict[str, object]] = [root]
    key: str | None = None
    # What may come next: v a value, e its container's end, k a key, : or ,
    allowed, position, end = "v", 0, len(text.rstrip(" \t\r\n"))
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise ProtocolError(f"not JSON (character {position})", line)
        position = token.end()
        mark, scalar = token[1], token[2]
        container = open_containers[-1]
        if mark in (":", ","):
            if mark not in allowed:
                raise ProtocolError(f"not JSON (character {position})", line)
            allowed = "v" if mark == ":" or isinstance(container, list) else "k"
        elif mark in ("]", "}"):
            if "e" not in allowed or isinstance(container, list) != (mark == "]") or container is root:
                raise ProtocolError(f"not JSON (character {position})", line)
            open_containers.pop()
            allowed = ",e" if len(open_containers) > 1 else ""
        elif "k" in allowed and mark is None and scalar.startswith('"'):
            key, allowed = cast("str", _scalar(scalar, line)), ":"
        elif "v" in allowed:
            value: object = {} if mark == "{" else [] if mark == "[" else _scalar(scalar, line)
            if isinstance(container, list):
                container.append(value)
            else:
                container[cast("str", key)] = value  # a colon comes after a key only
            if mark is not None:
                # an empty one of these two was made just now
                open_containers.append(cast("list[object] | dict[str, object]", value))
                allowed = "ke" if mark == "{" else "ve"
            else:
                allowed = ",e" if len(open_containers) > 1 else ""
        else:
            raise ProtocolError(f"not JSON (character {position})", line)
    if len(open_containers) > 1 or not root:
        raise ProtocolError("not JSON (incomplete)", line)
    return root[0]


def _scalar(token: str, line: bytes) -> object:
    try:
        return cast("object", json.loads(token, parse_constant=_refuse))
    except ValueError:
        raise ProtocolError(f"not JSON ({token[:20]})", line) from None


def _refuse(name: str) -> object:
    raise ValueError(name)
