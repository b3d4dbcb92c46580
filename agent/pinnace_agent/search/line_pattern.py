r"""Translates a pattern of ripgrep into one of Python's `re`, for single lines.

A pattern that ripgrep rejects is rejected for the same reason: look-around, backreferences, a repetition of nothing, a
line end. Syntax that Python lacks is translated: names of groups, inline flags, `\z`, `\x{…}`, `\p{L}`, `[[:alpha:]]`.
Set operations (`&&`, `--`, `~~`), nested sets and names of scripts are rejected by name.

Pure.
"""

import re
import unicodedata
from functools import cache
from typing import Final

_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_.\[\]]*)>")
_REPEATS: Final = re.compile(r"\{\s*\d+\s*(?:,\s*\d*\s*)?\}")
_CODE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]+)\})")
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{\^?([^{}]*)\}|([A-Z]))")
_BOUNDARY: Final = {
    r"\<": r"\b(?=\w)",
    r"\>": r"\b(?<=\w)",
    r"\b{start}": r"\b(?=\w)",
    r"\b{end}": r"\b(?<=\w)",
    r"\b{start-half}": r"(?<!\w)",
    r"\b{end-half}": r"(?!\w)",
}
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LONG_NAMES: Final = {
    "letter": "L",
    "uppercase": "Lu",
    "uppercaseletter": "Lu",
    "lowercase": "Ll",
    "lowercaseletter": "Ll",
    "alphabetic": "L",
    "number": "N",
    "decimalnumber": "Nd",
    "punctuation": "P",
    "symbol": "S",
    "separator": "Z",
    "mark": "M",
    "other": "C",
}
_KNOWN_ESCAPES: Final = frozenset("dDsSwWbBAzntrfva")


class BadPattern(ValueError):
    """An invalid pattern; the text gives the reason."""


def compiled(pattern: str, *, is_literal: bool, ignores_case: bool, takes_crlf: bool = False) -> re.Pattern[str]:
    """Return the compiled pattern, for lines without their ends; `$` is also before a last CR if `takes_crlf` is true.

    Raises:
        BadPattern: The pattern is invalid, or could match a line end.
    """
    if "\n" in pattern:
        raise _line_end()
    written = re.escape(pattern) if is_literal else _Translation(pattern, r"\r?$" if takes_crlf else "$").text()
    try:
        return re.compile(written, re.IGNORECASE if ignores_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(f"regex parse error:\n    {pattern}\nerror: {error}") from None


def _line_end() -> BadPattern:
    return BadPattern('the literal "\\n" is not allowed in a regex')


class _Translation:
    """One walk over a pattern."""

    def __init__(self, pattern: str, end: str) -> None:
        self._pattern = pattern
        self._end = end
        self._place = 0
        self._out: list[str] = []
        self._atom = -1
        """The place in the output of the atom that a repetition would repeat; -1: there is none."""
        self._is_repeated = False
        # For each open group: its place in the output, and the flags that were set inside it.
        self._groups: list[tuple[int, list[str]]] = [(0, [])]

    def text(self) -> str:
        while self._place < len(self._pattern):
            self._step(self._pattern[self._place])
        if len(self._groups) > 1:
            raise self._bad("unclosed group")
        self._out.append(")" * len(self._groups[-1][1]))
        return "".join(self._out)

    def _bad(self, reason: str) -> BadPattern:
        mark = f"{' ' * (4 + self._place)}^"
        return BadPattern(f"regex parse error:\n    {self._pattern}\n{mark}\nerror: {reason}")

    def _step(self, character: str) -> None:
        if character == "\\":
            self._atom_is(self._escape(is_in_set=False))
        elif character == "[":
            self._atom_is(self._set())
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "|":
            flags = self._groups[-1][1]
            self._put(")" * len(flags) + "|" + "".join(flags))
        elif character in "*+?{":
            self._repeat(character)
        else:
            self._place += 1
            if character in "^$":
                self._put_back(self._end if character == "$" else character)
            else:
                # Blanks and `#` as they are: with the flag `x` they mean nothing.
                self._atom_is(character if character in ". \t#" else re.escape(character))

    def _put(self, text: str) -> None:
        self._place += 1
        self._out.append(text)
        self._atom = -1

    def _put_back(self, text: str) -> None:
        self._out.append(f"(?:{text})")  # may be repeated, as in ripgrep
        self._atom, self._is_repeated = len(self._out) - 1, False

    def _atom_is(self, text: str) -> None:
        self._out.append(text)
        self._atom, self._is_repeated = len(self._out) - 1, False

    def _repeat(self, character: str) -> None:
        if self._atom < 0:
            raise self._bad("repetition operator missing expression")
        written = character
        if character == "{":
            found = _REPEATS.match(self._pattern, self._place)
            if found is None:
                raise self._bad("repetition quantifier expects a valid decimal")
            written = found[0]
        self._place += len(written)
        text = "".join(written.split())
        if self._pattern[self._place : self._place + 1] == "?":
            self._place += 1
            text += "?"
        if self._is_repeated:  # Python would take the second one for another kind of the first
            self._out.insert(self._atom, "(?:")
            self._out.append(")")
        self._out.append(text)
        self._is_repeated = True

    def _open(self) -> None:
        rest = self._pattern[self._place :]
        start = len(self._out)
        if (flags := _FLAGS.match(rest)) is not None:
            text = self._flags(flags[1], flags[2] or "")
            self._place += len(flags[0])
            self._out.append(text)
            if flags[3] == ")":
                self._groups[-1][1].append(text)
                self._atom = -1
                return
        elif (named := _NAMED.match(rest)) is not None:
            self._place += len(named[0])
            name = re.sub(r"\W", "_", named[1])
            self._out.append(f"(?P<{name}>")
        elif rest.startswith(("(?=", "(?!", "(?<=", "(?<!")):
            raise self._bad("look-around, including look-ahead and look-behind, is not supported")
        elif rest.startswith("(?"):
            raise self._bad("unrecognized flag")
        else:
            self._place += 1
            self._out.append("(")
        self._groups.append((start, []))
        self._atom = -1

    def _flags(self, on: str, off: str) -> str:
        if strange := set(on + off) - set("imsxu"):
            raise self._bad(f"the flag {sorted(strange)[0]} needs ripgrep, which is not installed")
        if "u" in off:
            raise self._bad("patterns of bytes need ripgrep, which is not installed")
        on = on.replace("u", "")
        return f"(?{on}{'-' + off if off else ''}:"

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise self._bad("unopened group")
        start, flags = self._groups.pop()
        self._place += 1
        self._out.append(")" * (len(flags) + 1))
        self._atom, self._is_repeated = start, False

    def _escape(self, *, is_in_set: bool) -> str:
        rest = self._pattern[self._place :]
        if (code := _CODE.match(rest)) is not None:
            self._place += len(code[0])
            number = int(next(digits for digits in code.groups() if digits), 16)
            if number > 0x10FFFF:
                raise self._bad("hexadecimal literal is not a Unicode scalar value")
            if number == ord("\n"):
                raise _line_end()
            return re.escape(chr(number))
        if (named := _PROPERTY.match(rest)) is not None:
            self._place += len(named[0])
            inside = self._category(named[2] or named[3])
            is_negated = (named[1] == "P") != ("{^" in named[0])
            if is_in_set and is_negated:
                raise self._bad("a negated property inside of a set needs ripgrep, which is not installed")
            return inside if is_in_set else f"[{'^' if is_negated else ''}{inside}]"
        for written, meant in _BOUNDARY.items():
            if rest.startswith(written) and not is_in_set:
                self._place += len(written)
                return f"(?:{meant})"
        following = rest[1:2]
        self._place += 2
        if not following:
            raise self._bad("incomplete escape sequence, reached end of pattern prematurely")
        if following == "n":
            raise _line_end()
        if following == "z":
            return r"\Z"
        if following.isdigit():
            raise self._bad("backreferences are not supported")
        if following.isascii() and following.isalpha() and following not in _KNOWN_ESCAPES:
            raise self._bad("unrecognized escape sequence")
        return f"\\{following}" if following in _KNOWN_ESCAPES else re.escape(following)

    def _category(self, name: str) -> str:
        short = _LONG_NAMES.get(re.sub(r"[\s_-]", "", name).lower(), name)
        inside = _category(short) if re.fullmatch(r"[LMNPSZC][a-z]?", short) else ""
        if not inside:
            raise self._bad(f"the property {name} needs ripgrep, which is not installed")
        return inside

    def _set(self) -> str:
        self._place += 1
        text = "["
        if self._pattern[self._place : self._place + 1] == "^":
            self._place += 1
            # No line has a line end, and what is no `x` must not be one.
            text = "[^"
        is_first = True
        while True:
            rest = self._pattern[self._place :]
            if not rest:
                raise self._bad("unclosed character class")
            if rest[0] == "]" and not is_first:
                self._place += 1
                return f"{text}]"
            text += self._member(rest)
            is_first = False

    def _member(self, rest: str) -> str:
        if rest.startswith("[:") and (end := rest.find(":]")) > 0:
            name = rest[2:end]
            if name not in _POSIX:
                raise self._bad(f"the class {name} needs ripgrep, which is not installed")
            self._place += end + 2
            return _POSIX[name]
        if rest[0] == "[" or rest.startswith(("&&", "--", "~~")):
            raise self._bad("sets in sets need ripgrep, which is not installed")
        if rest[0] == "\\":
            return self._escape(is_in_set=True)
        self._place += 1
        return rest[0] if rest[0] == "-" or rest[0].isalnum() else re.escape(rest[0])


@cache
def _category(name: str) -> str:
    """Return the ranges of the characters of a general category."""
    ranges: list[str] = []
    start: int | None = None
    for number in range(0x110001):
        is_in = number < 0x110000 and unicodedata.category(chr(number)).startswith(name)
        if is_in and start is None:
            start = number
        elif not is_in and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{number - 1:08x}")
            start = None
    return "".join(ranges)
