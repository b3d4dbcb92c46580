"""`AsyncioClient`: the client for programs on asyncio. The same methods, to be awaited.

An async `Client` in a thread of its own (`portal`) does the work, so that cancellation, back-pressure and the end of
the process are those of `Client`. The one module of the client that imports asyncio; no other imports this one.
"""

import asyncio
import inspect
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar, Unpack, cast

import trio

from pinnace_rpc.client.client import EXIT_TIMEOUT_S, Client, checked_command
from pinnace_rpc.client.commands import Commands
from pinnace_rpc.client.connection.attachment import Attachment, AttachOptions
from pinnace_rpc.client.connection.feed import Feed, next_piece
from pinnace_rpc.client.connection.lifetime import DRAIN_S
from pinnace_rpc.client.connection.portal import Portal
from pinnace_rpc.client.dialogs import Answer, Callback, Dialogs, Request
from pinnace_rpc.client.failures import ClientClosed, ProtocolError
from pinnace_rpc.client.records.events import Event
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import TextStream
from pinnace_spec.records.messages import ImageContent

Result = TypeVar("Result")
Given = TypeVar("Given")


class AsyncioClient(Commands):
    """Starts an agent on entry, ends it on exit; no process or task outlives the `async with`, also after an error.

    What is raised inside comes out as it is. Methods may be called from any task. Cancelling a task cancels what it
    waits for, as with `Client`: a run is aborted, and `CancelledError` comes out when that is done.
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
        """Prepare, as `Client`. Callbacks are called in the event loop; those of dialogs may be async."""
        self._attachment = attachment
        self._make = partial(
            Client, checked_command(command), cwd=cwd, env=env, exit_timeout_s=exit_timeout_s, attachment=attachment
        )
        self._dialogs = dialogs
        self._on_malformed = on_malformed
        self._on_stderr = on_stderr
        self._portal: Portal[Client] | None = None
        self._client: Client | None = None
        self._has_ended: _Flag | None = None
        self._body: asyncio.Task[object] | None = None
        self._is_leaving = False
        self._has_cancelled_body = False

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

    async def __aenter__(self) -> Self:
        """Start the agent.

        Raises:
            OSError: It could not be started.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "AsyncioClient runs in an asyncio event loop (asyncio.run): under trio use Client, in a program that "
                "is not async use BlockingClient"
            ) from None
        if self._portal is not None:
            raise RuntimeError("a client starts one agent, once: make another client")
        dialogs = None if self._dialogs is None else _in_loop(self._dialogs, loop)
        on_malformed = None if self._on_malformed is None else _called_in_loop(self._on_malformed, loop)
        on_stderr = None if self._on_stderr is None else _called_in_loop(self._on_stderr, loop)
        make = partial(self._make, dialogs=dialogs, on_malformed=on_malformed, on_stderr=on_stderr)
        self._portal = Portal(make, "pinnace-client")
        self._has_ended, is_open = _Flag(loop), _Flag(loop)
        self._portal.start(is_open.set, partial(_post, loop, self._take_end))
        try:
            await is_open.wait()
        except asyncio.CancelledError:
            await self._leave(self._portal, self._has_ended)
            raise
        if self._portal.failure is not None:
            await self._leave(self._portal, self._has_ended)
            raise self._portal.failure
        self._client = self._portal.context
        self._body = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._portal is None or self._has_ended is None:
            raise ClientClosed
        is_cancelled = await self._leave(self._portal, self._has_ended)
        if self._portal.failure is not None:  # a callback raised SystemExit, for instance
            if self._has_cancelled_body and self._body is not None:
                self._body.uncancel()
            raise self._portal.failure
        if is_cancelled:
            raise asyncio.CancelledError

    @property
    def pid(self) -> int:
        """The id of the agent's process."""
        return self._entered.pid

    @property
    def exit_code(self) -> int | None:
        """How the agent's process has ended, as an exit code, or minus the number of a signal; None while it runs."""
        return self._entered.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr, 64 KiB at most."""
        return self._entered.stderr_tail

    @property
    def cursor(self) -> str | None:
        """Of an attached client: where the events that have come end, as `Client.cursor`."""
        return None if self._attachment is None else self._attachment.cursor

    @property
    def is_connected(self) -> bool:
        """Whether the agent can be reached, as `Client.is_connected`."""
        return self._entered.is_connected

    async def request(self, command: str, /, **fields: object) -> object:
        """Send any command, as `Client.request`."""
        client = self._entered
        return await _call(self._open, lambda: client.request(command, **fields))

    async def run(self, message: str, *, images: Sequence[ImageContent] | None = None, check: bool = True) -> Run:
        """Ask the agent, and wait until it has settled, as `Client.run`."""
        client = self._entered
        return await _call(self._open, lambda: client.run(message, images=images, check=check))

    def stream_text(self, message: str, *, images: Sequence[ImageContent] | None = None) -> "AsyncioTextStream":
        """Ask the agent, and get the model's text as it arrives: an async iterator of pieces."""
        return AsyncioTextStream(self._open, self._entered.stream_text(message, images=images))

    def events(self) -> "AsyncioEvents":
        """Collect every event from now on; an async iterator. Any number of them, independent of each other."""
        return AsyncioEvents(self._open)

    @property
    def _open(self) -> Portal[Client]:
        if self._portal is None:
            raise ClientClosed
        return self._portal

    @property
    def _entered(self) -> Client:
        if self._client is None:
            raise ClientClosed
        return self._client

    async def _leave(self, portal: Portal[Client], has_ended: "_Flag") -> bool:
        """End the agent and the thread, also when cancelled; return whether it was."""
        self._is_leaving = True
        portal.stop()
        is_cancelled = await _uncancelled(has_ended)
        portal.close()  # the thread is at its end
        return is_cancelled

    def _take_end(self) -> None:
        """In the loop: the thread has ended. Unless that was requested, cancel the body of the `async with`."""
        if self._has_ended is not None:
            self._has_ended.take()
        if self._client is not None and self._body is not None and not self._is_leaving:
            self._has_cancelled_body = self._body.cancel()


class AsyncioTextStream:
    """The model's text, piece by piece, as an async iterator; as `TextStream`."""

    def __init__(self, portal: Portal[Client], stream: TextStream) -> None:
        """Take over a stream of the client in the portal's thread; nothing is sent."""
        self._portal = portal
        self._stream = stream

    @property
    def result(self) -> Run:
        """The result of the run so far; complete after the loop."""
        return self._stream.result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """Wait for the next piece; raises as `TextStream`. Cancelled, the run is aborted."""
        piece = await _call(self._portal, partial(next_piece, self._stream))
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Abort the run unless it is over."""
        with suppress(ClientClosed):  # after the client, with which the run has ended
            await _call(self._portal, self._stream.aclose)


class AsyncioEvents:
    """The events from now on, as an async iterator. Drop it, or leave its `with`, when no more are wanted.

    Ends when the client is left; if the agent exits before, the iterator ends with `AgentExited`. Cancelling loses
    nothing.
    """

    def __init__(self, portal: Portal[Client]) -> None:
        """Begin to collect."""
        self._portal = portal
        self._feed = Feed(portal)
        # Dropped in this thread, closed in the other one.
        weakref.finalize(self, portal.post, self._feed.close).atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Wait for the next event; raises as `Events`."""
        await self._fetch()
        if not self._feed.taken:
            raise StopAsyncIteration
        return self._feed.taken.popleft()

    async def take(self) -> list[Event]:
        """Wait until there are events, and take all of them; none if there will be no more. Raises as `Events`."""
        await self._fetch()
        return [self._feed.taken.popleft() for _ in range(len(self._feed.taken))]

    def close(self) -> None:
        """Stop; events that are not taken yet are dropped."""
        self._portal.post(self._feed.close)
        self._feed.taken.clear()

    async def _fetch(self) -> None:
        if not self._feed.taken:
            try:
                await _call(self._portal, self._feed.fetch)
            except ClientClosed:
                self._feed.take_rest()


class _Flag:
    """An event that is set once, in another thread, and awaited in a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def set(self) -> None:
        """In any thread; nothing is done after the loop's end."""
        _post(self._loop, self.take)

    def take(self) -> None:
        """In the loop's thread."""
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


def _post(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nothing waits in it
        loop.call_soon_threadsafe(function)


async def _uncancelled(flag: _Flag) -> bool:
    """Wait, also when cancelled, for an event that is bound to come; return whether it was cancelled."""
    is_cancelled = False
    while True:
        try:
            await flag.wait()
        except asyncio.CancelledError:
            is_cancelled = True
        else:
            return is_cancelled


async def _call(portal: Portal[Client], work: Callable[[], Awaitable[Result]]) -> Result:
    """Do async work in the portal's thread. Cancelled, the work is cancelled, and its end is waited for."""
    await asyncio.sleep(0)  # a task that is cancelled already begins nothing
    is_done = _Flag(asyncio.get_running_loop())
    call = portal.begin(work, is_done.set)
    try:
        await is_done.wait()
    except asyncio.CancelledError:
        portal.post(call.cancel)
        await _uncancelled(is_done)
        raise
    return call.outcome()


def _in_loop(dialogs: Dialogs, loop: asyncio.AbstractEventLoop) -> Dialogs:
    """Make callbacks run in the event loop of their program."""
    return Dialogs(
        select=_asked_in_loop(dialogs.select, loop),
        confirm=_asked_in_loop(dialogs.confirm, loop),
        input=_asked_in_loop(dialogs.input, loop),
        editor=_asked_in_loop(dialogs.editor, loop),
    )


def _called_in_loop(callback: Callable[[Given], object], loop: asyncio.AbstractEventLoop) -> Callable[[Given], None]:
    """Make a callback without a result run in the event loop, which handles its exceptions."""
    return lambda given: _post(loop, partial(callback, given))


def _asked_in_loop(
    callback: Callback[Request, Answer] | None, loop: asyncio.AbstractEventLoop
) -> Callback[Request, Answer] | None:
    if callback is None:
        return None
    asked = callback

    async def ask(request: Request) -> Answer:
        question = _Question(partial(asked, request), loop)
        _post(loop, question.begin)
        try:
            await question.is_over.wait()
        except trio.Cancelled:
            _post(loop, question.cancel)
            with trio.move_on_after(DRAIN_S, shield=True):
                await question.is_over.wait()
            raise
        if question.error is not None:
            raise question.error
        return cast("Answer", question.answer)  # what the callback returned

    return ask


class _Question:
    """One call of a callback: a task of the event loop that the client's thread waits for."""

    def __init__(self, work: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._token = trio.lowlevel.current_trio_token()
        self.is_over = trio.Event()
        self.answer: object = None
        self.error: BaseException | None = None

    def begin(self) -> None:
        if not self._is_cancelled:
            self._task = self._loop.create_task(self._perform())
            self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    async def _perform(self) -> None:
        try:
            answer = self._work()
            self.answer = await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError:  # the dialog or the loop has ended: no answer
            pass
        except BaseException as error:  # raised in the client, which decides; SystemExit would stop the loop at once
            self.error = error

    def _finish(self, _: asyncio.Task[None]) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.is_over.set)
