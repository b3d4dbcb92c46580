"""Judges what one trace can't show: requests to the model, session files, processes left behind.

Only where it is certain which thing belongs to which: a scenario that compacts or changes sessions is left to its own
expectations. The comparisons are the specification's: I-LLM-1, I-PER-1, I-ABT-2.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.play import Played
from pinnace_fuzz.judge.results import Finding, ProcessLog
from pinnace_fuzz.judge.scenarios.classes import message_text
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.observers.comparisons import Delivery, file_is_entries, requests_hold, resumed_is_prefix
from pinnace_spec.observers.verdicts import Verdict

# After these a request no longer contains the earlier messages.
_FORGETTING = frozenset(
    "compact new_session switch_session fork clone branch reset compaction_start auto_compaction_start".split()
)


class CrossCheck(NamedTuple):
    """Findings, and how often each invariant was armed."""

    findings: list[Finding]
    armed: Mapping[str, int]


def cross_check(played: Played, logs: Sequence[ProcessLog], kit: AgentUnderTest) -> CrossCheck:
    """Judge a case beyond its traces."""
    findings: list[Finding] = []
    armed = {"I-LLM-1": 0, "I-PER-1": 0, "I-ABT-2": 0}
    is_ours = kit.binds_ours
    if len(logs) == 1 and (deliveries := _deliveries(logs[0], len(played.requests))) is not None:
        armed["I-LLM-1"] = len(deliveries)
        bodies = [request.body for request in played.requests]
        findings += _findings(requests_hold(bodies, deliveries, is_ours=is_ours), 0)
    for kept in played.persisted:
        armed["I-PER-1"] += 1
        if kept.is_resumed:
            verdicts = resumed_is_prefix(kept.lines, kept.entries, step=kept.step, is_ours=is_ours)
        else:
            verdicts = file_is_entries(
                kept.lines, kept.entries, inherited=kept.inherited, step=kept.step, is_ours=is_ours
            )
        findings += _findings(verdicts, kept.process)
    for number, trace in enumerate(played.traces):
        armed["I-ABT-2"] += 1
        if trace.left_behind:
            text = f"{trace.left_behind} processes that the agent has started outlive it"
            findings.append(Finding("I-ABT-2", ("R-BSH-04",), text, process=number))
    return CrossCheck(findings, armed)


def _findings(verdicts: Sequence[Verdict], process: int) -> list[Finding]:
    return [Finding(each.invariant, each.rules, each.text, each.level, process, each.steps) for each in verdicts]


def _deliveries(log: ProcessLog, requests: int) -> list[Delivery] | None:
    """List the users' texts with the requests before each; None where that is unknown.

    Every request has one answer in the trace: the answers before a text are the requests before it.
    """
    found: list[Delivery] = []
    answers = 0
    for step in log.steps:
        record = step.record or {}
        if str(record.get("type")) in _FORGETTING:
            return None
        if step.direction == "in" or record.get("type") != "message_start":
            continue
        message = as_object(record.get("message")) or {}
        role = message.get("role")
        if role == "assistant":
            answers += 1
        elif role == "user":
            found.append(Delivery(step.number, message_text(message), answers))
    return found if answers == requests else None
