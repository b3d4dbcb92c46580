"""A switch that is cancelled while it takes its file leaves no lease behind. Rule R-SES-06."""

import json
from pathlib import Path

import trio

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session.replacement import SessionReplacement, SwitchSession
from pinnace_agent.session.store.lease import Lease

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
