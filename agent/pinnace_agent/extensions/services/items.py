"""Items of the conversation that extensions draw: calls and results of tools, custom messages and entries (R-UI-13).

The client asks for an item when it shows it, names the surface, and sends what it has of the item. So what is drawn is
what it shows, and nothing is looked up or sent for items that no screen has. An item is drawn again when the client
sends it again, and when its renderer asks for it. What can't be drawn is left to the client: its surface is closed.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, cast

import trio

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.extensions.api.terminal_texts import Theme
from pinnace_agent.extensions.registration.registrations import ErrorRecord, ErrorSink, ItemRenderer
from pinnace_agent.extensions.services.dialogs import Send
from pinnace_agent.extensions.services.surfaces import Draw, shown_line
from pinnace_spec.records.surface_items import ItemKind, SurfaceItem
from pinnace_spec.rules.limits import MAX_ITEM_SURFACES, MAX_SURFACE_LINES, RENDER_S

_FRAME_S: Final = 1 / 30
_WIDEST: Final = 1000


class Isolated(Protocol):
    """Runs an async function of an extension; its failure is a ValueError with the text."""

    async def __call__(self, path: str, event: str, function: Callable[[], Awaitable[object]]) -> object:
        """Run it."""
        ...


class ItemPort(NamedTuple):
    """What the table needs of the session instance."""

    send: Send
    draw: Draw
    find: Callable[[str, str], tuple[str, ItemRenderer] | None]
    """By kind and name, what draws it, and the path of its extension."""
    start: Callable[[str, str, Callable[[], Awaitable[object]]], None]
    isolated: Isolated
    report: ErrorSink


@dataclass(slots=True, frozen=True)
class DrawnItem:
    """An item of the conversation, as the client has it."""

    width: int
    """The cells across that the lines may take."""
    fields: SurfaceItem
    """As on the wire."""
    state: dict[str, object]
    """Of the renderers of one call, to keep what they like: both have the same."""
    request_render: Callable[[], None]
    """Draw it again soon. Never waits."""
    theme: Theme = field(default_factory=Theme)

    @property
    def kind(self) -> ItemKind:
        """`call`, `result`, `message` or `entry`."""
        return self.fields["kind"]

    @property
    def name(self) -> str:
        """The name of the tool, or the custom type."""
        return self.fields["name"]

    @property
    def id(self) -> str:
        """The id of the call, or of the entry."""
        return self.fields["id"]

    @property
    def is_expanded(self) -> bool:
        """Whether the user has it shown whole."""
        return self.fields.get("expanded", False)

    @property
    def arguments(self) -> Mapping[str, object]:
        """The arguments of a call."""
        return self.fields.get("arguments", {})

    @property
    def is_partial(self) -> bool:
        """Whether a call has no final result yet."""
        return self.fields.get("isPartial", False)

    @property
    def is_error(self) -> bool:
        """Whether a call has failed."""
        return self.fields.get("isError", False)

    @property
    def duration_ms(self) -> float | None:
        """How long a tool has taken; None: it has not ended, or it is not known."""
        return self.fields.get("durationMs")

    @property
    def text(self) -> str:
        """The text of a result or a message."""
        content = self.fields.get("content")
        if isinstance(content, str):
            return content
        blocks = [as_object(each) or {} for each in as_list(content) or []]
        return "\n".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text")

    @property
    def details(self) -> object:
        """The details of a result or a message; None: there are none."""
        return self.fields.get("details")

    @property
    def data(self) -> object:
        """The data of an entry; None: there are none."""
        return self.fields.get("data")

    @property
    def record(self) -> Mapping[str, object]:
        """The message or the entry, in the form of its record."""
        head = {"role": "custom"} if self.kind == "message" else {"type": "custom", "id": self.id}
        rest = {name: value for name, value in self.fields.items() if name not in ("kind", "name", "id", "expanded")}
        return {**head, "customType": self.name, **rest}


@dataclass(slots=True, eq=False)
class _Row:
    """An item that a client shows."""

    surface: str
    columns: int
    item: SurfaceItem
    is_due: bool = True
    is_open: bool = True
    is_at_work: bool = False


class ItemTable:
    """The items of one session instance that clients show."""

    def __init__(self, port: ItemPort) -> None:
        """Show none yet."""
        self._port = port
        self._rows: dict[str, _Row] = {}
        self._states: dict[str, dict[str, object]] = {}
        self._reported: set[tuple[str, str]] = set()
        self._slow: set[ItemRenderer] = set()

    def take(self, surface: str, columns: int, item: SurfaceItem) -> None:
        """Draw an item, for the first time or again. Never waits."""
        found = self._port.find(item["kind"], item["name"])
        row = self._rows.pop(surface, None)
        if found is None or found[1] in self._slow:
            self._close(row or _Row(surface, columns, item))
            return
        if row is None:
            row = _Row(surface, columns, item)
        row.columns, row.item, row.is_due = min(max(columns, 1), _WIDEST), item, True
        self._rows[surface] = row  # as the newest one
        while len(self._rows) > MAX_ITEM_SURFACES:
            self._close(self._rows[next(iter(self._rows))])
        self._wake(row)

    def forget(self, surface: str) -> bool:
        """Take that the client shows an item no more; return whether the surface is that of one."""
        row = self._rows.pop(surface, None)
        if row is None:
            return False
        row.is_open = False
        return True

    def close_all(self) -> None:
        """Close all surfaces: the session instance ends, or no client draws."""
        for row in tuple(self._rows.values()):
            self._close(row)

    def _close(self, row: _Row) -> None:
        self._rows.pop(row.surface, None)
        if row.is_open:
            row.is_open = False
            self._port.send({"type": "ui_surface_close", "surface": row.surface})

    def _again(self, row: _Row) -> None:
        if row.is_open:
            row.is_due = True
            self._wake(row)

    def _wake(self, row: _Row) -> None:
        if row.is_at_work:
            return
        found = self._port.find(row.item["kind"], row.item["name"])
        if found is None:
            self._close(row)
            return
        path, renderer = found
        row.is_at_work = True

        async def serve() -> None:
            await self._serve(row, path, renderer)

        self._port.start(path, "render", serve)

    async def _serve(self, row: _Row, path: str, renderer: ItemRenderer) -> None:
        try:
            while row.is_due and row.is_open:
                row.is_due = False
                lines = await self._lines(row, path, renderer)
                if self._rows.get(row.surface) is not row:  # closed meanwhile
                    return
                if lines is None:
                    self._close(row)
                    return
                self._port.draw({"type": "ui_surface_draw", "surface": row.surface, "lines": lines}, row.surface)
                await trio.sleep(_FRAME_S)
        finally:
            row.is_at_work = False

    async def _lines(self, row: _Row, path: str, renderer: ItemRenderer) -> list[str] | None:
        state = self._states.setdefault(row.item["id"], {})
        while len(self._states) > MAX_ITEM_SURFACES:
            del self._states[next(iter(self._states))]
        item = DrawnItem(row.columns, row.item, state, lambda: self._again(row))

        async def drawn() -> object:
            made: list[str] | None = None
            with trio.move_on_after(RENDER_S) as limit:
                value = renderer.function(*((item.record, item, item.theme) if renderer.takes_record else (item,)))
                made = _made_lines(await value if inspect.isawaitable(value) else value, row.columns)
            if limit.cancelled_caught:
                self._slow.add(renderer)
                raise TimeoutError(f"it has taken longer than {RENDER_S:g} s, and is not called again")
            return made

        try:
            # cast: what `_made_lines` returns
            lines = cast("list[str] | None", await self._port.isolated(path, "render", drawn))
        except ValueError as error:
            self._report(path, renderer, str(error))
            return None
        return None if lines is None else _bounded(lines)

    def _report(self, path: str, renderer: ItemRenderer, text: str) -> None:
        """Report a failure, once for each renderer: the next item may have the same."""
        key = renderer.kind, renderer.name
        if key not in self._reported:
            self._reported.add(key)
            self._port.report(ErrorRecord(path, "render", f"renderer of {renderer.kind} {renderer.name}: {text}"))


def _made_lines(made: object, width: int) -> list[str] | None:
    """Return the lines of what a renderer has returned.

    Raises:
        TypeError: It is neither lines nor a component.
    """
    if made is None:
        return None
    if callable(render := getattr(made, "render", None)):
        made = render(width)
    if isinstance(made, str):
        return made.split("\n")
    if not isinstance(made, list | tuple):
        what = "a text, lines, an object with render(width), or None"
        raise TypeError(f"it must return {what}, not {type(made).__name__}")
    return [str(line) for line in cast("Sequence[object]", made)]


def _bounded(lines: Sequence[str]) -> list[str]:
    shown = [shown_line(line) for line in lines[:MAX_SURFACE_LINES]]
    if len(lines) > MAX_SURFACE_LINES:
        shown[-1] = f"… {len(lines) - MAX_SURFACE_LINES + 1} more lines"
    return shown
