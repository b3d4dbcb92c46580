"""What is returned of the queue that the file of a sub-agent has whose process has ended: `take_back`. R-SUB-10."""

from pathlib import Path

import pytest

from pinnace_agent.session.child_agents import take_back
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
    """Also behind a line that was cut; a message that never came to the file is returned likewise."""
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
