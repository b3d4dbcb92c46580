"""What a switch takes: nothing if it is cancelled, and never what this process has not closed yet. Rule R-SES-06."""

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import SessionReplacement, SwitchSession
from pinnace_agent.session.store.lease import Lease, LeaseHeld

# Where in it the cancellation comes is left to the system: each time somewhere else.
TRIES = 40


async def admit(_session: Session) -> None:
    """Admit every session."""


async def test_a_switch_that_is_cancelled_leaves_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    header = {"type": "session", "version": 3, "id": "a", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": str(tmp_path)}
    path.write_text(json.dumps(header) + "\n")
    sidecar = tmp_path / "session.jsonl.lease"
    library = Library(SessionFolder(tmp_path, is_flat=True))

    for _ in range(TRIES):
        plan = SessionReplacement(SwitchSession(str(path)), library, library.new(str(tmp_path)), admit)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(plan.prepare)
            while not sidecar.exists():
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await plan.discard()

        Lease.take(path).release()


async def test_a_switch_back_waits_until_this_process_has_closed_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may take long to save a session that was left, and its lease is not that of another process."""
    library = Library(SessionFolder(tmp_path, is_flat=True))
    former = library.new(str(tmp_path))
    former.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    path = Path(str(former.path))
    disk, close = trio.Event(), former.close

    async def close_slowly() -> None:
        await disk.wait()
        await close()

    monkeypatch.setattr(former, "close", close_slowly)
    closing = library.begin_close(former)
    plan = SessionReplacement(SwitchSession(str(path)), library, library.new(str(tmp_path)), admit)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(closing)
        nursery.start_soon(plan.prepare)
        await trio.testing.wait_all_tasks_blocked()
        disk.set()

    with pytest.raises(LeaseHeld):  # it has it
        Lease.take(path)
    await (await plan.commit()).close()
