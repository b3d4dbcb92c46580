"""Reads that take long: exports and lists of sessions, each in a thread, while everything else goes on.

What is exported is the session as it is when the command comes; what happens to it meanwhile changes nothing. A page is
there whole or not at all, also when the process ends. Has no access to lines and ids of commands: the end of a read is
reported to its starter, once.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.core.surroundings import environment, working_folder
from pinnace_rpc.server.queries import Data, Read
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.jobs import Jobs
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.export.source import Source
    from pinnace_agent.session.folders import SessionFolder
    from pinnace_spec.records import commands as cmd

# How long a read may go on after the end of stdin or a signal: most are done by then, and clients that kill wait at
# least a second.
GRACE_S: Final = 0.5
# Sessions of a page whose client names no limit.
_SESSIONS_LISTED: Final = 50

Ended = Callable[[Data | errors.ProtocolError], None]


class SlowReads:
    """The slow reads of one process that have not ended."""

    def __init__(self) -> None:
        self._scopes: dict[int, trio.CancelScope] = {}
        self._numbers = count(1)
        # One at a time of each kind: a list does not wait for an export.
        self._limiters: defaultdict[str, trio.CapacityLimiter] = defaultdict(partial(trio.CapacityLimiter, 1))
        self._deadline_s: float | None = None
        self._done: Callable[[], None] | None = None

    def start(self, jobs: "Jobs", kind: str, read: Callable[[], Data], ended: Ended) -> None:
        """Begin a read in a thread.

        Args:
            jobs: Where it runs.
            kind: Reads of one kind run one after the other.
            read: Returns the data of the answer, or raises `ClientError`; checks often whether it is cancelled.
            ended: Called with the data, or the reason why there is none.
        """
        number = next(self._numbers)
        scope = self._scopes[number] = trio.CancelScope()
        if self._deadline_s is not None:
            scope.deadline = self._deadline_s
        # Stands until the thread says otherwise: it is what a cancelled read ends with.
        outcome: list[Data | errors.ProtocolError] = [
            errors.ClientError(errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)
        ]

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            del self._scopes[number]
            ended(outcome[-1] if failure is None else errors.InternalError(f"Internal error: {failure}"))
            self._check_done()

        jobs.start(f"{kind}:{number}", partial(self._work, self._limiters[kind], read, scope, outcome), over)

    def hurry(self) -> None:
        """Give all reads a moment to end; what is left then is refused, and leaves nothing behind."""
        self._deadline_s = trio.current_time() + GRACE_S
        for scope in self._scopes.values():
            scope.deadline = self._deadline_s

    def when_done(self, done: Callable[[], None]) -> None:
        """Call `done` once no read is left; at once if none is."""
        self._done = done
        self._check_done()

    def _check_done(self) -> None:
        if self._done is not None and not self._scopes:
            done, self._done = self._done, None
            done()

    async def _work(
        self,
        limiter: trio.CapacityLimiter,
        read: Callable[[], Data],
        scope: trio.CancelScope,
        outcome: list[Data | errors.ProtocolError],
    ) -> None:
        with scope:
            try:
                # The thread looks often whether it is cancelled, and takes back what it has written.
                outcome.append(await trio.to_thread.run_sync(read, limiter=limiter))
            except errors.ClientError as error:
                outcome.append(error)


def export_html(read: Read) -> Callable[[], Data]:
    """Return the export of the current session as it is now.

    Raises:
        ClientError: There is nothing to export.
    """
    command: cmd.ExportHtml = read.command
    return partial(_export, live_source(read.agent), command.outputPath)


def _export(source: "Source", wanted: str | None) -> Data:
    from pinnace_agent.export.exporting import export_page

    check = trio.from_thread.check_cancelled
    return {"path": export_page(source, wanted, cwd=working_folder(), env=environment(), check=check)}


def list_sessions(read: Read) -> Callable[[], Data]:
    """Return the reading of a page of sessions.

    Raises:
        ClientError: No sessions are kept, or fields contradict each other.
    """
    command: cmd.ListSessions = read.command
    folder = read.agent.sessions.folder
    if folder is None:
        raise errors.ClientError(errors.SESSIONS_NOT_KEPT, errors.ErrorCode.SESSION_UNAVAILABLE)
    if command.cwd is not None and (command.all or not os.path.isabs(command.cwd)):
        problem = errors.NOT_WITH_ALL if command.all else errors.NOT_ABSOLUTE
        raise errors.ClientError(errors.invalid_field("list_sessions", "cwd", problem))
    cwd = None if command.all else command.cwd or read.agent.session.cwd
    return partial(_list_sessions, folder, cwd, command.cursor, command.limit or _SESSIONS_LISTED)


def _list_sessions(folder: "SessionFolder", cwd: str | None, cursor: str | None, limit: int) -> Data:
    from pinnace_agent.session.listing import NoCursor, page_of_sessions

    try:
        page = page_of_sessions(folder, cwd, cursor, limit, check=trio.from_thread.check_cancelled)
    except NoCursor:
        problem = errors.invalid_field("list_sessions", "cursor", errors.NOT_A_CURSOR)
        raise errors.ClientError(problem) from None
    data: dict[str, object] = {"sessions": [info.record() for info in page.sessions]}
    return data if page.next_cursor is None else {**data, "nextCursor": page.next_cursor}


def live_source(agent: "AgentReads") -> "Source":
    """Return the session in force as it is now, with what only the running agent knows.

    Raises:
        ClientError: It is not in a file.
    """
    from pinnace_agent.export.source import LiveAgent, Source

    session, profile = agent.session, agent.profile
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


SLOW_READS: Final[Mapping[str, Callable[[Read], Callable[[], Data]]]] = {
    "export_html": export_html,
    "list_sessions": list_sessions,
}
"""What each looks at in its own turn, and returns the work of a thread."""
