"""Notices functions of extensions that keep the event loop to themselves, or that wait for ever.

Decides nothing about them: a thread that is blocked cannot be unblocked, so this only tells who it is. Whose code a
step of the loop runs is known from a context variable, which tasks that a handler starts inherit; an instrument of trio
takes the time of each step, and a thread looks at the step that doesn't end. Must not know events. R35, R36.
"""

import itertools
import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

import trio

_log = logging.getLogger("pinnace.extensions")

# A client feels it: one token at 10 tokens a second. Only for authors, so at level debug.
NOTICE_S: Final = 0.1
# Abort, dialogs and every other extension have been dead for a second.
WARN_S: Final = 1.0
# Often enough to see the stack of a step that is over the limit by little; four wake-ups a second cost nothing.
_LOOK_S: Final = 0.25
# A handler that waits for longer without asking a user has probably been forgotten (R36).
SLOW_S: Final = 30.0


@dataclass(slots=True, eq=False)
class Owner:
    """Whose code runs: an extension's function, for one of its purposes."""

    path: str
    event: str
    kind: Literal["waited for", "background", "command"] = "waited for"
    """Who waits for it (R24): the session, in one way or another; the end of the session only; or nobody."""
    dialogs: int = 0
    """How many questions it has open; a user may take as long as he likes."""
    stalls: int = 0
    """How often it has blocked the loop for longer than `WARN_S`."""
    longest_s: float = 0.0


OWNER: Final[ContextVar[Owner | None]] = ContextVar("pinnace-extension-owner", default=None)
"""Whose code this task runs now; None: the agent's own."""


def owners_at_work(root: trio.lowlevel.Task) -> list[tuple[str, str]]:
    """Return whose code the tasks under `root` work for, each once: the extension's path and the event."""
    found: dict[tuple[str, str], None] = {}
    waiting = [root]
    while waiting:
        task = waiting.pop()
        owner = task.context.get(OWNER)
        if owner is not None:
            found[owner.path, owner.event] = None
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return list(found)


class Watchdog(trio.abc.Instrument):
    """Takes the time of every stretch of an extension's code between two checkpoints.

    Watches while it is entered as a context manager; before and after, it only notes whose code runs.
    """

    def __init__(self) -> None:
        self.offenders: list[Owner] = []
        """Who has blocked the loop for longer than `WARN_S`, in the order of the first time."""
        # One value, since the thread reads it at any moment: who runs, and since when.
        self._running: tuple[Owner, float] | None = None
        self._is_watching = False
        self._told: tuple[Owner, float] | None = None
        self._loop_thread = 0
        self._stopped = threading.Event()
        self._waiting: dict[int, tuple[Owner, float]] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._somebody_waits = trio.Event()

    # The stretches.

    def enter(self, owner: Owner) -> Token[Owner | None]:
        """From now on this task runs the code of `owner`. Returns what `leave` needs."""
        token = OWNER.set(owner)
        if self._is_watching:
            now = time.perf_counter()
            self._close(now)
            self._running = owner, now
        return token

    def leave(self, token: Token[Owner | None]) -> None:
        """The code of the owner is left."""
        OWNER.reset(token)
        if self._is_watching:
            now = time.perf_counter()
            self._close(now)
            owner = OWNER.get()
            self._running = None if owner is None else (owner, now)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task begins a step: whoever it worked for last is at work again."""
        owner = task.context.get(OWNER)
        if owner is not None:
            self._running = owner, time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """The step is over."""
        if self._running is not None:
            self._close(time.perf_counter())
            self._running = None

    def _close(self, now: float) -> None:
        if self._running is None:
            return
        owner, since = self._running
        taken_s = now - since
        if taken_s < NOTICE_S:
            return
        owner.longest_s = max(owner.longest_s, taken_s)
        if taken_s >= WARN_S:
            owner.stalls += 1
            if owner not in self.offenders:
                self.offenders.append(owner)
            _log.warning("%s blocked the event loop for %.1f s in %s", owner.path, taken_s, owner.event)
        else:
            _log.debug("%s blocked the event loop for %d ms in %s", owner.path, taken_s * 1000, owner.event)

    # Watching.

    def __enter__(self) -> Self:
        """Watch the loop of this thread until the block is left."""
        self._loop_thread = threading.get_ident()
        self._is_watching = True
        trio.lowlevel.add_instrument(self)
        # A daemon: when the process has to go at once, a thread that only looks must not hold it.
        self._thread = threading.Thread(target=self._look, name="pinnace-watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        self._is_watching = False
        self._running = None
        self._stopped.set()
        with suppress(KeyError):  # trio takes an instrument away itself if it has failed
            trio.lowlevel.remove_instrument(self)

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            self.look(time.perf_counter())

    def look(self, now: float) -> None:
        """Tell of a stretch that is over the limit and still goes on, once. Called by the thread."""
        running = self._running
        if running is None or now - running[1] < WARN_S or self._told is running:
            return
        self._told, owner = running, running[0]
        # The documented way to another thread's stack, in spite of its name.
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        _log.warning("%s blocks the event loop in %s; it is here:\n%s", owner.path, owner.event, stack)

    # Who waits for ever.

    def begin_wait(self, owner: Owner) -> int:
        """A handler has begun. Returns what `end_wait` needs."""
        number = next(self._numbers)
        self._waiting[number] = owner, trio.current_time()
        if not self._somebody_waits.is_set():
            self._somebody_waits.set()
        return number

    def end_wait(self, number: int) -> None:
        """It has ended."""
        self._waiting.pop(number, None)

    async def watch_waits(self) -> None:
        """Warn of handlers that have waited for `SLOW_S`, until cancelled. One warning a call of a handler."""
        warned: set[int] = set()
        while True:
            await self._somebody_waits.wait()
            # One sleep for whatever begins meanwhile: a handler at every token must not wake this task each time.
            await trio.sleep(SLOW_S)
            now = trio.current_time()
            for number, (owner, since) in tuple(self._waiting.items()):
                if now - since >= SLOW_S and number not in warned and not owner.dialogs:
                    warned.add(number)
                    _log.warning("%s has been handling %s for %d s", owner.path, owner.event, math.floor(now - since))
            warned &= self._waiting.keys()
            if not self._waiting:
                self._somebody_waits = trio.Event()
