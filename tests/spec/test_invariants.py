"""What the observer says of traces of retries and compactions: nothing of good ones, the invariant of bad ones.

Each bad trace is a good one with one thing wrong. Invariants I-EVT-1, I-EVT-9 to I-EVT-11, I-EOF-1.
"""

from typing import Any

import pytest

from pinnace_spec.invariants import Record, TraceObserver

USER: Record = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
START: Record = {"type": "agent_start"}
SETTLED: Record = {"type": "agent_settled", "aborted": False}


def answer(stop_reason: str) -> Record:
    return {"role": "assistant", "content": [], "stopReason": stop_reason}


def said(message: Record) -> list[Record]:
    return [{"type": "message_start", "message": message}, {"type": "message_end", "message": message}]


def run(*messages: Record, will_retry: bool = False, before_end: tuple[Record, ...] = ()) -> list[Record]:
    """Write a run of one turn; `before_end` comes after its last message."""
    told = [record for message in messages for record in said(message)]
    turn_end: Record = {"type": "turn_end", "message": messages[-1], "toolResults": []}
    end = {"type": "agent_end", "messages": list(messages), "willRetry": will_retry}
    return [START, {"type": "turn_start"}, *told, *before_end, turn_end, end]


def retry_start(attempt: int, most: int = 3) -> Record:
    return {"type": "auto_retry_start", "attempt": attempt, "maxAttempts": most, "delayMs": 1, "errorMessage": "no"}


def retry_end(attempt: int, *, success: bool) -> Record:
    return {"type": "auto_retry_end", "attempt": attempt, "success": success}


def compacted(reason: str, *, will_retry: bool, started_for: str | None = None) -> list[Record]:
    end: dict[str, Any] = {"type": "compaction_end", "reason": reason, "result": {}, "aborted": False}
    return [{"type": "compaction_start", "reason": started_for or reason}, {**end, "willRetry": will_retry}]


FAILED = answer("error")
GOOD = answer("stop")
FAILED_RUN = run(USER, FAILED, will_retry=True)
GOOD_RETRY = run(GOOD, before_end=(retry_end(1, success=True),))
GIVEN_UP = [*run(FAILED), retry_end(1, success=False)]


def problems_of(trace: list[Record]) -> list[str]:
    observer = TraceObserver()
    return [problem for record in trace for problem in observer.feed(record)] + observer.finish()


@pytest.mark.parametrize(
    "trace",
    [
        [*run(USER, GOOD), SETTLED],
        [*FAILED_RUN, retry_start(1), *GOOD_RETRY, SETTLED],
        [*FAILED_RUN, retry_start(1, 1), *GIVEN_UP, SETTLED],
        [*FAILED_RUN, retry_start(1), retry_end(1, success=False), SETTLED],
        [*FAILED_RUN, retry_start(1), *run(FAILED, will_retry=True), retry_start(2), retry_end(2, success=False)],
        [*FAILED_RUN, retry_start(1), *run(USER, FAILED, will_retry=True), retry_start(1), *GOOD_RETRY],
        [*run(USER, FAILED), *compacted("overflow", will_retry=True), *run(GOOD), SETTLED],
        [*compacted("threshold", will_retry=False), *run(USER, GOOD), SETTLED],
    ],
    ids=["plain", "retried", "given up", "cancelled", "twice", "anew for a text", "overflow", "threshold"],
)
def test_a_trace_of_retries_and_compactions_that_keeps_the_invariants_has_no_problems(trace: list[Record]) -> None:
    """The checks below are not true of everything."""
    assert [] == problems_of(trace)


@pytest.mark.parametrize(
    ("trace", "invariant"),
    [
        ([*run(GOOD), SETTLED], "I-EVT-1: a run starts for no text"),
        ([*FAILED_RUN, SETTLED], "I-EVT-9: agent_settled where auto_retry_start was announced"),
        ([*FAILED_RUN, *run(USER, GOOD)], "I-EVT-9: agent_start where auto_retry_start was announced"),
        ([*run(USER, FAILED), retry_start(1), *GOOD_RETRY], "I-EVT-9: a retry that agent_end did not announce"),
        ([*FAILED_RUN, retry_start(2), retry_end(2, success=False)], "I-EVT-9: attempt 2 of 3 after 0"),
        ([*FAILED_RUN, retry_start(1, 0), retry_end(1, success=False)], "I-EVT-9: attempt 1 of 0"),
        ([*FAILED_RUN, retry_start(1), retry_end(2, success=False)], "I-EVT-9: the open attempt is 1"),
        ([*run(USER, GOOD), retry_end(1, success=True)], "I-EVT-9: the open attempt is 0"),
        ([*FAILED_RUN, retry_start(1), retry_end(1, success=True)], "I-EVT-9: a retry succeeds with an answer that is"),
        ([*FAILED_RUN, retry_start(1), *run(GOOD), SETTLED], "I-EVT-9: settled inside a retry"),
        ([*FAILED_RUN, retry_start(1), *run(GOOD)], "I-EOF-1: a retry is still open"),
        ([*FAILED_RUN], "I-EOF-1: auto_retry_start was announced and never came"),
        ([*FAILED_RUN, retry_start(1), *compacted("manual", will_retry=False)], "I-EVT-9: compaction_start where"),
        (compacted("overflow", will_retry=True), "I-EOF-1: agent_start was announced and never came"),
        ([*compacted("overflow", will_retry=True), SETTLED], "I-EVT-10: agent_settled where agent_start was"),
        ([*compacted("manual", will_retry=True), *run(GOOD)], "I-EVT-10: manual leads to a run"),
        (compacted("manual", will_retry=False, started_for="overflow"), "I-EVT-10: compaction_end names another"),
        ([*compacted("threshold", will_retry=False), *run(GOOD)], "I-EVT-1: a run starts for no text"),
    ],
)
def test_a_trace_that_breaks_an_invariant_is_told_by_it(trace: list[Record], invariant: str) -> None:
    assert invariant in "\n".join(problems_of(trace))
