"""Judges the trace of one process by the specification's observers, and converts their verdicts into findings."""

from collections.abc import Mapping

from pinnace_fuzz.judge.playing.body import ProcessTrace
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.results import Finding, ProcessLog
from pinnace_spec.observers import Checks, judge


def observe(
    log: ProcessLog,
    trace: ProcessTrace,
    kit: AgentUnderTest,
    process: int,
    *,
    is_overloaded: bool,
    has_extensions: bool,
) -> tuple[list[Finding], Mapping[str, int]]:
    """Judge one process; return findings, and how often each invariant was armed."""
    checks = Checks(
        has_inputs=not kit.adapter.is_one_prompt,
        is_fresh=trace.is_fresh,
        is_ours=kit.binds_ours,
        is_reading=trace.is_reading,
        is_overloaded=is_overloaded,
        has_extensions=has_extensions,
        patience=kit.patience,
    )
    report = judge(log.steps, log.end, kit.generation, checks=checks)
    found = [
        Finding(each.invariant, each.rules, each.text, each.level, process, each.steps, is_timed=each.is_timed)
        for each in report.verdicts
    ]
    return found, report.armed
