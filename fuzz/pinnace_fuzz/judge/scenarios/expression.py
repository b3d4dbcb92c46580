"""Regular expressions over records: patterns that a trace must match, or must not match.

    a b        one directly behind the other           a | b      one or the other
    a* a+ a?   as in any regular expression            a{2} a{2,4} a{2,}
    ( … )      a group (with a space or nothing before it; a word directly before it makes it arguments)
    .          any record                              ... or …   any number of any records, like .*
    !a !(a|b)  one record that is none of these        ^ $        the beginning, the end of the trace

Not anchored: a match anywhere counts. Matched by a set of states, in time linear in the trace; for an expression that
does not match, `furthest` is the last position that matched, with the expected record. Pure.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from pinnace_fuzz.judge.scenarios.classes import MARK, ClassError, Record, RecordClass, record_class

_WORD = re.compile(r"@?[A-Za-z_][\w\-]*|@[\w\-]+")
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
# A mistaken {1000} must not make a machine of a million states.
MAX_COUNT = 200


class ExpressionError(ValueError):
    """The syntax of an expression is invalid; see this module's docstring. The text shows the place."""


@dataclass(slots=True, eq=False)
class _State:
    """Consumes one record if `accepts` is true for it; without `accepts`, an empty transition."""

    accepts: "_Letter | None" = None
    after: "list[_State]" = field(default_factory=list["_State"])
    anchor: str = ""
    place: int = 0
    """Of a letter: where in the expression it stands, as a number that grows."""


class _Letter(NamedTuple):
    text: str
    classes: tuple[RecordClass, ...]
    is_negated: bool = False

    def takes(self, record: Record) -> bool:
        return any(each.test(record) for each in self.classes) is not self.is_negated


class _Part(NamedTuple):
    begin: _State
    end: _State


class Match(NamedTuple):
    """How an expression fared."""

    is_match: bool
    end: int
    """Records up to here were taken: by the match, or by the attempt that came furthest."""
    wanted: tuple[str, ...]
    """What could have come next where the best attempt stuck."""


class Expression:
    """One expression, ready to match."""

    def __init__(self, text: str, optional: Sequence[str] = ()) -> None:
        """Read it.

        Args:
            text: The expression.
            optional: Words of classes that an agent of this generation does not write: they match nothing, too.

        Raises:
            ExpressionError: It is invalid.
        """
        self.text = text
        reader = _Reader(text, frozenset(optional))
        self._part = reader.whole()
        self.marks = frozenset(reader.marks)
        self.words = tuple(reader.words)
        """The words of all its classes, as often as they stand in it."""

    def match(self, records: Sequence[Record]) -> Match:
        """Look for a match; marks that the expression does not name are passed over."""
        seen = [
            (at, record)
            for at, record in enumerate(records)
            if record.get("type") != MARK or record.get("name") in self.marks
        ]
        begin, goal = self._part
        current: set[_State] = set()
        best, deepest = 0, -1
        wanted: tuple[str, ...] = ()
        for place in range(len(seen) + 1):
            is_first, is_last = place == 0, place == len(seen)
            started = _closure([begin], is_first, is_last)
            carried = _closure(current, is_first, is_last)
            if goal in carried or goal in started:
                return Match(True, seen[place - 1][0] + 1 if place else 0, ())
            open_now = [state for state in carried if state.accepts is not None and state.accepts is not _ANY]
            # Deeper in the expression counts as further, also if other parts matched later in the trace.
            if (reached := max((state.place for state in open_now), default=-1)) > deepest:
                wanted, best = _texts(state for state in open_now if state.place > deepest), place
                deepest = reached
            if is_last:
                break
            record = seen[place][1]
            following: set[_State] = set()
            for state in carried | started:
                if state.accepts is not None and state.accepts.takes(record):
                    following.update(state.after)
            current = following
        end = seen[best - 1][0] + 1 if best else 0
        return Match(False, end, wanted or _texts(_closure([begin], True, False)))


def _texts(states: Iterable[_State]) -> tuple[str, ...]:
    return tuple(sorted({state.accepts.text for state in states if state.accepts is not None}))


def _closure(states: "set[_State] | list[_State]", is_first: bool, is_last: bool) -> set[_State]:
    found: set[_State] = set()
    left = list(states)
    while left:
        state = left.pop()
        if state in found:
            continue
        if (state.anchor == "^" and not is_first) or (state.anchor == "$" and not is_last):
            continue
        found.add(state)
        if state.accepts is None:
            left += state.after
    return found


class _Reader:
    """A reader by recursive descent; one for each expression."""

    def __init__(self, text: str, optional: frozenset[str]) -> None:
        self._text = text
        self._at = 0
        self._optional = optional
        self.marks: list[str] = []
        self.words: list[str] = []

    def whole(self) -> _Part:
        part = self._alternatives()
        if self._peek():
            raise self._error("expected nothing")
        return part

    def _error(self, what: str) -> ExpressionError:
        return ExpressionError(f"{what}\n  {self._text}\n  {' ' * self._at}^")

    def _peek(self) -> str:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        end = _State()
        for part in parts:
            part.end.after.append(end)
        return _Part(_State(after=[part.begin for part in parts]), end)

    def _sequence(self) -> _Part:
        begin = end = _State()
        while (char := self._peek()) and char not in "|)":
            part = self._repeated()
            end.after.append(part.begin)
            end = part.end
        if begin is end:
            raise self._error("an empty expression")
        return _Part(begin, end)

    def _repeated(self) -> _Part:
        begun = self._at
        part = self._one()
        # No space before a quantifier.
        char = self._text[self._at : self._at + 1]
        if char in ("*", "+", "?") and char:
            self._at += 1
            return _repeat_simply(part, char)
        if char == "{":
            found = _COUNT.match(self._text, self._at)
            if found is None:
                raise self._error("not a count like {2} or {2,4}")
            self._at = found.end()
            ended = self._at
            least = int(found[1])
            most = least if found[2] is None else int(found[3]) if found[3] else None
            if max(least, most or 0) > MAX_COUNT or (most is not None and most < least):
                raise self._error(f"a count goes up to {MAX_COUNT}, the smaller number first")
            return self._counted(begun, ended, least, most)
        return part

    def _counted(self, begun: int, ended: int, least: int, most: int | None) -> _Part:
        # Each repetition is compiled again: states are not shared.
        begin = end = _State()
        for number in range(least if most is None else most):
            self._at = begun
            part = self._one()
            if number >= least:
                part = _repeat_simply(part, "?")
            end.after.append(part.begin)
            end = part.end
        if most is None:
            self._at = begun
            part = _repeat_simply(self._one(), "*")
            end.after.append(part.begin)
            end = part.end
        self._at = ended
        return _Part(begin, end)

    def _one(self) -> _Part:
        char = self._peek()
        if char in ("^", "$"):
            self._at += 1
            state = _State(anchor=char)
            return _Part(state, state)
        if char == "(":
            self._at += 1
            part = self._alternatives()
            if self._peek() != ")":
                raise self._error("a ) is missing")
            self._at += 1
            return part
        for dots in ("...", "…"):
            if self._text.startswith(dots, self._at):
                self._at += len(dots)
                return _repeat_simply(_letter(_ANY), "*")
        if char == ".":
            self._at += 1
            return _letter(_ANY)
        if char == "!":
            self._at += 1
            return _letter(self._negated())
        found = self._class()
        part = _letter(_Letter(found.text, (found,)))
        return _repeat_simply(part, "?") if found.name in self._optional else part

    def _negated(self) -> _Letter:
        begun = self._at
        if self._text[self._at : self._at + 1] != "(":
            classes = [self._class()]
        else:
            self._at += 1
            classes = [self._class()]
            while self._peek() == "|":
                self._at += 1
                classes.append(self._class())
            if self._peek() != ")":
                raise self._error("only classes with | between them can be negated")
            self._at += 1
        return _Letter(f"!{self._text[begun : self._at]}", tuple(classes), is_negated=True)

    def _class(self) -> RecordClass:
        self._peek()
        begun = self._at
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._error("expected a class of records")
        self._at = word.end()
        arguments = self._list("(", ")")
        conditions = self._list("[", "]") or []
        name, text = word[0], self._text[begun : self._at]
        try:
            made = record_class(name, arguments, conditions, text)
        except ClassError as error:
            raise self._error(str(error)) from None
        if made.is_mark:
            self.marks.append(name[1:])
        self.words.append(name)
        return made

    def _list(self, opening: str, closing: str) -> list[str] | None:
        """Split the text between brackets at its commas; strings and regular expressions are not split."""
        if self._text[self._at : self._at + 1] != opening:
            return None
        self._at += 1
        items, begun, quote, depth = list[str](), self._at, "", 0
        while self._at < len(self._text):
            char = self._text[self._at]
            before = self._text[begun : self._at].strip()
            if quote:
                if char == "\\":
                    self._at += 1
                elif char == quote:
                    quote = ""
            elif char == '"' or (char == "/" and (not before or before[-1] == "~")):
                quote = char
            elif char in "([{" and not (char == opening == "("):
                depth += 1
            elif char in ")]}" and depth:
                depth -= 1
            elif char == "," and depth == 0:
                items.append(self._text[begun : self._at])
                begun = self._at + 1
            elif char == closing:
                items.append(self._text[begun : self._at])
                self._at += 1
                return items
            self._at += 1
        raise self._error(f"a {closing} is missing")


_ANY = _Letter(".", (), is_negated=True)


_places = count(1)


def _letter(letter: _Letter) -> _Part:
    end = _State()
    return _Part(_State(accepts=letter, after=[end], place=next(_places)), end)


def _repeat_simply(part: _Part, quantifier: str) -> _Part:
    begin, end = _State(after=[part.begin]), _State()
    part.end.after.append(end)
    if quantifier in "*?":
        begin.after.append(end)
    if quantifier in "*+":
        part.end.after.append(part.begin)
    return _Part(begin, end)


def read_class(text: str, optional: Sequence[str] = ()) -> RecordClass:
    """Parse a single class, for `wait`.

    Raises:
        ExpressionError: It is none, or more than one.
    """
    reader = _Reader(text, frozenset(optional))
    found = reader._class()  # pyright: ignore[reportPrivateUsage] # the same module
    if reader._peek():  # pyright: ignore[reportPrivateUsage]
        raise reader._error("one class only")  # pyright: ignore[reportPrivateUsage]
    return found
