"""Names findings: two findings of the same fault have the same name, findings of different faults never.

A finding is a fault and the commands that led to it: campaigns follow up each finding once. Pure.
"""

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from pinnace_fuzz.judge.playing.pool import Glance
from pinnace_fuzz.judge.playing.recording import is_of_kit
from pinnace_fuzz.judge.results import CaseResult, Finding
from pinnace_spec.observers import Step

_PARTICULAR = re.compile(r'"(?:[^"\\\\]|\\\\.)*"?|\d+')
_DIGITS = re.compile(r"\d+")
MAX_NAME = 40
# Distinguished by more commands than these, findings of one fault would be endless.
MAX_NAMED_COMMANDS = 2


class Sighting(NamedTuple):
    """A finding of a case, and the finding that it belongs to."""

    signature: str
    finding: Finding
    fault: str
    """The name that all cases with the same fault share."""


# Only the first of these that is present is reported.
_END_OF_ALL = ("I-CRASH", "crash", "hang")


def sightings(glance: Glance) -> list[Sighting]:
    """Name the findings of a case, each once, without those that a busy machine may have caused."""
    found: dict[str, Sighting] = {}
    findings = glance.findings
    for source in _END_OF_ALL:
        # Brackets and commands that are open because the process has exited are not findings of their own.
        if fatal := [each for each in findings if each.source == source]:
            findings = tuple(fatal)
            break
    for finding in findings:
        if finding.level == "information" or (finding.is_timed and glance.is_overloaded):
            continue
        name = signature(finding, glance.steps)
        found.setdefault(name, Sighting(name, finding, fault_of(finding, glance.steps)))
    return list(found.values())


# These are about records alone, independent of the commands.
_WITHOUT_COMMANDS = frozenset({"I-EVT-12", "I-EVT-5", "I-FRM-1", "I-FRM-2"})


def signature(finding: Finding, steps: Sequence[Step]) -> str:
    """Name a finding: the fault, and the commands among the lines that prove it, or else all of the case."""
    if finding.source in _WITHOUT_COMMANDS:
        return f"{finding.source}@"
    fault = fault_of(finding, steps)
    if finding.source == "I-CRASH" and '"' in finding.text:
        return fault  # what the process wrote at its end distinguishes faults better than the input
    proof = _proof(finding, steps) or _inputs(steps)
    commands = sorted({_command(step) for step in proof})
    return f"{fault} {'+'.join(commands) if len(commands) <= MAX_NAMED_COMMANDS else 'several'}"


def fault_of(finding: Finding, steps: Sequence[Step]) -> str:
    """Name the violated invariant, and the commands that the proof cites; a smaller case must violate the same."""
    source = finding.source
    if source in ("crash", "hang", "step") or source in _WITHOUT_COMMANDS:
        return f"{source}@"
    if source == "I-CRASH":
        return f"{source}@{_digest(_DIGITS.sub('', finding.text))}"
    cited = "+".join(sorted({_command(step) for step in _proof(finding, steps)}))
    return f"{source}@{_digest(f'{what(finding)} {cited}')}"


def _digest(text: str) -> str:
    # What an agent writes may hold half of a pair.
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def _inputs(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.direction == "in" and not (step.record and is_of_kit(step.record))]


def _proof(finding: Finding, steps: Sequence[Step]) -> list[Step]:
    return [step for step in _inputs(steps) if step.number in finding.steps]


def _command(step: Step) -> str:
    if step.record is None:
        return _shape(step.line)
    kind, behaviour = step.record.get("type"), step.record.get("streamingBehavior")
    name = kind if isinstance(kind, str) and len(kind) < MAX_NAME else "no type"
    return f"{name}/{behaviour}" if isinstance(behaviour, str) else name


def _shape(line: str) -> str:
    """Classify a line that is not a record, so that different faults are different findings."""
    if "[[[[[[[[" in line or '{"a":{"a":{"a":' in line:
        return "deep line"
    if any("\udc80" <= character <= "\udcff" for character in line):
        return "line that is not UTF-8"
    return "line with braces" if "{" in line else "line"


def what(finding: Finding) -> str:
    """Return the text of a finding without its numbers and quotes, which is equal for findings of the same fault."""
    return _PARTICULAR.sub("", finding.text)


def steps_of(result: CaseResult) -> tuple[Step, ...]:
    """Return the trace that a campaign's case is judged by."""
    return result.logs[-1].steps if result.logs else ()


def faults_of(result: CaseResult) -> set[str]:
    """Name all faults of a case."""
    steps = steps_of(result)
    return {fault_of(each, steps) for each in result.findings}
