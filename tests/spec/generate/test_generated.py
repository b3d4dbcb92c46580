"""What is published is fresh, and what changes one word of a source is noticed: in a private copy of `spec/`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from pinnace_spec import data
from pinnace_spec.generate import __main__ as generate
from pinnace_spec.generate.source import NOTE, load

FOLDER = Path(__file__).resolve().parents[3] / "spec"
SPEC = load()


class Done(NamedTuple):
    code: int
    stale: set[str]
    left_over: set[str]
    error: str


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of `spec/`, which knows nothing of the original."""
    return Path(
        shutil.copytree(FOLDER, tmp_path / "spec", ignore=shutil.ignore_patterns("__pycache__", "*.trail", "*.pan"))
    )


def check(copy: Path, *words: str) -> Done:
    """Run the generator of a copy."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(copy)!r}); {MAIN}",
            *(words or ("--check",)),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    stale = set(re.findall(r"^stale: (\S+);", done.stderr, flags=re.MULTILINE))
    left_over = set(re.findall(r"^left over: (\S+);", done.stderr, flags=re.MULTILINE))
    return Done(done.returncode, stale, left_over, done.stderr)


MAIN = "from pinnace_spec.generate.__main__ import main; sys.exit(main(sys.argv[1:]))"


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}: this test needs another example"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_everything_published_is_fresh() -> None:
    contents = generate.published(SPEC)

    assert [] == [name for name, content in contents.items() if not data.has(name) or data.text(name) != content]
    assert [] == generate.left_over(contents)


def test_everything_published_says_that_it_is_generated() -> None:
    """So that nobody edits it, and nothing stays that nothing generates any more."""
    names = [name for name in generate.published(SPEC) if name != generate.PAGE]

    assert [] == [name for name in names if NOTE not in data.text(name)[:2000]]


def test_a_copy_is_as_fresh_as_the_original(copy: Path) -> None:
    assert (0, set()) == check(copy)[:2]


class Change(NamedTuple):
    """One word of a source, and what must be noticed."""

    file: str
    old: str
    new: str
    stale: set[str]


CHANGES = {
    "a row leads elsewhere": Change(
        "pinnace_spec/statechart/run.py",
        """*one("retrying", "delay_over", "", "llm",""",
        """*one("retrying", "delay_over", "", "idle",""",
        {"chart.mmd", "chart.qnt", "chart.scxml", "chart.svg", "reference.md"},
    ),
    "a rule says something else": Change("rules.toml", "strip one CR", "strip every CR", {"reference.md"}),
    "a record has one field more": Change(
        "pinnace_spec/records/events.py",
        "    maxAttempts: Positive\n",
        "    maxAttempts: Positive\n    hurry: bool\n",
        {"schema/pi.json", "schema/seed.json", "schema/1.5.json", "typescript/protocol.ts"},
    ),
    "a record is of another generation": Change(
        "profiles.toml", 'queue_update = { since = "0.66.0" }', 'queue_update = { since = "0.80.4" }', {"meta.json"}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_one_word_is_noticed(change: str, copy: Path) -> None:
    it = CHANGES[change]
    replace(copy / it.file, it.old, it.new)
    done = check(copy)

    assert done.code == 1, done.error
    assert it.stale <= done.stale


FIRST = SPEC.rows[0]
RULE = next(iter(SPEC.rules.values()))
DEVIATION = next(iter(SPEC.deviations.values()))
IN_MEMORY = {
    "a row has one effect less": (
        SPEC._replace(rows=(*(row._replace(effects=row.effects[1:]) for row in SPEC.rows[:1]), *SPEC.rows[1:])),
        {"chart.qnt", "chart.scxml", "matrix.md"},
    ),
    "a row cites another rule": (
        SPEC._replace(rows=(FIRST._replace(rules=("R-FRM-01",)), *SPEC.rows[1:])),
        {"chart.scxml", "meta.json", "reference.md"},
    ),
    "a row is gone": (SPEC._replace(rows=SPEC.rows[1:]), {"chart.qnt", "chart.scxml", "matrix.md", "meta.json"}),
    "a rule has another witness": (
        SPEC._replace(rules={**SPEC.rules, RULE.id: RULE._replace(witness=("I-FRM-9",))}),
        {"meta.json", "reference.md"},
    ),
    "a rule is of another level": (
        SPEC._replace(rules={**SPEC.rules, RULE.id: RULE._replace(level="MAY")}),
        {"meta.json", "reference.md"},
    ),
    "a deviation says something else": (
        SPEC._replace(deviations={**SPEC.deviations, DEVIATION.id: DEVIATION._replace(ours="Nothing.")}),
        {"reference.md"},
    ),
}


@pytest.mark.parametrize("change", IN_MEMORY)
def test_a_change_of_one_row_rule_or_deviation_changes_what_is_published(change: str) -> None:
    spec, expected = IN_MEMORY[change]
    changed = {name for name in expected if generate.FILES[name](spec) != data.text(name)}

    assert expected == changed


def test_whatever_was_done_to_published_files_is_reported_and_mended(copy: Path) -> None:
    """Edited, gone, or generated by nothing any more."""
    replace(copy / "matrix.md", "A cell lists", "A cell reports")
    (copy / "meta.json").unlink()
    (copy / "schema" / "old.json").write_text(f'{{"$comment": "{NOTE}"}}', encoding="utf-8")
    before = check(copy)
    (copy / "schema" / "old.json").unlink()

    assert (1, {"matrix.md", "meta.json"}, {"schema/old.json"}) == before[:3]
    assert check(copy, "m").code == 0
    assert (copy / "matrix.md").read_bytes() == (FOLDER / "matrix.md").read_bytes()
    assert (copy / "meta.json").read_bytes() == (FOLDER / "meta.json").read_bytes()
