"""Judges traces in short form."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pinnace_campaigns.trials.short_trace import read_short
from pinnace_spec.observers import Checks, Report, judge
from pinnace_spec.profiles.generations import GenerationName, generation

Judged = Callable[..., Report]


@pytest.fixture
def judged() -> Judged:
    """A function that judges a short trace, by default as one of our own agent."""

    def judge_short(text: str, speaks: GenerationName = "pi", **checks: Any) -> Report:
        trace = read_short(text)
        return judge(trace.steps, trace.end, generation(speaks), Checks(**checks))

    return judge_short


@pytest.fixture
def cited() -> Callable[[Report, str], Sequence[tuple[int, ...]]]:
    """A function that returns the steps which the verdicts of one invariant cite."""
    return lambda report, invariant: [each.steps for each in report.verdicts if each.invariant == invariant]
