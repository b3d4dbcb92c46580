r"""Matches paths with globs, relative to the folder that is searched.

`?` is one character, `*` any number within a name, `[a-z]` and `[!a-z]` one of a set, `{a,b}` a choice, `\` escapes the
next character; none of them matches `/`. `**` as a whole component is any number of folders, and at the end everything
below. A glob without `/` matches names at any depth, one with `/` paths that begin at any depth; one that begins with
`/` matches absolute paths. A glob without a capital letter ignores case.

Pure. Takes time proportional to glob and path, for any number of stars.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

MAX_CHOICES: Final = 1_000
"""The number of globs that `{a,b}{c,d}…` may expand to; each is matched against each path."""

_ANY_FOLDERS: Final = None
_Component = re.Pattern[str] | None
"""A name, or None for `**`."""


class BadGlob(ValueError):
    """An invalid glob; the text gives the reason."""


class Glob:
    """A compiled glob."""

    __slots__ = ("_choices", "has_folders", "is_absolute")

    def __init__(self, pattern: str, *, is_case_exact: bool | None = None) -> None:
        """Compile a glob; `is_case_exact` None: exact if it has a capital letter.

        Raises:
            BadGlob: It is invalid.
        """
        exact = is_case_sensitive(pattern) if is_case_exact is None else is_case_exact
        flags = re.DOTALL | (0 if exact else re.IGNORECASE)
        self.has_folders = "/" in pattern
        self.is_absolute = pattern.startswith("/")
        self._choices = tuple(self._compiled(choice, flags) for choice in _choices(pattern))

    def matches(self, path: str) -> bool:
        """Return whether it matches a relative path, or an absolute path if the glob is absolute."""
        if not self.has_folders:
            name = path[path.rfind("/") + 1 :]
            return any(choice[0] is not None and choice[0].match(name) for choice in self._choices)
        parts = path.strip("/").split("/")
        return any(_match(choice, parts) for choice in self._choices)

    def _compiled(self, choice: str, flags: int) -> tuple[_Component, ...]:
        if not self.has_folders:
            return (_name(choice, flags),)
        words = choice.strip("/").split("/")
        if words[-1] == "**":
            words.append("*")
        components: list[_Component] = [] if self.is_absolute else [_ANY_FOLDERS]
        for word in words:
            if word != "**":
                components.append(_name(word, flags))
            elif not components or components[-1] is not None:
                components.append(_ANY_FOLDERS)
        return tuple(components)


def is_case_sensitive(pattern: str) -> bool:
    """Return whether a pattern has a capital letter, so that its case counts."""
    return any(character.isupper() for character in pattern)


def escape_glob(text: str) -> str:
    """Return a glob that matches exactly this text."""
    return re.sub(r"([\\*?\[\]{},!])", r"\\\1", text)


def _match(components: Sequence[_Component], parts: Sequence[str]) -> bool:
    """Match names one by one; after a mismatch only the last `**` is extended by a folder."""
    position = part = 0
    retry: tuple[int, int] | None = None
    while part < len(parts):
        component = components[position] if position < len(components) else None
        if position < len(components) and component is None:
            retry = (position + 1, part)
            position += 1
        elif component is not None and component.match(parts[part]):
            position += 1
            part += 1
        elif retry is not None:
            position, part = retry[0], retry[1] + 1
            retry = (position, part)
        else:
            return False
    return all(component is None for component in components[position:])


def _name(word: str, flags: int) -> re.Pattern[str]:
    """Compile a glob of one name. After a star the first match is final, so there is no backtracking."""
    first, *others = (_sequence(piece) for piece in _between_stars(word))
    if not others:
        return re.compile(f"{first}\\Z", flags)
    *middle, last = others
    stars = "".join(f"(?>[^/]*?{piece})" for piece in middle)
    return re.compile(f"{first}{stars}[^/]*{last}\\Z", flags)


def _between_stars(word: str) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for token in _tokens(word):
        if token == "*":
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _sequence(tokens: Sequence[str]) -> str:
    return "".join(_one(token) for token in tokens)


def _one(token: str) -> str:
    """Translate a part that matches one character."""
    if token == "?":
        return "[^/]"
    if token[0] == "\\":
        return re.escape(token[1:])
    if token[0] != "[" or len(token) == 1:
        return re.escape(token)
    is_negated = token[1] in "!^"
    inside = token[2 if is_negated else 1 : -1]
    written = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside)
    try:
        re.compile(f"[{written}]")
    except re.error:
        raise BadGlob(f"error parsing glob: invalid range in '{token}'") from None
    return f"(?!/)[{'^' if is_negated else ''}{written}]"


def _tokens(word: str) -> Iterator[str]:
    """Split into characters, escaped characters, and sets."""
    place = 0
    while place < len(word):
        start, character = place, word[place]
        place += 1
        if character == "\\":
            if place == len(word):
                raise BadGlob("error parsing glob: dangling '\\'")
            place += 1
        elif character == "[":
            # A bracket at the beginning of a set is a member of it.
            members = place + (word[place : place + 1] in ("!", "^"))
            end = word.find("]", members + 1)
            if end < 0:
                raise BadGlob("error parsing glob: unclosed character class; missing ']'")
            place = end + 1
        yield word[start:place]


def _choices(pattern: str) -> list[str]:
    """Return the globs without braces that a glob with braces expands to."""
    done = [""]
    # For each open brace: the text before it, and its complete choices.
    opened: list[tuple[list[str], list[str]]] = []
    for token in _tokens(pattern):
        if token == "{":
            opened.append((done, []))
            done = [""]
        elif token == "," and opened:
            opened[-1][1].extend(done)
            done = [""]
        elif token == "}":
            if not opened:
                raise BadGlob("error parsing glob: unopened alternate group; missing '{'")
            before, complete = opened.pop()
            complete += done
            if len(before) * len(complete) > MAX_CHOICES:
                raise BadGlob(f"error parsing glob: more than {MAX_CHOICES} alternatives")
            done = [start + choice for start in before for choice in complete]
        else:
            done = [start + token for start in done]
    if opened:
        raise BadGlob("error parsing glob: unclosed alternate group; missing '}'")
    return done
