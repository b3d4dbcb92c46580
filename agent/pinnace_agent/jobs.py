"""Jobs: the tasks behind busy states, each in a cancel scope of its own.

Decides nothing. A job is started and cancelled by effects; that it ended is reported once, whatever ended it.
Cancelling is not ending: the report comes when the task has unwound. Must not know what a job does.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

_log = logging.getLogger("pinnace.jobs")

Work = Callable[[], Awaitable[None]]
Ended = Callable[[bool, BaseException | None], None]
"""Takes how a job has ended: whether it was cancelled, and the exception that a defect raised."""


class Abandoned(Exception):
    """A job was cancelled and did not end in time; it is taken for ended while its task may still work."""


class Jobs:
    """The only place that starts tasks of the agent; they are children of `nursery`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """Use `nursery` as the parent of every job."""
        self._nursery = nursery
        self._scopes: dict[str, trio.CancelScope] = {}
        self._ended: dict[str, Ended] = {}

    def __len__(self) -> int:
        """Count the jobs that have not ended."""
        return len(self._scopes)

    def start(self, name: str, work: Work, ended: Ended) -> None:
        """Start `work` as a task. Never waits; the job can be cancelled from now on.

        Args:
            name: Unique among living jobs.
            work: Reports its own outcome; may be cancelled at any checkpoint.
            ended: Called once, from the task, when it has unwound: whether it was cancelled, and the exception that a
                defect raised.
        """
        assert name not in self._scopes
        self._scopes[name] = trio.CancelScope()
        self._ended[name] = ended
        self._nursery.start_soon(self._run, name, work, name=name)

    def scope(self, name: str) -> trio.CancelScope | None:
        """Return where a job works; None: it has ended, or never was."""
        return self._scopes.get(name)

    def cancel(self, name: str) -> None:
        """Cancel a job; an unknown or ended one is no error, since its report may already be on its way."""
        if scope := self._scopes.get(name):
            scope.cancel()

    def abandon(self) -> list[str]:
        """Report all jobs as ended with `Abandoned`, and cancel them: the process ends. Returns their names."""
        names = list(self._ended)
        for name in names:
            self._scopes[name].cancel()
            if (ended := self._ended.pop(name, None)) is not None:  # the end of one may be that of another
                ended(False, Abandoned("the work did not end when it was cancelled"))
        return names

    async def _run(self, name: str, work: Work) -> None:
        scope = self._scopes[name]
        failure: BaseException | None = None
        try:
            with scope:
                # A job that was cancelled before its first step must not begin to have effects.
                await trio.lowlevel.checkpoint_if_cancelled()
                await work()
        except Exception as error:  # the boundary: a defect of one job must not end the others
            _log.exception("job %s failed", name)
            failure = error
        finally:
            del self._scopes[name]
            ended = self._ended.pop(name, None)
        if ended is not None:
            ended(scope.cancelled_caught, failure)
