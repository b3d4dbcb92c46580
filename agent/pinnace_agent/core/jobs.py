"""Jobs: the tasks behind busy states, each in a cancel scope of its own.

Decides nothing. A job is started and cancelled by effects; that it ended is reported once, whatever ended it.
Cancelling is not ending: the report comes when the task has unwound.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

_log = logging.getLogger("pinnace.jobs")

ABORT_GRACE_S: Final = 3.0
"""How long a cancelled job may take to end before the agent continues without it.

The agent's own jobs need at most half a second, for processes that are to be killed. The rest is for extensions that
clean up; users of an abort wait for it.
"""

Work = Callable[[], Awaitable[None]]
Ended = Callable[[bool, BaseException | None], None]
"""Takes how a job has ended: whether it was cancelled, and the exception that a defect raised."""
Abandon = Callable[[trio.lowlevel.Task | None], None]
"""Takes the task of a job that did not end when it was cancelled."""


class Abandoned(Exception):
    """A job was cancelled and did not end in time; it is taken for ended while its task may still work."""


@dataclass(slots=True, eq=False)
class _Job:
    """A job that has not ended, or that was abandoned and whose task still works."""

    ended: Ended
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    over: trio.Event | None = None
    """Set when its task has unwound. None: nothing waits for that."""


class Jobs:
    """The only place that starts tasks of the agent; they are children of `nursery`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """Use `nursery` as the parent of every job."""
        self._nursery = nursery
        self._jobs: dict[str, _Job] = {}

    def __len__(self) -> int:
        """Count the jobs that have not ended."""
        return len(self._jobs)

    def start(self, name: str, work: Work, ended: Ended) -> None:
        """Start `work` as a task. Never waits; the job can be cancelled from now on.

        Args:
            name: Unique among living jobs.
            work: Reports its own outcome; may be cancelled at any checkpoint.
            ended: Called once, from the task, when it has unwound: whether it was cancelled, and the exception that a
                defect raised.
        """
        assert name not in self._jobs
        job = self._jobs[name] = _Job(ended)
        self._nursery.start_soon(self._run, name, job, work, name=name)

    def scope(self, name: str) -> trio.CancelScope | None:
        """Return where a job works; None: it has ended, or never was."""
        job = self._jobs.get(name)
        return None if job is None else job.scope

    def cancel(self, name: str) -> None:
        """Cancel a job; an unknown or ended one is no error, since its report may already be on its way."""
        if job := self._jobs.get(name):
            job.scope.cancel()

    def cancel_in_time(self, name: str, abandon: Abandon) -> None:
        """Cancel a job that has to end: after `ABORT_GRACE_S` it is reported as cancelled, whatever its task does.

        Args:
            name: Of the job.
            abandon: Called before that report. From then on nothing that the task still does may have an effect.
        """
        job = self._jobs.get(name)
        if job is None:
            return
        job.scope.cancel()
        if job.over is None:
            job.over = trio.Event()
            self._nursery.start_soon(partial(self._limit, name, job, job.over, abandon), name=f"abort:{name}")

    def abandon(self) -> list[str]:
        """Report all jobs as ended with `Abandoned`, and cancel them: the process ends. Returns their names."""
        jobs = dict(self._jobs)
        for name, job in jobs.items():
            job.scope.cancel()
            if self._jobs.pop(name, None) is not None:  # the end of one may be that of another
                job.ended(False, Abandoned("the work did not end when it was cancelled"))
        return list(jobs)

    async def _limit(self, name: str, job: _Job, over: trio.Event, abandon: Abandon) -> None:
        with trio.move_on_after(ABORT_GRACE_S):
            await over.wait()
        if self._jobs.get(name) is job:
            del self._jobs[name]
            abandon(job.task)
            job.ended(True, None)

    async def _run(self, name: str, job: _Job, work: Work) -> None:
        failure: BaseException | None = None
        job.task = trio.lowlevel.current_task()
        try:
            with job.scope:
                # A job that was cancelled before its first step must not begin to have effects.
                await trio.lowlevel.checkpoint_if_cancelled()
                await work()
        except Exception as error:  # the boundary: a defect of one job must not end the others
            _log.exception("job %s failed", name)
            failure = error
        finally:
            if job.over is not None:
                job.over.set()
            is_living = self._jobs.get(name) is job
            if is_living:
                del self._jobs[name]
        if is_living:
            job.ended(job.scope.cancelled_caught, failure)
