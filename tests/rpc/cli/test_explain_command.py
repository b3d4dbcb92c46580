"""`pinnace explain` and `pinnace spec`: the specification, asked for by name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pinnace_rpc.cli.commands.spec import PUBLISHED
from pinnace_rpc.options.table import SUBCOMMANDS
from pinnace_spec import data
from pinnace_spec.generate import explain
from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.generate.source import load
from pinnace_spec.generate.witnesses import invariants
from pinnace_spec.profiles.generations import GENERATIONS
from pinnace_spec.statechart.transitions import CHART

ROOT = Path(__file__).resolve().parents[3]
SPEC = load()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Start the program as a user does, without anything that it could read."""
    start = (
        f"import sys; sys.path[:0] = {[str(ROOT / name) for name in ('spec', 'statechart', 'agent', 'rpc')]!r}; "
        "from pinnace_rpc.cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-I", "-c", start, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={"HOME": "/nonexistent"})


def test_a_rule_is_reported_with_everything_that_hangs_on_it() -> None:
    done = run("explain", "r-que-07")

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("R-QUE-07  MUST\n")
    for part in ("ours: the original leaves it open", "D-02", "run/idle/steer: enqueue", "test_a_steer_while_idle"):
        assert part in done.stdout


@pytest.mark.parametrize("name", [*SPEC.rules, *SPEC.deviations, *invariants()])
def test_every_name_is_explained(name: str) -> None:
    text = explain.explain(name, SPEC)

    assert text is not None
    assert text.startswith(f"{name}  ")
    assert max(map(len, text.splitlines())) <= 130


def test_every_row_is_explained_by_its_name() -> None:
    assert [] == [row_name(row) for row in CHART if explain.explain(row_name(row), SPEC) is None]


def test_a_state_is_explained_by_all_its_rows() -> None:
    text = explain.explain("session/confirming", SPEC) or ""

    assert text.count("session/confirming/") == len(
        [row for row in CHART if (row.region, row.source) == ("session", "confirming")]
    )


def test_several_names_are_reported_one_after_the_other() -> None:
    done = run("explain", "D-02", "run/idle/abort")

    assert (0, "") == (done.returncode, done.stderr)
    assert "D-02  a difference" in done.stdout
    assert "R-ABT-01  `abort` MUST end the run" in done.stdout


@pytest.mark.parametrize(
    ("name", "meant"),
    [("R-QEU-07", "R-QUE-07"), ("R-QUE", "R-QUE-01"), ("run/idel/prompt", "run/idle/prompt"), ("I-QUE-22", "I-QUE-2")],
)
def test_a_name_that_there_is_not_is_answered_with_near_ones(name: str, meant: str) -> None:
    assert meant in explain.near(name, SPEC)


def test_a_name_that_there_is_not_is_a_mistake_of_the_command_line() -> None:
    near, far = run("explain", "R-QEU-07"), run("explain", "\x1b[2J")

    assert (2, "", True) == (near.returncode, near.stdout, "did you mean R-QUE-07" in near.stderr)
    assert (2, "") == (far.returncode, far.stdout)
    assert "\x1b" not in far.stderr
    assert run("explain").returncode == 2


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_printed_as_it_is(name: str) -> None:
    pattern = PUBLISHED[name][0]
    folder = pattern.rpartition("/")[0]
    if folder == "model":
        files = [each for each in data.names("model") if each.endswith(".pml")]
        expected = data.text(files[0]) if files else None
    else:
        expected = data.text(pattern.format(profile="pi"))
    if expected is None:
        pytest.skip("there is no model in this edition")
    done = run("spec", name)

    assert (0, "") == (done.returncode, done.stderr)
    assert expected == done.stdout


@pytest.mark.parametrize("profile", GENERATIONS)
def test_a_schema_is_printed_for_each_generation(profile: str) -> None:
    done = run("spec", "schema", "--profile", profile)

    assert f"urn:pinnace:protocol:{profile}" == json.loads(done.stdout)["$id"]


def test_without_a_name_it_says_what_there_is() -> None:
    done = run("spec")

    assert (0, "") == (done.returncode, done.stderr)
    assert list(PUBLISHED) == [line.split()[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "words", [["poem"], ["schema", "--profile", "2.0"], ["matrix", "--profile", "pi"], ["schema", "x"]]
)
def test_what_there_is_not_is_a_mistake_of_the_command_line(words: list[str]) -> None:
    done = run("spec", *words)

    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("pinnace: ")


def test_completion_offers_what_can_be_printed() -> None:
    assert sorted(PUBLISHED) == list(SUBCOMMANDS["spec"][1])
