"""Follows a run over the link: to its end, piece by piece, or until the caller is cancelled.

On cancellation the agent is aborted, so that it does not continue without a client; with a limit, so that an agent that
does not answer blocks no caller. When a run is over is decided in `progress`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast

from anyio import move_on_after
from anyio.lowlevel import checkpoint_if_cancelled

from pinnace_rpc.client.connection.link import Link, answered_data
from pinnace_rpc.client.failures import ClientClosed, ClientFailure, RunFailed
from pinnace_rpc.client.records.events import Record
from pinnace_rpc.client.records.progress import Progress, Run, text_delta_of
from pinnace_spec.records.messages import ImageContent

if TYPE_CHECKING:
    from pinnace_rpc.client.commands import Commands

# An agent answers an abort when it has ended its tools and closed its model's connection.
ABORT_S: Final = 3.0
# Only for agents without `agent_settled`: how long after `agent_end` their state is asked for; then twice as long.
FIRST_POLL_S: Final = 0.05
LAST_POLL_S: Final = 0.8


class FollowedRun:
    """One prompt and its run."""

    def __init__(self, commands: "Commands", link: Link, message: str, images: Sequence[ImageContent] | None) -> None:
        """Send the prompt; what the agent writes from now on is kept.

        Raises:
            ClientFailure: The conversation is over.
        """
        self._commands = commands
        self._link = link
        self._events = link.hub.subscribe(has_answers=True)
        self._asked = link.ask("prompt", {"message": message, "images": images})
        self._progress = Progress(writes_settled=link.hub.writes_settled)
        self._poll_s = FIRST_POLL_S

    async def take(self) -> Sequence[Record]:
        """Wait for the next records of the run; none when it is over. Cancelled, the run is aborted.

        Raises:
            CommandFailed: The prompt was refused.
            ClientFailure: The conversation is over.
        """
        if self._progress.is_over:
            return ()
        try:
            records = await (self._records_or_idle() if self._progress.may_be_over else self._records())
        except BaseException:
            await self.abandon()
            raise
        self._close_if_over()
        return records

    def result(self) -> Run:
        """Return its result so far."""
        return self._progress.result()

    async def abandon(self) -> None:
        """Stop following it; abort it, unless it is over or was never sent. Takes `ABORT_S` at most."""
        answer = self._asked.answer
        # Refused during other work, which must not be aborted.
        was_refused = answer is not None and answer.get("success") is not True
        if self._asked.is_begun and not (self._progress.is_over or was_refused):
            try:
                await self._link.insist("abort", ABORT_S)
            finally:
                self._end()
        else:
            self._end()

    def _end(self) -> None:
        self._progress.end()
        self._close()

    async def _records(self) -> Sequence[Record]:
        records = cast("list[Record]", await self._events.take())
        if not records:
            raise ClientClosed
        for number, record in enumerate(records, 1):
            self._see(record)
            if self._progress.is_over:
                return records[:number]
        return records

    async def _records_or_idle(self) -> Sequence[Record]:
        with move_on_after(self._poll_s):
            return await self._records()
        self._poll_s = min(2 * self._poll_s, LAST_POLL_S)
        state = await self._commands.get_state()
        is_idle = not (state["isStreaming"] or state["isCompacting"] or state["pendingMessageCount"])
        # The answer itself is among them, so there are some.
        records = await self._records()
        if is_idle:
            self._progress.end()
        return records

    def _see(self, record: Record) -> None:
        if record is self._asked.answer:
            try:
                answered_data(record, self._asked.command)
            except ClientFailure:
                self._progress.end()
                raise
            self._progress.accept(record)
        else:
            self._progress.see(record)

    def _close_if_over(self) -> None:
        if self._progress.is_over:
            self._close()

    def _close(self) -> None:
        self._link.withdraw(self._asked)
        self._events.close()


class TextStream:
    """The model's text, piece by piece, as an async iterator; without thinking and tool calls.

    The prompt is sent with the first step. Leaving the loop early does not abort the run, unless the stream is used as
    an async context manager, whose end aborts the run; being cancelled in a step aborts it as well.
    """

    def __init__(self, commands: "Commands", link: Link, message: str, images: Sequence[ImageContent] | None) -> None:
        """Prepare; nothing is sent."""
        self._start: Callable[[], FollowedRun] = lambda: FollowedRun(commands, link, message, images)
        self._run: FollowedRun | None = None
        self._pieces: deque[str] = deque()

    @property
    def result(self) -> Run:
        """The result of the run so far; complete after the loop."""
        return (self._run or Progress(writes_settled=False)).result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """Wait for the next piece.

        Raises:
            RunFailed: The run has ended with an error.
            ClientFailure: As `Client.run`.
        """
        if self._run is None:
            await checkpoint_if_cancelled()
            self._run = self._start()
        while not self._pieces:
            records = await self._run.take()
            if not records:
                checked(self._run.result())
                raise StopAsyncIteration
            self._pieces.extend(delta for record in records if (delta := text_delta_of(record)) is not None)
        return self._pieces.popleft()

    async def aclose(self) -> None:
        """Abort the run unless it is over."""
        if self._run is not None:
            await self._run.abandon()


def checked(run: Run) -> Run:
    """Return a run that has not failed.

    Raises:
        RunFailed: It has.
    """
    if run.error is not None:
        raise RunFailed(run)
    return run
