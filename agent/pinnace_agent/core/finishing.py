"""Work that is finished although its caller does not wait any more, such as an exchange that may be made only once."""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

# How long work may continue when the process ends.
_LEAVING_S: Final = 3.0


async def finish_within(limit_s: float, work: Callable[[], Awaitable[None]]) -> bool:
    """Do work to its end, whatever is cancelled meanwhile; a process that ends waits for it for three seconds.

    Returns:
        Whether it was finished within the limit. Raises what the work raises, in groups.
    """
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope(shield=True, deadline=trio.current_time() + limit_s)
        nursery.start_soon(_hurry, scope)
        with scope:
            await work()
        nursery.cancel_scope.cancel()
    return not scope.cancelled_caught


async def _hurry(scope: trio.CancelScope) -> None:
    """Shorten the deadline of the work when it is cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = min(scope.deadline, trio.current_time() + _LEAVING_S)
