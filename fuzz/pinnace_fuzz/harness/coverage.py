"""Leaves behind what a run of tests has reached of the specification, for `python -P -m pinnace_spec.coverage`.

Costs nothing unless `PINNACE_COVERAGE` names a folder. Each process writes a file of its own there, so that tests may
run side by side; the end of the run merges them. Judges nothing.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pinnace_spec.coverage import ARMED, ROWS, SUFFIX, Seen, seen_in_record
from pinnace_spec.observers import Report

VARIABLE: Final = "PINNACE_COVERAGE"

_lock = threading.Lock()


def note_records(records: Iterable[Mapping[str, object]]) -> None:
    """Remember what the records of a run have reached."""
    if VARIABLE in os.environ:
        _write(Counter(each for record in records for each in seen_in_record(record)))


def note_rows(names: Iterable[str]) -> None:
    """Remember rows of the chart that were taken, by name."""
    _write(Counter((ROWS, name) for name in names))


def note_report(report: Report) -> Report:
    """Remember which invariants were armed by a trace; return its judgement."""
    _write(Counter({(ARMED, name): count for name, count in report.armed.items() if count}))
    return report


def _write(seen: Seen) -> None:
    folder = os.environ.get(VARIABLE)
    if not folder or not seen:
        return
    text = "".join(f"{json.dumps([kind, name, count])}\n" for (kind, name), count in seen.items())
    with _lock, (Path(folder) / f"{os.getpid()}{SUFFIX}").open("a", encoding="utf-8") as file:
        file.write(text)
