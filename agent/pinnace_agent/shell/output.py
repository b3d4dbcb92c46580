"""Keeps the end of a shell command's output in bounded memory, and all of it in a file once it is long.

Decides what of the output is shown and when the file begins. What is shown is what a terminal would show, without
escape sequences and control characters; the file has all bytes. The file goes to `pinnace-<uid>` among the system's
temporary files, readable for the user alone, since output may hold secrets: one folder for all processes of the user,
because the files are never deleted and a user has to find them. Has no access to the process, the wire or the wording
of results. Rules R-BSH-03, R-TOL-05, R-TOL-11.
"""

import codecs
import os
import re
import stat
import tempfile
from contextlib import suppress
from copy import copy
from typing import Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.core.control_text import ControlTextFilter
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, TextSize, Truncation, byte_length, truncate_tail
from pinnace_spec.rules.limits import MAX_OUTPUT_FILE_BYTES

TAIL_BYTES: Final = 2 * MAX_BYTES
"""The size of the tail that is kept: twice what is shown, so that the cut can be at the start of a line."""

_MAX_PIECES: Final = 256
"""The number of pieces at which they are joined: a command that prints a byte at a time costs bytes, not objects."""

_CUT: Final = f"\n[The output goes on. This file keeps {MAX_OUTPUT_FILE_BYTES >> 20:,} MiB of it.]\n".encode()

_OVERWRITTEN: Final = re.compile(r"[^\n]*\r")
"""What a terminal overwrites of a line: a progress bar is shown by its last state."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_output_file(folder: str | None = None) -> tuple[str, int]:
    """Create `pi-bash-<16 hex>.log` with mode 0600; return its path and descriptor.

    In `folder`, or else in the user's private folder among the temporary files. If another user has made a folder or a
    link of that name, a new folder with a random name is used instead.

    Raises:
        OSError: It can't be made.
    """
    if folder is not None:
        return _make_file(folder, None)
    # DEVIATION D-30: in a folder of one's own.
    shared = tempfile.gettempdir()
    private = os.path.join(shared, f"pinnace-{os.geteuid()}")
    try:
        handle = _open_private(private)
    except OSError:
        private = tempfile.mkdtemp(prefix=f"pinnace-{os.geteuid()}-", dir=shared)
        handle = _open_private(private)
    try:
        return _make_file(private, handle)
    finally:
        os.close(handle)


def _open_private(path: str) -> int:
    """Open a folder that only this user can read, and create it first if it does not exist.

    Raises:
        PermissionError: It is another user's.
        OSError: It is a link, or no folder.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    handle = os.open(path, _FOLDER_FLAGS)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(handle, 0o700)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make_file(folder: str, handle: int | None) -> tuple[str, int]:
    name = f"pi-bash-{os.urandom(8).hex()}.log"
    # Through the folder that was checked, wherever its path leads now. O_EXCL: never through a link.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    path = os.path.join(folder, name)
    return path, os.open(path if handle is None else name, flags, 0o600, dir_fd=handle)


class OutputSnapshot(NamedTuple):
    """The shown part of an output, now or at its end."""

    text: str
    truncation: Truncation | None
    """How `text` was cut; None while everything is shown."""
    full_output_path: str | None
    """The file with the whole output. It may exist although nothing is cut: raw output counts before filtering."""
    last_line_bytes: int
    """The length of the last line, before any cut."""


class BashResult(TypedDict):
    """The data of a `bash` response."""

    output: str
    exitCode: NotRequired[int]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str]


class _Tail:
    """The end of a text that grows, in bounded memory, and the sizes of all of it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._sizes: list[int] = []
        self._kept_bytes = 0
        self._total_bytes = 0
        self._newlines = 0
        self._ends_with_newline = True  # so that an empty output has no line
        self._open_line_bytes = 0
        self._closed_line_bytes = 0

    def copy(self) -> "_Tail":
        """Return another tail of the same text."""
        tail = copy(self)
        tail._pieces, tail._sizes = self._pieces.copy(), self._sizes.copy()
        return tail

    def add(self, text: str) -> None:
        """Add the next text."""
        if not text:
            return
        size = byte_length(text)
        self._count(text, size)
        self._keep(text, size)
        self._forget()

    def withdraw_open_line(self) -> None:
        """Remove the line that is not complete: it is overwritten."""
        left = self._open_line_bytes
        self._total_bytes -= left
        self._open_line_bytes = 0
        self._ends_with_newline = True
        while left and self._pieces:
            piece, size = self._pieces.pop(), self._sizes.pop()
            self._kept_bytes -= size
            if size > left:
                self._keep(piece[: piece.rfind("\n") + 1], size - left)
            left = max(0, left - size)

    def is_over_limit(self) -> bool:
        """Whether something of the text is not shown."""
        lines = self._newlines + (0 if self._ends_with_newline else 1)
        return self._total_bytes > MAX_BYTES or lines > MAX_LINES

    def snapshot(self, path: str | None) -> OutputSnapshot:
        """Return the part to show; the cost depends on the limits, not on the text."""
        text = "".join(self._pieces)
        totals = TextSize(self._newlines + (0 if self._ends_with_newline else 1), self._total_bytes)
        cut = truncate_tail(text, totals)
        last_line = self._closed_line_bytes if self._ends_with_newline else self._open_line_bytes
        return OutputSnapshot(cut.content, cut if cut.is_truncated else None, path, last_line)

    def _count(self, text: str, size: int) -> None:
        self._total_bytes += size
        self._newlines += text.count("\n")
        self._ends_with_newline = text.endswith("\n")
        last = text.rfind("\n")
        if last < 0:
            self._open_line_bytes += size
            return
        previous = text.rfind("\n", 0, last)
        line = byte_length(text[previous + 1 : last])
        self._closed_line_bytes = line if previous >= 0 else self._open_line_bytes + line
        self._open_line_bytes = byte_length(text[last + 1 :])

    def _keep(self, text: str, size: int) -> None:
        self._pieces.append(text)
        self._sizes.append(size)
        self._kept_bytes += size

    def _forget(self) -> None:
        """Drop the oldest pieces that no tail can include."""
        dropped = 0
        while self._kept_bytes - self._sizes[dropped] > TAIL_BYTES:
            self._kept_bytes -= self._sizes[dropped]
            dropped += 1
        if dropped:
            del self._pieces[:dropped], self._sizes[:dropped]
        if len(self._pieces) > _MAX_PIECES:
            # Sliced, or a tail of small pieces would never lose its first one.
            self._pieces = ["".join(self._pieces)[-TAIL_BYTES:]]
            self._kept_bytes = byte_length(self._pieces[0])
            self._sizes = [self._kept_bytes]


class OutputTail:
    """A rolling tail of output, decoded as UTF-8 with replacement; a character cut by a chunk's end survives.

    The text has no escape sequences and no control characters but TAB and LF. Of a line that a CR begins anew, the
    progress keeps all states, since it only grows, and the result the last one.

    Memory is bounded by `TAIL_BYTES` and one chunk. When raw bytes, text or lines pass the limits of
    truncation, everything so far and everything after goes to a file that only the user can read, byte for byte;
    nothing deletes it. Its writes are synchronous appends of one chunk: they end in the page cache in microseconds,
    keep the order without a queue that would grow when the disk is slow, and leave nothing to flush when the command
    is cancelled. If the file can't be written it is abandoned and the command continues; at `MAX_OUTPUT_FILE_BYTES` it
    ends, with a last line about that (R-LIM-04).
    """

    def __init__(self, temp_dir: str | None = None) -> None:
        """Begin an empty output.

        Args:
            temp_dir: Where the file goes, if one is needed; None is a private folder of the user's.
        """
        # Removes a byte order mark, which is not for the reader.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        # DEVIATION D-43: of a model's command as of a user's own.
        self._filter = ControlTextFilter()
        self._temp_dir = temp_dir
        self._result = self._progress = _Tail()
        self._raw_bytes = 0
        self._file: int | None = None
        self._file_bytes = 0
        self._path: str | None = None
        self._is_file_wanted = True
        self._early = bytearray()  # output before there is a file

    def feed(self, data: bytes) -> str:
        """Add the next raw bytes and return the text that they added to the progress."""
        self._raw_bytes += len(data)
        return self._add(self._decoder.decode(data), data)

    def finish(self) -> str:
        """End the output, close its file, return the replacement of an incomplete character. Idempotent."""
        text = self._decoder.decode(b"", final=True)
        # Python's decoder keeps an incomplete byte order mark even at the end.
        text += self._decoder.getstate()[0].decode(errors="replace")
        self._decoder.reset()
        text = self._add(text, b"")
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return text

    def snapshot(self) -> OutputSnapshot:
        """Return the part of the progress to show now; the cost depends on the limits, not on the output."""
        return self._progress.snapshot(self._path)

    def result(self) -> OutputSnapshot:
        """End the output and return the part to show."""
        self.finish()
        return self._result.snapshot(self._path)

    def _add(self, text: str, data: bytes) -> str:
        text = added = self._filter.feed(text)
        if "\r" in text:
            added = text.replace("\r", "")
            if self._result is self._progress:
                self._progress = self._result.copy()
            if "\r" in text.partition("\n")[0]:
                self._result.withdraw_open_line()
            text = _OVERWRITTEN.sub("", text)
        self._result.add(text)
        if self._progress is not self._result:
            self._progress.add(added)
        if self._file is not None:
            self._append(self._file, data)
        elif self._is_file_wanted:
            self._early += data
            if self._raw_bytes > MAX_BYTES or self._progress.is_over_limit():
                self._open_file()
        return added

    def _open_file(self) -> None:
        self._is_file_wanted = False
        try:
            self._path, file = make_output_file(self._temp_dir)
        except OSError:
            return
        self._file = file
        early, self._early = self._early, bytearray()
        self._append(file, early)

    def _append(self, file: int, data: bytes | bytearray) -> None:
        room = MAX_OUTPUT_FILE_BYTES - self._file_bytes
        is_cut = len(data) > room
        left = memoryview(data[:room] + _CUT if is_cut else data)
        self._file_bytes += len(left)
        try:
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            # E.g. the disk is full. A partial file must not be reported as the full output.
            os.close(file)
            self._file = self._path = None
            return
        if is_cut:
            os.close(file)
            self._file = None


def shell_result(output: OutputTail, exit_code: int | None, *, cancelled: bool) -> BashResult:
    """Return the result of a command that has ended."""
    shown = output.result()
    result: BashResult = {
        "output": shown.text,
        "cancelled": cancelled,
        "truncated": shown.truncation is not None,
    }
    if exit_code is not None:
        result["exitCode"] = exit_code
    if shown.full_output_path is not None:
        result["fullOutputPath"] = shown.full_output_path
    return result
