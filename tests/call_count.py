"""What an operation costs, as a count of calls: the same on every machine, however busy it is."""

import sys
from types import FrameType
from typing import Self


class CallCount:
    """Counts the calls of functions, in Python and in C, that this thread makes while the context is open."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        self.calls -= 2  # this method, and the call that it makes

    def _hook(self, frame: FrameType, event: str, arg: object) -> None:
        self.calls += event in ("call", "c_call")
