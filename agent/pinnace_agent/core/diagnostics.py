"""An error in a configuration file, as a value: the process continues with the valid settings.

Texts name the file, the place and what was expected, never what was found there: it may be a key.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong inside a file."""

    path: str
    """Where: `providers.local.models[0].id`; empty for the file as a whole."""
    message: str
    is_hint: bool = False
    """Whether everything that is known is used nevertheless: an unknown key, a value without effect."""


class Diagnostic(NamedTuple):
    """What is wrong with one file, and what is done instead."""

    file: str
    problems: tuple[Problem, ...]
    consequence: str
    """What that means for the user: `the file is ignored`, `the default is used`."""

    def mistakes(self) -> list[str]:
        """Return a line for each problem that is more than a hint, without what is done instead."""
        return [f"{self.file}: {_line(problem)}" for problem in self.problems if not problem.is_hint]

    def __str__(self) -> str:
        """Return a few lines for stderr."""
        if len(self.problems) == 1:
            return f"{self.file}: {_line(self.problems[0])} ({self.consequence})"
        lines = "".join(f"\n  {_line(problem)}" for problem in self.problems)
        return f"{self.file}: {self.consequence}:{lines}"


def hints(file: str, problems: Iterable[Problem]) -> tuple[Diagnostic, ...]:
    """Return the hints among the problems of a file as a diagnostic; none without them."""
    found = tuple(problem for problem in problems if problem.is_hint)
    return (Diagnostic(file, found, "ignored"),) if found else ()


def _line(problem: Problem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message
