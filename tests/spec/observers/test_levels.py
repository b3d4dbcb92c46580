"""How grave a finding is for whom: rules of ours bind our own agent alone."""

from collections.abc import Callable

import pytest

from pinnace_spec.observers import Report
from pinnace_spec.observers.levels import level_of

STRANDED = '> steer b B\n< queue B | / ok b\n> get_state s\n< state s {"pendingMessageCount": 1}'
TWICE = "> prompt a hi\n< ok a / ok a"


@pytest.mark.parametrize(("speaks", "level"), [("pi", "violation"), ("1.5", "nonstrict"), ("seed", "nonstrict")])
def test_what_only_our_rules_forbid_is_no_violation_of_others(
    speaks: str, level: str, judged: Callable[..., Report]
) -> None:
    assert {level} == {verdict.level for verdict in judged(STRANDED, speaks).verdicts}


@pytest.mark.parametrize("speaks", ["pi", "1.5", "seed", "0.5x"])
def test_what_everybody_has_promised_is_one(speaks: str, judged: Callable[..., Report]) -> None:
    assert {"violation"} == {verdict.level for verdict in judged(TWICE, speaks).verdicts}


def test_our_agent_keeps_its_promises_in_every_profile(judged: Callable[..., Report]) -> None:
    assert {"violation"} == {verdict.level for verdict in judged(STRANDED, "seed", is_ours=True).verdicts}


def test_a_finding_is_as_grave_as_the_gravest_rule() -> None:
    assert "nonstrict" == level_of(["C-2"], is_ours=False)
    assert "violation" == level_of(["C-2", "R-RSP-01"], is_ours=False)
    assert "information" == level_of(["R-LIM-01"], is_ours=True)


def test_a_missed_deadline_proves_nothing_on_a_machine_that_lags(judged: Callable[..., Report]) -> None:
    late = "> get_state a\n@ 60\n< state a"

    assert ["violation"] == [verdict.level for verdict in judged(late).verdicts]
    assert ["information"] == [verdict.level for verdict in judged(late, is_overloaded=True).verdicts]
    assert () == judged(late, is_reading=False).verdicts


@pytest.mark.parametrize(
    "late",
    [
        "> get_state a\n@ 6\n< state a",
        '> get_state a\n< state a\n$ exit 0 {"seconds": 6, "after": 1}',
        "> prompt a hi\n< ok a / agent_start / turn_start / user hi / answer error / turn_end / "
        'agent_end {"willRetry": true} / retry 1 3\n@ 5\n< agent_start',
    ],
)
def test_patience_multiplies_each_deadline(judged: Callable[..., Report], late: str) -> None:
    def missed(patience: float) -> list[bool]:
        return [each.is_timed for each in judged(late, patience=patience).verdicts if each.is_timed]

    assert ([True], [], [True]) == (missed(1), missed(3), missed(0.5))


@pytest.mark.parametrize("soon", ["> get_state a\n@ 4\n< state a", '> get_state a\n< state a\n$ exit 0 {"seconds": 4}'])
def test_impatience_shortens_no_deadline_of_a_rule(judged: Callable[..., Report], soon: str) -> None:
    assert () == judged(soon, patience=0.1).verdicts


def test_without_inputs_nothing_is_said_that_needs_one(judged: Callable[..., Report]) -> None:
    text = "< ok prompt / agent_start / turn_start / user hi / says x / turn_end / agent_end / settled\n$ exit 0"

    assert () == judged(text, has_inputs=False).verdicts


def test_messages_of_extensions_are_no_fault_of_the_agent(judged: Callable[..., Report]) -> None:
    text = (
        "< queue x | / agent_start / turn_start / queue | / user x / says y / turn_end / agent_end / settled\n$ exit 0"
    )

    assert () == judged(text, has_extensions=True).verdicts
    assert judged(text).verdicts


def test_a_session_that_was_not_empty_is_not_counted(judged: Callable[..., Report]) -> None:
    text = (
        '> get_state s\n< state s {"messageCount": 7}\n> get_messages m\n< messages m {"messages": [{"role": "user"}]}'
    )

    assert () == judged(text, is_fresh=False).verdicts
    assert judged(text).verdicts
