"""Divides growing Markdown where a part is finished, so that a frame renders the rest alone.

A long answer is shown as several parts, each rendered once. Short ones stay whole. Must not know widgets.
"""

import re
from typing import Final

# Rendered again at each frame while it grows: some 5 ms.
PART_CHARS: Final = 3000
# A part without a place to divide, such as a long program text, is divided at a line here.
LONGEST_PART_CHARS: Final = 8000

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def divide(markdown: str) -> list[str]:
    """Return the finished parts of a text, then the rest, which may be empty; rendered apart they look as together."""
    parts: list[str] = []
    while len(markdown) > PART_CHARS:
        head, rest = _first_part(markdown)
        if not head:
            break
        parts.append(head)
        markdown = rest
    return [*parts, markdown]


def _first_part(markdown: str) -> tuple[str, str]:
    """Return the first part of about `PART_CHARS` and what follows; an empty first part: there is none yet."""
    fence, info = "", ""
    place, is_after_blank, line_start = 0, False, 0
    for line in markdown.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if place >= LONGEST_PART_CHARS and line_start:
            if fence:
                return f"{markdown[:place]}{fence}\n", f"{fence}{info}\n{markdown[place:]}"
            return markdown[:place], markdown[place:]
        is_indented = line[:1] in " \t"
        if place >= PART_CHARS and is_after_blank and not fence and bare and not is_indented:
            return markdown[:place], markdown[place:]
        if (found := _FENCE.match(bare)) is not None:
            if not fence:
                fence, info = found[1], found[2]
            elif found[1].startswith(fence) and not found[2].strip():
                fence = ""
        is_after_blank = not bare.strip()
        place += len(line)
        line_start = place
    if len(markdown) > 2 * LONGEST_PART_CHARS:  # one line, of whatever
        cut = markdown.rfind(" ", PART_CHARS, LONGEST_PART_CHARS)
        cut = LONGEST_PART_CHARS if cut < 0 else cut
        return markdown[:cut], markdown[cut:]
    return "", markdown
