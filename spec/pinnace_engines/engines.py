"""Where tasks run: any `concurrent.futures.Executor`. Nothing here schedules, retries or moves data.

    processes           a thread of the coordinator for each agent process
    dask[:ADDRESS]      `distributed.Client(ADDRESS).get_executor()`; without an address, a cluster of this machine
    ray[:ADDRESS]       Ray's tasks behind the same interface; likewise
    MODULE:CALLABLE     an executor of the user's: `CALLABLE(workers)` returns it

Engines are imported when they are chosen.
"""

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

Engine = Callable[[], Executor]
"""Makes an executor; called again when one is broken."""


class EngineError(Exception):
    """There is no such engine, or it can't be used. The text is for the user."""


class MissingEngine(EngineError):
    """The packages of an engine can't be imported."""

    def __init__(self, extra: str, error: ImportError) -> None:
        """Name the extra that installs them, which has the name of the engine."""
        super().__init__(f"--engine {extra} can't be used ({error}): it needs the extra {extra}")
        self.extra = extra


def find_engine(name: str, workers: int) -> Engine:
    """Return the engine of `--engine`.

    Raises:
        EngineError: There is none.
    """
    kind, _, rest = name.partition(":")
    if name == "processes":
        return lambda: ThreadPoolExecutor(workers, thread_name_prefix="task")
    if kind == "dask":
        return _dask(rest or None, workers)
    if kind == "ray":
        return _ray(rest or None, workers)
    if not rest or kind.startswith(".") or kind in {"", "processes"}:
        raise EngineError(f"--engine takes processes, dask[:ADDRESS], ray[:ADDRESS] or MODULE:CALLABLE, not {name}")
    try:
        make = getattr(importlib.import_module(kind), rest)
    except Exception as error:  # whatever a module of the user's raises
        raise _failed(name, error) from None
    if not callable(make):
        raise EngineError(f"--engine {name}: {rest} is {type(make).__name__}, which is not callable")

    def made() -> Executor:
        try:
            executor = make(workers)
        except Exception as error:  # likewise
            raise _failed(name, error) from None
        if not callable(getattr(executor, "submit", None)):
            raise EngineError(f"--engine {name}: it returned {type(executor).__name__}, which is no Executor")
        return executor  # type: ignore[no-any-return]  # checked as far as it can be

    return made


def _dask(address: str | None, workers: int) -> Engine:
    distributed = _imported("distributed", "dask")

    def made() -> Executor:
        target: Any = address
        if target is None:
            target = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        try:
            # Impure: Dask must not take the outcome of one call for that of another.
            executor: Executor = distributed.Client(target).get_executor(pure=False)
        except (OSError, ValueError) as error:
            raise EngineError(f"--engine dask: no scheduler answers at {address}: {error}") from None
        return executor

    return made


def _ray(address: str | None, workers: int) -> Engine:
    ray = _imported("ray", "ray")

    def made() -> Executor:
        if not ray.is_initialized():
            options = {"num_cpus": workers} if address is None else {"address": address}
            try:
                ray.init(include_dashboard=False, log_to_driver=False, **options)
            except (OSError, ValueError, RuntimeError) as error:
                raise EngineError(f"--engine ray: no cluster answers at {address}: {error}") from None
        return _RayExecutor(ray)

    return made


def _failed(name: str, error: Exception) -> EngineError:
    return EngineError(f"--engine {name}: {type(error).__name__}: {error}")


def _imported(module: str, extra: str) -> Any:  # Any: a module that is not installed everywhere
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingEngine(extra, error) from None


class _RayExecutor(Executor):
    """Ray's tasks as an executor. The coordinator repeats calls of lost workers, so Ray does not."""

    def __init__(self, ray: Any) -> None:  # Any: the module, which is not installed everywhere
        self._ray = ray
        self._remote: dict[Any, Any] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(max_retries=0)(fn)
        future: Future[Any] = self._remote[fn].remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()
