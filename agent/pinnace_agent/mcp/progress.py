"""The progress of one call, as clients see it: at most ten reports a second, and the last one always."""

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.mcp.ports import OnProgress

_EVERY_S: Final = 0.1


@asynccontextmanager
async def paced(show: Callable[[str], None]) -> AsyncGenerator[OnProgress, None]:
    """Yield what takes the progress of a call, and pass it on until the call has ended. Never holds the call up.

    Args:
        show: Takes a text that replaces the one before; must not wait.
    """
    waiting: str | None = None
    shown_s = -math.inf
    came = trio.Event()

    def flush() -> None:
        nonlocal waiting, shown_s
        if waiting is not None:
            show(waiting)
            waiting, shown_s = None, trio.current_time()

    def take(value: float, total: float | None, message: str | None) -> None:
        nonlocal waiting
        waiting = message or (f"Progress {value:g}" if total is None else f"Progress {value:g}/{total:g}")
        if trio.current_time() - shown_s >= _EVERY_S:
            flush()
        else:
            came.set()

    async def pass_on() -> None:
        nonlocal came
        while True:
            await came.wait()
            came = trio.Event()
            await trio.sleep_until(shown_s + _EVERY_S)
            flush()

    async with open_flat_nursery() as nursery:
        nursery.start_soon(pass_on)
        try:
            yield take
        finally:
            nursery.cancel_scope.cancel()
            flush()
