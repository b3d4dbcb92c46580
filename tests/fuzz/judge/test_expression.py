"""Expressions over records: what they match, how far a failing one came, and what is refused."""

from typing import Any

import pytest

from pinnace_fuzz.judge.scenarios.classes import MARK
from pinnace_fuzz.judge.scenarios.expression import Expression, ExpressionError


def message(kind: str, role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "message": {"role": role, "content": [{"type": "text", "text": text}], **more}}


RUN: list[dict[str, Any]] = [
    {"type": "response", "id": "a", "command": "prompt", "success": True},
    {"type": "agent_start"},
    {"type": "turn_start"},
    message("message_start", "user", "Say (it), please"),
    {"type": "queue_update", "steering": ["x"], "followUp": []},
    message("message_end", "assistant", "done", stopReason="stop"),
    {"type": "agent_end", "messages": [1, {"role": "user"}]},
    {"type": MARK, "name": "late"},
    {"type": "response", "command": "parse", "success": False, "error": "Failed to parse"},
]


@pytest.mark.parametrize(
    "text",
    [
        "agent_start turn",
        "resp(a,ok) ... agent_end",
        "resp(a,ok) … agent_end",
        "^ resp(a) !(agent_end|agent_settled)* agent_end",
        'user("Say (it), please")',
        "user(/^Say/) queue",
        'queue(["x"],[])',
        'assistant("done")',
        "assistant(stop)",
        "(agent_start|turn){2}",
        "(agent_start | agent_end) turn?",
        "agent_end @late resp(-,error)",
        "agent_end resp(-)",
        "answer(parse,error,/parse$/) $",
        'agent_end[messages.-1.role="user", messages.0=1]',
        "resp(a)[success=true, !error, command~/^pr/]",
        "agent_end settled $|settled",
        ".{8}",
    ],
)
def test_it_matches(text: str) -> None:
    assert Expression(text, optional=("settled",)).match(RUN).is_match


@pytest.mark.parametrize(
    "text",
    [
        "agent_start agent_end",
        "resp(a,error)",
        "resp(b)",
        "agent_end ... agent_start",
        'user("Say")',
        "assistant(aborted)",
        "turn ^",
        "$ agent_start",
        "resp(a)[success=1]",
        "agent_end[messages.5]",
        "@late ... agent_end",
        "settled",
        ".{9}",
    ],
)
def test_it_does_not_match(text: str) -> None:
    assert not Expression(text).match(RUN).is_match


def test_a_failure_says_how_far_it_came_and_what_it_wanted() -> None:
    match = Expression("resp(a) agent_start ... queue (tool_end|agent_end)").match(RUN)

    assert (5, ("agent_end", "tool_end")) == (match.end, match.wanted)


def test_a_long_trace_takes_linear_time() -> None:
    trace = [{"type": "agent_start"}] * 20_000

    assert not Expression("(agent_start* agent_start*)* agent_end").match(trace).is_match


@pytest.mark.parametrize("text", ["", "a |", "(a", "a)", "!(a b)", "a{2", "user(x)", "a[b=]", "resp(a,perhaps)", "a**"])
def test_what_means_nothing_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"\^"):
        Expression(text)
