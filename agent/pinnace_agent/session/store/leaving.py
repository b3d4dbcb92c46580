"""A session file whose holder is about to release the lease: whether it is, and how a task waits for that."""

import os
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.surroundings import system
from pinnace_agent.session.store.lease import read_holder, sidecar_of

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_POLL_S: Final = 0.05


def is_being_left(path: Path) -> bool:
    """Return whether the holder of the lease of a session file has announced its release. Never waits."""
    try:
        descriptor = system().open(sidecar_of(path), _FLAGS)
    except OSError:
        return False
    try:
        holder = read_holder(descriptor)
    finally:
        system().close(descriptor)
    return holder is not None and holder.is_ending


async def wait_until_left(path: Path, timeout_s: float) -> None:
    """Wait, so long at most, while `is_being_left`. No lease is taken; it may be cancelled."""
    with trio.move_on_after(timeout_s):
        while is_being_left(path):  # noqa: ASYNC110 - of another process
            await trio.sleep(_POLL_S)
