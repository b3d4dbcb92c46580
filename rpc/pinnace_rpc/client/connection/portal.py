"""A loop of asyncio in a thread of its own, and calls into it from any other thread.

`call` waits until its work is done and blocks its thread. If the wait is interrupted (KeyboardInterrupt), the work is
cancelled, and gets time to clean up, before the interruption is raised. Independent of the functions that are called.
anyio's own portal takes two turns of the loop for a call, and its thread holds up the end of the interpreter.
"""

import atexit
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import anyio
from anyio import Event

from pinnace_rpc.client.failures import ClientClosed

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

Context = TypeVar("Context")
Result = TypeVar("Result")

# Cancelling a run takes 3 s at most (`runs.ABORT_S`); after that the wait is given up, and the thread cleans up by
# itself.
INTERRUPTION_S: Final = 5.0
# After so long a wait looks for signals. Python handles them in the main thread, which does not wake for one that
# another thread has received, or that has come just before it began to wait.
_SIGNALS_S: Final = 0.5


class _Call:
    """One call: `task` does its work, if it was begun; `is_done` is set in any case."""

    def __init__(self) -> None:
        self.task: Task[object] | None = None
        self.is_done = threading.Event()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Portal(Generic[Context]):
    """Holds an async context manager open in its thread, between `open` and `close`."""

    def __init__(self, make_context: Callable[[], AbstractAsyncContextManager[Context]], name: str) -> None:
        """Prepare; the context is made and entered in the thread."""
        self._make_context = make_context
        # A daemon, so that a client that was not closed does not keep the interpreter alive; `atexit` closes it then.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: AbstractEventLoop | None = None
        self._is_serving = False
        self._tasks: set[Task[object]] = set()
        self._stop: Event | None = None
        self._is_stopping = False
        self._is_open = threading.Event()
        self._context: Context | None = None
        self._calls: set[_Call] = set()
        self._closings: set[Task[object]] = set()
        self.failure: BaseException | None = None
        """The exception of entering, leaving or a task of the context; the thread has ended then."""

    @property
    def context(self) -> Context:
        """The value of the context manager.

        Raises:
            ClientClosed: It is not open.
        """
        if self._context is None:
            raise ClientClosed
        return self._context

    def open(self) -> None:
        """Start the thread and wait until the context is entered. Raises what entering raises."""
        atexit.register(self.close)
        self._thread.start()
        try:
            _wait(self._is_open)
        except BaseException:
            self.close()
            raise
        if self.failure is not None:
            self.close()
            raise self.failure

    def close(self) -> None:
        """Cancel all calls, leave the context, end the thread. Waits for it, also when interrupted; may be repeated."""
        atexit.unregister(self.close)
        interruption: BaseException | None = None
        while self._thread.is_alive():
            try:
                self._is_stopping = True
                self.post(self._end)
                self._thread.join(_SIGNALS_S)
            except BaseException as error:  # raised below, after the cleanup
                interruption = error
        self._context = None
        if interruption is not None:
            raise interruption

    def call(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do async work in the thread; return its result, or raise its exception.

        Raises:
            ClientClosed: The context is not open, or was left meanwhile.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the client's own thread would wait for itself")
        call = _Call()

        def finish(_: "Task[object] | None" = None) -> None:
            self._calls.discard(call)
            call.is_done.set()

        def begin() -> None:
            if self._is_serving:
                call.task = self._start(work, finish, self._closings)
            else:
                finish()

        self._calls.add(call)
        if not self.post(begin):
            raise ClientClosed
        try:
            _wait(call.is_done)
        except BaseException:
            self.post(call.cancel)
            call.is_done.wait(INTERRUPTION_S)
            raise
        if call.task is None or not call.task.done() or call.task.cancelled():
            raise ClientClosed
        return cast("Result", call.task.result())  # of the work

    def post_closing(self, work: Callable[[], Awaitable[object]]) -> None:
        """Close something of the context soon; calls that are begun later wait for it. Never waits.

        So it may be called by the garbage collector, in any thread, also in the portal's own.
        """

        def begin() -> None:
            if self._is_serving:
                self._closings.add(self._start(work, self._closings.discard, ()))

        self.post(begin)

    def post(self, function: Callable[[], object]) -> bool:
        """Schedule a call in the thread; return whether it can be made. Never waits."""
        try:
            if self._loop is None:
                return False
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # it is closed
            return False
        return True

    def _start(
        self,
        work: Callable[[], Awaitable[object]],
        on_done: Callable[["Task[object]"], object],
        closings: Iterable["Task[object]"],
    ) -> "Task[object]":
        """In the thread: start work, after pending closes."""
        from asyncio import ensure_future, wait

        pending = tuple(closings)

        async def perform() -> object:
            if pending:
                await wait(pending)
            return await work()

        task = ensure_future(perform())
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        task.add_done_callback(on_done)
        return task

    def _forget(self, task: "Task[object]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised by `call`, if anyone still waits there

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _run(self) -> None:
        try:
            anyio.run(self._serve)
        except BaseException as error:  # raised in the thread that opens, or that leaves
            self.failure = error
        finally:
            for call in list(self._calls):  # the loop was closed before it came to them
                call.is_done.set()
            self._is_open.set()

    async def _serve(self) -> None:
        from asyncio import get_running_loop, wait

        self._stop = Event()
        self._loop = get_running_loop()
        if self._is_stopping:  # before there was a loop
            self._stop.set()
        async with self._make_context() as self._context:
            self._is_serving = True
            self._is_open.set()
            try:
                await self._stop.wait()
            finally:
                self._is_serving = False
                for task in self._tasks:
                    task.cancel()
                if self._tasks:
                    await wait(self._tasks)


def _wait(event: threading.Event) -> None:
    """Wait for an event, or for what a signal raises."""
    while not event.wait(_SIGNALS_S):
        pass
