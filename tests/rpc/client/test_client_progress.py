"""When a run is over, for agents of every generation; and reading a record, however deep. Pure."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_rpc.client.connection.reading import _read_deep, read_record
from pinnace_rpc.client.failures import AgentExited, ProtocolError
from pinnace_rpc.client.records.progress import Progress, text_delta_of

START = {"type": "agent_start"}
END = {"type": "agent_end", "messages": []}
SETTLED = {"type": "agent_settled", "aborted": False}
SUCCESS = {"type": "response", "command": "prompt", "success": True}
STARTED = {**SUCCESS, "data": {"disposition": "started"}}
RETRY = {"type": "auto_retry_start"}
RETRIED = {"type": "auto_retry_end", "success": True}
COMPACT = {"type": "compaction_start"}
COMPACTED = {"type": "compaction_end", "willRetry": False}


LIMITED = {**SETTLED, "aborted": True, "reason": "limit", "limit": "maxTurns"}


def said(text: str, stop_reason: str = "stop", **more: str) -> dict[str, Any]:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return {
        "type": "message_end",
        "message": {"role": "assistant", "content": content, "stopReason": stop_reason, **more},
    }


def followed(*records: dict[str, Any], writes_settled: bool = False) -> Progress:
    progress = Progress(writes_settled=writes_settled)
    for record in records:
        if record["type"] == "response":
            progress.accept(record)
        else:
            progress.see(record)
    return progress


@pytest.mark.parametrize(
    ("records", "is_over", "may_be_over"),
    [
        ([STARTED, START, END], False, False),
        ([STARTED, START, END, SETTLED], True, False),
        ([STARTED, START, END, RETRY, START, END], False, False),
        ([{**SUCCESS, "data": {"disposition": "handled"}}], True, False),
        ([SUCCESS, START], False, False),
        ([SUCCESS, START, END], False, True),
        ([SUCCESS, START, {**END, "willRetry": True}], False, False),
        ([SUCCESS, START, END, RETRY], False, False),
        ([SUCCESS, START, END, RETRY, START], False, False),
        ([SUCCESS, START, END, RETRY, RETRIED], False, True),
        ([SUCCESS, START, END, COMPACT], False, False),
        ([SUCCESS, START, END, COMPACT, COMPACTED], False, True),
        ([SUCCESS, START, END, COMPACT, {**COMPACTED, "willRetry": True}], False, False),
        ([START, END, SUCCESS], False, True),  # the oldest answer late
        ([START, END], False, False),
        ([SETTLED, STARTED], False, False),  # of what was before
        ([COMPACTED, SUCCESS], False, False),
    ],
)
def test_a_run_is_over_when_nothing_can_follow(records: list[dict[str, Any]], is_over: bool, may_be_over: bool) -> None:
    progress = followed(*records)

    assert (is_over, may_be_over) == (progress.is_over, progress.may_be_over)


def test_an_agent_that_has_ever_settled_will_do_so_again() -> None:
    assert not followed(SUCCESS, START, END, writes_settled=True).may_be_over


def test_the_result_is_what_was_said_last_and_everything_before() -> None:
    run = followed(said("of another"), STARTED, START, said("one", "toolUse"), said("two"), END, SETTLED).result()

    assert ("two", 2, "stop", False, None) == (
        run.text,
        len(run.messages),
        run.stop_reason,
        run.is_aborted,
        run.error,
    )


@pytest.mark.parametrize(
    ("records", "is_aborted", "error", "limit"),
    [
        ([said("x", "aborted"), END], True, None, None),
        ([said("x", "toolUse"), END, {**SETTLED, "aborted": True}], True, None, None),
        ([said("", "error", errorMessage="401"), END, SETTLED], False, "401", None),
        ([said("", "error", errorMessage="503"), END, RETRY, START, said("x"), END, SETTLED], False, None, None),
        (
            [said("x"), END, LIMITED],
            True,
            None,
            "maxTurns",
        ),
    ],
)
def test_the_result_reports_aborts_failures_and_limits(
    records: list[dict[str, Any]], is_aborted: bool, error: str | None, limit: str | None
) -> None:
    run = followed(SUCCESS, START, *records).result()

    assert (is_aborted, error, limit) == (run.is_aborted, run.error, run.limit)


def test_a_run_without_an_answer_has_a_result() -> None:
    assert ("", None, None) == (followed().result().text, followed().result().stop_reason, followed().result().error)


def test_only_the_growth_of_a_text_is_text() -> None:
    def update(**step: object) -> dict[str, Any]:
        return {"type": "message_update", "assistantMessageEvent": step}

    assert "x" == text_delta_of(update(type="text_delta", delta="x"))
    others = [update(type="thinking_delta", delta="x"), update(type="text_start"), START]
    assert [None] * 3 == [text_delta_of(each) for each in others]
    assert text_delta_of({"type": "message_update"}) is None


NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_reading_without_recursion_reads_what_json_reads(value: object, is_spaced: bool) -> None:
    text = json.dumps(value, indent=1 if is_spaced else None, ensure_ascii=is_spaced)

    assert value == _read_deep(text.encode("utf-8", "surrogatepass"))


@given(st.text('[]{}:,"a1 \\', max_size=12))
def test_reading_without_recursion_refuses_what_json_refuses(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ProtocolError):
            _read_deep(text.encode())
    else:
        assert expected == _read_deep(text.encode())


def test_a_deep_record_is_read_and_a_deep_mess_is_refused() -> None:
    deep = read_record(b'{"type":"deep","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    assert "deep" == deep["type"]
    with pytest.raises(ProtocolError, match="incomplete"):
        read_record(b'{"type":"deep","value":' + b"[" * 100_000)


def test_an_exit_is_worded_for_people() -> None:
    assert "the agent (a b) exited with code 0" == str(AgentExited(["a", "b"], 0, "", None))
    assert "was ended by SIGKILL; its last record is cut: '{'" in str(AgentExited(["a"], -9, "", "'{'"))
    assert "signal 99" in str(AgentExited(["a"], -99, "", None))
    assert str(AgentExited(["a"], None, "why\n", None)).endswith("is gone; the end of its stderr:\nwhy")
