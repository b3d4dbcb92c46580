"""Shows what an edit changed: as numbered lines for people, and as a unified patch for programs.

Pure. Only the lines around the replacements are compared, so a small edit of a huge file stays cheap. Texts have LF
line ends. Rule R-TOL-03.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pinnace_agent.tools.text.replacement import TextReplacement, line_starts

CONTEXT_LINES: Final = 4
"""Unchanged lines shown around a change: one more than patches usually have, as clients of this tool expect."""

_MAX_DIFFERENCES: Final = 1_000
"""The number of removed and added lines of one stretch that the search finds in quadratic time, here some 0.3 s. A
larger difference is shown as removed and added as a whole."""

_LINES_AROUND: Final = 32
"""Lines after a replacement that are compared with it, so that the choice among equal lines is that of a comparison of
the whole texts, unless there are more of them."""


class Change(NamedTuple):
    """Lines `old_start` to before `old_end` became `new_start` to before `new_end`; all from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class LineDiff(NamedTuple):
    """The changes, in the forms of a result."""

    diff: str
    patch: str
    first_changed_line: int
    """From 1, in the new text."""

    def record(self) -> dict[str, object]:
        """Return the wire form."""
        return {"diff": self.diff, "patch": self.patch, "firstChangedLine": self.first_changed_line}


def line_diff(old: str, new: str, replacements: Sequence[TextReplacement], path: str) -> LineDiff:
    """Describe a change that replacements made.

    Args:
        old: Before.
        new: After; it differs.
        replacements: What was replaced in `old`, by position.
        path: For the head of the patch.
    """
    changes = list(_changes(old, replacements))
    assert changes
    return _described(old, new, changes, path, CONTEXT_LINES)


def text_diff(old: str, new: str, path: str = "", context_lines: int = CONTEXT_LINES) -> LineDiff | None:
    """Describe how two texts differ; None if they don't.

    Args:
        old: Before.
        new: After.
        path: For the head of the patch.
        context_lines: Unchanged lines shown around a change.
    """
    changes = list(_compared(_lines(old), _lines(new)))
    return _described(old, new, changes, path, context_lines) if changes else None


def _described(old: str, new: str, changes: Sequence[Change], path: str, context_lines: int) -> LineDiff:
    old_lines, new_lines = _lines(old), _lines(new)
    hunks = list(_hunks(changes, len(old_lines), context_lines))
    width = len(str(max(old.count("\n"), new.count("\n")) + 1))
    diff = "\n".join(_display(old_lines, new_lines, hunks, width))
    patch = "".join(_patch(old_lines, new_lines, hunks, path))
    return LineDiff(_sendable(diff), _sendable(patch), changes[0].new_start + 1)


def _lines(text: str) -> list[str]:
    """Split at LF alone, each line with its LF."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _changes(old: str, replacements: Sequence[TextReplacement]) -> Iterator[Change]:
    starts = line_starts(old)
    shift = 0  # how many lines the new text is ahead
    index = 0
    while index < len(replacements):
        first = bisect_right(starts, replacements[index].start) - 1
        position = starts[first]
        pieces: list[str] = []
        while True:  # replacements with few lines between them are compared as one stretch
            start, end, text = replacements[index]
            pieces += (old[position:start], text)
            position = end
            last = bisect_right(starts, end) - 1 + _LINES_AROUND
            index += 1
            if index == len(replacements) or bisect_right(starts, replacements[index].start) - 1 > last:
                break
        stretch_end = starts[last + 1] if last + 1 < len(starts) else len(old)
        before = _lines(old[starts[first] : stretch_end])
        after = _lines("".join((*pieces, old[position:stretch_end])))
        for change in _compared(before, after):
            yield Change(
                first + change.old_start,
                first + change.old_end,
                first + shift + change.new_start,
                first + shift + change.new_end,
            )
        shift += len(after) - len(before)


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Compare two stretches; changes that touch are one."""
    if (rows := _kept_rows(before, after)) is None:
        yield from _without_ends(before, after)
        return
    old = new = 0
    for row in (*rows, _Row(len(before), len(after), 0, None)):
        if (old, new) != (row.old_start, row.new_start):
            yield Change(old, row.old_start, new, row.new_start)
        old, new = row.old_start + row.length, row.new_start + row.length


def _without_ends(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Return everything between the common beginning and the common end as one change."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    end = 0
    while end < min(len(before), len(after)) - same and before[-1 - end] == after[-1 - end]:
        end += 1
    yield Change(same, len(before) - end, same, len(after) - end)


class _Row(NamedTuple):
    """Lines that stay, and the row before."""

    old_start: int
    new_start: int
    length: int
    before: "_Row | None"


def _kept_rows(before: Sequence[str], after: Sequence[str]) -> list[_Row] | None:
    """Find the unchanged lines of the shortest difference, after Myers (1986).

    Of equally short ways the one that removes first is taken, and lines stay as early as they can.

    Returns:
        None if too much differs.
    """
    # By diagonal (old position less new): the furthest position in the old text with so many differences.
    furthest: dict[int, tuple[int, _Row | None]] = {1: (0, None)}
    for differences in range(min(len(before) + len(after), _MAX_DIFFERENCES) + 1):
        for diagonal in range(-differences, differences + 1, 2):
            step = _step(furthest.get(diagonal - 1), furthest.get(diagonal + 1), diagonal, len(before), len(after))
            if step is None:
                furthest.pop(diagonal, None)
                continue
            old, row = step
            start = old
            while old < len(before) and old - diagonal < len(after) and before[old] == after[old - diagonal]:
                old += 1
            if old > start:
                row = _Row(start, start - diagonal, old - start, row)
            if old == len(before) and old - diagonal == len(after):
                return _in_order(row)
            furthest[diagonal] = (old, row)
    return None


def _step(
    removing: tuple[int, _Row | None] | None,
    adding: tuple[int, _Row | None] | None,
    diagonal: int,
    old_count: int,
    new_count: int,
) -> tuple[int, _Row | None] | None:
    """Return the furthest position of one more difference on a diagonal; None if there is no line for it."""
    can_remove = removing is not None and removing[0] < old_count
    if adding is not None and adding[0] - diagonal <= new_count:
        if removing is None or not can_remove or removing[0] < adding[0]:
            return adding
    elif not can_remove:
        return None
    assert removing is not None
    return removing[0] + 1, removing[1]


def _in_order(row: _Row | None) -> list[_Row]:
    rows: list[_Row] = []
    while row is not None:
        rows.append(row)
        row = row.before
    rows.reverse()
    return rows


def _display(old_lines: Sequence[str], new_lines: Sequence[str], hunks: "Sequence[_Hunk]", width: int) -> Iterator[str]:
    gap = f" {'':{width}} ..."
    shown = 0  # lines of the old text that are shown or skipped
    for hunk in hunks:
        if hunk.start > shown:
            yield gap
        shown = hunk.start
        for change in hunk.changes:
            for number in range(shown, change.old_start):
                yield _numbered(" ", number, old_lines[number], width)
            for number in range(change.old_start, change.old_end):
                yield _numbered("-", number, old_lines[number], width)
            for number in range(change.new_start, change.new_end):
                yield _numbered("+", number, new_lines[number], width)
            shown = change.old_end
        for number in range(shown, hunk.end):
            yield _numbered(" ", number, old_lines[number], width)
        shown = hunk.end
    if shown < len(old_lines):
        yield gap


def _numbered(marker: str, number: int, line: str, width: int) -> str:
    return f"{marker}{number + 1:>{width}} {line.removesuffix(chr(10))}"


def _patch(old_lines: Sequence[str], new_lines: Sequence[str], hunks: "Sequence[_Hunk]", path: str) -> Iterator[str]:
    yield f"--- {path}\n+++ {path}\n"
    for hunk in hunks:
        first, last = hunk.changes[0], hunk.changes[-1]
        new_start = first.new_start - (first.old_start - hunk.start)
        old_count = hunk.end - hunk.start
        new_count = last.new_end + (hunk.end - last.old_end) - new_start
        yield f"@@ -{_range(hunk.start, old_count)} +{_range(new_start, new_count)} @@\n"
        shown = hunk.start
        for change in hunk.changes:
            yield from map(_context, old_lines[shown : change.old_start])
            yield from (_patch_line("-", line) for line in old_lines[change.old_start : change.old_end])
            yield from (_patch_line("+", line) for line in new_lines[change.new_start : change.new_end])
            shown = change.old_end
        yield from map(_context, old_lines[shown : hunk.end])


def _range(start: int, count: int) -> str:
    # A stretch without lines is named by the line before it.
    return f"{start + 1 if count else start},{count}"


def _context(line: str) -> str:
    return _patch_line(" ", line)


def _patch_line(marker: str, line: str) -> str:
    return marker + line if line.endswith("\n") else f"{marker}{line}\n\\ No newline at end of file\n"


class _Hunk(NamedTuple):
    """Changes so close that all lines between them are context; and the old lines shown with them."""

    start: int
    end: int
    changes: Sequence[Change]


def _hunks(changes: Sequence[Change], old_count: int, context_lines: int) -> Iterator[_Hunk]:
    index = 0
    while index < len(changes):
        first = index
        while index + 1 < len(changes) and changes[index + 1].old_start - changes[index].old_end <= 2 * context_lines:
            index += 1
        start = max(0, changes[first].old_start - context_lines)
        end = min(old_count, changes[index].old_end + context_lines)
        yield _Hunk(start, end, changes[first : index + 1])
        index += 1


def _sendable(text: str) -> str:
    """Replace surrogate escapes for bytes that are not UTF-8, which records can't carry."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
