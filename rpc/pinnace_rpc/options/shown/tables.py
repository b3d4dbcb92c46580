"""Tables for people: what commands that list things print without `--json`."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from pinnace_rpc.options.parser import Option
from pinnace_rpc.options.streams import echo
from pinnace_spec.printable import printable

JSON: Final = Option(("--json",), "as_json", "Print JSON lines, and nothing else on stdout.")
"""The one option of this name: each line of stdout is an object. A list whose items stand alone has a line for each
item, and a report of one state is one line."""

_Row = TypeVar("_Row")


def echo_json(record: Mapping[str, object]) -> None:
    """Print an object as one line."""
    echo(json.dumps(record, ensure_ascii=False))


def lay_out(rows: Sequence[_Row], columns: Mapping[str, Callable[[_Row], str]], width: int | None = None) -> str:
    """Return rows below their titles, without the columns that would be empty.

    Args:
        rows: What is listed.
        columns: The text of a row for each title.
        width: The widest line; the last column is shortened for it. None: lines are as wide as they get.
    """
    cells = [[title, *map(shown, rows)] for title, shown in columns.items()]
    cells = [column for column in cells if any(column[1:])]
    widths = [max(map(len, column)) for column in cells]
    lines = (
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in zip(*cells, strict=True)
    )
    return "\n".join(line if width is None else shortened(line, width) for line in lines)


def shortened(text: str, width: int) -> str:
    """Return at most `width` characters of a text, with an ellipsis where it is cut."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def in_one_line(text: str) -> str:
    """Return a text on one line, with one space where there were several, without control characters."""
    return printable(" ".join(text.split()))


def age(milliseconds: object) -> str:
    """Return how long ago something was, in the largest unit that is reached; empty for what is no time."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return ""
    age_s = max(0, time.time() - milliseconds / 1000)
    for unit, length_s in (("d", 86400), ("h", 3600), ("min", 60)):
        if age_s >= length_s:
            return f"{age_s // length_s:.0f} {unit} ago"
    return "now"
