"""What components in Node draw: the members by which the process opens surfaces, draws on them and closes them."""

from collections.abc import Callable, Mapping
from typing import Final, cast

import trio

from pinnace_agent.core.ports.extensions import SurfaceInput
from pinnace_agent.extensions.api.user_interface import asked, overlay_layout
from pinnace_agent.extensions.services.surfaces import Size, Surface, SurfaceTable
from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.values import Ask, Now, Values
from pinnace_spec.records.messages import SurfacePlace

_STAYING: Final = ("header", "footer", "input", "aboveEditor", "belowEditor")


class _Remote:
    """Draws a surface from the process."""

    def __init__(self, bridge: Bridge, number: int) -> None:
        self.over = trio.Event()
        self._post: Callable[[Mapping[str, object]], None] = bridge.post
        self._bridge = bridge
        self._number = number

    def resized(self, size: Size) -> None:
        self._send({"columns": size.columns, "rows": size.rows})

    def took(self, given: SurfaceInput) -> None:
        fields = {"data": given.data, "text": given.text, "by": given.by or None, "number": given.number}
        self._send({name: value for name, value in fields.items() if value is not None})

    def ended(self) -> None:
        self._bridge.surfaces.pop(self._number, None)
        self.over.set()
        self._send({"ended": True})

    def _send(self, fields: Mapping[str, object]) -> None:
        self._post({"type": "surface", "extension": self._bridge.number, "surface": self._number, **fields})


def _table(bridge: Bridge, number: int | None) -> SurfaceTable | None:
    return bridge.context(number).ui.surfaces


async def _custom(bridge: Bridge, number: int | None, values: Values) -> None:
    """Show a surface that waits for the user, until its end."""
    place: SurfacePlace = "overlay" if values.flag(1, "overlay") else "editor"
    layout = overlay_layout(values.record(2, "overlayOptions"))
    table, name = _table(bridge, number), values.number(0, "surface")
    remote = _Remote(bridge, name)
    surface = None if table is None else table.add(place, remote, layout=layout)
    if surface is None:
        return
    bridge.surfaces[name] = surface
    try:
        await asked(remote.over.wait())
    finally:
        surface.close()


def _open(bridge: Bridge, number: int | None, values: Values) -> None:
    """Show a surface that stays."""
    table, name, place = _table(bridge, number), values.number(0, "surface"), values.text(1, "place")
    if place not in _STAYING:
        raise ValueError(f"setWidget: the placement is aboveEditor or belowEditor, not {place!r}")
    if table is not None:
        stays = cast("SurfacePlace", place)  # cast: it is one of them
        surface = table.add(stays, _Remote(bridge, name), key=values.text_or_none(2, "key") or None)
        if surface is not None:
            bridge.surfaces[name] = surface


def _of(bridge: Bridge, values: Values) -> Surface | None:
    return bridge.surfaces.get(values.number(0, "surface"))


def _draw(bridge: Bridge, _number: int | None, values: Values) -> None:
    if (surface := _of(bridge, values)) is not None:
        surface.draw(values.texts(1, "lines"))


def _input(bridge: Bridge, _number: int | None, values: Values) -> None:
    """Report what an editor has taken, and what the client is asked for."""
    by, taken, text = values.text(1, "by"), values.number(2, "taken"), values.text(3, "text")
    asked = values.record(4, "asked")
    shown: dict[str, object] = {
        name: value for name in ("submitted", "action") if isinstance(value := asked.get(name), str) and value
    }
    shown.update((name, True) for name in ("followUp", "declined") if asked.get(name) is True)
    if (surface := _of(bridge, values)) is not None:
        surface.answer(by, taken, text, shown)


def _close(bridge: Bridge, _number: int | None, values: Values) -> None:
    if (surface := _of(bridge, values)) is not None:
        surface.close()


NOW: Final[Mapping[str, Now]] = {
    "surface.open": _open,
    "surface.draw": _draw,
    "surface.input": _input,
    "surface.close": _close,
}

ASK: Final[Mapping[str, Ask]] = {"surface.custom": _custom}
