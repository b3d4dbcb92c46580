"""`BlockingClient`: the client for programs that are not async. The same methods, which block.

An async `Client` in its own thread (`portal`) does the work.
"""

import inspect
import os
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, Unpack

from anyio import to_thread

from pinnace_rpc.client.blocking_commands import BlockingCommands
from pinnace_rpc.client.client import EXIT_TIMEOUT_S, Client
from pinnace_rpc.client.connection.attachment import Attachment, AttachOptions
from pinnace_rpc.client.connection.portal import Portal
from pinnace_rpc.client.dialogs import Answer, Callback, Dialogs, Request
from pinnace_rpc.client.failures import ClientClosed, ProtocolError
from pinnace_rpc.client.records.events import Event
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import TextStream
from pinnace_rpc.client.subscriptions import Events
from pinnace_spec.records.messages import ImageContent


class BlockingClient(BlockingCommands):
    """Starts an agent on entry, ends it on exit; no process or thread of it outlives the `with` or the interpreter.

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
        on_stderr: Callable[[str], object] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
        attachment: Attachment | None = None,
    ) -> None:
        """Prepare, as `Client`. Callbacks of dialogs are plain functions; each is called in a thread of its own.

        `on_malformed` and `on_stderr` are called in the client's thread, and must not call the client.
        """
        make = partial(
            Client,
            command,
            cwd=cwd,
            env=env,
            dialogs=None if dialogs is None else _in_threads(dialogs),
            on_malformed=on_malformed,
            on_stderr=on_stderr,
            exit_timeout_s=exit_timeout_s,
            attachment=attachment,
        )
        self._attachment = attachment
        self._portal: Portal[Client] = Portal(make, "pinnace-client")

    @classmethod
    def attach(
        cls,
        name: str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialogs: Dialogs | None = None,
        on_malformed: Callable[[ProtocolError], None] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        exit_timeout_s: float = EXIT_TIMEOUT_S,
        **options: Unpack[AttachOptions],
    ) -> Self:
        """Prepare a client of an agent of the host, as `Client.attach`."""
        return cls(
            (),
            cwd=cwd,
            env=env,
            dialogs=dialogs,
            on_malformed=on_malformed,
            on_stderr=on_stderr,
            exit_timeout_s=exit_timeout_s,
            attachment=Attachment(name, **options),
        )

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
        if self._portal.failure is not None:  # a callback raised SystemExit, for instance
            raise self._portal.failure

    @property
    def pid(self) -> int:
        """The id of the agent's process."""
        return self._portal.context.pid

    @property
    def exit_code(self) -> int | None:
        """How the agent's process has ended, as an exit code, or minus the number of a signal; None while it runs."""
        return self._portal.context.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr, 64 KiB at most."""
        return self._portal.context.stderr_tail

    @property
    def cursor(self) -> str | None:
        """Of an attached client: where the events that have come end, as `Client.cursor`."""
        return None if self._attachment is None else self._attachment.cursor

    @property
    def is_connected(self) -> bool:
        """Whether the agent can be reached, as `Client.is_connected`."""
        return self._portal.context.is_connected

    def request(self, command: str, /, **fields: object) -> object:
        """Send any command, as `Client.request`."""
        client = self._portal.context
        return self._portal.call(lambda: client.request(command, **fields))

    def run(self, message: str, *, images: Sequence[ImageContent] | None = None, check: bool = True) -> Run:
        """Ask the agent, and wait until it has settled, as `Client.run`."""
        client = self._portal.context
        return self._portal.call(lambda: client.run(message, images=images, check=check))

    def stream_text(self, message: str, *, images: Sequence[ImageContent] | None = None) -> "BlockingTextStream":
        """Ask the agent, and get the model's text as it arrives. Leaving the loop early aborts the run."""
        return BlockingTextStream(self._portal, self._portal.context.stream_text(message, images=images))

    def events(self) -> "BlockingEvents":
        """Collect every event from now on; an iterator. Any number of them, independent of each other."""
        return BlockingEvents(self._portal)


class BlockingTextStream:
    """The model's text, piece by piece, as an iterator; without thinking and tool calls.

    The prompt is sent with the first step. The run is aborted when the iterator is closed, or dropped: a loop that is
    left early drops it. A dropped one never waits; the next call of the client does, until the run is aborted.
    """

    def __init__(self, portal: Portal[Client], stream: TextStream) -> None:
        """Take over a stream of the client in the portal's thread."""
        self._portal = portal
        self._stream = stream
        # Dropped in any thread, by the garbage collector if it is in a cycle; closed in the client's.
        self._finalizer = weakref.finalize(self, portal.post_closing, stream.aclose)
        self._finalizer.atexit = False

    @property
    def result(self) -> Run:
        """The result of the run so far; complete after the loop."""
        return self._stream.result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        """Wait for the next piece; raises as `TextStream`."""
        if not self._finalizer.alive:
            raise StopIteration
        piece = self._portal.call(partial(_next_piece, self._stream))
        if piece is None:
            self._finalizer.detach()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Abort the run unless it is over; wait for that."""
        if self._finalizer.detach() is not None:
            with suppress(ClientClosed):  # after the client, with which the run has ended
                self._portal.call(self._stream.aclose)


class BlockingEvents:
    """The events from now on, as an iterator. Drop it, or leave its `with`, when no more are wanted.

    Ends when the client is left; if the agent exits before, the iterator ends with `AgentExited`. Interrupting loses
    nothing.
    """

    def __init__(self, portal: Portal[Client]) -> None:
        """Begin to collect."""
        self._portal = portal
        self._feed = _Feed(portal)
        # Dropped in this thread, closed in the other one.
        weakref.finalize(self, portal.post, self._feed.close).atexit = False

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
        if not self._feed.taken:
            try:
                self._portal.call(self._feed.fetch)
            except ClientClosed:
                self._feed.take_rest()
            if not self._feed.taken:
                raise StopIteration
        return self._feed.taken.popleft()

    def close(self) -> None:
        """Stop; events that are not taken yet are dropped."""
        self._portal.post(self._feed.close)
        self._feed.taken.clear()


async def _next_piece(stream: TextStream) -> str | None:
    return await anext(stream, None)


class _Feed:
    """The events from now on, between the client's thread and that of a reader."""

    def __init__(self, portal: Portal[Client]) -> None:
        """Begin to collect. Never waits: later calls of this thread are executed after it."""
        self.taken: deque[Event] = deque()
        """The fetched events. The reader's thread takes them from the left."""
        self._client = portal.context
        self._events: Events | None = None
        if not portal.post(self._subscribe):
            raise ClientClosed

    async def fetch(self) -> None:
        """In the client's thread: wait for events and move all of them to `taken`; raises as `Events`.

        All that are there, since going to another thread for each takes longer than reading it. A reader that is
        interrupted while it waits loses none: they are in `taken`.
        """
        if self._events is not None:
            self.taken.extend(await self._events.take())

    def take_rest(self) -> None:
        """After the client was closed, in any thread: move the remaining events to `taken`. Raises as `Events`."""
        if self._events is not None:
            self.taken.extend(self._events.rest())

    def close(self) -> None:
        """In the client's thread: stop collecting."""
        if self._events is not None:
            self._events.close()

    def _subscribe(self) -> None:
        self._events = self._client.events()


def _in_threads(dialogs: Dialogs) -> Dialogs:
    """Make blocking callbacks run in threads; one that exceeds its time is abandoned there."""
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
        answer = await to_thread.run_sync(callback, request, abandon_on_cancel=True)
        if inspect.isawaitable(answer):
            raise TypeError("callbacks of a BlockingClient are plain functions, not async ones")
        return answer

    return ask
