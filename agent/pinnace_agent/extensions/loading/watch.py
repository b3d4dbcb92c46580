"""Reports an extension that takes long to load, also while it blocks the event loop.

Runs in a thread, because nothing else runs then. Only reports: a blocked thread cannot be ended.
"""

import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NamedTuple

_SHOWN_FRAMES: Final = 5


class LoadLimits(NamedTuple):
    """How long one extension may take to load."""

    soft_s: float = 10.0
    """After this a line is logged: people wait no longer without a message."""
    hard_s: float = 60.0
    """After this it has failed. A request to a slow model registry takes seconds; a minute is a hang."""


@contextmanager
def watched(path: str, limits: LoadLimits, log: Callable[[str], None]) -> Generator[None, None, None]:
    """Log the extension and its stack while the body exceeds the limits. `log` is called in a thread."""
    is_done = threading.Event()
    thread = threading.Thread(
        target=_watch,
        args=(is_done, path, limits, log, threading.get_ident()),
        name="extension load watch",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _watch(is_done: threading.Event, path: str, limits: LoadLimits, log: Callable[[str], None], thread: int) -> None:
    if is_done.wait(limits.soft_s):
        return
    log(f"{path}: has been loading for {limits.soft_s:g} s{_place(thread)}")
    if is_done.wait(max(0.0, limits.hard_s - limits.soft_s)):
        return
    text = f"{path}: has been loading for {limits.hard_s:g} s and has failed; if it blocks it can't be ended"
    log(text + _place(thread))


def _place(thread: int) -> str:
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for this
    frame: FrameType | None = frames.get(thread)
    if frame is None:
        return ""
    lines = traceback.format_list(traceback.extract_stack(frame)[-_SHOWN_FRAMES:])
    return ", at:\n" + "".join(lines).rstrip()
