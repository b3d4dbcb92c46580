"""The names of verdicts on the page: a letter and a word beside each colour, for readers who can't see colours."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.markup import Html, chip, join, tag
from pinnace_fuzz.judge.results import ORDER
from pinnace_spec.rules.rulebook import CHAPTERS


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


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some; NOT-RUN if there is none."""
    return min(verdicts, key=rank, default="NOT-RUN")


def worst_shutdown(shutdowns: Iterable[str]) -> str:
    """Return the worst end of some; `none` if there is none."""
    order = list(SHUTDOWNS)
    return min(shutdowns, key=lambda each: order.index(each) if each in order else len(order), default="none")


def sign(verdict: str) -> Html:
    """Write a verdict as a sign: its letter, and its word for screen readers."""
    shown = look(verdict)
    word = tag("span", f" {verdict}", class_="hear")
    return tag("span", tag("b", shown.letter), word, class_=f"sign {shown.kind}", title=verdict)


def badge(verdict: str) -> Html:
    """Write a verdict as letter and word."""
    shown = look(verdict)
    return tag("span", tag("b", shown.letter, aria_hidden="true"), verdict, class_=f"badge {shown.kind}")


def ending(shutdown: str) -> Html:
    """Write the second verdict, how the process ended."""
    kind, meaning = SHUTDOWNS.get(shutdown, ("odd", ""))
    return chip(f"end {kind}", shutdown or "none", title=meaning or None)


def tally(counts: Mapping[str, int]) -> Html:
    """Write how many there are of each verdict, the worst first."""
    shown = sorted((each for each in counts if counts[each]), key=rank)
    return join(
        tag(
            "span",
            tag("b", look(each).letter),
            str(counts[each]),
            class_=f"count {look(each).kind}",
            title=f"{counts[each]} {each}",
        )
        for each in shown
    )


def chapter_of(area: str) -> str:
    """Return what an area is about: the chapter of the reference that has its rules; empty if it is unknown."""
    return next((chapter for chapter, families in CHAPTERS.items() if f"R-{area}" in families), "")


def legend(areas: Iterable[str]) -> Html:
    """Explain the signs and abbreviations of a page that has these areas."""
    verdicts = [
        tag("div", tag("dt", badge(name)), tag("dd", shown.meaning), class_="means") for name, shown in LOOKS.items()
    ]
    ends = [
        tag("div", tag("dt", ending(name)), tag("dd", meaning), class_="means")
        for name, (_, meaning) in SHUTDOWNS.items()
    ]
    known = [(each, chapter_of(each)) for each in sorted(set(areas))]
    explained = [
        (
            "R-QUE-03",
            "A rule of the specification: the third of the area QUE.",
        ),
        ("I-QUE-1", "An invariant: what an observer checks in every conversation, independent of the case."),
        ("QUE/a-name", "A case: a conversation, written or generated (HUNT, CEL: one for each state and command)."),
        ("Kit", "The judge, pinnace-conform; seed: its conversations are generated from this number."),
        ("Cell", "A state of the agent and a command that reaches it there."),
        *((f"{area}", chapter) for area, chapter in known if chapter),
    ]
    names = [tag("div", tag("dt", tag("code", name)), tag("dd", text), class_="means") for name, text in explained]
    rest = tag(
        "details",
        tag("summary", "Ends, names and abbreviations"),
        tag("h3", "End: how the process behaved when it was to stop"),
        tag("dl", *ends, class_="legend"),
        tag("h3", "Names"),
        tag("dl", *names, class_="legend"),
        tag(
            "p",
            "A sign in brackets does not count: the baseline expects it, or its case is not scored. In a transcript ",
            tag("i", "\\u202e"),
            " is a character that can't be seen, ",
            tag("i", "\\xff"),
            " a byte that is not UTF-8.",
            class_="soft",
        ),
    )
    return tag("section", tag("dl", *verdicts, class_="legend"), rest, class_="box", id="legend")
