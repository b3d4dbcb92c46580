"""Says on stderr how far a batch is: one line that changes on a terminal, lines now and then elsewhere.

Without a library: one line needs no layout, and a batch installs nothing.
"""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from pinnace_rpc.batch.records import has_passed

_EVERY_S: Final = 10.0
_TERMINAL_S: Final = 0.2


class BatchProgress:
    """Counts what has ended."""

    def __init__(self, total: int, done: int) -> None:
        """Begin; `done` of `total` tasks need not be run."""
        self._total = total
        self._first = self._done = done
        self.failed = 0
        """How many of those that have ended since the beginning did not pass."""
        self._cost = 0.0
        self._tokens = 0
        self._begun = self._shown = time.monotonic()
        self._is_terminal = os.isatty(2)

    @property
    def passed(self) -> int:
        """How many have passed since the beginning."""
        return self._done - self._first - self.failed

    def ended(self, line: Mapping[str, Any]) -> None:
        """Count a task."""
        self._done += 1
        self._cost += line["cost"]
        self._tokens += line["usage"]["total"]
        if not has_passed(line):
            self.failed += 1
            why = "verify failed" if line["reason"] == "completed" else line["reason"]
            message = "" if line["error"] is None else str(line["error"]["message"])
            self.note(f"{line['id']}: {why}" + (f": {_shown(line['reason'], message)}" if message else ""))

    def note(self, text: str) -> None:
        """Write a line."""
        start = "\r\x1b[K" if self._is_terminal else ""
        _write(f"{start}pinnace: batch: {_clean(text)}\n")

    def show(self, running: int, *, is_last: bool = False) -> None:
        """Write how far the batch is, if it is time to."""
        now = time.monotonic()
        if not is_last and now - self._shown < (_TERMINAL_S if self._is_terminal else _EVERY_S):
            return
        self._shown = now
        words = [f"{self._done} of {self._total} done", f"{self.failed} failed", f"{running} submitted"]
        words += [f"${self._cost:.4f}", f"{self._tokens} tokens"]
        fresh = self._done - self._first
        if fresh and self._done < self._total:
            left_s = (now - self._begun) / fresh * (self._total - self._done)
            words.append(f"about {_time(left_s)} left")
        if self._is_terminal and not is_last:
            _write(f"\r\x1b[Kpinnace: batch: {', '.join(words)}")
        else:
            self.note(", ".join(words))


def _write(text: str) -> None:
    """Write to stderr. Without a reader the batch goes on, and Python finds nothing to flush at its end."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _time(left_s: float) -> str:
    minutes = round(left_s / 60)
    return f"{round(left_s)} s" if minutes < 2 else f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def _shown(reason: str, message: str) -> str:
    """Return the text of an error for one line: where a key is missing with what to do, else its beginning."""
    return " ".join(message.split()) if reason in ("no_model", "no_key") else message.splitlines()[0]
