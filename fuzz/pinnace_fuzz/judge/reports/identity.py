"""The identity of a finding: two runs that find the same fault in the same place have the same identity.

An identity has three parts, none of which depends on the input, the time or the process:

- what is violated: an invariant alone, for its rules follow from it; else a part of the scenario, and its rules;
- where: the id of the scenario or trail; `GENERATED` for what campaigns generate, whose ids name their inputs;
- which of several: the expectation, the field or the sentence of the observer, without values, numbers and quotes.

Pure. It reads the texts of findings; `tests/fuzz/judge/test_comparing.py` holds it to those of real agents.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.judge.results import is_invariant

GENERATED: Final = "generated"
"""The place of cases that a campaign generates."""

GENERATED_IDS: Final = "HUNT/"
"""How the ids of these cases begin (`campaigns.cases`)."""

_QUOTED: Final = re.compile(r"""(?<!\w)(["'])(?:\\.|(?!\1).)*(?:\1(?!\w)|…?$)""", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_ERROR: Final = re.compile(
    r"\b(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt|Exit)|panic|Segmentation fault)\b"
)
_VALUE: Final = re.compile(r" (?:is|are|has|holds|without|nothing) ")
_STEP: Final = re.compile(r"step (\d+)|behind the last step")
_UNSTABLE: Final = re.compile(r"""["'{\d]|\[|\bto \S+$""")
_EXPECTED: Final = re.compile(r"expected (.*); (?:behind line \d+ \(.*?\)|from the beginning) wanted ", re.DOTALL)


class Identity(NamedTuple):
    """What a finding is, independent of the run that found it."""

    fault: str
    place: str
    detail: str

    def __str__(self) -> str:
        """Write it for people."""
        return " | ".join(part for part in self if part)

    @property
    def is_generated(self) -> bool:
        """Whether it has no place of its own: another input may show the same fault."""
        return self.place == GENERATED

    @property
    def anywhere(self) -> tuple[str, str]:
        """What findings of the same fault share in whatever case."""
        return self.fault.partition(" ")[0], self.detail

    @property
    def digest(self) -> str:
        """Return 32 hexadecimal digits, equal for equal identities."""
        whole = "\0".join(self)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def identity(case: str, source: str, rules: Sequence[str], text: str) -> Identity:
    """Return the identity of a finding.

    Args:
        case: The id of the case.
        source: What is violated: an invariant, or a part of the scenario.
        rules: The ids of the rules.
        text: What the finding says of itself.
    """
    place = GENERATED if case.startswith(GENERATED_IDS) else case
    # The rules of a generated case are those of its finding, not of a scenario.
    has_rules = place != GENERATED and not is_invariant(source)
    fault = " ".join([source, *sorted(set(rules))]) if has_rules else source
    return Identity(fault, place, _DETAILS.get(source, _sentence)(text))


def _sentence(text: str) -> str:
    """Return the first clause of a text without what it quotes and counts."""
    bare = _NUMBER.sub("", _QUOTED.sub("", text)).partition(":")[0]
    return " ".join(bare.replace(" ,", ",").split()).strip(" ,;")


def _error(text: str) -> str:
    """Return the kind of error that a process reported at its end; empty if there is none."""
    found = _ERROR.search(text)
    return found[1] if found else ""


def _step(text: str) -> str:
    """Return the step that failed, and what failed there as far as no value of the agent is in it."""
    place, _, what = text.partition(": ")
    return f"{place}: {_UNSTABLE.split(what, maxsplit=1)[0].strip()}" if _STEP.fullmatch(place) else _sentence(text)


def _field(text: str) -> str:
    """Return the place of a difference without the value that was there."""
    return _NUMBER.sub("", _VALUE.split(_QUOTED.sub("", text), maxsplit=1)[0]).strip()


def _expectation(text: str) -> str:
    """Return what was expected, as the scenario writes it."""
    found = _EXPECTED.match(text)
    return found[1] if found else _sentence(text)


def _whole(text: str) -> str:
    return text


def _nothing(_text: str) -> str:
    return ""


_DETAILS: Final[Mapping[str, Callable[[str], str]]] = {
    "I-CRASH": _error,
    "crash": _error,
    "expect": _expectation,
    "forbid": _whole,
    "state": _field,
    "model": _field,
    "step": _step,
    # Which commands were open is a matter of time.
    "hang": _nothing,
    "excess": _nothing,
    "start": _nothing,
}
"""What is violated -> how its detail is read; anything else is a sentence of an observer."""
