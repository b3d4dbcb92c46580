"""What files hold of sub-agents that have ended: the queue of one, and results that its parent had put aside."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.session.child_agents import (
    CHILD_BEGUN,
    ChildBegun,
    ChildMessage,
    drop_child_begun,
    drop_child_message,
    keep_child_begun,
    keep_child_message,
    listed_children,
    take_back,
)
from pinnace_agent.session.library import Library
from pinnace_agent.session.queue.history import QueueHistory
from pinnace_agent.session.queue.operations import QueuedMessage, add
from pinnace_agent.session.store.lease import Lease

CUT = b'{"type":"custom","id":"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session with two messages in its queue, whose process has ended."""
    session = Library(None).make_at(tmp_path / "child.jsonl", str(tmp_path))
    for name in ("m1", "m2"):
        add(session, QueuedMessage(name, "steer", f"Message: {name}", ()))
    assert session.file is not None
    session.file.abandon()
    return tmp_path / "child.jsonl"


def left(file: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """What is queued when the file is opened next, and what was returned, with the reason."""
    lease = Lease.take(file)
    session = Library(None).open(file, "/", lease).session
    history = QueueHistory(session)
    lease.release()
    return [*history.queued], [(name, each.reason) for name, each in history.returned.items()]


@pytest.mark.parametrize("tail", [b"", CUT], ids=["whole", "cut"])
def test_what_is_returned_is_queued_no_more(file: Path, tail: bytes) -> None:
    """R-SUB-10: also behind a line that was cut; a message that never came to the file is returned likewise."""
    with file.open("ab") as appended:
        appended.write(tail)

    assert ["m1", "lost"] == take_back(file, ["m1", "lost"])
    before = file.read_bytes()
    assert ["m1", "lost"] == take_back(file, ["m1", "lost"])
    assert before == file.read_bytes()
    assert (["m2"], [("m1", "agent_ended")]) == left(file)


def test_what_another_process_has_is_not_returned(file: Path) -> None:
    """It delivers what is queued in the file."""
    lease = Lease.take(file)
    before = file.read_bytes()
    returned = take_back(file, ["m1", "lost"])
    lease.release()

    assert ["lost"] == returned
    assert before == file.read_bytes()


def test_a_file_that_takes_nothing_keeps_its_queue(file: Path) -> None:
    """It is of a later release."""
    file.write_bytes(file.read_bytes().replace(b'"version":3', b'"version":99', 1))
    before = file.read_bytes()

    assert ["m1"] == take_back(file, ["m1"])
    assert before == file.read_bytes()


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_beginning_that_is_dropped_is_unknown(tmp_path: Path, is_newest: bool) -> None:
    """R-SUB-13: taken out of the file where that can be, else marked there; also when the file is opened next."""
    file = tmp_path / "parent.jsonl"
    session = Library(None).make_at(file, str(tmp_path))
    child, kept = (f"01234567-89ab-cdef-0123-456789abcde{each}" for each in "fe")
    for each in (kept, child):
        begun: ChildBegun = {"agentId": each, "parentId": session.id, "task": each, "provider": "p", "model": "m"}
        keep_child_begun(session, begun)
    if not is_newest:
        session.keep_custom("other", {})
    drop_child_begun(session, child)
    listed = listed_children(session.tree.entries, session.id, session.path)
    has_it = f'"task":"{child}"' in file.read_text()
    assert session.file is not None
    session.file.abandon()
    again = Library(None).open(file, "/", Lease.take(file)).session
    ended = listed_children(again.tree.entries, again.id, again.path)
    assert again.file is not None
    again.file.abandon()

    assert is_newest == (not has_it)
    assert [(kept, "running")] == [(each["agentId"], each["state"]) for each in listed]
    assert [(kept, "interrupted")] == [(each["agentId"], each["state"]) for each in ended]
    assert 1 == len([each for each in again.tree.entries if each["type"] == "usage"])


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_message_that_is_dropped_is_unknown(tmp_path: Path, is_newest: bool) -> None:
    """R-SUB-12: taken out of the file where that can be, else marked there; it may be given again."""
    session = Library(None).make_at(tmp_path / "parent.jsonl", str(tmp_path))
    child = "01234567-89ab-cdef-0123-456789abcdef"
    session.accept_custom(CHILD_BEGUN, {"agentId": child, "parentId": session.id, "task": "count"})
    message: ChildMessage = {"agentId": child, "parentId": session.id, "messageId": "m", "text": "masts"}
    keep_child_message(session, message)
    if not is_newest:
        session.keep_custom("other", {})
    drop_child_message(session, child, "m")
    assert session.file is not None
    has_it = "masts" in (tmp_path / "parent.jsonl").read_text()
    [dropped] = listed_children(session.tree.entries, session.id, session.path)
    keep_child_message(session, message)
    [again] = listed_children(session.tree.entries, session.id, session.path)
    session.file.abandon()

    assert (is_newest, None) == (not has_it, dropped.get("messages"))
    assert [{"messageId": "m", "text": "masts", "state": "accepted"}] == again["messages"]


def answer(*calls: str) -> dict[str, Any]:
    """An answer with calls of these ids."""
    content = [{"type": "toolCall", "id": each, "name": "subagent", "arguments": {"task": each}} for each in calls]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    zero = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    model = {"api": "a", "provider": "p", "model": "m", "usage": {**usage, "cost": zero}, "stopReason": "toolUse"}
    return {"role": "assistant", "content": content, **model, "timestamp": 1}


def result(call: str, text: str = "two sails") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call, "toolName": "subagent", "content": content, "isError": False}


def message(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "message": {"timestamp": 1, **of}}


def aside(entry: str, answer_id: object, **of: object) -> dict[str, Any]:
    data = {"entryId": entry, "answerId": answer_id, "message": of}
    return {"type": "custom", "customType": "pinnace.pending-result", "data": data}


ASKED = message({"role": "user", "content": "delegate"})
SHELL = message({"role": "bashExecution", "command": "ls", "output": "", "exitCode": 0, "cancelled": False})
SHELL["message"]["truncated"] = False
OF_FIRST = aside("r1", "2", **result("c1"), timestamp=7)
OF_SECOND = aside("r2", "2", **result("c2", "a mast"), timestamp=8)


@pytest.mark.parametrize(
    ("entries", "taken"),
    [
        ([ASKED, message(answer("c1", "c2", "c3")), OF_SECOND, SHELL, OF_FIRST], ["r1", "r2"]),
        ([ASKED, message(answer("c1", "c2")), OF_FIRST, message(result("c1"))], []),
        ([ASKED, message(answer("c1", "c2")), OF_FIRST, message(result("c2"))], ["r1"]),
        ([ASKED, message(answer("c1", "c2")), OF_FIRST, OF_FIRST], ["r1"]),
        ([ASKED, message(answer("c1", "c2")), OF_FIRST, ASKED], []),
        ([ASKED, message(answer("c1", "c2")), OF_FIRST, message(answer("c1", "c2"))], []),
        ([ASKED, message(answer("c1", "c2")), aside("r1", "1", **result("c1"))], []),
        ([ASKED, message(answer("c1", "c2")), aside("2", "2", **result("c1"))], []),
        ([ASKED, message(answer("c1", "c2")), aside("r1", "2", **result("c9"))], []),
        ([ASKED, message(answer("c1", "c2")), aside("r1", None), aside("r2", "2", role="user", content="x")], []),
        ([ASKED, OF_FIRST], []),
    ],
)
def test_what_a_crash_has_left_aside_becomes_the_result(
    tmp_path: Path, entries: list[dict[str, Any]], taken: list[str]
) -> None:
    """R-SUB-11: of the last answer of the branch alone, in the order of its calls, as the entry of its records."""
    file = tmp_path / "parent.jsonl"
    ids = [{"id": str(place + 1), "parentId": str(place) if place else None} for place in range(len(entries))]
    times = {"timestamp": "2026-01-01T00:00:00.000Z"}
    header = {"type": "session", "version": 3, "id": "s", "cwd": str(tmp_path), **times}
    lines = [header, *({**each, **named, **times} for each, named in zip(entries, ids, strict=True))]
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for _ in range(2):
        session = Library(None).open(file, "/", Lease.take(file)).session
        assert session.file is not None
        session.file.abandon()
        written = [json.loads(line) for line in file.read_text().splitlines()[len(lines) :]]
        added = [each for each in written if each["type"] == "message"]

        assert taken == [each["id"] for each in added]
        kept = {each["data"]["entryId"]: each["data"]["message"] for each in entries if "data" in each}
        assert [kept[each] for each in taken] == [each["message"] for each in added]
        if taken == ["r1", "r2"]:
            assert session.interruption is not None
            assert [{"id": "c3", "name": "subagent"}] == session.interruption["cutCalls"]
