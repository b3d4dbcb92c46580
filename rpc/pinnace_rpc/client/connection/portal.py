"""A trio run in a thread of its own, and calls into it from any other thread.

A call is begun from any thread and reports when it is done; `call` waits for that and blocks its thread. If the wait is
interrupted (KeyboardInterrupt), the call is cancelled, and gets time to clean up, before the interruption is raised.
Independent of the functions that are called.
"""

import atexit
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, TypeVar, cast

import trio

from pinnace_rpc.client.failures import ClientClosed

Context = TypeVar("Context")
Result = TypeVar("Result")

# Cancelling a run takes 3 s at most (`runs.ABORT_S`); after that the wait is given up, and the thread cleans up by
# itself.
INTERRUPTION_S: Final = 5.0


class PortalCall(Generic[Result]):
    """One call: its outcome, and a way to cancel it: `cancel`, through the portal's `post`."""

    def __init__(self, work: Callable[[], Awaitable[Result]], on_done: Callable[[], object]) -> None:
        """Prepare; `on_done` is called once, in the portal's thread, as soon as there is an outcome."""
        self._work = work
        self._on_done = on_done
        self._scope = trio.CancelScope()
        self._result: Result | None = None
        self._error: BaseException | None = ClientClosed()

    def outcome(self) -> Result:
        """Return the result, or raise the exception; after `on_done`."""
        if self._error is not None:
            raise self._error
        return cast("Result", self._result)  # it was set when the error was removed

    def cancel(self) -> None:
        """Cancel the work; in the portal's thread."""
        self._scope.cancel()

    def drop(self) -> None:
        """Report that the work will not be begun, since the context is not open."""
        self._on_done()

    async def perform(self, closings: Sequence[trio.Event]) -> None:
        """Do the work, after pending closes."""
        try:
            with self._scope:
                for closing in closings:
                    await closing.wait()
                self._result = await self._work()
                self._error = None
        except Exception as error:  # raised in the thread that called
            self._error = error
        finally:
            self._on_done()


class Portal(Generic[Context]):
    """Holds an async context manager open in its thread, between `start` and `close`."""

    def __init__(self, make_context: Callable[[], AbstractAsyncContextManager[Context]], name: str) -> None:
        """Prepare; the context is made and entered in the thread."""
        self._make_context = make_context
        # A daemon, so that a client that was not closed does not keep the interpreter alive; `atexit` closes it then.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._is_stopping = False
        self._context: Context | None = None
        self._closings: set[trio.Event] = set()
        self._on_open: Callable[[], object] = _nothing
        self._on_end: Callable[[], object] = _nothing
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

    def start(self, on_open: Callable[[], object], on_end: Callable[[], object] | None = None) -> None:
        """Start the thread, which enters the context.

        Args:
            on_open: Called in the thread when that is done or has failed.
            on_end: Called in the thread when the context is left, for any reason; after `on_open`.
        """
        self._on_open, self._on_end = on_open, on_end or _nothing
        atexit.register(self.close)
        self._thread.start()

    def open(self) -> None:
        """Start the thread and wait until the context is entered. Raises what entering raises."""
        is_open = threading.Event()
        self.start(is_open.set)
        try:
            is_open.wait()
        except BaseException:
            self.close()
            raise
        if self.failure is not None:
            self.close()
            raise self.failure

    def stop(self) -> None:
        """Begin to leave the context, also if it is not entered yet. Never waits; may be repeated."""
        self._is_stopping = True
        self.post(self._end)

    def close(self) -> None:
        """Cancel all calls, leave the context, end the thread. Waits for it, also when interrupted; may be repeated."""
        atexit.unregister(self.close)
        interruption: BaseException | None = None
        while self._thread.is_alive():
            try:
                self.stop()
                self._thread.join()
            except BaseException as error:  # raised below, after the cleanup
                interruption = error
        self._context = None
        if interruption is not None:
            raise interruption

    def begin(self, work: Callable[[], Awaitable[Result]], on_done: Callable[[], object]) -> PortalCall[Result]:
        """Begin async work in the thread. Never waits; calls of one thread are begun in order.

        Raises:
            ClientClosed: The context is not open.
        """
        call = PortalCall(work, on_done)
        if not self.post(lambda: self._begin(call)):
            raise ClientClosed
        return call

    def call(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do async work in the thread; return its result, or raise its exception.

        Raises:
            ClientClosed: The context is not open, or was left meanwhile.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the client's own thread would wait for itself")
        is_done = threading.Event()
        call = self.begin(work, is_done.set)
        try:
            is_done.wait()
        except BaseException:
            self.post(call.cancel)
            is_done.wait(INTERRUPTION_S)
            raise
        return call.outcome()

    def post_closing(self, work: Callable[[], Awaitable[object]]) -> None:
        """Close something of the context soon; calls that are begun later wait for it. Never waits.

        So it may be called by the garbage collector, in any thread, also in the portal's own.
        """
        closing = trio.Event()

        def finish() -> None:
            self._closings.discard(closing)
            closing.set()

        call = PortalCall(work, finish)

        def begin() -> None:
            self._begin(call)
            if not closing.is_set():
                self._closings.add(closing)

        self.post(begin)

    def post(self, function: Callable[[], object]) -> bool:
        """Schedule a call in the thread; return whether it will be made. Never waits."""
        try:
            if self._token is None:
                return False
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _begin(self, call: PortalCall[Result]) -> None:
        if self._nursery is None:
            call.drop()
        else:
            self._nursery.start_soon(call.perform, tuple(self._closings))

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # raised in the thread that opens, or that leaves
            self.failure = error
        finally:
            self._on_open()
            self._on_end()

    async def _serve(self) -> None:
        self._stop = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        if self._is_stopping:  # before there was a token
            self._stop.set()
        async with self._make_context() as context, trio.open_nursery() as nursery:
            self._context, self._nursery = context, nursery
            self._on_open()
            try:
                await self._stop.wait()
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()


def _nothing() -> None:
    pass
