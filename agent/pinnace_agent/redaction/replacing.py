"""Takes the parts of a text out that are a key: loaded with the first text that holds one.

In JSON only strings change, each where the key is; names of the protocol never do.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Final, cast

from pinnace_agent.redaction.forms import KeyForm
from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.search import TextSearch

_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
# What a string of JSON consists of: an escape, or bytes that mean themselves.
_UNIT: Final = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.|[^\\]+", re.DOTALL)
_ESCAPES: Final = {b"\\n": "\n", b"\\r": "\r", b"\\t": "\t", b"\\b": "\b", b"\\f": "\f"}

Span = tuple[int, int]
Forms = Sequence[KeyForm]


# Where a text is cut: at its end, perhaps behind the dots or the notice that say so; or at its beginning.
_CUT_BEHIND: Final = re.compile(r"\s{0,8}(?:\.{0,2}\Z|\.\.\.|…|\n\[)")
_CUT_BEFORE: Final = re.compile(r"(?:\A|\.\.\.|…)\s{0,8}\Z")
_CUT_CHARS: Final = 11
# What stands before a value without being a part of it, though its last character is a letter or a digit: an escape of
# JSON, of an address, of a terminal.
_ESCAPE_BEFORE: Final = re.compile(
    r"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|(?:\x1b|\\u001[bB]|\\x1[bB]|\\e|\\033)\[[0-9;]{0,12}m)\Z"
)
_ESCAPE_CHARS: Final = 24


def replace_in_text(text: str, forms: Forms) -> str:
    """Return a text with a mark in the place of each key."""
    return _replaced(text, spans_of(text, forms))


def replace_in_json(line: bytes, forms: Forms, search: TextSearch) -> bytes:
    """Return JSON with a mark in the place of each key that is in a string; `search` finds strings that hold one."""
    return _STRING.sub(partial(_string, forms, search), line)


def spans_of(text: str, forms: Forms) -> list[Span]:
    """Return where in a text keys, and parts of keys that it cuts, are, in order and apart from each other."""
    return _merged(place for form in forms for place in _places(form, text))


def growing_spans(text: str, forms: Forms, *, is_start: bool) -> tuple[list[Span], int]:
    """Return what `spans_of` does for a text that grows, and from where on the next characters decide.

    Args:
        text: What there is of it.
        forms: Of the keys.
        is_start: Whether nothing was before it.

    Returns:
        The spans that are certain, and the place from which a key may have begun; the length of the text: nowhere.
    """
    certain: list[Span] = []
    open_from = len(text)
    for form in forms:
        for start, end in _places(form, text, is_start=is_start):
            if _is_decided(form, text, start, end):
                certain.append((start, end))
            else:
                open_from = min(open_from, start)
    return _merged(certain), open_from


def _is_decided(form: KeyForm, text: str, start: int, end: int) -> bool:
    """Return whether what follows a text can't change that this is a key."""
    if text[start:end] == form.text:
        return form.edges == "any" or not (end == len(text) or text[end:] == ".")
    if text[start:end] == form.text[len(form.text) - (end - start) :]:  # an end of it, where the text begins
        return True
    cut = _CUT_BEHIND.match(text, end)
    return cut is None or cut.end() < len(text) or cut[0].endswith(("...", "…", "["))


def _merged(places: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(places):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _string(forms: Forms, search: TextSearch, found: re.Match[bytes]) -> bytes:
    """Redact one string of JSON, with its quotes."""
    raw = found[1]
    if not search(raw) or raw in _names():
        return found[0]
    if b"\\" not in raw:
        shown = replace_in_text(raw.decode("utf-8", "surrogateescape"), forms)
        return b'"%b"' % shown.encode("utf-8", "surrogateescape")
    text, places = _decoded(raw)
    pieces: list[bytes] = []
    done = 0
    for start, end in spans_of(text, forms):
        pieces += raw[done : places[start][0]], REDACTED.encode()
        done = places[end - 1][1]
    return b'"%b"' % _without_coincidences(b"".join((*pieces, raw[done:])), forms)


def _without_coincidences(raw: bytes, forms: Forms) -> bytes:
    r"""Take out what only the bytes of escapes make look like a part of a key: the `n` of `\n` before others."""
    text = raw.decode("latin-1")
    spans = [span for form in forms if form.text.isascii() for span in _places(form, text)]
    pieces: list[bytes] = []
    done = 0
    units = [found.span() for found in _UNIT.finditer(raw) if found[0].startswith(b"\\")]
    for start, end in sorted(spans):
        for first, last in units:
            start = first if first < start < last else start
            end = last if first < end < last else end
        if start >= done:
            pieces += raw[done:start], REDACTED.encode()
            done = end
    return b"".join((*pieces, raw[done:]))


def _places(form: KeyForm, text: str, *, is_start: bool = True) -> Iterator[Span]:
    """Yield where a form is in a text, and a first or last part of it where the text is cut."""
    whole = form.text
    start = text.find(front := whole[: form.front])
    while start >= 0:
        end = start + form.front
        most = min(len(whole), len(text) - start)
        while end - start < most and text[end] == whole[end - start]:
            end += 1
        if end - start < len(whole):
            end = next((each for each in _dots(text, end, start + form.front) if text.startswith("...", each)), end)
        if _stands_alone(form, text, start, end) if end - start == len(whole) else _CUT_BEHIND.match(text, end):
            yield start, end
        start = text.find(front, start + 1)
    if form.back == len(whole):
        return
    start = text.find(back := whole[len(whole) - form.back :])
    while start >= 0:
        end = start + form.back
        first = start
        while first > 0 and end - first < len(whole) and text[first - 1] == whole[len(whole) - (end - first) - 1]:
            first -= 1
        first = next((each for each in _dots(text, first, start) if text.endswith("...", 0, each)), first)
        before = text[max(0, first - _CUT_CHARS) : first]
        if (found := _CUT_BEFORE.search(before)) and (is_start or found[0].strip()):
            yield first, end
        start = text.find(back, start + 1)


def _dots(text: str, edge: int, limit: int) -> Iterator[int]:
    """Yield where a part of a key may end that seems to end, or begin, at an edge, from the innermost place on.

    The dots at the edge of a part may be those of a notice, though the key has dots there, too.
    """
    step = -1 if limit < edge else 1
    inner = edge
    while inner != limit and text[inner if step > 0 else inner - 1] == ".":
        inner += step
    yield from range(inner, edge - step, -step)


def _stands_alone(form: KeyForm, text: str, start: int, end: int) -> bool:
    """Return whether a key is where its form counts."""
    if form.edges == "any":
        return True
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if _is_of_word(before[-1:]) and not _ESCAPE_BEFORE.search(text[max(0, start - _ESCAPE_CHARS) : start]):
        return False
    if _is_of_word(after[:1]):
        return False
    if form.edges == "value":
        return True
    if before[-1:] == "/" or after[:1] == "/":
        return False
    return not ((before[-1:] == "." and _is_of_word(before[:1])) or (after[:1] == "." and _is_of_word(after[1:])))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or (character != "" and character in "-_")


def _replaced(text: str, spans: Iterable[Span]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], REDACTED
        done = end
    return "".join((*pieces, text[done:]))


def _decoded(raw: bytes) -> tuple[str, Sequence[Span]]:
    """Return what the inside of a string of JSON means, and the bytes of each of its characters."""
    characters: list[str] = []
    places: list[Span] = []
    for found in _UNIT.finditer(raw):
        unit, start = found[0], found.start()
        if not unit.startswith(b"\\"):
            for each in unit.decode("utf-8", "surrogateescape"):
                size = len(each.encode("utf-8", "surrogateescape"))
                characters.append(each)
                places.append((start, start + size))
                start += size
            continue
        characters.append(chr(int(unit[2:], 16)) if unit[1:2] == b"u" else _ESCAPES.get(unit, chr(unit[-1])))
        places.append(found.span())
    return "".join(characters), places


@cache
def _names() -> frozenset[bytes]:
    """Return the names of the protocol's records, fields and values; loaded with the first key that is found."""
    import orjson

    from pinnace_spec import data

    found: set[bytes] = set()
    waiting: list[object] = [orjson.loads(data.text("schema/pi.json"))]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            schema = cast("dict[str, object]", value)
            found.update(name.encode() for name in schema)
            chosen = schema.get("enum")
            constants = [schema.get("const"), *(cast("list[object]", chosen) if isinstance(chosen, list) else ())]
            found.update(each.encode() for each in constants if isinstance(each, str))
            waiting += schema.values()
        elif isinstance(value, list):
            waiting += cast("list[object]", value)
    return frozenset(found)
