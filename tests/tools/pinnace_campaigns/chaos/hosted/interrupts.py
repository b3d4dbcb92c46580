"""Signals that end a run: what it has started and mounted is cleaned up first, whenever they come.

`ended_by_signals` makes each of them a KeyboardInterrupt; `uninterrupted` delays them where one would leave something
behind: while it is made, and while it is removed. For the main thread. Knows nothing of worlds.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Generator[None]:
    """Raise KeyboardInterrupt at the first of the signals, and ignore those that follow it."""
    former = {each: signal.signal(each, _interrupt) for each in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, _ignore)  # not SIG_IGN: of one that has come already, Python would report a race
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Let the clean-up go on."""


@contextmanager
def uninterrupted() -> Generator[None]:
    """Let signals that come meanwhile have their effect at the end."""
    came: list[signal.Signals] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(signal.Signals(number))

    former = {each: signal.getsignal(each) for each in _SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)
