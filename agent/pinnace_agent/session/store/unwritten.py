"""Lines of a session that are not in its file yet, in order, and how much of the first one is.

Pure: decides what the next write has to hold, from the result of the last one. Rule R-SES-08.
"""


class UnwrittenLines:
    """A queue of lines, each with its line feed. The first may be a header, which is no entry."""

    def __init__(self, header: bytes | None) -> None:
        """Begin with a header, or with nothing."""
        self._lines = [] if header is None else [header]
        self._has_header = header is not None
        self._begun = 0  # bytes of the first line that are the file's end
        self._touched = 0  # lines, from the first on, of which bytes may be in the file
        self._wanted_at: int | None = None  # how many lines there were with the first one that is worth a file

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def count(self) -> int:
        """Entries that are not, or not whole, in the file."""
        return len(self._lines) - self._has_header

    @property
    def is_begun(self) -> bool:
        """Whether the file ends within the first line."""
        return self._begun > 0

    @property
    def is_wanted(self) -> bool:
        """Whether one of them is worth a file."""
        return self._wanted_at is not None

    def add(self, line: bytes, *, is_durable: bool) -> None:
        """Add a line at the end; a durable one is worth a file."""
        self._lines.append(line)
        if is_durable and self._wanted_at is None:
            self._wanted_at = len(self._lines)

    def withdraw_last(self) -> bool:
        """Take the newest entry back unless bytes of it may be in the file; return whether that was possible."""
        if len(self._lines) <= max(self._touched, self.is_begun, self._has_header):
            return False
        self._lines.pop()
        if self._wanted_at is not None and len(self._lines) < self._wanted_at:
            self._wanted_at = None
        return True

    @property
    def begun_alone(self) -> int:
        """How many bytes of the newest entry are the file's end; 0 if none are, or more of it may be in the file."""
        is_alone = len(self._lines) == 1 and not (self._has_header or self._touched)
        return self._begun if is_alone else 0

    def withdraw_begun(self) -> None:
        """Take the newest entry back, whose beginning is no longer in the file."""
        self._lines.clear()
        self._begun, self._wanted_at = 0, None

    def rest(self, lead: bytes) -> bytes:
        """Return what the next write has to hold.

        Args:
            lead: Ends the line before; empty while the first line is begun.
        """
        data = self._lines[0] if len(self._lines) == 1 else b"".join(self._lines)
        return lead + data[self._begun :] if lead or self._begun else data

    def was_written(self, count: int) -> None:
        """Account for bytes of `rest` that are in the file, without the lead."""
        count += self._begun
        while self._lines and count >= len(self._lines[0]):
            count -= len(self._lines.pop(0))
            self._has_header = False
            self._touched = max(0, self._touched - 1)
        self._begun = count
        if not self._lines:
            self._wanted_at = None

    def mark_interleaved(self) -> None:
        """Account for a write that came after the middle of another program's line: all must be written once more."""
        self._begun = 0
        self._touched = len(self._lines)

    def was_broken_off(self, appended: bytes) -> None:
        """Account for what another program wrote at the file's end: a line that is begun must be written anew.

        Its first line is then glued to the beginning of ours, and lost to every reader: it is ours to save.
        """
        if not self._begun:
            return
        self._begun = 0
        self._touched = max(self._touched, 1)
        glued, ending, _ = appended.partition(b"\n")
        if glued and ending:
            self._lines.insert(int(self._has_header), glued + ending)
            self._touched += 1
