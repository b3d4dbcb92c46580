"""Which messages of the user a session knows by their ids."""

import resource
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinnace_agent.engine.run_recorder import user_message
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.queue.history import QueueHistory
from pinnace_agent.session.queue.operations import QueuedMessage, add
from pinnace_agent.session.store.entries import EntryList
from pinnace_agent.session.store.line_shape import LineReader
from pinnace_agent.session.store.reading import read_entries
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.wire.json_text import encode_record

HELLO = user_message("hello", [], 1)


def leaf_id(session: Session) -> object:
    return session.tree.leaf_id


def test_a_message_is_known_from_when_it_is_appended() -> None:
    session = Session("/")
    session.accept(HELLO, "a")
    assert leaf_id(session) == session.entry_of_message_id("a")

    session.keep(HELLO, message_id="b")
    session.keep(HELLO)

    assert (session.entry_of_message_id("a"), session.entry_of_message_id("b")) == tuple(
        entry["id"] for entry in session.tree.entries if "messageId" in entry
    )
    assert session.entry_of_message_id("c") is None


def test_what_is_taken_back_behind_a_refused_prompt_leaves_the_conversation_readable() -> None:
    """The refusal has begun to read the branch anew, with the entry of a message whose save fails then."""
    session = Session("/")
    session.accept(HELLO, "a")
    add(session, QueuedMessage("b", "steer", "b", ()))
    session.drop(session.accept(HELLO, "c"))
    session.take_back()

    assert session.meter.tokens() > 0
    assert [HELLO] == session.messages


def test_messages_of_all_branches_are_known() -> None:
    session = Session("/")
    session.accept(HELLO, "a")
    known = leaf_id(session)
    session.move(None)

    assert known == session.entry_of_message_id("a")


def test_the_entry_that_leaves_a_refused_message_out_makes_its_id_unknown(tmp_path: Path) -> None:
    """R-QUE-14: one entry, so that no crash comes between the two."""
    session = Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path))
    session.keep(HELLO, message_id="a")
    place = session.accept(HELLO, "b")
    session.keep_custom("other", {})
    session.drop(place)

    assert "custom" == session.tree.entries[place + 2]["type"]
    assert {"b": place + 2} == QueueHistory(session).refused


def test_a_message_that_was_refused_and_sent_again_is_queued(tmp_path: Path) -> None:
    """R-QUE-12, R-QUE-14: the entry of the refused prompt is no delivery of it, one behind is."""
    session = Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path))
    place = session.accept(HELLO, "a")
    session.keep_custom("other", {})
    session.drop(place)
    add(session, QueuedMessage("a", "steer", "hello", ()))
    queued = [*QueueHistory(session).queued]
    session.keep(HELLO, message_id="a")

    assert ["a"] == queued
    assert not QueueHistory(session).queued


def test_a_message_that_was_taken_back_is_unknown_and_the_former_one_with_its_id_known() -> None:
    session = Session("/")
    session.keep(HELLO, message_id="a")
    first = leaf_id(session)
    for message_id in ("a", "b"):
        place = session.accept(HELLO, message_id)
        assert leaf_id(session) == session.entry_of_message_id(message_id)
        session.drop(place)

    assert first == session.entry_of_message_id("a")
    assert session.entry_of_message_id("b") is None


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Let files of this process have so many bytes at the most."""
    former, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 40, 4096])
def test_a_saved_message_is_dropped_whether_or_not_there_is_room_for_the_marker(tmp_path: Path, room: int) -> None:
    """Without it the message is taken out of the file: a crash would leave it in the branch."""
    session = Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path))
    session.keep(HELLO, message_id="a")
    path = Path(session.path or "")
    place = session.accept(HELLO, "b")
    with file_limit(path.stat().st_size + room):
        session.drop(place)
        assert ids_of(read_branch(path)) == ["a"]
    assert ids_of(session.tree.branch()) == ["a"]
    session.keep(HELLO, message_id="c")
    assert ids_of(read_branch(path)) == ids_of(session.tree.branch()) == ["a", "c"]


def ids_of(branch: Iterable[Mapping[str, object]]) -> list[object]:
    return [entry["messageId"] for entry in branch if "messageId" in entry]


def read_branch(path: Path) -> Iterable[Mapping[str, object]]:
    """Return the branch that the next process finds."""
    entries, damaged = read_entries(path.read_bytes().partition(b"\n")[2])
    assert damaged == []
    return EntryTree(entries).branch()


def test_messages_that_another_process_appends_are_known(tmp_path: Path) -> None:
    session = Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path))
    session.keep(HELLO, message_id="a")
    assert session.entry_of_message_id("b") is None
    row = {"type": "message", "id": "f", "parentId": None, "timestamp": "", "message": HELLO, "messageId": "b"}
    with Path(session.path or "").open("ab") as file:
        file.write(encode_record(row))
    session.keep(HELLO, message_id="c")

    assert "f" == session.entry_of_message_id("b")
    assert leaf_id(session) == session.entry_of_message_id("c")


def test_a_line_that_is_not_decoded_stays_so_and_its_id_is_known() -> None:
    """Else no long file of ours would be read as fast as one of pi's."""
    row = {"type": "message", "id": "f", "parentId": None, "timestamp": "", "message": HELLO, "messageId": "a"}
    found = LineReader().read(encode_record(row).rstrip())
    assert found is not None
    head, stored = found
    tree = EntryTree(EntryList([stored]), [head])

    assert "f" == tree.entry_of_message_id("a")
    assert stored is tree.entries.item(0)


def test_an_id_that_is_no_text_is_nobodys() -> None:
    row = {"type": "message", "id": "f", "parentId": None, "timestamp": "", "message": HELLO}
    tree = EntryTree([{**row, "messageId": 7}, {**row, "id": "g", "messageId": None}])

    assert tree.entry_of_message_id("7") is None


def test_no_entry_gets_an_id_that_is_reserved() -> None:
    session = Session("/")
    reserved = {session.reserve_entry_id() for _ in range(100)}
    for entry_id in sorted(reserved):
        session.keep(HELLO)
        assert leaf_id(session) not in reserved
        session.keep(HELLO, entry_id=entry_id)
        assert entry_id == leaf_id(session)
