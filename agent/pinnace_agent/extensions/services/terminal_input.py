"""Listeners of extensions to the input of the client's terminal. Rule R-UI-42.

They are called one after the other, in the order in which they were added, by one task for each surface that is open:
each key waits for those before it, so their order stays. The client bounds how long it waits: it closes the surface and
takes the keys itself, which ends the listener that is called.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.ports.extensions import SurfaceInput
from pinnace_agent.extensions.services.error_records import ownership
from pinnace_agent.extensions.services.surfaces import KEYS, Size, Surface, SurfaceTable
from pinnace_agent.extensions.services.watchdog import Owner

if TYPE_CHECKING:
    from pinnace_agent.extensions.handlers.calling import Caller

EVENT: Final = "terminal_input"

Listener = Callable[[str], object]
"""Takes what a terminal sends for a key or a paste; see `UserInterface.on_terminal_input`."""


@dataclass(slots=True, eq=False)
class _Listener:
    owner: Owner
    function: Listener
    is_reported: bool = False


class _Stream:
    """The input to one surface, in order."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.scope = trio.CancelScope()
        self._given: deque[SurfaceInput] = deque()
        self._has_given = trio.Event()
        self._ended = ended

    def resized(self, size: Size) -> None:
        """Do nothing: it is not drawn."""

    def took(self, given: SurfaceInput) -> None:
        """Take a key or a paste."""
        self._given.append(given)
        self._has_given.set()

    def ended(self) -> None:
        """Take the end: nothing is answered from now on."""
        self.scope.cancel()
        self._ended()

    async def next(self) -> SurfaceInput:
        """Wait for an input."""
        while not self._given:
            await self._has_given.wait()
            self._has_given = trio.Event()
        return self._given.popleft()


class TerminalInput:
    """The listeners of one session instance."""

    def __init__(
        self,
        table: Callable[[], SurfaceTable | None],
        start: Callable[[str, str, Callable[[], Awaitable[None]]], None],
        caller: "Caller",
    ) -> None:
        """Begin with none.

        Args:
            table: Returns the surfaces; None: no client can draw.
            start: Starts a task of the extension at a path.
            caller: Calls the listeners.
        """
        self._table = table
        self._start = start
        self._caller = caller
        self._listeners: list[_Listener] = []
        self._surface: Surface | None = None

    def add(self, path: str, function: Listener) -> Callable[[], None]:
        """Add a listener of the extension at `path`; returns what removes it, which may be called again."""
        listener = _Listener(Owner(path, EVENT), function)
        self._listeners.append(listener)
        if self._surface is None and (table := self._table()) is not None:
            stream = _Stream(self._forget)
            self._surface = table.add(KEYS, stream)
            if self._surface is not None:
                self._start(path, EVENT, partial(self._serve, stream, self._surface))
        return partial(self._remove, listener)

    def _remove(self, listener: _Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners and self._surface is not None:
            self._surface.close()

    def _forget(self) -> None:
        self._surface = None

    async def _serve(self, stream: _Stream, surface: Surface) -> None:
        """Answer what comes to a surface until its end."""
        with stream.scope:
            while True:
                given = await stream.next()
                left = given.data or ""
                for listener in tuple(self._listeners):
                    if left:
                        left = await self._left(listener, left)
                surface.answer_key(given.by, given.number, left)

    async def _left(self, listener: _Listener, data: str) -> str:
        """Return what a listener leaves of an input: all of it if it fails, which is reported the first time."""
        try:
            work = partial(listener.function, data)
            return _read(await self._caller.run(listener.owner, work, in_thread=False, is_timed=False), data)
        except BaseException as error:
            passing, failure = ownership(error)
            if passing is not None:
                raise passing from None
            if failure is not None and not listener.is_reported:
                listener.is_reported = True
                self._caller.report(listener.owner, failure)
            return data


def _read(value: object, data: str) -> str:
    """Return what is left of an input.

    Raises:
        TypeError: A listener has returned something else. The text says what is expected.
    """
    if value is None:
        return data
    found = as_object(value)
    left = None if found is None else "" if found.get("consume") else found.get("data", data)
    if not isinstance(left, str):
        raise TypeError(f"a listener must return None, or an object with consume or data, a string, not {value!r:.100}")
    return left
