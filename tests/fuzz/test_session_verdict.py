"""The judge of session files finds what is missing, cut or glued, and the scenarios that it judges are repeatable."""

import pytest

from pinnace_campaigns.trials.crashes import make_scenario
from pinnace_fuzz.records import Record, encode_record
from pinnace_fuzz.session_verdict import (
    branch_messages,
    entries_of,
    find_damage,
    find_losses,
    find_request_faults,
    queued_texts,
    without_cut_line,
)

TIME = "2026-01-02T03:04:05.678Z"
HEADER = encode_record({"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/x"})


def user(text: str) -> Record:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}


def line(entry_id: str, parent_id: str | None, text: str) -> bytes:
    base = {"type": "message", "id": entry_id, "parentId": parent_id, "timestamp": TIME}
    return encode_record({**base, "message": user(text)})


A, B, C = line("a", None, "one"), line("b", "a", "two"), line("c", "a", "three")
FILES = {"s.jsonl": HEADER + A + B}
STARTED = {"type": "response", "command": "prompt", "success": True, "id": "p", "data": {"disposition": "started"}}


def test_a_cut_last_line_is_a_fault_unless_it_may_be_there() -> None:
    cut = (HEADER + A)[:-5]
    assert [] == find_damage(cut, may_be_torn=True)
    assert [] != find_damage(cut, may_be_torn=False)


def test_a_cut_line_that_is_not_the_last_is_a_fault_in_any_case() -> None:
    assert [] != find_damage(HEADER + A[:-5] + b"\n" + B, may_be_torn=True)


def test_a_line_behind_a_cut_one_is_judged_alone() -> None:
    former = HEADER + A + B[:9]
    assert HEADER + A + C == without_cut_line(former + b"\n" + C, former)
    assert former == without_cut_line(former, former)


@pytest.mark.parametrize("after", [HEADER + A + B[:9] + C, HEADER + B[:9] + b"\n" + C])
def test_a_line_that_is_glued_to_a_cut_one_or_written_over_it_is_found(after: bytes) -> None:
    with pytest.raises(AssertionError):
        without_cut_line(after, HEADER + A + B[:9])


@pytest.mark.parametrize("lost", [b"\0" * 9, b"\0\0\n", B[:9] + b"\0" * 4])
def test_nul_bytes_before_an_entry_do_not_hide_it(lost: bytes) -> None:
    """A loss of power leaves them where the data of a write, or of its pages, did not reach the disk."""
    assert ["a", "c"] == [each["id"] for each in entries_of(HEADER + A + lost + C)]


def test_the_branch_of_the_last_entry_counts() -> None:
    assert [user("one"), user("three")] == branch_messages(HEADER + A + B + C)


def test_a_message_that_its_branch_hides_does_not_count() -> None:
    hiding = {
        "type": "context_edit",
        "id": "h",
        "parentId": "b",
        "timestamp": TIME,
        "targetId": "b",
        "replacement": None,
    }
    assert [user("one")] == branch_messages(HEADER + A + B + encode_record(hiding))


def test_what_a_shell_said_may_wait_in_an_entry_of_another_type() -> None:
    told = {"type": "response", "command": "bash", "success": True, "data": {"output": "said"}}
    result = {"role": "bashExecution", "output": "said"}
    entry = {"type": "custom", "id": "c", "parentId": None, "timestamp": TIME, "customType": "x", "data": result}
    assert [] == find_losses([told], {}, {"s.jsonl": HEADER + encode_record(entry)})
    assert 1 == len(find_losses([told], {}, FILES))


@pytest.mark.parametrize(
    "record",
    [STARTED, {"type": "message_start", "message": user("lost")}, {"type": "message_end", "message": user("lost")}],
)
def test_what_was_promised_and_is_in_no_file_is_a_loss(record: Record) -> None:
    assert 1 == len(find_losses([record], {"p": "lost"}, FILES))


def test_what_is_there_on_whichever_branch_or_was_never_promised_is_none() -> None:
    whole = {"type": "message_end", "message": user("two")}
    refused = {**STARTED, "success": False}
    handled = {**STARTED, "data": {"disposition": "handled"}}
    assert [] == find_losses([STARTED, whole], {"p": "one"}, FILES)
    assert [] == find_losses([refused, handled], {"p": "lost"}, FILES)


def operation(entry_id: str, **data: object) -> bytes:
    base = {"type": "custom", "id": entry_id, "parentId": None, "timestamp": TIME, "customType": "pinnace.queue"}
    return encode_record({**base, "data": {"session": "s", **data}})


def test_an_accepted_message_is_in_a_file_although_it_is_queued_or_returned() -> None:
    queued = {**STARTED, "data": {"disposition": "queued"}}
    add = operation("q", op="add", messageId="m", text="lost")
    assert 1 == len(find_losses([queued], {"p": "lost"}, FILES))
    assert [] == find_losses([queued], {"p": "lost"}, {"s.jsonl": HEADER + add})


def test_what_a_file_leaves_queued_is_neither_delivered_nor_returned_nor_of_another_session() -> None:
    adds = [operation(f"q{at}", op="add", messageId=f"m{at}", text=f"t{at}") for at in range(4)]
    foreign = operation("x", op="add", messageId="x", text="x", session="another")
    delivered = A.replace(b'"id":"a"', b'"id":"a","messageId":"m1"')
    assert delivered != A
    returned = operation("r", op="remove", messageIds=["m2"])
    entries = b"".join(adds) + foreign + delivered + returned
    assert ["t0", "t3"] == queued_texts(HEADER + entries)
    assert ["t0", "t3"] == queued_texts(HEADER[:1] + b"\n" + HEADER + entries), "a full disk has cut the header once"


def test_a_header_behind_one_that_a_full_disk_has_cut_is_no_entry() -> None:
    assert [] == entries_of(HEADER[:1] + b"\n" + HEADER)
    assert [user("one")] == branch_messages(HEADER[:1] + b"\n" + HEADER + A)


def test_a_message_of_which_a_part_is_missing_is_a_loss() -> None:
    assert 1 == len(find_losses([{"type": "message_end", "message": {**user("two"), "timestamp": 2}}], {}, FILES))


CALLS = {"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "2"}]}


def result(call_id: str) -> Record:
    return {"role": "tool", "tool_call_id": call_id}


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        ([CALLS, result("1"), result("2"), {"role": "user"}], 0),
        ([CALLS, result("2"), result("1")], 0),
        ([CALLS, result("1")], 1),
        ([CALLS, {"role": "user"}, result("1"), result("2")], 4),
        ([CALLS, result("1"), result("1"), result("2")], 1),
        ([result("1")], 1),
    ],
)
def test_each_call_needs_one_result_right_behind_it(messages: list[Record], count: int) -> None:
    assert count == len(find_request_faults({"messages": messages}))


def test_a_number_means_one_conversation() -> None:
    assert make_scenario(7) == make_scenario(7)
    assert make_scenario(7) != make_scenario(8)
