"""Shows how far a run is: on a terminal one line that is redrawn, elsewhere a line now and then, on standard error.

The line never is in the stream of the report. What a run says meanwhile (`log`) goes through here too, so that the two
do not mix on a terminal. A run reports its state by a function, which is asked when the line is drawn.
"""

import shutil
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO, TypeAlias

from pinnace_fuzz.judge.results import BAD, CaseResult
from pinnace_spec.printable import printable

Watch: TypeAlias = Callable[[Callable[[], str]], None]
"""Takes what says how far a run is, from now on."""

_REDRAW_S: Final = 0.5
_LINE_S: Final = 15.0
_CLEAR: Final = "\r\x1b[K"


def unwatched(_: Callable[[], str]) -> None:
    """Show nothing."""


def duration(seconds: float) -> str:
    """Write a time as people read it: `12 s`, `3 min 20 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


class Done:
    """Counts the cases that are decided, and estimates the rest."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin; `total` is how many cases are for this agent: what it has no capability for takes no time."""
        self._total = total
        self._clock = clock
        self._begun_s = clock()
        self._decided = 0
        self._bad = 0

    def take(self, result: CaseResult) -> None:
        """Count a result."""
        self._decided += result.verdict != "NOT-RUN"
        self._bad += result.verdict in BAD

    def said(self) -> str:
        """Say how far it is."""
        passed_s = self._clock() - self._begun_s
        text = f"{self._decided} of {self._total} scenarios, {self._bad} failed, {duration(passed_s)}"
        if not self._decided or self._decided >= self._total:
            return text
        return f"{text}, about {duration(passed_s / self._decided * (self._total - self._decided))} left"


class Progress:
    """A progress line; use it as a context manager. Its methods may be called from any thread."""

    def __init__(self, stream: TextIO, line_s: float = _LINE_S) -> None:
        """Begin.

        Args:
            stream: Where it is shown.
            line_s: Where `stream` is no terminal, a line comes after so many seconds.
        """
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._every_s = _REDRAW_S if self._is_terminal else line_s
        self._said: Callable[[], str] | None = None
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        with self._lock:
            self._said = None
            self._write(_CLEAR if self._is_terminal else "")

    def watch(self, said: Callable[[], str]) -> None:
        """Show what `said` returns, from now on."""
        with self._lock:
            self._said = said
            if self._is_terminal:
                self._draw()

    def log(self, text: str) -> None:
        """Write a line for good."""
        with self._lock:
            self._write(f"{_CLEAR if self._is_terminal else ''}{text}\n")
            if self._is_terminal:
                self._draw()

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._said is None:
            return
        text = printable(self._said())
        if self._is_terminal:
            # A line that wraps would stay when it is redrawn.
            columns = max(2, shutil.get_terminal_size().columns)
            self._write(_CLEAR + text[: columns - 1])
        else:
            self._write(text + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()
