"""The names of verdicts on the page: a letter and a word beside each colour, for readers who can't see colours."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.judge.results import ORDER
from pinnace_spec.generate.rulebook import CHAPTERS


class Look(NamedTuple):
    """How a verdict is shown."""

    letter: str
    kind: str
    """The class of the style that colours it."""
    meaning: str


LOOKS: Final[Mapping[str, Look]] = {
    "PASS": Look("P", "pass", "No violation was found."),
    "INFORMATIONAL": Look("i", "info", "No violation, but an information."),
    "NON-STRICT": Look(
        "N", "lax", "Breaks only what this project recommends or has set where the protocol is silent; does not count."
    ),
    "FAIL": Look("F", "fail", "Breaks a rule."),
    "HANG": Look("H", "hang", "No longer answers."),
    "CRASH": Look("C", "crash", "The process has exited."),
    "INCONCLUSIVE": Look("?", "open", "A deadline was missed on an overloaded machine, or it never came again."),
    "UNIMPLEMENTED": Look("U", "lack", "Does not know a command of its generation."),
    "NOT-RUN": Look("–", "none", "Not of this generation, or the agent or its adapter lacks what it needs."),
}
"""From good to bad, then the inconclusive ones."""

UNKNOWN: Final = Look("*", "open", "")
BAD: Final = frozenset({"FAIL", "HANG", "CRASH"})

SHUTDOWNS: Final[Mapping[str, tuple[str, str]]] = {
    "crash": ("bad", "It was gone before it was to end."),
    "leftovers": ("bad", "Processes that it had started outlived it."),
    "hang": ("bad", "It did not end."),
    "code": ("bad", "It ended with another exit code than expected."),
    "late": ("odd", "It ended, but late."),
    "killed": ("odd", "The case killed it."),
    "clean": ("good", "It ended in time, with the right code."),
    "none": ("odd", "Not examined."),
}
"""The worst first: class and meaning of each end."""


def look(verdict: str) -> Look:
    """Return how a verdict is shown."""
    return LOOKS.get(verdict, UNKNOWN)


def rank(verdict: str) -> int:
    """Return the place of a verdict, the worst first; inconclusive ones are last."""
    if verdict == "NOT-RUN":
        return len(ORDER)
    return list[str](ORDER).index(verdict) if verdict in ORDER else len(ORDER)


def ranked(verdicts: Iterable[str]) -> list[str]:
    """Return verdicts, the worst first."""
    return sorted(verdicts, key=rank)


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some; NOT-RUN if there is none."""
    return min(verdicts, key=rank, default="NOT-RUN")


def worst_shutdown(shutdowns: Iterable[str]) -> str:
    """Return the worst end of some; `none` if there is none."""
    order = list(SHUTDOWNS)
    return min(shutdowns, key=lambda each: order.index(each) if each in order else len(order), default="none")


def chapter_of(area: str) -> str:
    """Return what an area is about: the chapter of the reference that has its rules; empty if it is unknown."""
    return next((chapter for chapter, families in CHAPTERS.items() if f"R-{area}" in families), "")


def counted(number: int, noun: str) -> str:
    """Write how many there are of something."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
