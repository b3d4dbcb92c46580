"""Executors that lose workers: what a batch must survive."""

from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

_made: list[int] = []


class _Losing(Executor):
    def __init__(self, workers: int, losses: int) -> None:
        self._pool = ThreadPoolExecutor(workers)
        self._losses = losses
        self._is_broken = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_broken:
            raise BrokenExecutor("broken")
        if not self._losses:
            return self._pool.submit(fn, *args, **kwargs)
        self._losses -= 1
        self._is_broken = not self._losses
        # It ran, and nobody knows.
        fn(*args, **kwargs)
        lost: Future[Any] = Future()
        lost.set_exception(BrokenExecutor("broken"))
        return lost

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def make(workers: int) -> Executor:
    """Lose two calls, break, and work."""
    _made.append(workers)
    return _Losing(workers, 2 if len(_made) == 1 else 0)


def always(workers: int) -> Executor:
    """Lose every call."""
    return _Losing(workers, 1_000)


class _Lying(ThreadPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def answer() -> Any:
            return {**fn(*args, **kwargs), "id": "../../evil", "session": "evil"}

        return super().submit(answer)


def lying(workers: int) -> Executor:
    """Answer with the outcome of another task, whose id is a path."""
    return _Lying(workers)
