"""Processes of a simulated machine: tasks that crash, are stopped and go on together.

A process is one task with all that it starts, in a context by which each of its tasks is known, also those that stand
for its threads. A crash cancels them, after which nothing of the process has an effect: its disk and its pipes are cut
at that moment, and its locks are free when its last task has ended. A process that is stopped has tasks that are not
scheduled; time goes on meanwhile.
"""

from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from typing import Final

import trio

from pinnace_fuzz.simulation.disk import ProcessDisk
from pinnace_fuzz.simulation.scheduling import unshield

KILLED: Final = -9
_UNWIND_S: Final = 0.1
"""Between two looks for tasks of a crashed process that shield themselves."""
_CURRENT: Final[ContextVar["Process | None"]] = ContextVar("simulated-process", default=None)


class Process:
    """One process, from its start to its end."""

    def __init__(self, name: str, disk: ProcessDisk, on_gone: Callable[[], object]) -> None:
        """Start nothing yet.

        Args:
            name: For traces.
            disk: Its own; it is closed at the end.
            on_gone: Called when it crashes, or else ends: cuts its pipes. Called once.
        """
        self.name = name
        self.disk = disk
        self.pid = disk.pid
        self.has_crashed = False
        self.is_stopped = False
        """Whether its tasks are not scheduled."""
        self.status: int | None = None
        self.error: Exception | None = None
        """What has ended it."""
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self._on_gone = on_gone
        self._is_gone = False
        self._context = Context()
        self._task: trio.lowlevel.Task | None = None

    def start(self, nursery: trio.Nursery, context: Context, work: Callable[[], Awaitable[int]]) -> None:
        """Begin; `work` returns its exit code. The context is that of the machine, without any process."""
        self._context = context

        def begin() -> None:
            _CURRENT.set(self)
            nursery.start_soon(self._run, work, name=self.name)

        context.copy().run(begin)

    async def _run(self, work: Callable[[], Awaitable[int]]) -> None:
        self._task = trio.lowlevel.current_task()
        try:
            with self._scope:
                self.status = await work()
        except Exception as error:
            self.error = error
        finally:
            if self.has_crashed:
                self.status = KILLED
            self._leave()
            self.disk.stop()
            self.disk.close_all()
            self.ended.set()

    def crash(self) -> None:
        """End it at this moment. Does nothing after its end."""
        if self.has_crashed or self.ended.is_set():
            return
        self.has_crashed = True
        self.is_stopped = False
        self.disk.stop()
        self._leave()
        self._scope.cancel()
        # In a task of the machine: one that was held is seen when another one runs.
        trio.lowlevel.spawn_system_task(self._unwind, context=self._context.copy())

    async def _unwind(self) -> None:
        """Have all of its tasks end, also those that shield themselves: a process that crashes waits for nothing."""
        while not self.ended.is_set():
            if self._task is not None:
                unshield(self._task, self._scope)
            await trio.sleep(_UNWIND_S)

    def _leave(self) -> None:
        if not self._is_gone:
            self._is_gone = True
            self._on_gone()


def is_held(task: trio.lowlevel.Task) -> bool:
    """Return whether a task belongs to a process that is stopped."""
    process = task.context.get(_CURRENT)
    return process is not None and process.is_stopped


def has_crashed() -> bool:
    """Return whether the process that runs this code has crashed."""
    process = _CURRENT.get()
    return process is not None and process.has_crashed
