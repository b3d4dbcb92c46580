"""Components of extensions in Python: what `ctx.ui.custom`, `set_widget`, `set_footer` and `set_header` draw.

A component has `render(width)`, which returns its lines, and may have `handle_key(key)`, `handle_paste(text)` and
`dispose()`. It is drawn when its size is known, after each key, and when it asks for it by `screen.request_render()`;
at most thirty times a second. All its methods run in one task of the extension, which counts as its code for the
watchdog. What they raise ends the component, and is raised by `custom` or reported. Rules R-UI-09 to R-UI-11.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import trio

from pinnace_agent.extensions.services.surfaces import WAITING, Size, Surface, SurfaceTable
from pinnace_spec.records.messages import SurfacePlace

FRAME_S: Final = 1 / 30
_PASTE: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"
_MOST_KEYS: Final = 1000
"""Keys that wait for a component: more of them are lost, since it does not take them."""


class Component(Protocol):
    """What an extension draws."""

    def render(self, width: int) -> Sequence[str]:
        """Return the lines for a width in cells, with sequences for colours and styles."""
        ...


Factory = Callable[..., "Component | Awaitable[Component]"]
"""Makes a component: with a `Screen` and a theme, and for `custom` also with `done`."""


class Screen:
    """The screen as a component has it."""

    def __init__(self) -> None:
        """Begin without a size."""
        self.columns = 0
        """The cells across that the component has; 0: not known yet."""
        self.rows = 0
        """The cells down that the terminal has."""
        self.result: object = None
        self.is_over = False
        self._keys: deque[tuple[str, str | None]] = deque(maxlen=_MOST_KEYS)
        self._changed = trio.Event()

    def request_render(self) -> None:
        """Draw the component soon. Never waits."""
        self._changed.set()

    def done(self, result: object = None) -> None:
        """End the component; `custom` returns the result. Never waits."""
        if not self.is_over:
            self.is_over, self.result = True, result
            self._changed.set()

    # What the surface reports.

    def resized(self, size: Size) -> None:
        """Take a size."""
        self.columns, self.rows = size
        self._changed.set()

    def pressed(self, data: str, key: str | None) -> None:
        """Take a key or a paste."""
        self._keys.append((data, key))
        self._changed.set()

    def ended(self) -> None:
        """Take the end: there is no result."""
        self.done()

    async def is_fit(self) -> None:
        """Wait until the size is known, or nothing is to be drawn any more."""
        while not (self.columns or self.is_over):
            await self._changed.wait()
            self._changed = trio.Event()
        self._changed.set()  # so that it is drawn

    async def serve(self, component: Component, surface: Surface) -> None:
        """Draw a component and give it keys until its end. Raises what it raises."""
        while not self.is_over:
            await self._changed.wait()
            self._changed = trio.Event()
            while self._keys and not self.is_over:
                await _give_key(component, *self._keys.popleft())
            if self.columns and not self.is_over:
                surface.draw([str(line) for line in component.render(self.columns)])
            await trio.sleep(FRAME_S)


async def run_component(
    table: SurfaceTable,
    place: SurfacePlace,
    factory: Factory,
    theme: object,
    *,
    key: str | None = None,
    layout: Mapping[str, object] | None = None,
    screen: Screen | None = None,
) -> object:
    """Show a component until its end; return its result, None if it has none. Cancelling closes it.

    Args:
        table: Where its surface is opened.
        place: Where it is.
        factory: Makes it.
        theme: Its second argument.
        key: Of a widget.
        layout: Of an overlay, as on the wire.
        screen: By which it can be ended; None: a new one.

    Raises:
        TypeError: The factory returns no component.
        Exception: What the component raises.
    """
    screen = Screen() if screen is None else screen
    surface = table.add(place, screen, key=key, layout=layout)
    if surface is None:
        await trio.lowlevel.checkpoint()
        return None
    component: Component | None = None
    try:
        if place not in WAITING:  # not made before a client draws it, as in pi's RPC mode
            await screen.is_fit()
            if screen.is_over:
                return None
        made = factory(screen, theme, screen.done) if place in WAITING else factory(screen, theme)
        component = await made if inspect.isawaitable(made) else made
        if not callable(getattr(component, "render", None)):
            raise TypeError(f"{place}: the factory must return a component, which has render(width), not {component!r}")
        await screen.serve(component, surface)
    finally:
        surface.close()
        if callable(dispose := getattr(component, "dispose", None)):
            dispose()
    return screen.result


async def _give_key(component: object, data: str, key: str | None) -> None:
    """Give a component a key by its name, or else what it writes; and a paste without its marks."""
    if data.startswith(_PASTE):
        handle, value = getattr(component, "handle_paste", None), data.removeprefix(_PASTE).removesuffix(_PASTE_END)
    else:
        handle, value = getattr(component, "handle_key", None), key or data
    if callable(handle) and inspect.isawaitable(waiting := handle(value)):
        await waiting
