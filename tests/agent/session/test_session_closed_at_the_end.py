"""A session that is no longer in force when the process ends: it is closed, whatever became of the task for that.

Rules R-SES-05, R-SES-06.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from pinnace_agent.core.jobs import Jobs
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.core.ports.sessions import SessionOwner
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.engine.session_manager import SessionManager
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library


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


def _replace(sessions: SessionManager, session: Session) -> None:
    former, sessions.session = sessions.session, session
    former.users -= 1
    sessions._former[former] = None
    sessions.close_unused()
