"""What all observers share: a fold, a way to accuse, a count of how often they had something to judge.

Pure. An observer is a class with a name, the rules behind it, and what it does with a step.
"""

from typing import ClassVar

from pinnace_spec.observers.fold import Fold
from pinnace_spec.observers.levels import level_of
from pinnace_spec.observers.verdicts import End, Level, Step, Verdict


class Automaton:
    """Base of the observers; feeds the fold, which all of a trace's observers may share."""

    id: ClassVar[str]
    rules: ClassVar[tuple[str, ...]]
    """What it accuses of, unless it says otherwise."""

    def __init__(self, fold: Fold) -> None:
        """Begin before the first step of the fold's trace."""
        self.armed = 0
        self.fold = fold
        checks = fold.checks
        self.is_ours = fold.generation.is_ours if checks.is_ours is None else checks.is_ours
        self._found: list[Verdict] = []

    def feed(self, step: Step) -> list[Verdict]:
        """Take the next step and say what it breaks."""
        self.fold.advance(step)
        self._found = []
        self.take(step)
        return self._found

    def finish(self, end: End) -> list[Verdict]:
        """Take the end of the trace and say what it breaks."""
        self._found = []
        self.end(end)
        return self._found

    def take(self, step: Step) -> None:
        """Judge a step; the fold has taken it."""

    def end(self, end: End) -> None:
        """Judge the end."""

    def accuse(
        self, text: str, *steps: int, rules: tuple[str, ...] = (), level: Level | None = None, is_timed: bool = False
    ) -> None:
        """Say that something is wrong, and which steps prove it.

        Args:
            text: One line, which names the steps.
            steps: Their numbers; zeros are none.
            rules: What is broken, if not what the class says.
            level: How grave it is, if not as grave as the rules.
            is_timed: It is a missed deadline, which is only information where the machine lagged.
        """
        broken = rules or self.rules
        numbers = tuple(sorted({number for number in steps if number}))
        grave = level or level_of(broken, is_ours=self.is_ours, generation=self.fold.generation.name)
        if is_timed and self.fold.checks.is_overloaded:
            grave = "information"
        self._found.append(Verdict(self.id, broken, numbers, text, grave, is_timed))
