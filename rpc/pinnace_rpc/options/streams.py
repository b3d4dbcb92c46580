"""Replaces sys.stdout and sys.stderr by streams that write no keys, also those of libraries, extensions and tracebacks.

`main` installs them first. Records do not pass them: they have their own descriptor (`outbox`). A
process that knows no key has not loaded the redactor, and does not load it for this.
"""

import sys
from collections.abc import Iterable
from io import FileIO

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from pinnace_agent.redaction.redactor import Redactor


class RedactedStream:
    """A text stream that writes no key; everything else is that of the underlying stream."""

    def __init__(self, stream: "TextIO") -> None:
        """Write to `stream`."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, and return the length that was given."""
        redactor = _redactor()
        self._stream.write(text if redactor is None else redactor.text(text))
        return len(text)

    def writelines(self, lines: "Iterable[str]") -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> "RedactedBytes":
        """Return the underlying binary stream, which writes no key either."""
        return RedactedBytes(self._stream.buffer)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class RedactedBytes:
    """A binary stream of text or of lines of JSON that writes no key."""

    def __init__(self, stream: "BinaryIO") -> None:
        """Write to `stream`."""
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Write some bytes, and return how many were given."""
        self._stream.write(without_keys(bytes(data)))
        return len(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def echo(text: object, *, is_error: bool = False) -> None:
    """Write a line to stdout, or to stderr, at once. Nothing is written to a closed stream.

    Raises:
        OSError: It can't be written.
    """
    stream = sys.stderr if is_error else sys.stdout
    if stream is None:
        return
    shown = str(text)
    if is_error:
        from pinnace_spec.printable import printable_lines

        shown = printable_lines(shown)  # an error may name what others have made, such as a file
    stream.write(f"{shown}\n")
    stream.flush()


def without_keys(data: bytes) -> bytes:
    """Return text, or lines of JSON objects, without the keys that the process knows."""
    redactor = _redactor()
    if redactor is None:
        return data
    if data.startswith(b"{"):
        return redactor.line(data)
    text = data.decode("utf-8", "surrogateescape")
    return redactor.text(text).encode("utf-8", "surrogateescape")


def redact_streams() -> None:
    """Let sys.stdout and sys.stderr write no key from now on. Those that are closed stay so."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, RedactedStream):
            if isinstance(getattr(stream, "buffer", None), FileIO):  # PYTHONUNBUFFERED
                from pinnace_rpc.options.whole_file import without_buffer

                stream = without_buffer(stream)
            setattr(sys, name, RedactedStream(stream))


def protect_process() -> None:
    """Close this process to others of the same user, such as a model's commands; each of our programs begins with it.

    They could write into the pipes of a client, of the host or of the terminal what grants them more, and read keys in
    the environment. What can't be done is reported on stderr.
    """
    from pinnace_rpc.options.closing import protect

    if (problem := protect()) is not None and sys.stderr is not None:
        sys.stderr.write(f"pinnace: warning: {problem}\n")


def _redactor() -> "Redactor | None":
    module = sys.modules.get("pinnace_agent.redaction.redactor")
    return None if module is None else module.REDACTOR
