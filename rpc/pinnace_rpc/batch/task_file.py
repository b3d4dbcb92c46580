"""Reads a file of tasks: all lines are checked before anything starts, and read again one by one when they are run.

They are read again from a copy without a name, so that the file may be a pipe, and may change meanwhile. What is kept
of each line is its place there: the memory of a batch does not grow with what its tasks say.
"""

import codecs
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pinnace_spec.batch.tasks import PATTERNS, Task

_MOST_ERRORS: Final = 20


class TaskFileError(Exception):
    """Lines are invalid. The text names each with its field."""


class TaskFile:
    """A batch's file of tasks, checked as a whole before the first one starts."""

    def __init__(self, path: Path) -> None:
        """Check all lines.

        Raises:
            TaskFileError: Some are invalid, or the file can't be read.
        """
        self._path = path
        self._places: dict[str, int] = {}
        self._copy = tempfile.TemporaryFile()  # noqa: SIM115  # ends with the process
        try:
            with path.open("rb") as file:
                self._check(file)
        except OSError as error:
            raise TaskFileError(f"{path} can't be read: {error.strerror or error}") from None

    @property
    def ids(self) -> list[str]:
        """Those of all tasks, in the order of the file."""
        return list(self._places)

    def tasks(self, ids: Iterator[str]) -> Iterator[dict[str, Any]]:
        """Yield the tasks of some ids, as plain data."""
        for task_id in ids:
            self._copy.seek(self._places[task_id])
            task = Task.model_validate_json(self._copy.readline())
            yield task.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _check(self, file: IO[bytes]) -> None:
        errors: list[str] = []
        place = 0
        for number, line in enumerate(file, 1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            self._copy.write(line)
            if line.strip():
                errors += [f"line {number}: {each}" for each in self._read(line, place)]
            place += len(line)
            if len(errors) > _MOST_ERRORS:
                errors = [*errors[:_MOST_ERRORS], "further errors are left out"]
                break
        if not errors and not self._places:
            errors = ["it has no task"]
        if errors:
            raise TaskFileError("\n".join(f"{self._path}: {each}" for each in errors))

    def _read(self, line: bytes, place: int) -> Iterator[str]:
        try:
            task = Task.model_validate_json(line)
        except ValidationError as error:
            yield from map(_text_of, error.errors())
        else:
            if task.id in self._places:
                yield f"id: {task.id} is the id of an earlier line"
            self._places.setdefault(task.id, place)


def _text_of(error: ErrorDetails) -> str:
    if error["type"] == "json_invalid":
        return f"no JSON: {error['msg'].removeprefix('Invalid JSON: ')}"
    field = ".".join(str(part) for part in error["loc"]) or "task"
    expected = PATTERNS.get(error.get("ctx", {}).get("pattern", ""))
    text = error["msg"].removeprefix("Value error, ") if expected is None else f"Input should be {expected}"
    return f"{field}: {text}"
