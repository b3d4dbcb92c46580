"""CONTRIBUTING.md: the files and names in "Where to change what" exist, and a release can be made as it says."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Where to change what")[2].partition("\n## ")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith("| To add")]
STEPS = [line for line in TABLE.splitlines() if re.match(r"\d+\. ", line)]
NAMED_FILE = re.compile(r"\b(?:docs|scripts|tests|spec|examples)/[\w./-]*\w")
NAMED_RULE = re.compile(r"\b(?:R-[A-Z]{3}|C|D)-\d+")
NAMED_PATH = re.compile(r"`(?P<path>[\w./-]+)`(?: \(`(?P<name>\w+)`\))?")


CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# What was released before may name what is gone since.
NEWEST = CHANGELOG.partition("\n## ")[2].partition("\n## ")[0]


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
    assert len(STEPS) == 5
    for word in ("RPC command", "provider", "tool", "record", "retry", "option of the command line"):
        assert word in subjects


def towncrier(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_the_changelog_can_be_built_from_the_fragments() -> None:
    """The command of a release, without its effect: each fragment has a type that `pyproject.toml` defines."""
    done = towncrier(ROOT, "--draft", "--version", "next")

    assert 0 == done.returncode, done.stderr
    assert "## next (" in done.stdout


def test_a_release_is_written_above_the_last_one_and_has_every_type_of_fragment(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "newsfragments").mkdir()
    described = (ROOT / "newsfragments" / "README.md").read_text(encoding="utf-8")
    (tmp_path / "newsfragments" / "README.md").write_text(described, encoding="utf-8")
    types = re.findall(r"^\| `(\w+)` \|", described, re.M)
    for each in types:
        (tmp_path / "newsfragments" / f"7.{each}.1.md").write_text(f"What is new of {each}.\n", encoding="utf-8")

    done = towncrier(tmp_path, "--version", "99.1.0", "--yes")
    written = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")

    assert 0 == done.returncode, done.stderr
    assert ["README.md"] == [path.name for path in (tmp_path / "newsfragments").iterdir()]
    head, mark, old = CHANGELOG.partition("<!-- releases begin here -->\n")
    assert mark
    assert written.startswith(head + mark)
    assert written.rstrip().endswith(old.strip())
    new = written.partition("\n## ")[2].partition("\n## ")[0]
    assert new.startswith("99.1.0 (")
    defined = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["type"]
    assert {kind["directory"] for kind in defined} == set(types)
    for kind in defined:
        assert f"### {kind['name']}\n" in new
        assert (f"What is new of {kind['directory']}." in new) is kind["showcontent"]


def test_every_place_of_the_version_has_the_one_of_the_newest_release() -> None:
    versions = {
        name: tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["project"]["version"]
        for name in ("pyproject.toml", "fuzz/pyproject.toml")
    }
    stability = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    versions["docs/stability.md"] = "".join(re.findall(r"^pinnace is at version (\S+)", stability, re.M))

    assert {NEWEST.partition(" ")[0]} == set(versions.values()), versions


def test_fragments_and_the_newest_release_name_what_exists() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "newsfragments").glob("*.md")}
    texts["CHANGELOG.md"] = NEWEST
    named = {(name, found) for name, text in texts.items() for found in NAMED_FILE.findall(text)}
    roots = [ROOT / each for each in ("spec", "statechart", "agent", "rpc", "fuzz", "tests/tools")]

    assert [] == sorted((name, found) for name, found in named if not (ROOT / found).exists())
    for name, text in texts.items():
        for module in re.findall(r"-m (pinnace_[\w.]+)", text):
            place = module.replace(".", "/")
            assert any((root / place).is_dir() or (root / f"{place}.py").exists() for root in roots), (name, module)
    known = {
        each
        for name in ("rules.toml", "deviations.toml")
        for each in tomllib.loads((ROOT / "spec" / name).read_text(encoding="utf-8"))
    }
    assert [] == sorted((name, each) for name, text in texts.items() for each in set(NAMED_RULE.findall(text)) - known)
