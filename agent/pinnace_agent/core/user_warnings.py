"""What the user has to know about the process and its session, on every surface: stderr, the log, records, `get_state`.

Decides when a warning is new: one that still holds is not repeated. Those from before the first answer are emitted as
records after it, since clients expect the answer to their first command first. Rule R-WRN-01.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pinnace_spec.records.messages import WarningKind

_log = logging.getLogger("pinnace.warnings")

MOST_KEPT: Final = 100
"""As many current warnings are kept; the oldest are forgotten first."""
MOST_CHARS: Final = 4_000
"""A longer text is cut in records."""

Record = Mapping[str, object]


class Notice(NamedTuple):
    """One warning."""

    kind: WarningKind
    text: str
    remedy: str | None = None
    """What the user can do, as a sentence."""
    source: str | None = None
    """What it is about: a file, or the name of a server or tool."""

    @property
    def line(self) -> str:
        """The warning for stderr and the log."""
        if self.remedy is None:
            return self.text
        return f"{self.text}{'' if self.text.endswith(('.', '?', '!')) else '.'} {self.remedy}"

    @property
    def fields(self) -> dict[str, object]:
        """The warning in `get_state`, and in its record beside `type`."""
        fields = {"kind": self.kind, "text": _cut(self.text), "remedy": self.remedy, "source": self.source}
        return {name: value for name, value in fields.items() if value is not None}


class Warnings:
    """The current warnings of one process."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        """Have none; `say` writes the line of one to stderr, None: the log does."""
        self._say = say or _log_line
        self.current: dict[tuple[str, str], Notice] = {}
        """Those that hold, by kind and text, the oldest first. To be changed here alone."""
        self._silent: set[tuple[str, str]] = set()
        self._emit: Callable[[Record], None] | None = None

    def records(self) -> list[Record]:
        """Return the current warnings as `get_state` has them."""
        return [each.fields for each in self.current.values()]

    def add(self, notice: Notice) -> None:
        """Warn, unless the same warning is current. Never waits."""
        if self._take(notice):
            self._say(notice.line)
            if self._emit is not None:
                self._emit({"type": "warning", **notice.fields})

    def keep(self, notice: Notice) -> None:
        """Warn of what another record reports, such as `extension_error`: without a record of its own."""
        if self._take(notice):
            self._say(notice.line)
            self._silent.add((notice.kind, notice.text))

    def renew(self, kinds: Iterable[WarningKind], notices: Iterable[Notice]) -> None:
        """Forget the warnings of these kinds but for those among `notices`; warn of the new ones."""
        found = {(each.kind, each.text): each for each in notices}
        of_kinds = frozenset(kinds)
        for key in [key for key in self.current if key[0] in of_kinds and key not in found]:
            self._forget(key)
        for each in found.values():
            self.add(each)

    def forget(self, kind: WarningKind, source: str | None = None) -> None:
        """Forget the warnings of a kind that hold no more; with a source, only those about it."""
        for key, each in tuple(self.current.items()):
            if each.kind == kind and source in (None, each.source):
                self._forget(key)

    def begin(self, say: Callable[[str], None] | None = None) -> None:
        """Write later warnings by `say`, None: to the log. For the end of the start."""
        self._say = say or _log_line

    def publish(self, emit: Callable[[Record], None]) -> None:
        """Emit a record for each current warning, and for later ones when they come."""
        self._emit = emit
        for key, notice in self.current.items():
            if key not in self._silent:
                emit({"type": "warning", **notice.fields})

    def _take(self, notice: Notice) -> bool:
        key = (notice.kind, notice.text)
        if key in self.current:
            return False
        if len(self.current) >= MOST_KEPT:
            self._forget(next(iter(self.current)))
        self.current[key] = notice
        return True

    def _forget(self, key: tuple[str, str]) -> None:
        del self.current[key]
        self._silent.discard(key)


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"


def _log_line(text: str) -> None:
    _log.warning("%s", text)
