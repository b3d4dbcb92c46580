"""A session that is no longer in force when the process ends: it is closed, whatever became of the task for that.

Rules R-SES-05, R-SES-06.
"""

from pathlib import Path
from typing import cast

import trio

from pinnace_agent.emitter import Emitter
from pinnace_agent.jobs import Jobs
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.session import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_agent.session_keeper import SessionKeeper


async def test_one_whose_closing_was_cancelled_before_it_began_is_closed_all_the_same(tmp_path: Path) -> None:
    library = Library(SessionFolder(tmp_path / "sessions", is_flat=True))
    former = library.new(str(tmp_path))
    former.keep({"role": "user", "content": [{"type": "text", "text": "one"}], "timestamp": 1})
    lease = Path(f"{former.path}.lease")
    assert lease.exists()

    async with trio.open_nursery() as nursery:
        # Nothing of them is asked for here.
        registry, emitter = cast("ModelRegistry", None), cast("Emitter", None)
        keeper = SessionKeeper(
            former, library, registry, emitter, Jobs(nursery), lambda _: None, lambda _job, _work, _name: None
        )
        _replace(keeper, library.new(str(tmp_path)))
        nursery.cancel_scope.cancel()
    assert lease.exists()
    await keeper.close_all()

    assert not lease.exists()


def _replace(keeper: SessionKeeper, session: Session) -> None:
    former, keeper.session = keeper.session, session
    former.users -= 1
    keeper._former.add(former)
    keeper.close_unused()
