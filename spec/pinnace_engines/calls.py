"""Runs the calls of one function on an engine, and repeats those whose worker was lost.

The function takes plain data, returns plain data, and raises for nothing that it does itself: whatever an engine raises
counts as the loss of the worker. What a repeated call finds of the first one is the function's affair.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pinnace_engines.engines import Engine
from pinnace_engines.programs import end_programs

LOST_CALLS: Final = 3
"""How often a call may lose its worker before it counts as failed: it may be what kills them."""
_LOOK_S: Final = 0.5

Key = TypeVar("Key")


class Call(NamedTuple, Generic[Key]):
    """A call of the function."""

    key: Key
    """What the caller knows it by; it stays with the caller."""
    arguments: Mapping[str, Any]
    """What the function takes."""
    losses: int = 0
    """How many workers it has lost."""


class EndedCall(NamedTuple, Generic[Key]):
    """A call that has ended: it has either an outcome or an error."""

    call: Call[Key]
    outcome: Any
    """What the function has returned; None if its worker was lost `LOST_CALLS` times."""
    error: str | None = None
    """How the last worker was lost."""


def run_calls(
    engine: Engine,
    function: Callable[[dict[str, Any]], Any],
    calls: Iterator[Call[Key]],
    *,
    at_once: int,
    is_ending: Callable[[], bool] = lambda: False,
    on_loss: Callable[[Call[Key], str], None] = lambda call, why: None,
) -> Generator[list[EndedCall[Key]]]:
    """Yield the calls that have ended, now and then, and none if none has; stop when there are no more. Blocks.

    A KeyboardInterrupt ends the programs that this process runs.

    Args:
        engine: Makes the executor, and another one when that is broken. It is shut down at the end.
        function: What a worker runs.
        calls: Read one by one.
        at_once: How many are submitted at a time: what is held in memory does not grow with the calls.
        is_ending: Return whether no other call should start, in any thread. What has been submitted can be taken back
            from threads of this process alone.
        on_loss: Called for a call that is submitted again, with what the engine says.
    """
    submission = _Submission(engine, function, is_ending)
    running: dict[Future[Any], Call[Key]] = {}
    lost: list[Call[Key]] = []
    try:
        while True:
            if is_ending():
                submission.withdraw(running)
            while len(running) < at_once and not is_ending():
                call = lost.pop() if lost else next(calls, None)
                if call is None:
                    break
                running[submission.submit(call.arguments)] = call
            if not running:
                return
            ended: list[EndedCall[Key]] = []
            for future in wait(running, _LOOK_S, FIRST_COMPLETED)[0]:
                call = running.pop(future)
                try:
                    ended.append(EndedCall(call, future.result()))
                except _NotStarted:
                    continue
                except Exception as error:  # whatever an engine raises for a worker that died
                    call = call._replace(losses=call.losses + 1)
                    if call.losses < LOST_CALLS:
                        lost.append(call)
                        on_loss(call, _words(error))
                    else:
                        ended.append(EndedCall(call, None, f"the worker was lost {LOST_CALLS} times: {_words(error)}"))
            yield ended
    except KeyboardInterrupt:
        for future in running:
            future.cancel()
        end_programs()  # of this process; those elsewhere end with their workers
        raise
    finally:
        submission.withdraw(running)
        submission.shutdown()


class _NotStarted(Exception):
    """A call was withdrawn in its last moment."""


class _Submission:
    """Submits to the executor, and to another one when it is broken."""

    def __init__(
        self, engine: Engine, function: Callable[[dict[str, Any]], Any], is_ending: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._function = function
        self._is_ending = is_ending
        self._executor: Executor = engine()

    def submit(self, arguments: Mapping[str, Any]) -> Future[Any]:
        try:
            return self._submit(dict(arguments))
        except BrokenExecutor:
            self._executor.shutdown(wait=False)
            self._executor = self._engine()
            return self._submit(dict(arguments))

    def _submit(self, arguments: dict[str, Any]) -> Future[Any]:
        if isinstance(self._executor, ThreadPoolExecutor):
            return self._executor.submit(self._start, arguments)
        return self._executor.submit(self._function, arguments)

    def _start(self, arguments: dict[str, Any]) -> Any:  # Any: what the function returns
        """Begin a call in a thread of this process, which may have waited for its turn until now."""
        if self._is_ending():
            raise _NotStarted
        return self._function(arguments)

    def withdraw(self, running: dict[Future[Any], Call[Key]]) -> None:
        """Take back the calls that have not started; executors with other processes would cancel running ones."""
        if isinstance(self._executor, ThreadPoolExecutor):
            for future in [each for each in running if each.cancel()]:
                del running[future]

    def shutdown(self) -> None:
        self._executor.shutdown()


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0][:200]
