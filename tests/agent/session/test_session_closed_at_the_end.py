"""A session that is no longer the current one is closed, and its lease is free for other processes.

Rules R-SES-05, R-SES-06.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio
import trio.testing

from pinnace_agent.core.jobs import Jobs
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.core.ports.sessions import SessionOwner
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.session_manager import SessionManager
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.queue.operations import QueuedMessage, add
from pinnace_agent.session.store.file import SessionFile
from pinnace_agent.session.store.lease import Lease, LeaseHeld
from pinnace_agent.session.store.save_error import SaveError
from pinnace_spec.records.messages import UserMessage
from pinnace_statechart.effects import ReturnQueued
from pinnace_statechart.queues import Item


async def test_one_whose_closing_was_cancelled_before_it_began_is_closed_all_the_same(tmp_path: Path) -> None:
    library = Library(SessionFolder(tmp_path / "sessions", is_flat=True))
    former = library.new(str(tmp_path))
    former.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    lease = Path(f"{former.path}.lease")
    assert lease.exists()

    async with trio.open_nursery() as nursery:
        # Nothing else of the agent is used here.
        profile, emitter = cast("AgentProfile", SimpleNamespace(registry=None)), cast("Emitter", None)
        agent = cast("SessionOwner", SimpleNamespace(jobs=Jobs(nursery)))
        sessions = SessionManager(former, library, profile, emitter, agent, lambda: None)
        _replace(sessions, library.new(str(tmp_path)))
        nursery.cancel_scope.cancel()
    assert lease.exists()
    await sessions.close_all()

    assert not lease.exists()


async def test_one_that_is_on_the_disk_is_closed_at_once(tmp_path: Path) -> None:
    """Another process may append when the command that has left it is answered."""
    library = Library(SessionFolder(tmp_path / "sessions", is_flat=True))
    former = library.new(str(tmp_path))
    former.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    await former.sync()

    async with trio.open_nursery() as nursery:
        profile, emitter = cast("AgentProfile", SimpleNamespace(registry=None)), cast("Emitter", None)
        agent = cast("SessionOwner", SimpleNamespace(jobs=Jobs(nursery)))
        sessions = SessionManager(former, library, profile, emitter, agent, lambda: None)
        _replace(sessions, library.new(str(tmp_path)))

        assert not Path(f"{former.path}.lease").exists()


async def test_one_whose_messages_are_returned_is_closed_before_the_answer(tmp_path: Path) -> None:
    """The answer waits until that is on the disk; so the lease does not stay behind it."""
    library = Library(SessionFolder(tmp_path / "sessions", is_flat=True))
    former = library.new(str(tmp_path))
    add(former, QueuedMessage("m", "steer", "one", ()))
    await former.sync()
    leases: list[bool] = []
    lease = Path(f"{former.path}.lease")

    async with trio.open_nursery() as nursery:
        profile, emitter = cast("AgentProfile", SimpleNamespace(registry=None)), cast("Emitter", None)
        agent = cast("SessionOwner", SimpleNamespace(jobs=Jobs(nursery)))
        sessions = SessionManager(former, library, profile, emitter, agent, lambda: None)
        sessions.queue.mark_returned(ReturnQueued(1, (Item(1, "one", message_id="m"),), "session_replaced"), None)
        sessions.queue.answer(1, lambda _: leases.append(lease.exists()))
        _replace(sessions, library.new(str(tmp_path)))

    assert [False] == leases


async def test_an_append_waits_for_a_process_that_leaves_the_session(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Its client may have heard of that before the disk has everything. Other tasks run meanwhile."""
    _, file, beside = _opened_beside(tmp_path)
    message: UserMessage = {"role": "user", "content": [{"type": "text", "text": "two"}], "timestamp": 2}
    with pytest.raises(SaveError, match="Session is in use"):
        beside.accept(message, "m")
    await beside.wait_until_left()  # it does not leave
    file.announce_end()
    left: list[str] = []

    async def wait(name: str, scope: trio.CancelScope) -> None:
        with scope:
            await beside.wait_until_left()
            left.append(name)

    async with trio.open_nursery() as nursery:
        given_up = trio.CancelScope()
        nursery.start_soon(wait, "given up", given_up)
        nursery.start_soon(wait, "one", trio.CancelScope())
        await trio.testing.wait_all_tasks_blocked()
        given_up.cancel()
        mock_clock.jump(0.5)
        await trio.testing.wait_all_tasks_blocked()
        before = tuple(left)
        file.abandon()
        mock_clock.jump(0.2)
    beside.accept(message, "m")

    assert () == before
    assert ["one"] == left
    assert 2 == len(beside.messages)
    await beside.close()


async def test_a_process_that_announces_its_end_and_does_not_leave_is_waited_for_a_second(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Then what is to be appended is refused, by an error that names it."""
    former, file, beside = _opened_beside(tmp_path)
    file.announce_end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside.wait_until_left)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(1.0)
    with pytest.raises(SaveError, match="Session is in use"):
        beside.accept({"role": "user", "content": [{"type": "text", "text": "two"}], "timestamp": 2}, "m")
    await former.close()


async def test_a_save_that_ends_behind_its_process_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its job has been reported as ended, and the disk answers afterwards."""
    session, saving, saved = (
        Library(SessionFolder(tmp_path, is_flat=True)).new(str(tmp_path)),
        trio.Event(),
        trio.Event(),
    )

    async def sync() -> None:
        saving.set()
        with trio.CancelScope(shield=True):
            await saved.wait()

    monkeypatch.setattr(session, "sync", sync)
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        agent = cast("SessionOwner", SimpleNamespace(jobs=jobs))
        profile, emitter = cast("AgentProfile", SimpleNamespace(registry=None)), cast("Emitter", None)
        SessionManager(session, Library(None), profile, emitter, agent, lambda: None)
        session.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
        await saving.wait()
        jobs.abandon()
        saved.set()

    assert [] == caplog.records


def _opened_beside(folder: Path) -> tuple[Session, SessionFile, Session]:
    """Return a session that this process has, with its file, and the session opened again, as by another process."""
    former = Library(SessionFolder(folder, is_flat=True)).new(str(folder))
    former.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    assert former.file is not None
    path = former.file.path
    with pytest.raises(LeaseHeld) as held:
        Lease.take(path)
    beside = Library(SessionFolder(folder, is_flat=True)).open(path, str(folder), held.value).session
    return former, former.file, beside


def _replace(sessions: SessionManager, session: Session) -> None:
    former, sessions.session = sessions.session, session
    former.users -= 1
    sessions._former[former] = None
    sessions.close_unused()
