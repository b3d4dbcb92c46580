"""Answers of the original agent, release 1.5.2, which are recorded once and compared with ours."""

import json
from collections.abc import Sequence
from typing import Any, Final

from tests.source_tree import DATA

Record = dict[str, Any]  # Any: each test has a record of its own shape


class RecordedList:
    """One file of recorded answers, a line for each."""

    def __init__(self, name: str) -> None:
        self.path: Final = DATA / f"{name}-of-pi-1.5.2.json"

    def read(self) -> list[Record]:
        records: list[Record] = json.loads(self.path.read_text(encoding="utf-8"))
        return records

    def check(self, records: Sequence[Record]) -> None:
        """Compare the answers of the original with the recorded ones; record them if there are none yet."""
        if not self.path.exists():
            lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in records)
            self.path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        assert list(records) == self.read()


class RecordedCases(RecordedList):
    """A record that is checked case by case, each in a test of its own: together they take minutes."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self._count = count
        self._found: list[Record] = []

    def check_case(self, place: int, answer: Record) -> None:
        """Compare one answer of the original with the recorded one; record all of them if there are none yet."""
        self._found.append(answer)
        if self.path.exists():
            record = self.read()
            assert (self._count, answer) == (len(record), record[place])
        elif len(self._found) == self._count:
            self.check(self._found)


def check_answer(ours: Record, original: Record, differences: Record) -> None:
    """Compare one answer with the original's, up to the listed differences, each of which must still be one."""
    assert ours == {**original, **differences}
    assert not differences or ours != original, "no difference any more"
