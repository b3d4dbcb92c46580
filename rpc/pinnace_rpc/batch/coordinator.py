"""Runs the tasks of a batch on an engine, and keeps what they return.

At most twice as many tasks as workers are submitted at a time: what a batch holds in memory does not grow with its
tasks. A call that the engine lost (its worker died) is submitted again for the same attempt, whose folder says how far
it came; after `LOST_CALLS` losses the task has a result that says so. The first signal lets the running tasks end and
starts no other; the second one ends the process, and with it the agents.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, Final, NamedTuple

from pinnace_rpc.batch.engines import Engine
from pinnace_rpc.batch.progress import Progress
from pinnace_rpc.batch.records import BatchFolder
from pinnace_rpc.batch.worker import made_result, run_task

LOST_CALLS: Final = 3
"""How often a task may lose its worker before it counts as failed: it may be what kills them."""
_LOOK_S: Final = 0.5


class Call(NamedTuple):
    """A call of the worker's function."""

    arguments: Mapping[str, Any]
    attempt: int
    losses: int = 0


class Coordinator:
    """Runs one batch."""

    def __init__(self, engine: Engine, folder: BatchFolder, progress: Progress, workers: int) -> None:
        """Start nothing yet."""
        self._engine = engine
        self._folder = folder
        self._progress = progress
        self._most = 2 * workers
        self._signals = 0
        self._running: dict[Future[Any], Call] = {}
        self._lost: list[Call] = []

    def run(self, calls: Iterator[Call], *, forget: Callable[[Call], None]) -> bool:
        """Run all calls; return False if a signal ended the batch before its end.

        Args:
            calls: Read one by one.
            forget: Called when the outcome of a call is kept.
        """
        former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        executor = self._engine()
        try:
            while True:
                executor = self._submit(executor, calls)
                if not self._running:
                    return not self._signals
                done, _ = wait(self._running, _LOOK_S, FIRST_COMPLETED)
                for future in done:
                    executor = self._take(executor, future, forget)
                self._progress.show(len(self._running))
        finally:
            executor.shutdown()
            for number, handler in former.items():
                signal.signal(number, handler)

    def _submit(self, executor: Executor, calls: Iterator[Call]) -> Executor:
        while len(self._running) < self._most and not self._signals:
            call = self._lost.pop() if self._lost else next(calls, None)
            if call is None:
                break
            try:
                future = executor.submit(run_task, dict(call.arguments))
            except BrokenExecutor:
                executor.shutdown(wait=False)
                executor = self._engine()
                future = executor.submit(run_task, dict(call.arguments))
            self._running[future] = call
        return executor

    def _take(self, executor: Executor, future: Future[Any], forget: Callable[[Call], None]) -> Executor:
        call = self._running.pop(future)
        try:
            outcome = future.result()
        except Exception as error:  # whatever an engine raises for a worker that died
            if call.losses + 1 < LOST_CALLS:
                self._lost.append(call._replace(losses=call.losses + 1))
                self._progress.note(f"{call.arguments['task']['id']}: its worker was lost ({_words(error)}); again")
                return executor
            text = f"the worker was lost {LOST_CALLS} times: {_words(error)}"
            result = made_result("internal", text, is_retryable=True)
            outcome = {
                "id": call.arguments["task"]["id"],
                "result": result,
                "verify": None,
                "session": "",
                "stderr": "",
            }
        line = self._folder.add(outcome, call.attempt)
        forget(call)
        self._progress.ended(line)
        return executor

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + number)
        sys.stderr.write("pinnace: batch: running tasks end, and no other starts; once more ends at once\n")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0][:200]
