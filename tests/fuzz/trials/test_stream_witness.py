"""The witness of a stream finds every kind of fault, and none in a stream that is as it should be."""

from collections.abc import Sequence
from typing import Any

import pytest

from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_spec.records.messages import AssistantMessage, zero_usage


def message(*content: Any, stop: str = "stop", **more: Any) -> AssistantMessage:
    made: Any = {"role": "assistant", "content": list(content), "usage": zero_usage(), "stopReason": stop, **more}
    answer: AssistantMessage = made
    return answer


def event(kind: str, index: int = 0, **more: object) -> dict[str, object]:
    return {"type": kind, "contentIndex": index, **more}


TEXT = {"type": "text", "text": "ab"}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"a": 1}}
START, A, B, END = (
    event("text_start"),
    event("text_delta", delta="a"),
    event("text_delta", delta="b"),
    event("text_end", content="ab"),
)
CALL_START, CALL_DELTA = event("toolcall_start"), event("toolcall_delta", delta='{"a":1}')


def judged(events: Sequence[dict[str, object]], final: AssistantMessage, starts: int = 1) -> list[str]:
    witness = StreamWitness()
    for _ in range(starts):
        witness.started(final)
    for each in events:
        witness.update(each, None)
    return witness.judge(final)


def test_a_stream_as_it_should_be_has_no_fault() -> None:
    called = [CALL_START, CALL_DELTA, event("toolcall_end", toolCall=CALL)]

    assert judged([START, A, B, END], message(TEXT)) == []
    assert judged(called, message(CALL, stop="toolUse")) == []
    assert judged([START, A, B], message(TEXT, stop="error", errorMessage="no")) == []
    assert judged([], message(stop="error", errorMessage="no"), starts=0) == []


@pytest.mark.parametrize(
    ("events", "final", "starts"),
    [
        ([START, A, B, END], message(TEXT), 0),
        ([START, A, B, END], message(TEXT), 2),
        ([START, A, B], message(TEXT), 1),
        ([START, A, END], message(TEXT), 1),
        ([START, A, B, END, END], message(TEXT), 1),
        ([START, A, END, B], message(TEXT), 1),
        ([A, B, END], message(TEXT), 1),
        ([event("text_start", 1), START, A, B, END], message(TEXT), 1),
        ([START, event("thinking_delta", delta="a"), B, END], message(TEXT), 1),
        ([START, A, B, END], message(), 1),
        ([START, A, B, END], message({"type": "text", "text": "abc"}), 1),
        ([START, A, B, END], message(TEXT, errorMessage="no"), 1),
        ([START, A, B], message(TEXT, stop="error"), 1),
        ([CALL_START, CALL_DELTA, event("toolcall_end", toolCall={**CALL, "arguments": {}})], message(CALL), 1),
    ],
)
def test_every_fault_is_found(events: Sequence[dict[str, object]], final: AssistantMessage, starts: int) -> None:
    assert judged(events, final, starts)


def test_a_second_start_behind_updates_is_a_fault() -> None:
    witness = StreamWitness()
    witness.started(message())
    for each in (START, A):
        witness.update(each, None)
    witness.started(message())

    assert len(witness.faults) == 2
