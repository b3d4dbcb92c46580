"""Runs the tasks of a batch on an engine, and keeps what they return.

At most twice as many tasks as workers are submitted at a time: what a batch holds in memory does not grow with its
tasks. A call that the engine lost (its worker died) is submitted again for the same attempt, whose folder says how far
it came; a task that loses too many workers has a result that says so. The first signal lets the running tasks end and
starts no other; the second one ends the process, and with it the agents. So does a result that can't be written: what
the running tasks have done stays in their folders.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pinnace_engines.calls import Call, EndedCall, run_calls
from pinnace_engines.engines import Engine
from pinnace_rpc.batch.progress import BatchProgress
from pinnace_rpc.batch.records import BatchFolder, BatchFolderError
from pinnace_rpc.batch.worker import made_result, run_task

_ENDING: Final = "running tasks end, and no other starts"
Attempt = int
"""The key of a call: which attempt of its task it is, from 1."""


class Coordinator:
    """Runs one batch."""

    def __init__(self, engine: Engine, folder: BatchFolder, progress: BatchProgress, workers: int) -> None:
        """Start nothing yet."""
        self._engine = engine
        self._folder = folder
        self._progress = progress
        self._most = 2 * workers
        self._signals = 0
        self._submitted = 0

    def run(self, calls: Iterator[Call[Attempt]], *, forget: Callable[[Call[Attempt]], None]) -> bool:
        """Run all calls; return False if a signal ended the batch before its end.

        Args:
            calls: Read one by one.
            forget: Called when the outcome of a call is kept.

        Raises:
            BatchFolderError: A result can't be written.
        """
        former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        running = run_calls(
            self._engine,
            run_task,
            self._counted(calls),
            at_once=self._most,
            is_ending=lambda: bool(self._signals),
            on_loss=lambda call, why: self._progress.note(f"{_id_of(call)}: its worker was lost ({why}); again"),
        )
        try:
            for ended in running:
                for each in ended:
                    self._keep(each)
                    forget(each.call)
                self._progress.show(self._submitted)
            return not self._signals
        except BatchFolderError as error:
            self._progress.note(f"{error}; {_ENDING}")
            raise
        finally:
            running.close()  # its executor is shut down before the signals have their former meaning
            for number, handler in former.items():
                signal.signal(number, handler)

    def _counted(self, calls: Iterator[Call[Attempt]]) -> Iterator[Call[Attempt]]:
        for call in calls:
            self._submitted += 1
            yield call

    def _keep(self, ended: EndedCall[Attempt]) -> None:
        self._submitted -= 1
        outcome, error = ended.outcome, ended.error
        # The name of a file is made of the id: a worker answers for the task that it was given, and for no other.
        if error is None and _answered_id(outcome) != _id_of(ended.call):
            error = "the worker has answered with the outcome of another task"
        if error is not None:
            result = made_result("internal", error, is_retryable=True)
            outcome = {"id": _id_of(ended.call), "result": result, "verify": None, "session": "", "stderr": ""}
        self._progress.ended(self._folder.add(outcome, ended.call.key))

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        with suppress(OSError):  # not by a stream: this may interrupt one that is writing
            os.write(2, f"pinnace: batch: {_ENDING}; once more ends at once\n".encode())


def _answered_id(outcome: Mapping[str, Any]) -> object:
    """Return the id in what a worker has returned, which may be anything."""
    try:
        return outcome["id"]
    except (KeyError, TypeError, IndexError):
        return None


def _id_of(call: Call[Attempt]) -> str:
    task_id: str = call.arguments["task"]["id"]
    return task_id
