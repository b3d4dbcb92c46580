"""Exports that clients have asked for: each in a thread, one after the other, while everything else goes on.

What is exported is the session as it is when the command comes; what happens to it meanwhile changes nothing. A page is
there whole or not at all, also when the process ends. Must not know lines nor ids of commands: who starts an export is
told its end, once.
"""

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.host import Host
from pinnace_spec import errors

if TYPE_CHECKING:  # no start needs it
    from pinnace_agent.export.source import Source

# How long an export may go on after the end of stdin or a signal: most are done by then, and clients that kill wait at
# least a second.
GRACE_S: Final = 0.5

Ended = Callable[[str | errors.ProtocolError], None]


class Exports:
    """The exports of one process that have not ended."""

    def __init__(self) -> None:
        self._scopes: dict[int, trio.CancelScope] = {}
        self._numbers = count(1)
        self._limiter = trio.CapacityLimiter(1)
        self._deadline_s: float | None = None
        self._done: Callable[[], None] | None = None

    def start(self, host: Host, wanted: str | None, ended: Ended) -> None:
        """Begin to export the session in force.

        Args:
            host: Whose session it is.
            wanted: The path to write, if the client has said one.
            ended: Told the path, or why there is none.

        Raises:
            ClientError: There is nothing to export.
        """
        source = live_source(host)
        number = next(self._numbers)
        scope = self._scopes[number] = trio.CancelScope()
        if self._deadline_s is not None:
            scope.deadline = self._deadline_s
        # Stands until the thread says otherwise: it is what a cancelled export ends with.
        outcome: list[str | errors.ProtocolError] = [
            errors.ClientError(errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)
        ]

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            del self._scopes[number]
            ended(outcome[-1] if failure is None else errors.InternalError(f"Internal error: {failure}"))
            self._check_done()

        host.jobs.start(f"export:{number}", partial(self._work, source, wanted, scope, outcome), over)

    def hurry(self) -> None:
        """Give all exports a moment to end; what is left then is refused, and leaves nothing behind."""
        self._deadline_s = trio.current_time() + GRACE_S
        for scope in self._scopes.values():
            scope.deadline = self._deadline_s

    def when_done(self, done: Callable[[], None]) -> None:
        """Call `done` once no export is left; at once if none is."""
        self._done = done
        self._check_done()

    def _check_done(self) -> None:
        if self._done is not None and not self._scopes:
            done, self._done = self._done, None
            done()

    async def _work(
        self, source: "Source", wanted: str | None, scope: trio.CancelScope, outcome: list[str | errors.ProtocolError]
    ) -> None:
        with scope:
            try:
                # The thread looks often whether it is cancelled, and takes back what it has written.
                outcome.append(await trio.to_thread.run_sync(_export, source, wanted, limiter=self._limiter))
            except errors.ClientError as error:
                outcome.append(error)


def _export(source: "Source", wanted: str | None) -> str:
    from pinnace_agent.export.exporting import export_page

    return export_page(source, wanted, cwd=str(Path.cwd()), env=os.environ, check=trio.from_thread.check_cancelled)


def live_source(host: Host) -> "Source":
    """Return the session in force as it is now, with what only the running agent knows.

    Raises:
        ClientError: It is not in a file.
    """
    from pinnace_agent.export.source import LiveAgent, Source

    session, profile = host.session, host.profile
    if session.file is None:
        raise errors.ClientError(errors.EXPORT_IN_MEMORY, errors.ErrorCode.SESSION_UNAVAILABLE)
    if not session.file.exists:
        raise errors.ClientError(errors.EXPORT_NOTHING, errors.ErrorCode.SESSION_UNAVAILABLE)
    header = {"id": session.id, "cwd": session.cwd, "parentSession": session.parent_session}
    return Source(
        session.file.path,
        header,
        session.tree.entries.copy(),
        session.tree.leaf,
        session.report.damaged_lines,
        LiveAgent(profile.system_prompt(session.cwd), profile.tool_specs()),
    )
