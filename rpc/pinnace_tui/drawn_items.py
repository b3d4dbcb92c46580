"""Items of the conversation that extensions draw: which these are, and the lines that the agent has sent for them.

Only an item on the screen is asked for, again when it changes, is folded or has another width. Until lines come, and
when an extension leaves it to the client, it is drawn as any other. Each item has at most one request without an
answer, so a fast tool costs what its renderer can take. Must not know how lines are put on the screen.
"""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

import pinnace
from pinnace_tui.content.drawn_lines import drawn_line
from pinnace_tui.content.transcript import (
    AnswerItem,
    CustomItem,
    EntryItem,
    SummaryItem,
    ThinkingItem,
    ToolItem,
    TranscriptItem,
    UserItem,
)
from pinnace_tui.content.values import Record, objects, text, texts

if TYPE_CHECKING:
    from pinnace import AsyncioClient

# More than a screen shows; what is scrolled back to is asked for again.
_MOST_KEPT: Final = 200


@dataclass(slots=True, eq=False)
class _Drawing:
    """What is known of one item, or of one half of a call."""

    surface: str
    item: TranscriptItem
    kind: str
    asked: tuple[int, int, bool] | None = None
    """For which version, width and folding."""
    is_waiting: bool = False
    lines: Sequence[Text] | None = None
    markdown: str | None = None
    """Its text, if the client draws it as Markdown."""


class DrawnItems:
    """The items that are drawn, and their lines."""

    def __init__(self, changed: Callable[[TranscriptItem], None], is_growing: Callable[[TranscriptItem], bool]) -> None:
        """Draw none; `changed` takes an item whose lines are others, `is_growing` one that a model may still write."""
        self._changed = changed
        self._is_growing = is_growing
        self._renderers: dict[tuple[str, str], bool] = {}
        """Whether what extensions draw is framed, by kind and name."""
        self._drawings: OrderedDict[tuple[TranscriptItem, str], _Drawing] = OrderedDict()
        self._by_surface: dict[str, _Drawing] = {}
        self._sent: asyncio.Queue[dict[str, object]] = asyncio.Queue()

    def use(self, state: Record) -> bool:
        """Take which items extensions draw, of a state of the agent; return whether they are others than before."""
        listed = objects(state, "itemRenderers")
        found = {(text(each, "kind"), text(each, "name")): each.get("framed") is True for each in listed}
        if found == self._renderers:
            return False
        self._renderers = found
        self.forget()
        return True

    @property
    def entry_types(self) -> frozenset[str]:
        """The types of the custom entries that are shown."""
        return frozenset(name for kind, name in self._renderers if kind == "entry")

    def forget(self) -> None:
        """Forget all lines: the items are others, or what has drawn them is gone."""
        self._drawings.clear()
        self._by_surface.clear()

    async def serve(self, client: "AsyncioClient") -> None:
        """Ask for items, in order."""
        while True:
            fields = await self._sent.get()
            if str(fields["surface"]) in self._by_surface:
                with suppress(pinnace.ClientFailure):  # of the connection: all is asked for again behind it
                    await client.request("ui_surface_input", **fields)

    def take(self, record: Record) -> bool:
        """Take a record of surfaces; return whether it was about an item."""
        drawing = self._by_surface.get(text(record, "surface"))
        if drawing is None:
            return False
        drawing.is_waiting = False
        is_drawn = text(record, "type") == "ui_surface_draw"
        lines = texts(record, "lines") if is_drawn else None
        if drawing.kind == "markdown":
            drawing.markdown = None if lines is None else "\n".join(lines)
        else:
            drawing.lines = None if lines is None else [drawn_line(line) for line in lines]
        self._changed(drawing.item)
        return True

    # What rendering uses.

    def is_framed(self, kind: str, name: str) -> bool | None:
        """Return whether what an extension draws of such an item is framed; None: none draws it."""
        found = self._renderers.get((kind, name))
        return self._renderers.get((kind, "*")) if found is None and kind in ("call", "result") else found

    def lines(self, item: TranscriptItem, kind: str, width: int, *, is_open: bool) -> Sequence[Text] | None:
        """Return the last lines of an item, and ask for those that it has now; None: there are none."""
        return self._asked(item, kind, width, is_open=is_open).lines

    def markdown(self, item: TranscriptItem, width: int) -> str | None:
        """Return the text of an item as extensions have changed it last, and ask for it again; None: as it is."""
        if ("markdown", _markdown_type(item)) not in self._renderers:
            return None
        return self._asked(item, "markdown", width, is_open=True).markdown

    def _asked(self, item: TranscriptItem, kind: str, width: int, *, is_open: bool) -> _Drawing:
        """Return what is known of an item, and ask for what it is now."""
        key = item, kind
        drawing = self._drawings.get(key)
        if drawing is None:
            drawing = self._drawings[key] = _Drawing(str(uuid.uuid4()), item, kind)
            self._by_surface[drawing.surface] = drawing
            if len(self._drawings) > _MOST_KEPT:
                _, oldest = self._drawings.popitem(last=False)
                del self._by_surface[oldest.surface]
        else:
            self._drawings.move_to_end(key)
        wanted = item.version, width, is_open
        if drawing.asked != wanted and not drawing.is_waiting:
            drawing.asked, drawing.is_waiting = wanted, True
            fields = {"kind": kind, "expanded": is_open, **_fields(item, kind)}
            if kind == "markdown":
                fields["isPartial"] = self._is_growing(item)
            self._sent.put_nowait({"surface": drawing.surface, "columns": width, "item": fields})
        return drawing


def _markdown_type(item: TranscriptItem) -> str:
    """Return whose Markdown an item has, by its name on the wire; empty: it has none."""
    match item:
        case UserItem():
            return "user"
        case AnswerItem():
            return "assistant"
        case ThinkingItem():
            return "assistant-thinking"
        case CustomItem():
            return "custom"
        case SummaryItem():
            return "summary"
        case _:
            return ""


def _fields(item: TranscriptItem, kind: str) -> dict[str, object]:
    match item:
        case UserItem() | AnswerItem() | ThinkingItem() | SummaryItem():
            return {"name": _markdown_type(item), "id": "", "content": item.text}
        case CustomItem() if kind == "markdown":
            named = {"name": "custom", "id": item.entry, "content": item.text}
            return named | ({} if item.timestamp is None else {"timestamp": item.timestamp})
        case ToolItem():
            fields: dict[str, object] = {
                "name": item.name,
                "id": item.call_id,
                "arguments": item.arguments,
                "isStarted": item.state != "written",
                "isPartial": item.state in ("written", "running"),
                "isError": item.state == "failed",
            }
            if item.duration_ms:
                fields["durationMs"] = item.duration_ms
            return fields | ({"content": item.content, "details": item.details} if kind == "result" else {})
        case CustomItem():
            known = {"name": item.custom_type, "id": item.entry, "content": item.content}
            return known | {"details": item.details, "timestamp": item.timestamp}
        case EntryItem():
            return {"name": item.custom_type, "id": item.entry, "data": item.data, "timestamp": item.timestamp}
        case _:
            return {"name": "", "id": ""}
