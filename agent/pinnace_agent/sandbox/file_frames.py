"""The frames between the agent and the file helper of a sandbox: a JSON header and bytes, over a pipe.

A frame is the length of the header (4 bytes), the length of the data (8 bytes), the header, the data. JSON, since the
helper reads files that a model chose, and nothing that it sends may be more than values. Imports the standard library
and the calls only: the helper loads it.
"""

import json
import os
from collections.abc import Mapping
from typing import BinaryIO, Final, NamedTuple, cast

from pinnace_agent.files.tool_calls import CallRefused, FileCall

_HEADER_BYTES: Final = 4
_DATA_BYTES: Final = 8
_LARGEST_HEADER: Final = 1 << 30

Header = Mapping[str, object]


class Frame(NamedTuple):
    """A message between the agent and the file process: a JSON header, and bytes."""

    header: Header
    data: bytes = b""


class FrameError(Exception):
    """The other side has ended, or sends something else than frames."""


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Write a frame; it has left this process when this returns."""
    header = json.dumps(frame.header).encode("ascii")
    stream.write(len(header).to_bytes(_HEADER_BYTES, "big") + len(frame.data).to_bytes(_DATA_BYTES, "big") + header)
    stream.write(frame.data)
    stream.flush()


def read_frame(stream: BinaryIO) -> Frame | None:
    """Read a frame; None: the stream has ended before it.

    Raises:
        FrameError: It has ended within the frame, or this is none.
    """
    lengths = stream.read(_HEADER_BYTES + _DATA_BYTES)
    if not lengths:
        return None
    size = int.from_bytes(lengths[:_HEADER_BYTES], "big")
    data_size = int.from_bytes(lengths[_HEADER_BYTES:], "big")
    if len(lengths) < _HEADER_BYTES + _DATA_BYTES or size > _LARGEST_HEADER:
        raise FrameError
    text, data = stream.read(size), stream.read(data_size)
    if len(text) < size or len(data) < data_size:
        raise FrameError
    try:
        header = json.loads(text)
    except ValueError as error:
        raise FrameError from error
    if not isinstance(header, dict):
        raise FrameError
    return Frame(header, data)


def call_frame(call: FileCall) -> Frame:
    """Return a call of a file function as it is sent into the sandbox."""
    return Frame({**call._asdict(), "names": list(call.names), "data": None}, call.data)


def call_of(frame: Frame) -> FileCall:
    """Return the call of a frame, which this process trusts: it comes from the agent."""
    return FileCall(**{**frame.header, "data": frame.data})  # type: ignore[arg-type]


def failure_frame(error: Exception) -> Frame:
    """Return the frame of a failed call."""
    if isinstance(error, CallRefused):
        return Frame({"failure": "refused", "text": error.text})
    if not isinstance(error, OSError):
        return Frame({"failure": "value", "text": str(error)})
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    notes: list[str] = getattr(error, "__notes__", [])
    return Frame({"failure": "system", "errno": error.errno, "text": error.strerror, "filename": name, "notes": notes})


def failure_of(header: Header) -> Exception:
    """Return the error that a failed call has raised in the helper."""
    text = str(header.get("text"))
    match header["failure"]:
        case "refused":
            return CallRefused(text)
        case "system":
            number, name = header.get("errno"), header.get("filename")
            error = OSError(number, text, name) if name is not None else OSError(number, text)
            notes = header.get("notes")
            # cast: read from JSON
            for note in cast("list[object]", notes) if isinstance(notes, list) else ():
                error.add_note(str(note))
            return error
        case _:
            return ValueError(text)
