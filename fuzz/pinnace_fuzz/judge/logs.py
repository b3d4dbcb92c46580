"""Judges recorded logs: traces of the kit, transcripts, or plain logs of records, as they are or as they grow."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pinnace_fuzz.judge.results import NOTHING_JUDGED_EXIT
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_spec.observers import Judge, Verdict
from pinnace_spec.observers.itf import read_run, write_run
from pinnace_spec.observers.trace_file import NotATrace, Trace, read_trace
from pinnace_spec.profiles.generations import GENERATIONS, generation
from pinnace_spec.wire.itf import is_itf

FOLLOW_S = 0.3


def observe_file(
    file: Path, profile: str, *, is_following: bool, is_ours: bool, log: Callable[[str], None], itf: Path | None = None
) -> int:
    """Judge a file; return 1 if it breaks a rule, 0 if not, 3 if nothing in it was judged.

    Args:
        file: A trace, a run in ITF, a transcript or a log; `-` is standard input.
        profile: The generation of the agent; `auto`: what the file says.
        is_following: Wait for more.
        is_ours: The rules of this project's own count, too.
        log: Takes what is found.
        itf: Where the run is written in ITF; None: it is not.
    """
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8", errors="surrogateescape")
        trace = read_run(text) if is_itf(text) else read_trace(text)
        if itf is not None:
            itf.write_text(write_run(trace), encoding="ascii")
    except (OSError, NotATrace) as error:
        log(f"{file}: {error}")
        return 3
    name = trace.head.get("generation", "seed") if profile == "auto" else profile
    if name not in GENERATIONS:
        log(f"{file}: no generation {name}")
        return 3
    found = generation(name)
    checks = trace.checks._replace(is_ours=is_ours or found.is_ours, has_extensions=_has_extensions(trace))
    judging = Judge(found, checks=checks)
    broken = 0

    def log_verdicts(verdicts: list[Verdict]) -> None:
        nonlocal broken
        for verdict in verdicts:
            broken += verdict.level == "violation"
            log(f"{verdict.level} {verdict.invariant} ({', '.join(verdict.rules)}): {verdict.text}")

    for step in trace.steps:
        log_verdicts(judging.feed(step))
    if is_following:
        for grown in _grown(file, len(trace.steps)):
            for step in grown.steps:
                log_verdicts(judging.feed(step))
    else:
        log_verdicts(judging.finish(trace.end))
    armed = sum(1 for count in judging.report.armed.values() if count)
    log(f"{judging.report.steps} lines, {armed} invariants armed, {broken} violations")
    if broken:
        return 1
    return 0 if armed else NOTHING_JUDGED_EXIT


def _has_extensions(trace: Trace) -> bool:
    """Return whether the case of a trace installed extensions; False for other traces."""
    try:
        return read_scenario(trace.head["case"]).has_extensions
    except (KeyError, FieldError):
        return False


def _grown(file: Path, known: int) -> Iterator[Trace]:
    """Yield what a file gains, until it is interrupted."""
    size = file.stat().st_size
    while True:
        time.sleep(FOLLOW_S)  # files do not report when they grow
        now = file.stat().st_size
        if now == size:
            continue
        size = now
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        # Only whole lines; reading the whole again is linear in what was logged, and logs are read by machines here.
        trace = read_trace(text[: text.rfind("\n") + 1])
        yield trace._replace(steps=trace.steps[known:])
        known = len(trace.steps)
