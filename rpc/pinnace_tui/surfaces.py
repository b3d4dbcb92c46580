"""What extensions draw: in the place of the editor, over the screen, above the conversation, around the editor, below.

A surface shows lines that the agent has sent for its width, and sends keys and pastes back. Nothing of an extension
runs here, so one that hangs costs its own keys alone. Ctrl+C twice closes a surface that has the keys, whatever it does
with them. Must not know what draws.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

import pinnace
from pinnace_tui.content.drawn_lines import drawn
from pinnace_tui.content.values import Record, mapping, number, text, texts
from pinnace_tui.editor import Editor
from pinnace_tui.filtered_keys import AGAIN_S, FilteredKeys
from pinnace_tui.guarded import Guarded
from pinnace_tui.input.key_data import key_data, paste_data

if TYPE_CHECKING:
    from pinnace import AsyncioClient

KINDS: Final = frozenset({"ui_surface_open", "ui_surface_draw", "ui_input", "ui_surface_close"})
"""The records of surfaces."""
_OVERLAY_COLUMNS: Final = 80
_ALIGNMENTS: Final[Mapping[str, tuple[str, str]]] = {
    "center": ("center", "middle"),
    "top-left": ("left", "top"),
    "top-center": ("center", "top"),
    "top-right": ("right", "top"),
    "left-center": ("left", "middle"),
    "right-center": ("right", "middle"),
    "bottom-left": ("left", "bottom"),
    "bottom-center": ("center", "bottom"),
    "bottom-right": ("right", "bottom"),
}


class Sends(Protocol):
    """Takes what the user does with a surface. Never waits."""

    def __call__(self, surface: str, **fields: object) -> None:
        """Send it."""
        ...


class SurfaceView(Guarded, Static, can_focus=True):
    """The lines of one surface."""

    DEFAULT_CSS = """
    SurfaceView { height: auto; width: 100%; padding: 0; background: transparent; }
    SurfaceView.-editor { max-height: 90vh; }
    SurfaceView.-beneath { display: none; }
    SurfaceView.-header, SurfaceView.-widget { max-height: 50vh; }
    """

    def __init__(self, surface: str, place: str, key: str, layout: Record, send: Sends) -> None:
        """Show nothing yet."""
        super().__init__(markup=False)
        self.surface = surface
        self.place = place
        self.key = key
        self.layout_wanted = layout
        self.takes_keys = place in ("editor", "input", "overlay")
        self.can_focus = self.takes_keys
        self._send = send
        self._interrupted_at = 0.0
        self.add_class(
            "-editor" if place in ("editor", "input") else "-header" if place in ("header", "footer") else "-widget"
        )

    def show_lines(self, lines: list[str]) -> None:
        """Show other lines."""
        self.display = bool(lines)
        self.update(Content.from_rich_text(drawn(lines)))

    def on_key(self, event: events.Key) -> None:
        """Send a key."""
        event.stop()
        event.prevent_default()
        found = key_data(event.key, event.character)
        if found is None:
            return
        is_interrupt = event.key == "ctrl+c"
        if is_interrupt and monotonic() - self._interrupted_at < AGAIN_S:
            self._send(self.surface, closed=True)
            return
        self._interrupted_at = monotonic() if is_interrupt else 0.0
        self._send(self.surface, data=found[0], key=found[1])

    def on_paste(self, event: events.Paste) -> None:
        """Send a paste."""
        event.stop()
        event.prevent_default()
        self._send(self.surface, data=paste_data(event.text))

    def fit(self, screen: Size) -> None:
        """Send the size that it has on a screen."""
        self._send(self.surface, columns=self.columns(screen), rows=screen.height)

    def columns(self, screen: Size) -> int:
        """Return the width that it has on a screen."""
        if self.place != "overlay":
            return max(screen.width, 1)
        layout = self.layout_wanted
        wanted = _cells(layout, "width", screen.width) or min(_OVERLAY_COLUMNS, screen.width)
        margin = number(layout, "margin") or 0
        return int(max(min(max(wanted, _cells(layout, "minWidth", screen.width)), screen.width - 2 * margin), 1))


class Overlay(ModalScreen[None]):
    """A surface over the screen, which has all keys."""

    DEFAULT_CSS = """
    Overlay { background: transparent; }
    Overlay SurfaceView { width: auto; }
    """
    AUTO_FOCUS = "SurfaceView"
    BINDINGS: ClassVar = []

    def __init__(self, view: SurfaceView) -> None:
        """Show a surface."""
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        """Return the surface alone."""
        yield self.view

    def on_mount(self) -> None:
        """Put it where it is wanted."""
        self._arrange()

    def on_resize(self, _event: events.Resize) -> None:
        """Put it where it is wanted on a screen of another size."""
        self._arrange()

    def _arrange(self) -> None:
        view, layout, size = self.view, self.view.layout_wanted, self.size
        horizontal, vertical = _ALIGNMENTS.get(text(layout, "anchor"), ("center", "middle"))
        left, top = number(layout, "offsetX") or 0, number(layout, "offsetY") or 0
        if text(layout, "column"):
            horizontal, left = "left", left + _cells(layout, "column", size.width)
        if text(layout, "row"):
            vertical, top = "top", top + _cells(layout, "row", size.height)
        self.styles.align_horizontal = horizontal
        self.styles.align_vertical = vertical
        view.styles.offset = (int(left), int(top))
        view.styles.margin = int(number(layout, "margin") or 0)
        view.styles.max_height = _cells(layout, "maxHeight", size.height) or size.height
        view.styles.width = view.columns(size)


class Surfaces:
    """The surfaces that are open, and where they are on the screen."""

    def __init__(
        self,
        app: App[str],
        editor: Editor,
        footer: Widget,
        filtered_keys: FilteredKeys,
        warn: Callable[[str], None],
    ) -> None:
        """Show none yet.

        Args:
            app: The client.
            editor: Hidden while a surface is in its place.
            footer: Likewise.
            filtered_keys: Those that extensions see first.
            warn: Shows a warning.
        """
        self._filtered_keys = filtered_keys
        self._filtering = ""
        """The surface of the extensions that see the keys first."""
        self._warn = warn
        self._warned: set[str] = set()
        self._input = ""
        """The surface that is the editor now; empty: none."""
        self.header = Vertical(classes="surfaces")
        self.above = Vertical(classes="surfaces")
        self.below = Vertical(classes="surfaces")
        self.instead = Vertical(classes="surfaces")
        self.bottom = Vertical(classes="surfaces")
        self._app = app
        self._editor = editor
        self._footer = footer
        self._views: dict[str, SurfaceView] = {}
        self._overlays: dict[str, Overlay] = {}
        self._sent: asyncio.Queue[tuple[str, dict[str, object]]] = asyncio.Queue()
        for each in (self.header, self.above, self.below, self.instead, self.bottom):
            each.styles.height = "auto"

    async def serve(self, client: "AsyncioClient") -> None:
        """Send what the user does, in order."""
        while True:
            surface, fields = await self._sent.get()
            if surface in self._views or surface == self._filtering or fields.get("closed") is True:
                with suppress(pinnace.ClientFailure):  # it is gone, or the connection: what draws ends as well
                    await client.request("ui_surface_input", surface=surface, **fields)

    def send(self, surface: str, **fields: object) -> None:
        """Send what the user does with a surface. Never waits."""
        self._sent.put_nowait((surface, fields))

    def take(self, record: Record) -> None:
        """Take a record of surfaces."""
        name = text(record, "surface")
        match text(record, "type"):
            case "ui_surface_open" if text(record, "place") == "keys":
                self._filtering = name
                self._filtered_keys.begin(partial(self.send, name))
            case "ui_surface_open":
                view = SurfaceView(
                    name, text(record, "place"), text(record, "key"), mapping(record, "layout"), self.send
                )
                self._open(view)
            case "ui_surface_draw":
                if (known := self._views.get(name)) is not None:
                    known.show_lines(texts(record, "lines"))
            case "ui_input" if name == self._filtering and self._filtered_keys.are_seen:
                self._filtered_keys.take(record)
            case "ui_input":
                if name == self._input and self._editor.remote is not None:
                    self._editor.remote.take(record)
            case _:
                self.close(name)

    def check(self) -> None:
        """Close the editor of an extension that does not take what is typed; called every `CHECK_S` seconds."""
        if self._editor.remote is not None and self._editor.remote.is_overdue():
            self.send(self._input, closed=True)
            self.close(self._input)
            self._warn_once(
                "An extension's editor did not take a key within two seconds: the client's own has taken over."
            )
        if self._filtered_keys.is_overdue():
            self._filtered_keys.give_up()
            self._warn_once(
                "An extension that sees the keys first did not answer within two seconds: it sees none now."
            )

    def _warn_once(self, notice: str) -> None:
        if notice not in self._warned:
            self._warned.add(notice)
            self._warn(notice)

    def has_editors_keys(self, focused: Widget | None) -> bool:
        """Return whether keys are the editor's, since what has the focus is one of an extension, or comes or goes."""
        return focused is None or (isinstance(focused, SurfaceView) and focused.place == "input")

    def focus(self) -> None:
        """Give the keys to what has the place of the editor."""
        self._arrange()

    def fit(self, screen: Size) -> None:
        """Send all surfaces their size on a screen."""
        for each in self._views.values():
            each.fit(screen)

    def close_all(self) -> None:
        """Close all: what has drawn them is gone."""
        for name in list(self._views):
            self.close(name)
        self._filtered_keys.end()

    def close(self, name: str) -> None:
        """Close a surface."""
        if name == self._filtering:
            self._filtered_keys.end()
        view = self._views.pop(name, None)
        if view is None:
            return
        app = self._app
        if (overlay := self._overlays.pop(name, None)) is not None:
            app.call_later(_leave, app, overlay)
        else:
            app.call_later(view.remove)
        self._give_text()
        app.call_later(self._arrange)

    def _give_text(self) -> None:
        """Have the newest editor of an extension take the text and the keys, if there is one."""
        name = next((each.surface for each in reversed(self._views.values()) if each.place == "input"), "")
        if name != self._input:
            self._input = name
            self._editor.end_remote()
            if name:
                # Behind the keys that the editor has been sent already.
                self._editor.call_later(self._begin, name)

    def _begin(self, name: str) -> None:
        if name == self._input:
            self._editor.begin_remote(partial(self.send, name))

    def _open(self, view: SurfaceView) -> None:
        app = self._app
        self._views[view.surface] = view
        view.display = False
        if view.place == "overlay":
            overlay = self._overlays[view.surface] = Overlay(view)
            app.call_later(app.push_screen, overlay)
        else:
            places = {
                "header": self.header,
                "aboveEditor": self.above,
                "belowEditor": self.below,
                "footer": self.bottom,
            }
            app.call_later(places.get(view.place, self.instead).mount, view)
            app.call_later(self._arrange)
        view.fit(app.size)
        if view.place == "input":
            self._give_text()

    def _arrange(self) -> None:
        """Give the keys to the newest surface in the place of the editor, or else to the editor."""
        instead = [each for each in self._views.values() if each.place == "editor"]
        inputs = [each for each in self._views.values() if each.place == "input"]
        for each in instead[:-1]:
            each.can_focus = False
        for each in inputs:
            each.can_focus = not instead and each is inputs[-1]
            each.set_class(not each.can_focus, "-beneath")
        self._editor.display = not instead and not inputs
        self._footer.display = not any(each.place == "footer" for each in self._views.values())
        if instead:
            instead[-1].can_focus = True
            instead[-1].focus()
        elif inputs and self._editor.screen.is_current:
            inputs[-1].focus()
        elif self._editor.screen.is_current:
            self._editor.focus()


async def _leave(app: App[str], overlay: Overlay) -> None:
    if overlay in app.screen_stack:
        _ = overlay.dismiss(None)


def _cells(layout: Record, name: str, whole: int) -> int:
    """Return cells, or a share of all that there are; 0: nothing is said."""
    given = text(layout, name)
    share = given.removesuffix("%")
    return 0 if not share.isdigit() else int(share) * whole // 100 if given.endswith("%") else int(share)
