"""Good and bad traces of every invariant: a good one has no finding, a bad one exactly the finding of its row.

The tables lie with the other tests of their invariants.
"""

from collections.abc import Callable, Sequence

import pytest
from tests.spec.observers import (
    test_announcements,
    test_event_observers,
    test_lines_and_answers,
    test_queues,
    test_reads_and_ends,
)

from pinnace_spec.observers import Report

MODULES = (test_announcements, test_event_observers, test_lines_and_answers, test_queues, test_reads_and_ends)
GOOD = [row for module in MODULES for row in module.GOOD]
BAD = [row for module in MODULES for row in module.BAD]


@pytest.mark.parametrize(("invariant", "text"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_a_good_trace_has_no_finding(invariant: str, text: str, judged: Callable[..., Report]) -> None:
    report = judged(text)

    assert () == report.verdicts
    assert report.armed[invariant] > 0


@pytest.mark.parametrize(("invariant", "text", "steps"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_the_finding_of_a_bad_trace_names_the_steps_that_prove_it(
    invariant: str,
    text: str,
    steps: list[tuple[int, ...]],
    judged: Callable[..., Report],
    cited: Callable[[Report, str], Sequence[tuple[int, ...]]],
) -> None:
    assert steps == cited(judged(text), invariant)
