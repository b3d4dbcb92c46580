"""Lets the specification's observers judge the trace of one process, and words what they say as findings."""

from collections.abc import Mapping

from pinnace_fuzz.conform.body import ProcessTrace
from pinnace_fuzz.conform.kit import Kit
from pinnace_fuzz.conform.results import Finding, ProcessLog
from pinnace_spec.observers import Checks, judge

# Invariants about time: on a machine without time for anybody they prove nothing.
TIMED = frozenset({"I-FRM-6", "I-QUE-5", "I-EVT-9"})
SETTLE_S = 30.0


def observe(
    log: ProcessLog, trace: ProcessTrace, kit: Kit, process: int, *, is_overloaded: bool
) -> tuple[list[Finding], Mapping[str, int]]:
    """Judge one process; return findings, and how often each invariant was armed."""
    checks = Checks(
        is_fresh=trace.is_fresh,
        is_ours=kit.is_ours or kit.is_strict,
        is_reading=trace.is_reading,
        is_overloaded=is_overloaded,
        settle_s=SETTLE_S * kit.patience,
    )
    report = judge(log.steps, log.end, kit.generation, checks=checks)
    found = [
        Finding(
            each.invariant, each.rules, each.text, each.level, process, each.steps, is_timed=each.invariant in TIMED
        )
        for each in report.verdicts
    ]
    return found, report.armed
