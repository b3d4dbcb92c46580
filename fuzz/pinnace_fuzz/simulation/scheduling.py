"""Trio under a seed: the order of its tasks, the work of its threads, its clock.

Trio has no public instrument for this, so four of its names are used, and `check_trio` refuses a release that
lacks them:

- `_r`, the generator by which trio shuffles the tasks that may run, and `_ALLOW_DETERMINISTIC_SCHEDULING`, with which
  it orders them by their age before. Trio keeps both for such tests.
- `_cancel_status` of tasks, by which the scopes around a task are found: those that shield it are opened when its
  process crashes.
- `THREAD_CACHE`, which starts threads for `trio.to_thread` and `trio.lowlevel.start_thread_soon`. Here the work of a
  thread is one step of a task of its own, between two delays that the seed draws: two threads never run at the same
  moment, but their order among tasks is any that real ones could have, and what a thread has done may be reported late.

The clock is `trio.testing.MockClock`: when no task can run, it jumps to the next deadline, so a delay costs nothing.
"""

import random
from collections.abc import Callable, Generator, MutableSequence
from contextlib import contextmanager
from contextvars import copy_context
from importlib import import_module
from typing import Any, Final, TypeVar, cast

import outcome
import trio
from trio.testing import MockClock

Value = TypeVar("Value")

# Any: what has no types. `check_trio` checks what is used.
_RUN: Final[Any] = import_module("trio._core._run")
_THREADS: Final[Any] = import_module("trio._core._thread_cache")
# Of the work of threads. Most is done before anything else happens; a flush of a disk may take seconds.
_DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.001, 0.02, 0.4)
_LONG_DELAY_S: Final = 4.0
_LONG_DELAYS: Final = 0.01
_LATE: Final = (0.0, 0.3, 0.6, 0.9)
"""How often the end of a thread's work is reported later than it is done: one of these in each run."""


class UnsupportedTrio(Exception):
    """This release of trio can't be scheduled by a seed."""


def check_trio() -> None:
    """Check that the release that is installed has what this module replaces.

    Raises:
        UnsupportedTrio: It has not.
    """
    missing = [
        name
        for module, name, kind in (
            (_RUN, "_r", random.Random),
            (_RUN, "_ALLOW_DETERMINISTIC_SCHEDULING", bool),
            (_THREADS, "THREAD_CACHE", object),
        )
        if not isinstance(getattr(module, name, None), kind)
    ]
    if not hasattr(trio.lowlevel.Task, "_cancel_status"):
        missing.append("_cancel_status")
    if missing or not hasattr(_THREADS.THREAD_CACHE, "start_thread_soon"):
        raise UnsupportedTrio(f"trio {trio.__version__} can't be scheduled by a seed: it lacks {', '.join(missing)}")


class _Threads:
    """Stands in the place of trio's threads."""

    def __init__(self, draws: random.Random) -> None:
        self._draws = draws
        self._late = draws.choice(_LATE)

    def start_thread_soon(
        self,
        fn: Callable[[], Value],
        deliver: Callable[[outcome.Outcome[Value]], object],
        name: str | None = None,
    ) -> None:
        """Do the work in a task, later."""
        draws = self._draws
        delay_s = _LONG_DELAY_S * draws.random() if draws.random() < _LONG_DELAYS else draws.choice(_DELAYS_S)
        late_s = draws.choice(_DELAYS_S) if draws.random() < self._late else 0.0
        trio.lowlevel.spawn_system_task(
            _work, fn, deliver, delay_s, late_s, name=f"thread {name or ''}", context=copy_context()
        )


async def _work(
    fn: Callable[[], Value], deliver: Callable[[outcome.Outcome[Value]], object], delay_s: float, late_s: float
) -> None:
    await trio.sleep(delay_s)
    result = outcome.capture(fn)
    if late_s:
        await trio.sleep(late_s)
    deliver(result)


class StepCounter(trio.abc.Instrument):
    """Calls a function with the name of each task before its step."""

    def __init__(self, on_step: Callable[[str], None]) -> None:
        """Take the function; it must not raise."""
        self._on_step = on_step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step."""
        self._on_step(task.name)


def unshield(task: trio.lowlevel.Task, outermost: trio.CancelScope) -> None:
    """Open the scopes inside of another one that shield a task, or one that it has started."""
    status = cast("Any", task)._cancel_status
    while status is not None and status._scope is not outermost:
        status._scope.shield = False
        status = status._parent
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            unshield(child, outermost)


def simulated_clock() -> MockClock:
    """Return a clock that begins at 0 and jumps over times in which no task can run."""
    return MockClock(rate=0.0, autojump_threshold=0.0)


class _Order(random.Random):
    """Stands in the place of trio's generator: shuffles the tasks that may run, and keeps back those that are held.

    A task that is held is in no list of trio's; it is among those that may run next when it is held no longer.
    """

    def __init__(self, seed: int, is_held: Callable[[trio.lowlevel.Task], bool] | None) -> None:
        super().__init__(seed)
        self._is_held = is_held
        self._held: list[trio.lowlevel.Task] = []

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Order a batch of tasks, in place."""
        x.extend(self._held)
        if len(x) > 1:
            super().shuffle(x)
        if self._is_held is None:
            return
        self._held = list(filter(self._is_held, x))
        if self._held:
            x[:] = [task for task in x if task not in self._held]


@contextmanager
def scheduled_by(draws: random.Random, is_held: Callable[[trio.lowlevel.Task], bool] | None = None) -> Generator[None]:
    """Let a generator decide the order of tasks and threads in the runs of trio that the body starts.

    One body at a time in a process: others would be scheduled by it too.

    Args:
        draws: Decides.
        is_held: Whether a task must not run now, because its process is stopped. Asked whenever tasks are about to run;
            a task of another process has to run afterwards for one to be seen that is held no longer. None: no task is.
    """
    check_trio()
    order, is_deterministic, threads = _RUN._r, _RUN._ALLOW_DETERMINISTIC_SCHEDULING, _THREADS.THREAD_CACHE
    _RUN._r = _Order(draws.getrandbits(64), is_held)
    _RUN._ALLOW_DETERMINISTIC_SCHEDULING = True
    _THREADS.THREAD_CACHE = _Threads(random.Random(draws.getrandbits(64)))
    try:
        yield
    finally:
        _RUN._r = order
        _RUN._ALLOW_DETERMINISTIC_SCHEDULING = is_deterministic
        _THREADS.THREAD_CACHE = threads
