"""The tasks of extensions: one contained nursery an extension.

A task that fails is told and ends alone: neither its siblings nor the session notice. Events that nobody waits for are
handled here as well, one queue an extension, in the order in which they happened. Must not know what an event means.
R33, R34.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.chains import Chains
from pinnace_agent.extensions.error_records import failure_record, ownership
from pinnace_agent.extensions.registrations import ErrorSink, Extension
from pinnace_agent.extensions.watchdog import Owner

_log = logging.getLogger("pinnace.extensions")

# Names, levels and dialogs change at the pace of people: more than this is a handler that never returns.
_MOST_QUEUED: Final = 1000


class NotRunningError(RuntimeError):
    """A task was to be started for a session that has not begun, or is over."""


class Instance:
    """One extension while its session lasts. What `pi.background` is made of."""

    def __init__(self, extension: Extension, caller: Caller, chains: Chains, tell: ErrorSink) -> None:
        """Start nothing before `run`."""
        self.extension = extension
        self._caller = caller
        self._chains = chains
        self._tell = tell
        self._nursery: trio.Nursery | None = None
        self._queue, self._queued = trio.open_memory_channel[ev.Event](_MOST_QUEUED)

    def start_soon(
        self,
        function: Callable[..., object],
        /,
        *arguments: object,
        name: str | None = None,
    ) -> None:
        """Start a background task of the extension. It is cancelled when the session instance ends.

        May be called from any thread.

        Raises:
            NotRunningError: There is no session.
        """
        self.start_task("background", partial(function, *arguments), name=name)

    def start_task(self, event: str, work: Callable[[], object], *, name: str | None = None) -> None:
        """Start a task whose failure is told of `event`."""
        self.extension.generation.thread.call(partial(self._start_task, event, work, name))

    def _start_task(self, event: str, work: Callable[[], object], name: str | None) -> None:
        if self._nursery is None:
            raise NotRunningError(
                "pi.background runs from session_start to session_shutdown: start tasks in a handler of session_start"
            )
        label = name or getattr(work, "__qualname__", event)
        self._nursery.start_soon(self._contained, event, work, name=f"{self.extension.path}:{label}")

    def queue(self, event: ev.Event) -> None:
        """Handle an event after those queued before; nobody waits for it."""
        try:
            self._queue.send_nowait(event)
        except trio.WouldBlock:
            _log.warning("%s is behind by %d events; %s is lost", self.extension.path, _MOST_QUEUED, event.type)
        except trio.BrokenResourceError:
            pass  # the session is over

    async def run(self, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the nursery until cancelled; raises nothing of the extension's."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._handle_queued, name=f"{self.extension.path}:events")
            task_status.started(nursery.cancel_scope)
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    async def _handle_queued(self) -> None:
        with self._queued:
            async for event in self._queued:
                await self._chains.notify(event.type, partial(_itself, event), only=self.extension)

    async def _contained(self, event: str, work: Callable[[], object]) -> None:
        # Its own owner: the task inherits that of a handler which the session may be waiting for.
        owner = Owner(self.extension.path, event, kind="background")
        try:
            await self._caller.run(owner, work, in_thread=False, is_timed=False)
        except BaseException as error:
            passing, failure = ownership(error)
            if failure is not None:
                self._tell(failure_record(self.extension.path, event, failure))
            if passing is not None:
                raise passing from None


def _itself(event: ev.Event) -> ev.Event:
    return event
