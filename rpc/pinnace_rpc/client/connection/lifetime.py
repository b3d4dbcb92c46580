"""From an agent's start to its end: the tasks that serve its pipes, and the cleanup when it exits or is left.

    tasks
      keep     waits until the client is left, and ends the agent
      read     stdout to the link, until it ends
      write    the link's records to stdin
      stderr   passed on, and its tail
      watch    the exit
      dialogs  one task each

All but dialogs are shielded: when the surrounding scope is cancelled, the agent still has to be ended in order, for
which its output must be read. They end when `keep` ends them, and that is within `exit_timeout_s` and three seconds.
None ever raises, so what is raised inside of `async with` comes out of it as it is, never in a group. An exception that
ends a task (SystemExit of a callback, or KeyboardInterrupt) cancels the body of the `async with`, which then raises
that exception, as it is. Where asyncio cancels every task of a loop, the agent is ended as if its client was left.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, cast

from anyio import CancelScope, Event, get_cancelled_exc_class, move_on_after
from anyio.lowlevel import cancel_shielded_checkpoint

from pinnace_rpc.client.connection.link import Admission, Link
from pinnace_rpc.client.connection.process import Pipe, start_process
from pinnace_rpc.client.connection.tasks import Bell, Job, Tasks, arrival, forget_cancellation
from pinnace_rpc.client.dialogs import Callback, Dialogs, answer_of, callback_of, is_dialog, refusal
from pinnace_rpc.client.failures import AgentExited, ClientClosed, ClientFailure, ProtocolError
from pinnace_rpc.client.records.events import Record
from pinnace_rpc.client.subscriptions import Hub

_LOGGER: Final = logging.getLogger("pinnace.client")
# An agent that closed stdout, or reads no stdin, is about to exit, and its own exit code is more informative than that
# of TERM.
EXIT_NOTICE_S: Final = 1.0
# Its last records come at once or, if something else holds the pipe open, never.
DRAIN_S: Final = 1.0


class RunningAgent(Protocol):
    """What runs one agent: a process, or a thread of this one."""

    stdin: Pipe
    stdout: Pipe

    @property
    def pid(self) -> int:
        """The process that it is, or is in."""
        ...

    @property
    def command(self) -> Sequence[str]:
        """What was started."""
        ...

    @property
    def exit_code(self) -> int | None:
        """How it has ended, as an exit code, or minus the number of a signal; None while it runs."""
        ...

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote for people."""
        ...

    async def collect_stderr(self) -> None:
        """Read what it writes for people, to the end."""
        ...

    async def wait(self) -> None:
        """Wait until it has ended; several tasks may."""
        ...

    async def end(self, grace_s: float) -> None:
        """End it in order within `grace_s`, then by force. Bounded, also when cancelled."""
        ...

    def close(self) -> None:
        """Close the pipes."""
        ...


class Lifetime:
    """A started agent; `leave` ends it in every case."""

    def __init__(
        self,
        process: RunningAgent,
        tasks: Tasks,
        dialogs: Dialogs,
        on_malformed: Callable[[ProtocolError], None] | None,
        exit_timeout_s: float,
        admission: Admission | None = None,
    ) -> None:
        """Take over; `enter` does this."""
        self.process = process
        self.link = Link(Hub(), self._take_dialog, on_malformed, admission)
        self._dialogs = dialogs
        self._open_dialogs: dict[object, CancelScope] = {}
        """By id: the task that asks the user."""
        self._exit_timeout_s = exit_timeout_s
        self._tasks = tasks
        self._scopes: set[CancelScope] = set()
        self._ends = Bell()
        self._is_left = Event()
        self._is_over = Event()
        self._has_read = Event()
        self._has_read_stderr = Event()
        self._is_losing = False
        self._interruption: BaseException | None = None

    @classmethod
    async def enter(
        cls,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        dialogs: Dialogs,
        on_malformed: Callable[[ProtocolError], None] | None,
        on_stderr: Callable[[str], object] | None,
        exit_timeout_s: float,
    ) -> "Lifetime":
        """Start an agent and the tasks that serve it. A start that is cancelled leaves none behind.

        Raises:
            OSError: It could not be started.
        """
        return await cls.serve(start_process(command, cwd, env, on_stderr), dialogs, exit_timeout_s, on_malformed)

    @classmethod
    async def serve(
        cls,
        process: RunningAgent,
        dialogs: Dialogs,
        exit_timeout_s: float,
        on_malformed: Callable[[ProtocolError], None] | None = None,
    ) -> "Lifetime":
        """Start the tasks that serve an agent which was just started. If that is cancelled, it is ended."""
        lifetime = cls(process, Tasks(), dialogs, on_malformed, exit_timeout_s)
        await lifetime._serve_pipes(lifetime._read, lifetime._write, lifetime._read_stderr, lifetime._watch)
        return lifetime

    @property
    def is_left(self) -> bool:
        """Whether the client was left."""
        return self._is_left.is_set()

    async def leave(self) -> None:
        """End the agent, the tasks and the pipes. Bounded, also when cancelled.

        Raises:
            BaseException: An exception of a callback that is not an `Exception`.
        """
        self._is_left.set()
        try:
            await arrival(self._is_over)
        finally:
            try:
                await self._tasks.close()
            finally:
                if self._interruption is not None:
                    raise self._interruption

    async def _serve_pipes(self, *jobs: Job) -> None:
        await self._tasks.enter()
        self._tasks.start(self._keep_to_the_end)
        for job in jobs:
            self._start(partial(self._insist, job, scope := CancelScope(shield=True)), scope)
        try:
            await cancel_shielded_checkpoint()  # the tasks begin
        except BaseException:
            await self.leave()
            raise

    def _start(self, work: Job, scope: CancelScope) -> None:
        self._scopes.add(scope)
        self._tasks.start(partial(self._guard, work, scope))

    async def _keep_to_the_end(self) -> None:
        scope = CancelScope(shield=True)
        try:
            await self._guard(partial(self._insist, self._keep, scope), scope)
        finally:
            self._is_over.set()

    async def _guard(self, work: Job, scope: CancelScope) -> None:
        try:
            with scope:
                await work()
        except Exception as error:  # a defect of the client: raised by every call that waits, and logged
            _LOGGER.exception("the client has failed")
            text = f"the client has failed: {error!r}"
            self.link.end(lambda: ClientFailure(text))
        except BaseException as error:
            own = _without_cancellations(error)
            if own is None:
                raise
            self._interruption = self._interruption or own
            if not self._is_left.is_set():
                self._tasks.cancel_body()
            self.link.end(ClientClosed)
        finally:
            self._scopes.discard(scope)
            self._ends.ring()

    async def _insist(self, job: Job, scope: CancelScope) -> None:
        """Do a job. Cancelled with everything in its loop, it goes on until the agent has ended in order."""
        while True:
            try:
                return await job()
            except get_cancelled_exc_class():
                if scope.cancel_called or not forget_cancellation():
                    raise
                self.link.end(ClientClosed)
                self._is_left.set()

    async def _keep(self) -> None:
        await self._is_left.wait()
        try:
            self.link.end(ClientClosed)
            await self.process.end(self._exit_timeout_s)
            with move_on_after(DRAIN_S):  # what the agent wrote last is passed on as well
                await self._has_read_stderr.wait()
        finally:
            for scope in list(self._scopes):
                scope.cancel()
            # The tasks were cancelled and end at once, but a callback of the user may take longer.
            with move_on_after(DRAIN_S, shield=True):
                while self._scopes:
                    await self._ends.wait()
            self.process.close()

    async def _read(self) -> None:
        await self.link.read(self.process.stdout)
        self._has_read.set()
        await self._lose()

    async def _write(self) -> None:
        await self.link.write(self.process.stdin)
        await self._lose()

    async def _read_stderr(self) -> None:
        await self.process.collect_stderr()
        self._has_read_stderr.set()

    async def _watch(self) -> None:
        await self.process.wait()
        await self._lose()

    async def _lose(self) -> None:
        """The agent has exited, or will not answer any more: end it, and fail every pending call."""
        if self._is_losing:
            return
        self._is_losing = True
        self.link.hub.stop_pausing()
        await self.process.end(EXIT_NOTICE_S)
        with move_on_after(DRAIN_S):
            await self._has_read.wait()
            await self._has_read_stderr.wait()
        process, cut_record = self.process, self.link.cut_record
        self.link.end(lambda: AgentExited(process.command, process.exit_code, process.stderr_tail, cut_record))

    def _take_dialog(self, record: Record) -> None:
        """Ask the user, or stop asking: another client has answered, or the process that asked has ended."""
        if record["type"] != "extension_ui_request":
            over = list(self._open_dialogs) if record["type"] == "agent_restarted" else [record.get("id")]
            for identity in over:
                if (asking := self._open_dialogs.pop(identity, None)) is not None:
                    asking.cancel()
            return
        if not is_dialog(record):
            return
        callback = callback_of(self._dialogs, record)
        if callback is None:
            self.link.post(refusal(record))
            return
        asked: Callback[Record, object] = callback
        scope = CancelScope()

        async def ask() -> None:
            try:
                self.link.post(await answer_of(asked, record))
            except BaseException as error:
                own = _without_cancellations(error)
                if own is not None or (not scope.cancel_called and forget_cancellation()):
                    self.link.post(refusal(record))
                if own is not None:  # SystemExit, for instance: the client will be left by it
                    with move_on_after(DRAIN_S, shield=True):
                        await self.link.flush()
                raise
            finally:
                self._open_dialogs.pop(record["id"], None)

        self._open_dialogs[record["id"]] = scope
        self._start(ask, scope)


def _without_cancellations(error: BaseException) -> BaseException | None:
    """Return what there is in an exception besides cancellations, alone if it is only one; None if there are none."""
    if isinstance(error, get_cancelled_exc_class()):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    rest = group.split(get_cancelled_exc_class())[1]
    return rest.exceptions[0] if rest is not None and len(rest.exceptions) == 1 else rest
