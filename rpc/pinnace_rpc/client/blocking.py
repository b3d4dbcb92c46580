"""`BlockingClient`: the client for programs without trio. The same methods, which block.

An async `Client` in a thread of its own (`portal`) does the work. Must not know how.
"""

import inspect
import os
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import trio

from pinnace_rpc.client.blocking_session_commands import BlockingCommands
from pinnace_rpc.client.client import EXIT_TIMEOUT_S, Client
from pinnace_rpc.client.dialogs import Answer, Callback, Dialogs, Request
from pinnace_rpc.client.events import Event
from pinnace_rpc.client.failures import ClientClosed, ProtocolError
from pinnace_rpc.client.portal import Portal
from pinnace_rpc.client.progress import Run
from pinnace_rpc.client.runs import TextStream
from pinnace_spec.messages import ImageContent

Result = TypeVar("Result")


class BlockingClient(BlockingCommands):
    """Starts an agent on entry, ends it on exit; nothing of it outlives the `with`, nor the interpreter.

    Methods may be called from any thread, several at a time. KeyboardInterrupt in a call aborts what it waits for.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialogs: Dialogs | None = None,
        on_malformed: Callable[[ProtocolError], None] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
    ) -> None:
        """Prepare, as `Client`. Callbacks of dialogs are plain functions; each is called in a thread of its own."""
        make = partial(
            Client,
            command,
            cwd=cwd,
            env=env,
            dialogs=None if dialogs is None else _in_threads(dialogs),
            on_malformed=on_malformed,
            exit_timeout_s=exit_timeout_s,
        )
        self._portal: Portal[Client] = Portal(make, "pinnace-client")

    def __enter__(self) -> Self:
        """Start the agent.

        Raises:
            OSError: It could not be started.
        """
        self._portal.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.close()

    @property
    def pid(self) -> int:
        """The id of the agent's process."""
        return self._portal.context.pid

    @property
    def exit_code(self) -> int | None:
        """How the agent's process has ended, minus the signal if by one; None while it lives."""
        return self._portal.context.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr, 64 KiB at most."""
        return self._portal.context.stderr_tail

    def request(self, command: str, /, **fields: object) -> object:
        """Send any command, as `Client.request`."""
        client = self._portal.context
        return self._portal.call(lambda: client.request(command, **fields))

    def run(self, message: str, *, images: Sequence[ImageContent] | None = None, check: bool = True) -> Run:
        """Ask the agent, and wait until it has settled, as `Client.run`."""
        client = self._portal.context
        return self._portal.call(lambda: client.run(message, images=images, check=check))

    def stream_text(self, message: str, *, images: Sequence[ImageContent] | None = None) -> Iterator[str]:
        """Ask the agent, and get what the model says as it says it. Leaving the loop early aborts the run."""
        client, portal = self._portal.context, self._portal

        async def begin() -> TextStream:
            return client.stream_text(message, images=images)

        stream = portal.call(begin)
        try:
            while (piece := portal.call(partial(anext, stream, None))) is not None:
                yield piece
        finally:
            with suppress(ClientClosed):  # a loop that was left after the client: its run has ended
                portal.call(stream.aclose)

    def events(self) -> "BlockingEvents":
        """Collect every event from now on; an iterator. Any number of them, independent of each other."""
        return BlockingEvents(self._portal)


class BlockingEvents:
    """The events from now on, as an iterator. Drop it, or leave its `with`, when no more are wanted.

    Ends when the client is left; if the agent is gone before, its end raises `AgentExited`.
    """

    def __init__(self, portal: Portal[Client]) -> None:
        """Begin to collect."""
        self._portal = portal
        self._taken: deque[Event] = deque()
        self._events = portal.call(_as_async(portal.context.events))
        # Dropped in this thread, closed in the other one.
        weakref.finalize(self, portal.post, self._events.close).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """Wait for the next event; raises as `Events`."""
        if not self._taken:
            # All that are there at once: going to the other thread for each would take longer than reading it.
            try:
                self._taken.extend(self._portal.call(self._events.take))
            except ClientClosed:  # what came before is still there
                self._taken.extend(self._events.rest())
            if not self._taken:
                raise StopIteration
        return self._taken.popleft()

    def close(self) -> None:
        """Want no more; what was kept is dropped."""
        self._taken.clear()
        self._portal.call(_as_async(self._events.close))


def _as_async(function: Callable[[], Result]) -> Callable[[], Awaitable[Result]]:
    async def call() -> Result:
        return function()

    return call


def _in_threads(dialogs: Dialogs) -> Dialogs:
    """Let callbacks that block run in threads; one that is asked too long is left behind there."""
    return Dialogs(
        select=_in_thread(dialogs.select),
        confirm=_in_thread(dialogs.confirm),
        input=_in_thread(dialogs.input),
        editor=_in_thread(dialogs.editor),
    )


def _in_thread(callback: Callback[Request, Answer] | None) -> Callback[Request, Answer] | None:
    if callback is None:
        return None

    async def ask(request: Request) -> Answer:
        answer = await trio.to_thread.run_sync(callback, request, abandon_on_cancel=True)
        if inspect.isawaitable(answer):
            raise TypeError("callbacks of a BlockingClient are plain functions, not async ones")
        return answer

    return ask
