"""What making a request's messages costs: it grows with the calls of an answer, not with their square."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import pytest
from tests.agent.samples import served_model

from pinnace_agent.llm.context import provider_messages
from pinnace_spec.records.messages import AssistantMessage, Message, ToolResultMessage, Usage

FEW, MANY = 250, 1_000
# Twice as many calls take twice the lines and a little more: tables that grow.
MOST_GROWTH = MANY / FEW * 1.1

MODEL = served_model()
COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
USAGE = cast(Usage, {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": COST})


def conversation(call_ids: list[str], result_ids: list[str]) -> list[Message]:
    """Return an answer with these calls, and these results."""
    answer: AssistantMessage = {
        "role": "assistant",
        "content": [{"type": "toolCall", "id": call_id, "name": "read", "arguments": {}} for call_id in call_ids],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "toolUse",
        "timestamp": 1,
    }
    results: list[ToolResultMessage] = [
        {
            "role": "toolResult",
            "toolCallId": result_id,
            "toolName": "read",
            "content": [],
            "isError": False,
            "timestamp": 1,
        }
        for result_id in result_ids
    ]
    return [answer, *results]


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that run, those of comprehensions and generators for each element."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class Comparisons(str):
    """A text that counts how often it is compared."""

    made = 0

    def __eq__(self, other: object) -> bool:
        Comparisons.made += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def distinct(number: int) -> list[str]:
    return [f"call-{index}" for index in range(number)]


@pytest.mark.parametrize(
    ("call_ids", "result_ids"),
    [
        (distinct, lambda number: distinct(number)[::-1]),
        (distinct, lambda number: ["other"] * number),
        (lambda number: ["same"] * number, lambda number: ["same"] * number),
        (lambda number: [""] * number, lambda _number: []),
        (lambda number: ["long" * 20] * number, lambda _number: []),
    ],
    ids=["reversed", "without results", "same ids", "no ids", "long ids"],
)
def test_the_work_for_calls_and_results_grows_with_their_number(
    call_ids: Callable[[int], list[str]], result_ids: Callable[[int], list[str]]
) -> None:
    def work(number: int) -> tuple[int, int]:
        messages = conversation([Comparisons(each) for each in call_ids(number)], result_ids(number))
        Comparisons.made = 0
        lines = lines_run(lambda: provider_messages(messages, MODEL, str))
        return lines, Comparisons.made

    (few_lines, few_comparisons), (many_lines, many_comparisons) = work(FEW), work(MANY)

    assert many_lines <= few_lines * MOST_GROWTH
    assert many_comparisons <= max(MANY, few_comparisons * MOST_GROWTH)
