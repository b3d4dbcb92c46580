"""From an agent's start to its end: the tasks that serve its pipes, and the cleanup when it exits or is left.

    nursery
      read     stdout to the link, until it ends
      write    the link's records to stdin
      stderr   passed on, and its tail
      watch    the exit
      dialogs  one task each

All but dialogs are shielded: when the surrounding scope is cancelled, the agent still has to be ended in order, for
which its output must be read. They end when `leave` ends them, and that is within `exit_timeout_s` and three seconds.
None ever raises, so what is raised inside of `async with` comes out of it as it is, never in a group. An exception that
ends a task (SystemExit of a callback, or KeyboardInterrupt) cancels the body of the `async with`, which then raises
that exception, as it is.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, cast

import trio

from pinnace_rpc.client.connection.link import Admission, Link
from pinnace_rpc.client.connection.process import AgentProcess, start_process
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


class Lifetime:
    """A started agent; `leave` ends it in every case."""

    def __init__(
        self,
        process: AgentProcess,
        nursery_manager: AbstractAsyncContextManager[trio.Nursery],
        nursery: trio.Nursery,
        dialogs: Dialogs,
        on_malformed: Callable[[ProtocolError], None] | None,
        admission: Admission | None = None,
    ) -> None:
        """Take over; `enter` does this."""
        self.process = process
        self.link = Link(Hub(), self._take_dialog, on_malformed, admission)
        self._dialogs = dialogs
        self._open_dialogs: dict[object, trio.CancelScope] = {}
        """By id: the task that asks the user."""
        self._nursery_manager = nursery_manager
        self._nursery = nursery
        self._scopes: set[trio.CancelScope] = set()
        self._ends = trio.lowlevel.ParkingLot()
        self._has_read = trio.Event()
        self._has_read_stderr = trio.Event()
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
    ) -> "Lifetime":
        """Start an agent and the tasks that serve it.

        Raises:
            OSError: It could not be started.
        """
        process = await start_process(command, cwd, env, on_stderr)
        # Nothing that follows waits: a cancelled start is left by `leave` or was none.
        manager = trio.open_nursery()
        nursery = await manager.__aenter__()
        lifetime = cls(process, manager, nursery, dialogs, on_malformed)
        for job in (lifetime._read, lifetime._write, lifetime._read_stderr, lifetime._watch):
            lifetime._start(job, is_shielded=True)
        return lifetime

    async def leave(self, exit_timeout_s: float) -> None:
        """End the agent, the tasks and the pipes. Bounded, also when cancelled.

        Raises:
            BaseException: An exception of a callback that is not an `Exception`.
        """
        try:
            self.link.end(ClientClosed)
            await self.process.end(exit_timeout_s)
            with trio.move_on_after(DRAIN_S, shield=True):  # what the agent wrote last is passed on as well
                await self._has_read_stderr.wait()
        finally:
            for scope in list(self._scopes):
                scope.cancel()
            # The tasks were cancelled and end at once, but a callback of the user may take longer.
            with trio.move_on_after(DRAIN_S, shield=True):
                while self._scopes:
                    await self._ends.park()
                await self.process.close()
            try:
                await self._nursery_manager.__aexit__(None, None, None)
            finally:
                if self._interruption is not None:
                    raise self._interruption

    def _start(self, job: Callable[[], Awaitable[None]], *, is_shielded: bool) -> trio.CancelScope:
        scope = trio.CancelScope(shield=is_shielded)
        self._scopes.add(scope)
        self._nursery.start_soon(self._guard, job, scope)
        return scope

    async def _guard(self, job: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            with scope:
                await job()
        except Exception as error:  # a defect of the client: raised by every call that waits, and logged
            _LOGGER.exception("the client has failed")
            text = f"the client has failed: {error!r}"
            self.link.end(lambda: ClientFailure(text))
        except BaseException as error:
            own = _without_cancellations(error)
            if own is None:
                raise
            self._interruption = self._interruption or own
            self._nursery.cancel_scope.cancel()
        finally:
            self._scopes.discard(scope)
            self._ends.unpark_all()

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
        with trio.move_on_after(DRAIN_S):
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

        async def ask() -> None:
            try:
                self.link.post(await answer_of(asked, record))
            except BaseException as error:
                if _without_cancellations(error) is not None:  # SystemExit, for instance: the client will be left by it
                    self.link.post(refusal(record))
                    with trio.move_on_after(DRAIN_S, shield=True):
                        await self.link.flush()
                raise
            finally:
                self._open_dialogs.pop(record["id"], None)

        self._open_dialogs[record["id"]] = self._start(ask, is_shielded=False)


def _without_cancellations(error: BaseException) -> BaseException | None:
    """Return what there is in an exception besides `Cancelled`, alone if it is only one; None if there are none."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    rest = group.split(trio.Cancelled)[1]
    return rest.exceptions[0] if rest is not None and len(rest.exceptions) == 1 else rest
