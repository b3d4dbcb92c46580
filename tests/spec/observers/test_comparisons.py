"""What several traces, requests, processes or files report together. I-FRM-3, I-FRM-4, I-ABT-2, I-LLM-1, I-PER-1."""

import json
from typing import Any

import pytest

from pinnace_campaigns.trials.short_trace import read_short
from pinnace_spec.observers import Verdict
from pinnace_spec.observers.comparisons import (
    Delivery,
    Process,
    file_is_entries,
    left_behind,
    requests_hold,
    resumed_is_prefix,
    same_however_cut,
    same_with_cr,
)

RUN = "> prompt a hi\n< ok a / agent_start / turn_start / user hi / says hello / turn_end / agent_end"
SLOWER = RUN.replace("< ok a /", "< ").replace("/ user hi", "/ user hi / ok a")


def cites(verdicts: list[Verdict], invariant: str) -> list[tuple[int, ...]]:
    assert all(verdict.invariant == invariant for verdict in verdicts)
    return [verdict.steps for verdict in verdicts]


@pytest.mark.parametrize("other", [RUN, SLOWER, RUN.replace("says hello", "says hello stop")])
def test_ids_times_pieces_and_the_place_of_answers_may_differ(other: str) -> None:
    first, second = read_short(RUN).steps, read_short(other).steps

    assert [] == same_however_cut(first, second) + same_with_cr(first, second)


@pytest.mark.parametrize(
    ("other", "steps"),
    [
        (RUN.replace("says hello", "says bye"), [(11,)]),
        (RUN.replace("< ok a /", "< no a busy /"), [(2,)]),
        (RUN.replace(" / agent_end", ""), [(13,)]),
        (RUN.replace("< ok a /", "< "), [(2,)]),
        (RUN + "\n> get_state b\n< state b", [()]),
    ],
    ids=["another text", "another answer", "shorter", "no answer", "one more answer"],
)
def test_everything_else_is_the_same_however_it_was_sent(other: str, steps: list[tuple[int, ...]]) -> None:
    first, second = read_short(RUN).steps, read_short(other).steps

    assert steps == cites(same_however_cut(first, second), "I-FRM-3")
    assert steps == cites(same_with_cr(first, second), "I-FRM-4")


TOOL, SHELL, NEW = Process(7, 1.0, "sleep 600"), Process(8, 1.0, "sleep 601", True), Process(7, 2.0, "ls")


def test_a_tool_s_process_does_not_outlive_an_abort() -> None:
    assert [] == left_behind(5, [TOOL, SHELL], [SHELL, NEW])
    assert [(5,)] == cites(left_behind(5, [TOOL, SHELL], [TOOL, SHELL]), "I-ABT-2")


def test_nothing_outlives_the_agent() -> None:
    assert [] == left_behind(5, [TOOL, SHELL], [NEW], is_end=True)
    assert [(5,)] == cites(left_behind(5, [TOOL, SHELL], [SHELL], is_end=True), "I-ABT-2")


def said(role: str, text: str, **fields: object) -> dict[str, Any]:
    return {"role": role, "content": text, **fields}


def body(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [said("system", "be kind"), *messages]}


CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {}}]}
RESULT = said("tool", "done", tool_call_id="c")
FIRST, SECOND = Delivery(5, "one", 0), Delivery(12, "two", 1)


@pytest.mark.parametrize(
    "requests",
    [
        [body(said("user", "one")), body(said("user", "one"), said("assistant", "a"), said("user", "two"))],
        [body(said("user", "one")), body(said("user", "one"), CALLED, RESULT, said("user", "two"))],
        [
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "one"}]}]},
            {
                "messages": [
                    said("user", "one"),
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]},
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "c"}, {"type": "text", "text": "two"}],
                    },
                ]
            },
        ],
    ],
    ids=["texts", "tools", "messages that were merged"],
)
def test_a_request_that_holds_what_was_delivered_is_good(requests: list[dict[str, Any]]) -> None:
    assert [] == requests_hold(requests, [FIRST, SECOND])


@pytest.mark.parametrize(
    ("request_body", "steps"),
    [
        (body(said("user", "one")), [(12,)]),
        (body(said("user", "one"), said("user", "two"), said("user", "two")), [(12,)]),
        (body(said("user", "two"), said("user", "one")), [(12,)]),
        (body(said("user", "one"), CALLED, said("user", "two")), [()]),
        (body(said("user", "one"), RESULT, said("user", "two")), [()]),
        (body(said("user", "one"), CALLED, said("user", "two"), RESULT), [(), ()]),
    ],
    ids=["lost", "twice", "in another order", "no result", "no call", "a result elsewhere"],
)
def test_a_request_that_does_not_is_reported(request_body: dict[str, Any], steps: list[tuple[int, ...]]) -> None:
    verdicts = requests_hold([body(said("user", "one")), request_body], [FIRST, SECOND])

    assert steps == cites(verdicts, "I-LLM-1")


HEADER = '{"type": "session", "id": "s"}'
ENTRIES = [{"type": "message", "id": f"e{number}"} for number in range(3)]
LINES = [HEADER, *map(json.dumps, ENTRIES)]


def test_a_session_file_is_what_the_agent_shows_of_it() -> None:
    assert [] == file_is_entries([*LINES, ""], ENTRIES)


@pytest.mark.parametrize(
    "lines",
    [
        LINES[1:],
        LINES[:-1],
        [*LINES, LINES[-1]],
        [*LINES[:-1], '{"type": '],
        [HEADER, LINES[2], LINES[1], LINES[3]],
        [],
    ],
    ids=["no header", "one lacks", "one too many", "torn", "another order", "empty"],
)
def test_a_session_file_that_is_something_else_is_reported(lines: list[str]) -> None:
    assert [(9,)] == cites(file_is_entries(lines, ENTRIES, step=9), "I-PER-1")


def test_a_torn_line_of_the_process_before_may_stay_where_it_is() -> None:
    torn = '{"type": "mess'
    before = [*LINES[:-1], torn]

    assert [] == file_is_entries([*before, LINES[-1]], ENTRIES, inherited=before)
    assert [(9,)] == cites(file_is_entries([*before, LINES[-1]], ENTRIES, inherited=LINES[:-1], step=9), "I-PER-1")


def test_a_text_without_words_is_not_looked_for() -> None:
    images = Delivery(3, "", 0)

    assert [] == requests_hold([body(said("user", "one"))], [images, Delivery(5, "one", 0)])


def test_after_a_kill_what_was_in_the_file_is_there() -> None:
    assert [] == resumed_is_prefix([*LINES[:-1], '{"type": "mess'], [*ENTRIES[:2], {"type": "new"}])
    assert [(4,)] == cites(resumed_is_prefix(LINES, ENTRIES[:2], step=4), "I-PER-1")
    assert [(4,)] == cites(resumed_is_prefix(LINES, [ENTRIES[0], ENTRIES[2]], step=4), "I-PER-1")
