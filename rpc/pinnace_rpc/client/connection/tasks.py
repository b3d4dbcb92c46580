"""The tasks of a client under trio and asyncio, and waits that end with what they wait for, also when cancelled.

Everything else is the same under either library, by anyio. The one module that depends on which it is; it imports
neither before a program runs under it.
"""

import sys
from collections.abc import Callable, Coroutine
from math import inf
from typing import TYPE_CHECKING

from anyio import Event, create_task_group, get_cancelled_exc_class, move_on_after
from anyio.abc import TaskGroup

if TYPE_CHECKING:
    import asyncio

Job = Callable[[], Coroutine[object, object, None]]


class Bell:
    """Wakes every task that waits at that moment."""

    def __init__(self) -> None:
        self._event: Event | None = None

    def ring(self) -> None:
        """Wake all."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        if self._event is None:
            self._event = Event()
        await self._event.wait()


class Tasks:
    """The tasks of one client, which never raise, and the task that entered the client: its body.

    Under trio they are in a nursery of the body. Under asyncio they are tasks of the loop, and nothing is left open in
    the body: so another task may leave the client, as in fixtures and notebooks, and several clients may be left in any
    order.
    """

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._body: asyncio.Task[object] | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._has_cancelled_body = False

    async def enter(self) -> None:
        """Begin, in the task that enters the client. Never waits."""
        if is_on_trio():
            self._group = create_task_group()
            await self._group.__aenter__()
        else:
            from asyncio import current_task

            self._body = current_task()

    def start(self, job: Job) -> None:
        """Start a task, which begins in any case."""
        if self._group is not None:
            self._group.start_soon(job)
            return
        from asyncio import ensure_future

        begun: list[Job] = []

        async def run() -> None:
            begun.append(job)
            await job()

        def finish(task: "asyncio.Task[None]") -> None:
            self._running.discard(task)
            if not begun:  # asyncio does not begin a task that is cancelled at once
                self.start(job)

        task = ensure_future(run())
        self._running.add(task)
        task.add_done_callback(finish)

    def cancel_body(self) -> None:
        """Cancel what is done inside of the client's block."""
        if self._group is not None:
            self._group.cancel_scope.cancel()
        elif self._body is not None:
            self._has_cancelled_body = self._body.cancel()

    async def close(self) -> None:
        """End, when all tasks have ended."""
        if self._group is not None:
            await self._group.__aexit__(None, None, None)
        elif self._has_cancelled_body and self._body is not None:
            self._body.uncancel()
        self._body = None


def is_on_trio() -> bool:
    """Return whether the running task is one of trio."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_task())


def keep_interrupts_out(*functions: Callable[..., object]) -> None:
    """Keep KeyboardInterrupt out of functions under trio, from now on; asyncio cancels the main task instead."""
    if is_on_trio():
        import trio

        for function in functions:
            trio.lowlevel.enable_ki_protection(function)


def forget_cancellation() -> bool:
    """Return whether a task that was cancelled without its scopes may go on: under asyncio, once for each time."""
    if is_on_trio():
        return False
    from asyncio import current_task

    if (task := current_task()) is not None:
        task.uncancel()
    return True


async def arrival(event: Event, limit_s: float = inf) -> None:
    """Wait for an event or `limit_s`, however often the task is cancelled meanwhile; the cancellation comes then."""
    cancellation: BaseException | None = None
    with move_on_after(limit_s, shield=True) as scope:
        while not event.is_set():
            try:
                await event.wait()
            except get_cancelled_exc_class() as error:
                if scope.cancel_called:
                    raise
                cancellation = error
    if cancellation is not None:
        raise cancellation
