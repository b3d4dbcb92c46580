"""The base of all observers: a fold, the report of violations, and a count of the steps that they judged.

Pure. An observer is a class with a name, its rules, and the judgement of a step.
"""

from typing import ClassVar

from pinnace_spec.observers.levels import level_of
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import End, Level, Step, Verdict


class Automaton:
    """Base of the observers; feeds the fold, which all of a trace's observers may share."""

    id: ClassVar[str]
    rules: ClassVar[tuple[str, ...]]
    """The rules that a violation breaks by default."""

    def __init__(self, fold: Fold) -> None:
        """Begin before the first step of the fold's trace."""
        self.armed = 0
        self.fold = fold
        checks = fold.checks
        self.is_ours = fold.generation.is_ours if checks.is_ours is None else checks.is_ours

    def feed(self, step: Step) -> list[Verdict]:
        """Take the next step and return its violations."""
        self.fold.advance(step)
        self.take(step)
        return self.fold.take_found()

    def finish(self, end: End) -> list[Verdict]:
        """Take the end of the trace and return its violations."""
        self.end(end)
        return self.fold.take_found()

    def take(self, step: Step) -> None:
        """Judge a step; the fold has taken it."""

    def end(self, end: End) -> None:
        """Judge the end."""

    def report(
        self, text: str, *steps: int, rules: tuple[str, ...] = (), level: Level | None = None, is_timed: bool = False
    ) -> None:
        """Report a violation, and the steps that prove it.

        Args:
            text: One line, which names the steps.
            steps: Their numbers; zeros are none.
            rules: The broken rules, if not those of the class.
            level: The level, if not that of the rules.
            is_timed: It is a missed deadline, which is only information where the machine lagged.
        """
        broken = rules or self.rules
        numbers = tuple(sorted({number for number in steps if number}))
        severity = level or level_of(broken, is_ours=self.is_ours, generation=self.fold.generation.name)
        if is_timed and self.fold.checks.is_overloaded:
            severity = "information"
        self.fold.found.append(Verdict(self.id, broken, numbers, text, severity, is_timed))
