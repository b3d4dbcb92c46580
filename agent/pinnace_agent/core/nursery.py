"""A nursery for tasks that are an implementation detail of one function.

trio raises everything out of a nursery in a group, even a plain cancellation. The caller of a function must not depend
on whether it has tasks, so this nursery raises what a function without tasks would raise. Knows no particular task.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import trio


@asynccontextmanager
async def open_flat_nursery() -> AsyncGenerator[trio.Nursery, None]:
    """Open a nursery out of which a cancellation comes as `trio.Cancelled` and a single failure as itself.

    A failure hides cancellations beside it; several failures still come as a group.
    """
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        failures = group.split(trio.Cancelled)[1]
        if failures is None:
            # Cancellations are all alike; any of them is the one that the scope outside waits for.
            only = _first_leaf(group)
        elif len(failures.exceptions) == 1:
            only = failures.exceptions[0]
        else:
            raise
        raise only from only.__cause__


def _first_leaf(error: BaseException) -> BaseException:
    if not isinstance(error, BaseExceptionGroup):
        return error
    # Not even a checker can know what a group is a group of that comes out of another group.
    return _first_leaf(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
