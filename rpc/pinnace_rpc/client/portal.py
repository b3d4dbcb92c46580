"""A trio run in a thread of its own, and calls into it from any other thread.

A call blocks its thread until its result is there. If the wait is interrupted (KeyboardInterrupt), what it waits for is
cancelled, and given time to clean up, before the interruption goes on. Must not know what is called.
"""

import atexit
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, TypeVar, cast

import trio

from pinnace_rpc.client.failures import ClientClosed

Context = TypeVar("Context")
Result = TypeVar("Result")

# Cancelling a run takes 3 s at most (`runs.ABORT_S`); more is only given up on, since the thread cleans up anyway.
INTERRUPTION_S: Final = 5.0


class _Call:
    """One call: its outcome, and a way to cancel it from its own thread."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work
        self.scope = trio.CancelScope()
        self.is_done = threading.Event()
        self.result: object = None
        self.error: BaseException = ClientClosed()
        self.has_result = False

    async def perform(self) -> None:
        try:
            with self.scope:
                self.result = await self._work()
                self.has_result = True
        except Exception as error:  # raised in the thread that called
            self.error = error
        finally:
            self.is_done.set()


class Portal(Generic[Context]):
    """Holds an async context manager open in its thread, between `open` and `close`."""

    def __init__(self, make_context: Callable[[], AbstractAsyncContextManager[Context]], name: str) -> None:
        """Prepare; the context is made and entered in the thread."""
        self._make_context = make_context
        # A daemon, so that a client which nobody has left does not keep the interpreter; `atexit` leaves it then.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._is_open = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._error: BaseException | None = None
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """What the context manager gave.

        Raises:
            ClientClosed: It is not open.
        """
        if self._context is None:
            raise ClientClosed
        return self._context

    def open(self) -> None:
        """Start the thread and enter the context. Raises what entering raises."""
        atexit.register(self.close)
        self._thread.start()
        try:
            self._is_open.wait()
        except BaseException:
            self.close()
            raise
        if self._error is not None:
            self.close()
            raise self._error

    def close(self) -> None:
        """Cancel all calls, leave the context, end the thread. Waits for it, also when interrupted; may be repeated."""
        atexit.unregister(self.close)
        interruption: BaseException | None = None
        while self._thread.is_alive():
            try:
                # The token comes first of all in the thread: without it there is nothing to stop yet.
                self._is_open.wait()
                self.post(self._end)
                self._thread.join()
            except BaseException as error:  # raised below, once nothing is left behind
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
        call = _Call(work)
        if not self.post(lambda: self._begin(call)):
            raise ClientClosed
        try:
            call.is_done.wait()
        except BaseException:
            self.post(call.scope.cancel)
            call.is_done.wait(INTERRUPTION_S)
            raise
        if call.has_result:
            return cast("Result", call.result)  # of the work, whose type says so
        raise call.error

    def post(self, function: Callable[[], object]) -> bool:
        """Let the thread call something soon; say whether it will. Never waits."""
        try:
            if self._token is None:
                return False
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _begin(self, call: _Call) -> None:
        if self._nursery is None:
            call.is_done.set()
        else:
            self._nursery.start_soon(call.perform)

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # told to the thread that opens
            self._error = error
        finally:
            self._is_open.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with self._make_context() as context, trio.open_nursery() as nursery:
            self._context, self._nursery = context, nursery
            self._is_open.set()
            await self._stop.wait()
            self._nursery = None
            nursery.cancel_scope.cancel()
