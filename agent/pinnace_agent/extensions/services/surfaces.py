"""Surfaces: what extensions draw in the client's terminal, as lines. Rules R-UI-09 to R-UI-11, R-UI-40, R-UI-42.

A surface is opened by an extension and drawn on whenever that wants to; the client sends its size, keys, and that the
user has closed it. One that waits for the user (`editor`, `overlay`) ends with whatever ends the waiting. The others
stay until their extension closes them; they are not shown while no client draws surfaces.

A client gets neither more lines, nor longer ones, than its terminal can show, and no sequence but for colours and
styles, by any extension. Has no access to components, nor to what extensions are written in.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from pinnace_agent.core.ports.extensions import SurfaceInput
from pinnace_agent.core.surroundings import random_uuid
from pinnace_agent.extensions.services.dialogs import Send
from pinnace_spec.records.messages import SurfacePlace
from pinnace_spec.rules.limits import MAX_SURFACE_LINE_CHARS, MAX_SURFACE_LINES

Draw = Callable[[Mapping[str, object], str], None]
"""Takes a record that may take the place of an unwritten one with the same key. Never waits."""
WAITING: Final[frozenset[SurfacePlace]] = frozenset({"editor", "overlay"})
"""The places of surfaces that wait for the user."""
EDITOR: Final = "input"
"""The place of what is the client's editor until it is closed."""
KEYS: Final = "keys"
"""The place of what sees the keys first, and is not drawn."""
_LARGEST: Final = 1000
_CUT: Final = re.compile(r"\x1b\[?[0-9;:]*\Z")
"""A style that is cut off."""
# A style; a sequence of another kind, complete or not; or a control character.
_SEQUENCES: Final = re.compile(
    r"(\x1b\[[0-9;:]{0,100}m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]P_X^][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]"
)


class Size(NamedTuple):
    """The cells of a surface across, and those of the terminal down."""

    columns: int
    rows: int


class Drawer(Protocol):
    """What draws on a surface. No method may wait; what they raise is a defect."""

    def resized(self, size: Size) -> None:
        """Take the first or another size: draw."""
        ...

    def took(self, given: SurfaceInput) -> None:
        """Take a key, a paste, or the text that an editor is to hold; of an editor, each is answered."""
        ...

    def ended(self) -> None:
        """Take that the surface is no more: nothing is drawn on it from now on."""
        ...


class Surface:
    """One surface."""

    def __init__(
        self,
        table: "SurfaceTable",
        place: SurfacePlace,
        drawer: Drawer,
        key: str | None,
        layout: Mapping[str, object] | None,
    ) -> None:
        """Belong to a table, which opens it."""
        self.place = place
        self.drawer = drawer
        self.name: str | None = None
        """By which the client knows it; None: it does not."""
        self.size: Size | None = None
        self._table = table
        self._lines: list[str] | None = None
        self._fields: dict[str, object] = {"place": place, **({} if key is None else {"key": key})}
        if place == "overlay":
            self._fields["layout"] = {"anchor": "center", **(layout or {})}

    def draw(self, lines: Sequence[str]) -> None:
        """Show other lines; what no terminal could show is left out. Never waits.

        Args:
            lines: From the top, with sequences for colours and styles.
        """
        if self.name is None or self.size is None:
            return
        shown = [shown_line(line) for line in lines[:MAX_SURFACE_LINES]]
        if shown != self._lines:
            self._lines = shown
            self._table.draw({"type": "ui_surface_draw", "surface": self.name, "lines": shown}, self.name)

    def answer(self, by: str, taken: int, text: str, asked: Mapping[str, object] | None = None) -> None:
        """Report what an editor has taken and holds now. Never waits.

        Args:
            by: The client whose input it is.
            taken: The number of its newest input that was taken.
            text: What the editor holds.
            asked: What the client is asked for: fields of `ui_input`. With none, a later answer may replace it.
        """
        if self.name is None or not by:
            return
        self._table.take_text(text)
        record = {"type": "ui_input", "surface": self.name, "by": by, "taken": taken, "text": text, **(asked or {})}
        if asked:
            self._table.send(record)
        else:
            self._table.draw(record, f"{self.name} {by}")

    def answer_key(self, by: str, taken: int, left: str) -> None:
        """Report what is left of an input to `keys`. Never waits.

        Args:
            by: The client whose input it is.
            taken: Its number.
            left: What the client is to do in its place; empty: nothing.
        """
        if self.name is not None and by:
            self._table.send({"type": "ui_input", "surface": self.name, "by": by, "taken": taken, "text": left})

    def close(self) -> None:
        """Close it; a second time does nothing."""
        self._table.remove(self)

    def show(self, send: Send) -> None:
        """Let the client open it."""
        self.name = random_uuid()
        self.size = self._lines = None
        send({"type": "ui_surface_open", "surface": self.name, **self._fields})

    def hide(self, send: Send) -> None:
        """Let the client close it, if it has it."""
        name, self.name = self.name, None
        if name is not None:
            send({"type": "ui_surface_close", "surface": name})


class SurfaceTable:
    """The surfaces of one session instance."""

    def __init__(self, send: Send, draw: Draw, take_text: Callable[[str], None], *, is_offered: bool) -> None:
        """Begin with none.

        Args:
            send: Writes a record.
            draw: Writes one that may replace another.
            take_text: Takes the text of the editor that an extension draws.
            is_offered: Whether a client draws surfaces now.
        """
        self.draw = draw
        self.send = send
        self.take_text = take_text
        self.is_offered = is_offered
        self._surfaces: list[Surface] = []
        self._is_over = False

    def add(
        self,
        place: SurfacePlace,
        drawer: Drawer,
        *,
        key: str | None = None,
        layout: Mapping[str, object] | None = None,
    ) -> Surface | None:
        """Open a surface; None: it would wait for a user that no client has.

        Args:
            place: Where it is.
            drawer: What draws on it.
            key: Of a widget.
            layout: Of an overlay, as on the wire.
        """
        if self._is_over or (place in WAITING and not self.is_offered):
            return None
        surface = Surface(self, place, drawer, key, layout)
        self._surfaces.append(surface)
        if self.is_offered:
            surface.show(self.send)
        return surface

    def remove(self, surface: Surface) -> None:
        """Close a surface."""
        if surface in self._surfaces:
            self._surfaces.remove(surface)
            surface.hide(self.send)
            surface.drawer.ended()

    def offer(self, *, is_offered: bool) -> None:
        """Take whether a client draws surfaces from now on."""
        is_again = is_offered and self.is_offered
        self.is_offered = is_offered
        if not is_offered:
            self.end_waiting()
        for surface in self._surfaces:
            if is_again:  # another client, which has seen nothing of it
                surface.hide(self.send)
            if is_offered:
                surface.show(self.send)
            else:
                surface.hide(self.send)

    def take(self, given: SurfaceInput) -> None:
        """Take what the user does with a surface; for one that is not open it has no effect."""
        surface = next((each for each in self._surfaces if each.name == given.surface), None)
        if surface is None:
            return
        if given.size is not None and given.size != surface.size:
            surface.size = Size(*(min(max(each, 1), _LARGEST) for each in given.size))
            surface.drawer.resized(surface.size)
        if given.data is not None or given.text is not None:
            surface.drawer.took(given)
        if given.is_closed and (surface.place in WAITING or surface.place in (EDITOR, KEYS)):
            surface.close()

    def end_waiting(self) -> None:
        """End the surfaces that wait for the user, as an abort does."""
        for surface in [each for each in self._surfaces if each.place in WAITING]:
            surface.close()

    def close_all(self) -> None:
        """Close every surface, and open none from now on: the session instance ends."""
        self._is_over = True
        for surface in list(self._surfaces):
            surface.close()


def shown_line(line: str) -> str:
    """Return a line without what could change a terminal, but for colours and styles."""
    if len(line) > MAX_SURFACE_LINE_CHARS:
        line = _CUT.sub("", line[:MAX_SURFACE_LINE_CHARS])
    if line.isprintable():
        return line
    return _SEQUENCES.sub(lambda found: found[1] or "", line.replace("\t", "   "))
