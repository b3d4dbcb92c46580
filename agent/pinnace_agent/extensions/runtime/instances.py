"""The background tasks of extensions: one nursery for each extension.

The failure of a task is reported and ends only this task. Events whose handlers are not awaited are delivered here as
well: each extension has a queue and handles them in order.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.handlers.chains import Chains
from pinnace_agent.extensions.registration.registrations import ErrorSink, Extension
from pinnace_agent.extensions.services.error_records import failure_record, ownership
from pinnace_agent.extensions.services.watchdog import Owner

_log = logging.getLogger("pinnace.extensions")

BACKGROUND: Final = "background"
"""What starts the tasks that an extension starts itself."""

# Names, levels and dialogs change at the pace of people: a longer queue means a handler that never returns.
_MOST_QUEUED: Final = 1000


class NotRunningError(RuntimeError):
    """A task was started before the session started or after it ended."""


class Instance:
    """The tasks of one extension during a session instance: `pi.background`."""

    def __init__(self, extension: Extension, caller: Caller, chains: Chains, report: ErrorSink) -> None:
        """Create an instance that runs no task before `run`."""
        self.extension = extension
        self._caller = caller
        self._chains = chains
        self._report = report
        self._nursery: trio.Nursery | None = None
        self._tasks = 0
        self._queue, self._queued = trio.open_memory_channel[ev.Event](_MOST_QUEUED)

    @property
    def is_at_work(self) -> bool:
        """Whether a background task of the extension runs."""
        return self._tasks > 0

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
            NotRunningError: No session is open.
        """
        self.start_task(BACKGROUND, partial(function, *arguments), name=name)

    def start_task(self, event: str, work: Callable[[], object], *, name: str | None = None) -> None:
        """Start a task whose failure is reported with `event`."""
        self.extension.generation.thread.call(partial(self._start_task, event, work, name))

    def _start_task(self, event: str, work: Callable[[], object], name: str | None) -> None:
        if self._nursery is None:
            raise NotRunningError(
                "pi.background runs from session_start to session_shutdown: start tasks in a handler of session_start"
            )
        label = name or getattr(work, "__qualname__", event)
        self._nursery.start_soon(self._contained, event, work, name=f"{self.extension.path}:{label}")

    def queue(self, event: ev.Event) -> None:
        """Queue an event for the extension's handlers. Does not wait."""
        try:
            self._queue.send_nowait(event)
        except trio.WouldBlock:
            _log.warning("%s is behind by %d events; %s is lost", self.extension.path, _MOST_QUEUED, event.type)
        except trio.BrokenResourceError:
            pass  # the session has ended

    async def run(self, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the nursery open until cancelled. Exceptions of the extension are not raised."""
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
        # A new owner: the task inherits that of a handler, which the session may be waiting for.
        owner = Owner(self.extension.path, event, kind="background")
        is_extensions_own = event == BACKGROUND
        self._tasks += is_extensions_own
        try:
            await self._caller.run(owner, work, in_thread=False, is_timed=False)
        except BaseException as error:
            passing, failure = ownership(error)
            if failure is not None:
                self._report(failure_record(self.extension.path, event, failure))
            if passing is not None:
                raise passing from None
        finally:
            self._tasks -= is_extensions_own


def _itself(event: ev.Event) -> ev.Event:
    return event
