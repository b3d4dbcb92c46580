"""Which messages of the user a session knows by their ids."""

from pathlib import Path

from pinnace_agent.engine.run_recorder import user_message
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.store.entries import EntryList
from pinnace_agent.session.store.line_shape import LineReader
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


def test_messages_of_all_branches_are_known() -> None:
    session = Session("/")
    session.accept(HELLO, "a")
    known = leaf_id(session)
    session.move(None)

    assert known == session.entry_of_message_id("a")


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
