"""The two tiers of `scripts/check`: together they are all tests, and a failing test fails each that has it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns import COSTS, FILES, IN_TURNS, QUICK_S, ROOT, TABLE, has_turn, stays
from tests.conftest import pytest_ignore_collect
from tests.costs import Cost

CONFTEST = """
import pytest
from tests.campaigns import campaigns

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in campaigns(items):
        item.add_marker("campaign")
"""
TABLE_OF_CASES = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_it(number):
    pass
"""


def test_each_path_of_the_table_holds_tests() -> None:
    empty = [path for path in FILES if not (path.suffix == ".py" and path.is_file())]
    assert [path for path in empty if not list(path.rglob("test_*.py"))] == []


def test_each_measured_test_is_in_its_file() -> None:
    gone = [
        (path.name, name) for path, name in COSTS if not (path.exists() and name.partition("::")[0] in names_in(path))
    ]
    assert gone == [], "scripts/measure-costs FILES measures them again"


def test_what_is_proved_in_turns_is_measured() -> None:
    assert [(path.name, name) for path, name in IN_TURNS if (path, name) not in COSTS] == []


def test_each_case_has_its_turn_and_every_other_test_in_every_run(request: pytest.FixtureRequest) -> None:
    class Item(NamedTuple):
        nodeid: str
        config: pytest.Config

    path, name = min(IN_TURNS)
    case = Item(f"{path.relative_to(ROOT.parent)}::{name}[case]", request.config)
    turns = Counter(has_turn(cast(pytest.Item, case), 3, str(seed)) for seed in range(300))
    assert 60 < turns[True] < 140, turns
    assert has_turn(cast(pytest.Item, case), 1, "")
    assert all(has_turn(request.node, 3, str(seed)) for seed in range(20))


def test_each_entry_is_there_once() -> None:
    files = [name for group in TABLE.values() for name in group.get("files", ())]
    assert len(files) == len(set(files))


@pytest.mark.parametrize(
    ("chosen", "file", "is_ignored"),
    [
        ("not campaign", "fuzz/model_check", True),
        ("not campaign", "fuzz/test_mutants.py", True),
        ("not campaign", "test_campaigns.py", None),
        ("", "fuzz/test_mutants.py", None),
        ("campaign", "fuzz/test_mutants.py", None),
    ],
)
def test_only_the_quick_tier_leaves_files_unread(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, chosen: str, file: str, is_ignored: bool | None
) -> None:
    monkeypatch.setattr(pytestconfig.option, "markexpr", chosen)
    assert is_ignored is pytest_ignore_collect(ROOT / file, pytestconfig)
    assert '-m "not campaign"' in (ROOT.parent / "scripts" / "check").read_text()


@given(cost=st.builds(Cost, seconds=st.floats(0.1, 1000), cases=st.integers(1, 2000)), others=st.integers(0, 300))
def test_a_dear_table_keeps_as_many_cases_as_a_test_may_cost_spread_over_it(cost: Cost, others: int) -> None:
    kept = [place for place in range(cost.cases) if stays(cost, place)]

    assert len(kept) == min(cost.cases, int(QUICK_S / cost.of_a_case_s))
    assert kept[:1] == [0] * bool(kept)
    gaps = [after - before for before, after in pairwise([*kept, cost.cases])]
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    # Cases that came after it was measured are chosen at the same rate.
    assert [stays(cost, cost.cases + place) for place in range(others)] == [
        stays(cost, place % cost.cases) for place in range(others)
    ]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (f"{QUICK_S}\t8\ttest_table.py\ttest_it\n", [0, 1, 2, 3, 4, 5, 6, 7]),
        (f"{2 * QUICK_S}\t8\ttest_table.py\ttest_it\n", [0, 2, 4, 6]),
        (f"{8.1 * QUICK_S}\t8\ttest_table.py\ttest_it\n", [0]),
        (f"{8.1 * QUICK_S}\t8\ttest_table.py\ttest_other\n", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_test_that_costs_more_is_a_campaign(line: str, kept: list[int], tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("campaigns.py", "costs.py"):
        shutil.copy(ROOT / name, tmp_path / "tests")
    (tmp_path / "tests" / "campaigns.toml").touch()
    (tmp_path / "tests" / "costs.tsv").write_text(line)
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "test_table.py").write_text(TABLE_OF_CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath=.\nmarkers=campaign\n")

    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "-m", "not campaign"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert kept == [int(number) for number in re.findall(r"test_it\[(.+)\]", collected.stdout)], collected.stdout


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_bytes())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return frozenset(functions | {target.id for target in targets if isinstance(target, ast.Name)})


@pytest.mark.parametrize(
    ("arguments", "broken", "ran", "status"),
    [
        (["tests"], "", ["campaign", "ordinary"], 0),
        ([], "ordinary", ["ordinary"], 1),
        ([], "campaign", ["ordinary"], 0),
        (["all"], "ordinary", ["campaign", "ordinary"], 1),
        (["all"], "campaign", ["campaign", "ordinary"], 1),
    ],
)
def test_the_tiers_of_a_small_suite(
    arguments: list[str], broken: str, ran: list[str], status: int, tmp_path: Path
) -> None:
    """The script itself, with a test of each kind; programs that only read the code are stand-ins."""
    bin_folder = tmp_path / ".venv" / "bin"
    for folder in (bin_folder, tmp_path / "scripts", tmp_path / "tests" / "fuzz"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT.parent / "scripts" / "check", tmp_path / "scripts")
    for name in ("campaigns.py", "campaigns.toml", "costs.py", "costs.tsv"):
        shutil.copy(ROOT / name, tmp_path / "tests")
    for name in ("ruff", "mypy", "pyright", "lint-imports", "python"):
        _program(bin_folder / name, "exit 0")
    _program(bin_folder / "pytest", f'exec "{sys.executable}" -m pytest -p no:cacheprovider "$@"')
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath=["."]\nmarkers=["campaign"]\n')
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    for kind, file in (("ordinary", "test_ordinary.py"), ("campaign", "fuzz/test_mutants.py")):
        text = f"def test_it():\n    open({str(tmp_path / kind)!r}, 'w')\n    assert {broken!r} != {kind!r}\n"
        (tmp_path / "tests" / file).write_text(text)

    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "TEST_"))}
    done = subprocess.run(
        [tmp_path / "scripts" / "check", *arguments],
        cwd=tmp_path, env=environ | {"TEST_PROCESSES": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, [kind for kind in ("campaign", "ordinary") if (tmp_path / kind).exists()]) == (
        status, ran,
    ), done.stdout + done.stderr  # fmt: skip
    assert f"[{len(ran)}/{len(ran)}]" in done.stdout


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
