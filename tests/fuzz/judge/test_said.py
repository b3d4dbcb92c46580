"""What nobody has said, messages of role `system`, is left out before a scenario compares."""

from typing import Any

import pytest

from pinnace_fuzz.judge.playing.recording import seen, without_warnings_of_sandbox
from pinnace_fuzz.judge.playing.said import counts_messages, is_said, only_said, unsaid
from pinnace_fuzz.judge.reports.transcript import said
from pinnace_fuzz.judge.results import Finding
from pinnace_spec.observers.trace_file import step_of

SYSTEM: dict[str, Any] = {"role": "system", "content": "", "sections": {}}
USER: dict[str, Any] = {"role": "user", "content": "hi"}


def test_lists_of_messages_and_entries_are_without_them() -> None:
    entries = [{"type": "message", "message": SYSTEM}, {"type": "message", "message": USER}]

    assert [USER] == only_said([SYSTEM, USER])
    assert {"data": {"entries": entries[1:]}} == only_said({"data": {"entries": entries}})


def test_counts_are_lower_by_as_many() -> None:
    assert {"data": {"messageCount": 2, "userMessages": 1}} == only_said(
        {"data": {"messageCount": 3, "userMessages": 1}}, unsaid([SYSTEM, USER, USER])
    )


def test_what_else_there_is_stays() -> None:
    value: dict[str, Any] = {"messageCount": "3", "role": "system", "list": [1, None, {"role": "custom"}], "is": True}

    assert value == only_said(value, 1)


def test_the_messages_are_asked_for_only_where_a_count_is_wanted() -> None:
    assert counts_messages({"data": {"messageCount": {"$min": 2}}})
    assert counts_messages({"data": [{"totalMessages": 4}]})
    assert not counts_messages({"data": {"messages": {"$len": 2}}})


def test_expressions_do_not_see_their_records() -> None:
    lines = (
        '{"type":"message_start","message":{"role":"system"}}',
        '{"type":"agent_end","messages":[{"role":"system"}]}',
    )
    steps = [step_of(at, "out", line) for at, line in enumerate(lines, 1)]

    assert not is_said({"type": "message_start", "message": SYSTEM})
    assert [{"type": "agent_end", "messages": []}] == [each.record for each in seen(steps, (), None, has_unsaid=True)]
    assert 2 == len(seen(steps, (), None))


def test_what_warns_of_the_sandbox_is_no_part_of_a_scenario_if_the_agent_is_in_one() -> None:
    lines = (
        '{"type":"warning","kind":"sandbox","text":"as root"}',
        '{"type":"warning","kind":"project_trust","text":"x"}',
    )
    steps = [step_of(at, "out", line) for at, line in enumerate(lines, 1)]

    assert ["project_trust"] == [each.record["kind"] for each in seen(steps, (), None, is_sandboxed=True)]
    assert 2 == len(seen(steps, (), None))


def test_warnings_of_the_sandbox_are_no_part_of_a_state_either() -> None:
    other = {"kind": "project_trust", "text": "x"}
    state = {"isStreaming": False, "warnings": [{"kind": "sandbox", "text": "as root"}]}

    assert {"data": {"isStreaming": False}} == without_warnings_of_sandbox({"data": state})
    both = {"data": {"warnings": [*state["warnings"], other]}}  # type: ignore[misc]  # a list
    assert {"data": {"warnings": [other]}} == without_warnings_of_sandbox(both)
    assert {"id": "a"} == without_warnings_of_sandbox({"id": "a"})


@pytest.mark.parametrize(
    ("text", "shown"), [("half \ud83d", "half \ufffd"), ("\x1b[2Jx\ny", "\ufffd[2Jx\ny"), ("é", "é")]
)
def test_a_finding_is_written_wherever_it_quotes_the_agent(text: str, shown: str) -> None:
    line = said(Finding("expect", (), text))

    assert line == f"expect: {shown}"
    line.encode()
