"""Limits the text that a model is shown: a number of lines and bytes, from the head or from the tail.

Pure. Lines end at LF alone; a trailing LF does not begin another line; bytes are those of UTF-8. Has no knowledge of
the source of a text, nor of the notice about the cut. Rules R-TOL-05, R-BSH-03.
"""

from typing import Final, Literal, NamedTuple

MAX_LINES: Final = 2000
"""What a model reads usefully at once; the number that models have learned for these tools."""

MAX_BYTES: Final = 51_200
"""50 KiB, some 12,000 tokens: one result can't fill a context. Applies beside `MAX_LINES`, to long lines."""

_KIB: Final = 1024
_MIB: Final = 1024 * 1024


class Truncation(NamedTuple):
    """A text cut to its limits, with the sizes; `record` is its form in the `details` of a result."""

    content: str
    """Unchanged, with its trailing LF, if nothing was cut; else whole lines joined by LF."""
    truncated_by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    """For a tail only: its one line was longer than the limit and lost its beginning."""
    first_line_exceeds_limit: bool = False
    """For a head only: its first line was longer than the limit, so `content` is empty."""
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    @property
    def is_truncated(self) -> bool:
        """Whether anything was cut."""
        return self.truncated_by is not None

    @property
    def truncated(self) -> bool:
        """The same, by its name on the wire."""
        return self.is_truncated

    def record(self) -> dict[str, object]:
        """Return the wire form, which clients read."""
        return {
            "content": self.content,
            "truncated": self.is_truncated,
            "truncatedBy": self.truncated_by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_exceeds_limit,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


class TextSize(NamedTuple):
    """The size of a whole text, of which only a part is available."""

    lines: int
    bytes: int


def byte_length(text: str) -> int:
    """Return the length in UTF-8, at no cost for ASCII."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def line_count(text: str) -> int:
    """Count lines: a trailing LF begins no further one, an empty text has none."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def truncate_head(
    text: str, totals: TextSize | None = None, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> Truncation:
    """Keep whole leading lines while both limits hold.

    Args:
        text: The text, or with `totals` a beginning of it that is longer than `max_bytes` if anything is
            missing.
        totals: The size of the whole text, if `text` may be only its beginning.
        max_lines: Most lines to keep.
        max_bytes: Most bytes to keep; the LF before each line but the first counts.
    """
    total = totals or TextSize(line_count(text), byte_length(text))
    if total.lines <= max_lines and total.bytes <= max_bytes:
        return _whole(text, total, max_lines, max_bytes)
    kept: list[str] = []
    size = 0
    for line in text.removesuffix("\n").split("\n", max_lines)[:max_lines]:
        needed = byte_length(line) + (1 if kept else 0)
        if size + needed > max_bytes:
            break
        kept.append(line)
        size += needed
    return Truncation(
        "\n".join(kept),
        "lines" if len(kept) in {max_lines, total.lines} else "bytes",  # all: nothing but a trailing LF is over
        total.lines,
        total.bytes,
        len(kept),
        size,
        first_line_exceeds_limit=not kept,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def truncate_tail(
    text: str, totals: TextSize | None = None, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES
) -> Truncation:
    """Keep whole trailing lines while both limits hold; of a single line that is too long, its end.

    Args:
        text: The text, or with `totals` an end of it that is longer than `max_bytes` + 1 if anything is
            missing.
        totals: The size of the whole text, if `text` may be only its end.
        max_lines: Most lines to keep.
        max_bytes: Most bytes to keep; the LF before each line but the first counts.
    """
    total = totals or TextSize(line_count(text), byte_length(text))
    if total.lines <= max_lines and total.bytes <= max_bytes:
        return _whole(text, total, max_lines, max_bytes)
    body = text.removesuffix("\n").encode("utf-8", "surrogatepass")
    start = max(0, len(body) - max_bytes)
    is_partial = False
    if start and body[start - 1] != ord("\n"):
        line_start = body.find(b"\n", start) + 1
        is_partial = line_start == 0
        start = _character_start(body, start) if is_partial else line_start
    lines = body[start:].rsplit(b"\n", max_lines)[-max_lines:]
    content = b"\n".join(lines)
    return Truncation(
        content.decode("utf-8", "surrogatepass"),
        "lines" if len(lines) in {max_lines, total.lines} and not is_partial else "bytes",
        total.lines,
        total.bytes,
        len(lines),
        len(content),
        last_line_partial=is_partial,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def format_size(size: int) -> str:
    """Format a number of bytes for notices: `512B`, `50.0KB`, `1.2MB`."""
    if size < _KIB:
        return f"{size}B"
    if size < _MIB:
        return f"{size / _KIB:.1f}KB"
    return f"{size / _MIB:.1f}MB"


def _whole(text: str, total: TextSize, max_lines: int, max_bytes: int) -> Truncation:
    return Truncation(
        text,
        None,
        total.lines,
        total.bytes,
        total.lines,
        total.bytes,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def _character_start(data: bytes, position: int) -> int:
    """Return the next position at which a character of UTF-8 begins."""
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position
