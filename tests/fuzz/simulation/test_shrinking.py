"""A history that breaks a rule is made smaller: what its finding does not need is left out. It can be played again."""

import shlex
from collections.abc import Collection, Sequence

import pytest
from click.testing import CliRunner

from pinnace_fuzz.simulation.cli import main
from pinnace_fuzz.simulation.history import simulate
from pinnace_fuzz.simulation.parts import MOST_PLAYS, Parts, shrink
from pinnace_fuzz.simulation.program import DEFAULT_PROGRAM, load_program
from pinnace_fuzz.simulation.results import Finding, History
from pinnace_fuzz.simulation.trace import Trace

SILENT = "tests.fuzz.simulation.silent_agent:serve"


def played(left_out: Collection[str], names: Sequence[str], needed: Collection[str], source: str = "a") -> History:
    parts = Parts(left_out)
    present = {name for name in names if parts.has(name)}
    findings = (Finding(1, source, "text"),) if present.issuperset(needed) else ()
    return History(0, 1, 1, findings, Trace("/none"), parts)


@pytest.mark.parametrize("needed", [(), ("p3",), ("p0", "p19"), ("p4", "p5", "p11")])
def test_what_the_finding_does_not_need_is_left_out(needed: Sequence[str]) -> None:
    """Of twenty parts."""
    names = [f"p{number}" for number in range(20)]

    found = shrink(played((), names, needed), lambda left_out: played(left_out, names, needed))

    assert needed == found.parts.played


def test_another_finding_does_not_count() -> None:
    """Of another oracle: it would be another history."""
    first = played((), ["p0"], ("p0",))

    found = shrink(first, lambda left_out: played(left_out, ["p0"], (), "b"))

    assert first is found


def test_the_search_is_bounded() -> None:
    """However many parts there are."""
    names, plays = [f"p{number}" for number in range(2 * MOST_PLAYS)], 0

    def play(left_out: Collection[str]) -> History:
        nonlocal plays
        plays += 1
        return played(left_out, names, names)

    shrink(played((), names, names), play)

    assert MOST_PLAYS == plays


def test_a_history_without_parts_keeps_what_is_drawn() -> None:
    """Commands that are left out are drawn, so those before the first one are sent at the same steps."""
    program = load_program(DEFAULT_PROGRAM)
    whole = simulate(3, program)
    last = next(part for part in reversed(whole.parts.played) if part.startswith("command:"))

    shorter = simulate(3, program, [last])

    same = [one == other for one, other in zip(whole.trace.lines, shorter.trace.lines, strict=False)]
    assert (last,) == shorter.parts.left_out
    assert same.index(False) > len(same) // 2


@pytest.mark.parametrize("hosted", [(), ("--hosted",), ("--editors",)], ids=["agent", "host", "editors"])
def test_a_shrunk_history_can_be_played_again(hosted: Sequence[str]) -> None:
    """The printed command finds the same at the same steps."""
    shrunk = CliRunner().invoke(main, [*hosted, "--seed", "4", "--steps", "1", "--agent", SILENT, "--shrink"])
    command = next(line for line in shrunk.stdout.splitlines() if "replay: " in line).partition("replay: ")[2]
    words = shlex.split(command)[1:]
    again = CliRunner().invoke(main, words[: words.index("--trace")])

    assert 1 == shrunk.exit_code == again.exit_code
    assert "--without" in words
    assert shrunk.stdout == again.stdout
