"""Items of the conversation that extensions draw: calls and results of tools, custom messages and entries (R-UI-13).

Markdown that extensions change goes the same way, as lines that the client draws itself (R-UI-33).

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
from pinnace_spec.rules.limits import MAX_ITEM_SURFACES, MAX_SURFACE_LINE_CHARS, MAX_SURFACE_LINES, RENDER_S

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
    find: Callable[[str, str], Sequence[tuple[str, ItemRenderer]]]
    """By kind and name, what draws it, in the order in which it is tried, and the paths of the extensions."""
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
        """`call`, `result`, `message`, `entry` or `markdown`."""
        return self.fields["kind"]

    @property
    def name(self) -> str:
        """The name of the tool, the custom type, or whose Markdown it is."""
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
        """Whether a call has no final result yet, or Markdown is growing."""
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
        """The text of a result or a message, or the Markdown."""
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
        self._reported: set[tuple[str, str, str]] = set()
        self._slow: set[ItemRenderer] = set()

    def take(self, surface: str, columns: int, item: SurfaceItem) -> None:
        """Draw an item, for the first time or again. Never waits."""
        row = self._rows.pop(surface, None)
        if not self._renderers(item):
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
        found = self._renderers(row.item)
        if not found:
            self._close(row)
            return
        row.is_at_work = True

        async def serve() -> None:
            await self._serve(row)

        self._port.start(found[0][0], "render", serve)

    def _renderers(self, item: SurfaceItem) -> list[tuple[str, ItemRenderer]]:
        """Return what draws an item, in the order in which it is tried."""
        return [each for each in self._port.find(item["kind"], item["name"]) if each[1] not in self._slow]

    async def _serve(self, row: _Row) -> None:
        try:
            while row.is_due and row.is_open:
                row.is_due = False
                lines = await (self._markdown(row) if row.item["kind"] == "markdown" else self._drawn(row))
                if self._rows.get(row.surface) is not row:  # closed meanwhile
                    return
                if lines is None:
                    self._close(row)
                    return
                self._port.draw({"type": "ui_surface_draw", "surface": row.surface, "lines": lines}, row.surface)
                await trio.sleep(_FRAME_S)
        finally:
            row.is_at_work = False

    async def _drawn(self, row: _Row) -> list[str] | None:
        """Return the lines of the first renderer that draws an item."""
        state = self._states.setdefault(row.item["id"], {})
        while len(self._states) > MAX_ITEM_SURFACES:
            del self._states[next(iter(self._states))]
        item = DrawnItem(row.columns, row.item, state, lambda: self._again(row))
        for path, renderer in self._renderers(row.item):
            if (lines := await self._lines(item, path, renderer)) is not None:
                return _bounded(lines)
        return None

    async def _markdown(self, row: _Row) -> list[str] | None:
        """Return the lines of Markdown as extensions have changed it; None: there are too many, or too long ones."""
        fields = row.item.copy()
        for path, renderer in self._renderers(row.item):
            item = DrawnItem(row.columns, fields.copy(), {}, lambda: self._again(row))
            if (lines := await self._lines(item, path, renderer)) is not None:
                fields["content"] = "\n".join(lines)
        lines = str(fields.get("content", "")).split("\n")
        if len(lines) > MAX_SURFACE_LINES or any(len(line) > MAX_SURFACE_LINE_CHARS for line in lines):
            return None
        return [shown_line(line) for line in lines]

    async def _lines(self, item: DrawnItem, path: str, renderer: ItemRenderer) -> list[str] | None:
        """Return what a renderer makes of an item; None: it leaves it, or has failed, which is reported."""

        async def drawn() -> object:
            made: list[str] | None = None
            with trio.move_on_after(RENDER_S) as limit:
                value = renderer.function(*_arguments(renderer, item))
                made = _made_lines(await value if inspect.isawaitable(value) else value, item.width)
            if limit.cancelled_caught:
                self._slow.add(renderer)
                raise TimeoutError(f"it has taken longer than {RENDER_S:g} s, and is not called again")
            return made

        try:
            # cast: what `_made_lines` returns
            return cast("list[str] | None", await self._port.isolated(path, "render", drawn))
        except ValueError as error:
            self._report(path, renderer, str(error))
            return None

    def _report(self, path: str, renderer: ItemRenderer, text: str) -> None:
        """Report a failure, once for each renderer: the next item may have the same."""
        key = path, renderer.kind, renderer.name
        if key not in self._reported:
            self._reported.add(key)
            self._port.report(ErrorRecord(path, "render", f"renderer of {renderer.kind} {renderer.name}: {text}"))


def _arguments(renderer: ItemRenderer, item: DrawnItem) -> tuple[object, ...]:
    if renderer.kind == "markdown":
        return item.text, item
    return (item.record, item, item.theme) if renderer.takes_record else (item,)


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
