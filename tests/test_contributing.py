"""The table "Where to change what" of CONTRIBUTING.md: every file and every name in it exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Where to change what")[2].partition("\n## ")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| To add")]
NAMED_PATH = re.compile(r"`(?P<path>[\w./-]+)`(?: \(`(?P<name>\w+)`\))?")


def places(row: str) -> Iterator[tuple[str, str | None]]:
    """Yield the paths of a row, each with the name that is to be found in it."""
    for match in NAMED_PATH.finditer(row):
        yield match["path"], match["name"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_the_files_and_names_of_a_row_exist(row: str) -> None:
    found = [(path, name) for path, name in places(row) if "/" in path]
    assert found
    for path, name in found:
        assert (ROOT / path).exists(), path
        if name is not None:
            assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (path, name)


def test_the_table_answers_what_a_newcomer_asks() -> None:
    subjects = " ".join(row.split("|")[1] for row in ROWS)
    for word in ("RPC command", "provider", "tool", "record", "retry", "option of the command line"):
        assert word in subjects
