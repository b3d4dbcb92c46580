"""An editor: it starts its adapter again and again, opens sessions, and sends what a seed decides.

What it knows outlives its connections: its sessions with what was shown of them, and its messages.
"""

import random
from functools import partial
from typing import Final

import trio

from pinnace_fuzz.simulation.editors.adapters import StartAdapter
from pinnace_fuzz.simulation.editors.connection import EditorConnection, Surroundings
from pinnace_fuzz.simulation.editors.questions import Questions
from pinnace_fuzz.simulation.editors.views import SessionView

_NEXT_S: Final = (0.01, 0.5, 2.0, 10.0)
"""Between two connections."""
_MOST_SESSIONS: Final = 2
_CUTS: Final = 0.06
"""How often a connection ends behind an action."""
_ACTIONS: Final = (
    *(("prompt", 8), ("steer", 3), ("replay", 2), ("cancel", 2)),
    *(("cancel_request", 1), ("close", 1), ("new", 1), ("status", 1)),
)
_BURSTS: Final = 0.3
_TOGETHER: Final = (
    "prompt cancel",
    "prompt wait cancel",
    "prompt wait cancel",
    "prompt prompt cancel",
    "prompt replay cancel",
    "prompt wait replay cancel",
    "steer replay",
    "steer wait replay",
    "prompt prompt prompt",
)
"""In pointed histories: how often several actions follow one at once, in one session, and which."""
_WAITS_S: Final = (0.02, 0.3, 1.0, 2.0)
"""As long as a flush takes."""
_NAMES: Final = [name for name, _ in _ACTIONS]
_WEIGHTS: Final = [weight for _, weight in _ACTIONS]


class Editor:
    """One editor, over all its connections."""

    def __init__(
        self, name: str, draws: random.Random, around: Surroundings, bursts: random.Random | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            name: Of the editor.
            draws: Decides.
            around: What all editors share.
            bursts: Decides when several actions follow one at once; None: never.
        """
        self.name = name
        self._bursts = bursts
        self.views: dict[str, SessionView] = {}
        self.questions = Questions(lambda source, text: around.report(source, f"{name}: {text}"))
        self.version = draws.choice((1, 2))
        self.is_disturbed = False
        """Whether something has crashed, or was cut off, in this boot."""
        self._draws = draws
        self._around = around
        self._left = 0
        self._is_last = False
        self._count = 0
        self._connection: EditorConnection | None = None

    @property
    def owed(self) -> list[str]:
        """What is not answered on the current connection, and which sessions are at work."""
        return [] if self._connection is None else self._connection.owed

    def lose_power(self) -> None:
        """The machine has crashed."""
        self.questions.lose()
        for view in self.views.values():
            view.lose()

    def lose_records(self) -> None:
        """An agent or the host has crashed: what it was about to show may not come."""
        self.questions.lose()
        for view in self.views.values():
            view.is_whole = False

    async def live(self, count: int, start: StartAdapter, *, is_last: bool) -> None:
        """Do so many things, with one adapter after another, until nothing is owed.

        Args:
            count: How many.
            start: Starts adapters.
            is_last: Nothing crashes or fails any more: each session is shown again at the end.
        """
        self._left, self._is_last = count, is_last
        self.questions.leave()  # the machine may have crashed
        for view in self.views.values():
            view.leave()
        while True:
            adapter = start(self.name, self._around.flags)
            self._connection = connection = EditorConnection(self, adapter, self._draws, self._around)
            is_done = await connection.run(partial(self._converse, connection))
            self._connection = None
            self.questions.leave()
            for view in self.views.values():
                view.leave()
            if is_done:
                return
            await trio.sleep(self._draws.choice(_NEXT_S))

    async def _converse(self, connection: EditorConnection) -> bool:
        """Do what is left; return whether everything is done, else the connection is to be ended."""
        await connection.greet()
        for view in list(self.views.values()):
            await connection.open(view, shows=self._draws.random() < 0.6, must_succeed=self._is_last)
        while self._left:
            await self._pause(connection)
            self._left -= 1
            self._count += 1
            action = self._draws.choices(_NAMES, _WEIGHTS)[0]
            if self._around.parts.has(f"action:{self.name}.{self._count}"):
                await self._act(connection, action)
            await self._burst(connection)
            if self._draws.random() < _CUTS:
                return False
        await connection.rest()
        if self._is_last:
            for view in list(self.views.values()):
                await connection.show_again(view)
        return True

    async def _burst(self, connection: EditorConnection) -> None:
        """Do several things in one session, mostly none, before anything of them is done."""
        opened = [view for view in self.views.values() if view.is_open]
        if self._bursts is None or not opened or self._bursts.random() >= _BURSTS:
            return
        view, actions = self._bursts.choice(opened), self._bursts.choice(_TOGETHER).split()
        if self._around.parts.has(f"actions:{self.name}.{self._count}"):
            for action in actions:
                if action == "wait":
                    await trio.sleep(self._bursts.choice(_WAITS_S))
                else:
                    await self._act_in(connection, view, action)

    async def _act(self, connection: EditorConnection, action: str) -> None:
        draws = self._draws
        opened = [view for view in self.views.values() if view.is_open]
        if not opened or (action == "new" and len(self.views) < _MOST_SESSIONS):
            closed = [view for view in self.views.values() if not view.is_open]
            if closed and action != "new":
                await connection.open(draws.choice(closed), shows=draws.random() < 0.7)
            elif len(self.views) < _MOST_SESSIONS:
                await connection.begin_session(must_succeed=self._is_last)
            return
        await self._act_in(connection, draws.choice(opened), action)

    async def _act_in(self, connection: EditorConnection, view: SessionView, action: str) -> None:
        match action:
            case "prompt" | "new":
                await connection.prompt(view)
            case "steer":
                await connection.steer(view)
            case "cancel":
                await connection.cancel(view)
            case "cancel_request":
                await connection.cancel_request()
            case "replay":
                await connection.open(view, shows=True)
            case "close":
                await connection.close(view)
            case _:
                await connection.request("session/status", {"sessionId": view.identity})

    async def _pause(self, connection: EditorConnection) -> None:
        match self._draws.randrange(4):
            case 0:
                await trio.sleep(self._draws.choice((0.0, 0.001, 0.02, 0.3, 3.0)))
            case 1:
                with trio.move_on_after(5.0):
                    await connection.changed()
            case 2:
                with trio.move_on_after(20.0):
                    while connection.owed:
                        await connection.changed()
            case _:
                pass
