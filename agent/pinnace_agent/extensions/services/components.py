"""Components of extensions in Python: what `ctx.ui.custom` and the methods that set a part of the screen draw.

A component has `render(width)`, which returns its lines, and may have `handle_key(key)`, `handle_paste(text)` and
`dispose()`. It is drawn when its size is known, after each key, and when it asks for it by `screen.request_render()`;
at most thirty times a second. All its methods run in one task of the extension, which counts as its code for the
watchdog. What they raise ends the component, and is raised by `custom` or reported. Rules R-UI-09 to R-UI-11.

An editor (`set_editor_component`, R-UI-40) also has `get_text()` and `set_text(text)`. It sends messages by
`screen.submit(text)`, and leaves a key to the client by returning False from `handle_key`.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import trio

from pinnace_agent.core.ports.extensions import SurfaceInput
from pinnace_agent.extensions.services.surfaces import EDITOR, WAITING, Size, Surface, SurfaceTable
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


@runtime_checkable
class _Editor(Protocol):
    def get_text(self) -> object: ...


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
        self._keys: deque[SurfaceInput] = deque(maxlen=_MOST_KEYS)
        self._by, self._taken = "", 0  # of an editor: whose input was taken last, and its number
        self._asked: list[Mapping[str, object]] = []
        self._changed = trio.Event()

    def request_render(self) -> None:
        """Draw the component soon. Never waits."""
        self._changed.set()

    def done(self, result: object = None) -> None:
        """End the component; `custom` returns the result. Never waits."""
        if not self.is_over:
            self.is_over, self.result = True, result
            self._changed.set()

    def submit(self, text: str, *, follow_up: bool = False) -> None:
        """Send a message of an editor, for the end of the run with `follow_up`. Never waits."""
        if text.strip():
            self._asked.append({"submitted": text, **({"followUp": True} if follow_up else {})})
            self._changed.set()

    def act(self, action: str) -> None:
        """Do an action of the client, by its name in `keybindings.json`, such as `app.interrupt`. Never waits."""
        self._asked.append({"action": action})
        self._changed.set()

    # What the surface reports.

    def resized(self, size: Size) -> None:
        """Take a size."""
        self.columns, self.rows = size
        self._changed.set()

    def took(self, given: SurfaceInput) -> None:
        """Take a key, a paste or a text."""
        self._keys.append(given)
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
                given = self._keys.popleft()
                is_declined = await _give(component, given) is False
                if given.by:
                    self._by, self._taken = given.by, given.number
                    self._answer(component, surface, is_declined=is_declined)
            if self._asked and not self.is_over:
                self._answer(component, surface, is_declined=False)
            if self.columns and not self.is_over:
                surface.draw([str(line) for line in component.render(self.columns)])
            await trio.sleep(FRAME_S)

    def _answer(self, component: object, surface: Surface, *, is_declined: bool) -> None:
        """Report what an editor has taken, and what it asks for."""
        asked, self._asked = [*self._asked, *([{"declined": True}] if is_declined else [])], []
        text = _text_of(component)
        for each in asked or [{}]:
            surface.answer(self._by, self._taken, text, each)


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
        if place == EDITOR and not all(callable(getattr(component, each, None)) for each in ("get_text", "set_text")):
            raise TypeError(f"{place}: the factory must return an editor, which has get_text() and set_text(text)")
        await screen.serve(component, surface)
    finally:
        surface.close()
        if callable(dispose := getattr(component, "dispose", None)):
            dispose()
    return screen.result


async def _give(component: object, given: SurfaceInput) -> object:
    """Give a component a key by its name, or else what it writes, a paste without its marks, or a text."""
    if given.data is None:
        handle, value = getattr(component, "set_text", None), given.text
    elif given.data.startswith(_PASTE):
        handle, value = (
            getattr(component, "handle_paste", None),
            given.data.removeprefix(_PASTE).removesuffix(_PASTE_END),
        )
    else:
        handle, value = getattr(component, "handle_key", None), given.key or given.data
    answer = handle(value) if callable(handle) else None
    return await answer if inspect.isawaitable(answer) else answer


def _text_of(component: object) -> str:
    text = component.get_text() if isinstance(component, _Editor) else ""
    if not isinstance(text, str):  # the code of an extension is not checked
        raise TypeError(f"get_text must return a string, not {type(text).__name__}")
    return text
