"""Detects functions of extensions that block the event loop or wait too long, and logs them.

Only reports: a blocked thread cannot be unblocked. A context variable, which tasks inherit, names the extension whose
code runs; a trio instrument measures each step, and a thread checks for a step that doesn't end.
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

# Clients notice it: one token at 10 tokens a second. Useful to authors only, so logged at level debug.
NOTICE_S: Final = 0.1
# Abort, dialogs and all other extensions were blocked for a second.
WARN_S: Final = 1.0
# Often enough to see the stack of a step that is slightly over the limit; four wake-ups a second cost nothing.
_LOOK_S: Final = 0.25
# A handler that waits longer without an open dialog is probably stuck.
SLOW_S: Final = 30.0


@dataclass(slots=True, eq=False)
class Owner:
    """The code that runs: a function of an extension, for one event."""

    path: str
    event: str
    kind: Literal["waited for", "background", "command"] = "waited for"
    """What waits for it: the session; only the end of the session (background); or nothing (a command)."""
    dialogs: int = 0
    """The number of its open dialogs, whose time doesn't count."""
    stalls: int = 0
    """How often it blocked the loop for longer than `WARN_S`."""
    longest_s: float = 0.0


OWNER: Final[ContextVar[Owner | None]] = ContextVar("pinnace-extension-owner", default=None)
"""The owner of the code that this task runs; None: the agent."""


def owners_at_work(root: trio.lowlevel.Task) -> list[tuple[str, str]]:
    """Return the owners of the tasks under `root`, each once: the extension's path and the event."""
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
    """Measures every stretch of an extension's code between two checkpoints.

    Measures while it is entered as a context manager; otherwise it only tracks the owner of the running code.
    """

    def __init__(self) -> None:
        self.offenders: list[Owner] = []
        """The owners that blocked the loop for longer than `WARN_S`, in the order of the first time."""
        # One value, because the thread reads it at any moment: the owner, and since when it runs.
        self._running: tuple[Owner, float] | None = None
        self._is_watching = False
        self._warned_of: tuple[Owner, float] | None = None
        self._loop_thread = 0
        self._stopped = threading.Event()
        self._waiting: dict[int, tuple[Owner, float]] = {}
        self._numbers: Iterator[int] = itertools.count()
        self._has_waiting = trio.Event()

    # The stretches.

    def enter(self, owner: Owner) -> Token[Owner | None]:
        """Set the owner of the code that this task runs from now on. Returns the argument of `leave`."""
        token = OWNER.set(owner)
        if self._is_watching:
            now = time.perf_counter()
            self._close(now)
            self._running = owner, now
        return token

    def leave(self, token: Token[Owner | None]) -> None:
        """Restore the previous owner."""
        OWNER.reset(token)
        if self._is_watching:
            now = time.perf_counter()
            self._close(now)
            owner = OWNER.get()
            self._running = None if owner is None else (owner, now)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Start to measure a step of a task that has an owner."""
        owner = task.context.get(OWNER)
        if owner is not None:
            self._running = owner, time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Finish the measured step."""
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
        # A daemon thread does not delay the exit of the process.
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
        with suppress(KeyError):  # trio removes a failed instrument itself
            trio.lowlevel.remove_instrument(self)

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            self.look(time.perf_counter())

    def look(self, now: float) -> None:
        """Warn once of a stretch that is over the limit and still running. Called by the thread."""
        running = self._running
        if running is None or now - running[1] < WARN_S or self._warned_of is running:
            return
        self._warned_of, owner = running, running[0]
        # The documented access to another thread's stack, in spite of its name.
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        _log.warning("%s blocks the event loop in %s; it is here:\n%s", owner.path, owner.event, stack)

    # Slow handlers.

    def begin_wait(self, owner: Owner) -> int:
        """Record that a handler waits. Returns the argument of `end_wait`."""
        number = next(self._numbers)
        self._waiting[number] = owner, trio.current_time()
        if not self._has_waiting.is_set():
            self._has_waiting.set()
        return number

    def end_wait(self, number: int) -> None:
        """Record that the handler has ended."""
        self._waiting.pop(number, None)

    async def watch_waits(self) -> None:
        """Warn of handlers that have waited for `SLOW_S`, once for each call. Runs until cancelled."""
        warned: set[int] = set()
        while True:
            await self._has_waiting.wait()
            # One sleep for all handlers that start meanwhile: a handler for each token must not wake this task.
            await trio.sleep(SLOW_S)
            now = trio.current_time()
            for number, (owner, since) in tuple(self._waiting.items()):
                if now - since >= SLOW_S and number not in warned and not owner.dialogs:
                    warned.add(number)
                    _log.warning("%s has been handling %s for %d s", owner.path, owner.event, math.floor(now - since))
            warned &= self._waiting.keys()
            if not self._waiting:
                self._has_waiting = trio.Event()
