"""CONTRIBUTING.md: the files and names in "Where to change what" exist, and the changelog can be built."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Where to change what")[2].partition("\n## ")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| To add")]
STEPS = [line for line in TABLE.splitlines() if re.match(r"\d+\. ", line)]
NAMED_FILE = re.compile(r"\b(?:docs|scripts|tests|spec|examples)/[\w./-]*\w")
NAMED_PATH = re.compile(r"`(?P<path>[\w./-]+)`(?: \(`(?P<name>\w+)`\))?")


def places(entry: str) -> Iterator[tuple[str, str | None]]:
    """Yield the paths of an entry, each with the name that must occur in it."""
    for match in NAMED_PATH.finditer(entry):
        yield match["path"], match["name"]


@pytest.mark.parametrize("line", [*ROWS, *STEPS], ids=lambda line: re.split(r"[|:]", line.lstrip("| "))[0].strip())
def test_the_files_and_names_of_an_entry_exist(line: str) -> None:
    found = [(path, name) for path, name in places(line) if "/" in path]
    assert found
    for path, name in found:
        assert (ROOT / path).exists(), path
        if name is not None:
            assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (path, name)


def test_the_table_answers_what_a_newcomer_asks() -> None:
    subjects = " ".join([*re.findall(r"^### (.+)", TABLE, re.M), *(row.split("|")[1] for row in ROWS)])
    assert len(STEPS) > 5
    for word in ("RPC command", "provider", "tool", "record", "retry", "option of the command line"):
        assert word in subjects


def test_the_changelog_can_be_built_from_the_fragments() -> None:
    """The command of a release, without its effect: each fragment has a type that `pyproject.toml` defines."""
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert 0 == done.returncode, done.stderr
    assert "### Added" in done.stdout


def test_a_fragment_names_files_and_modules_that_exist() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "newsfragments").glob("*.md")}
    named = {(name, found) for name, text in texts.items() for found in NAMED_FILE.findall(text)}
    roots = [ROOT / "spec", ROOT / "statechart", ROOT / "agent", ROOT / "rpc", ROOT / "fuzz"]

    assert [] == sorted((name, found) for name, found in named if not (ROOT / found).exists())
    for name, text in texts.items():
        for module in re.findall(r"-m (pinnace_[\w.]+)", text):
            place = module.replace(".", "/")
            assert any((root / place).is_dir() or (root / f"{place}.py").exists() for root in roots), (name, module)
