"""One session command: from its validation, through the wait for a file, to the session that it asks for.

`check` and `prepare` have no visible effect; `commit` makes the new session or raises, and the former one stays current
until it has returned. So a command that is rejected, vetoed, cancelled or failed leaves everything as it was (C-10).
The statechart decides what happens to runs, queues and answers.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, assert_never

import trio

from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import LEASE_WAIT_S, Library, OpenedSession
from pinnace_agent.session.opening import check_path
from pinnace_agent.session.store.file import SaveError
from pinnace_agent.session.store.lease import Lease, LeaseHeld, take_lease
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # loaded with a sandbox
    from pinnace_agent.core.ports.confinement import PreparedFolder

# Nothing was appended, so there is nothing to save: closing only releases the lease.
_DISCARD_S: Final = 1.0


class EmptySession(NamedTuple):
    """An empty session."""

    parent: str | None


class SwitchSession(NamedTuple):
    """The session in a file."""

    path: str


class ForkSession(NamedTuple):
    """A session with everything before a user's message, or up to an entry."""

    entry_id: str
    position: Literal["before", "at"] = "before"


class BranchSession(NamedTuple):
    """The same, by the place of the message's entry, which `get_branch_messages` reports."""

    entry_index: int


class CloneSession(NamedTuple):
    """A session with the current branch."""


class MoveRequest(NamedTuple):
    """A move of the session to another of its entries, which replaces nothing."""

    target_id: str | None
    """None: before the first entry."""
    summarize: bool = False
    """Whether a model is to summarise the branch that is left."""
    instructions: str | None = None
    """What the summary should attend to."""
    replace_instructions: bool = False
    label: str | None = None
    """For the summary, or for the entry without one."""


SessionRequest = EmptySession | SwitchSession | ForkSession | BranchSession | CloneSession


class SessionReplacement:
    """The replacement of the current session. `text` is the message that a fork starts before."""

    def __init__(
        self,
        request: SessionRequest,
        library: Library,
        current: Session,
        admit: "Callable[[Session], Awaitable[PreparedFolder | None]]",
    ) -> None:
        """Do nothing yet; `admit` raises a `ClientError` for an opened session that can't become the current one."""
        self.folder: PreparedFolder | None = None
        """That of the session, as it was admitted; None: there is nothing to prepare."""
        self.text: str | None = None
        self.restores_choices = isinstance(request, SwitchSession | ForkSession | BranchSession)
        self.is_other_conversation = isinstance(request, EmptySession | SwitchSession)
        self.notices: tuple[str, ...] = ()
        self.request = request
        self._library = library
        self._current = current
        self._admit = admit
        self._leaf: int | None = None
        self._opened: OpenedSession | None = None
        self._is_discarded = False

    @property
    def must_wait(self) -> bool:
        """Whether `prepare` has something to wait for."""
        return isinstance(self.request, SwitchSession)

    def check(self) -> None:
        """Validate the command as far as that needs no waiting.

        Raises:
            ClientError: The command makes no sense now.
        """
        if isinstance(self.request, EmptySession | SwitchSession):
            _check_saved(self._current)  # copies take along what is not saved
        match self.request:
            case EmptySession():
                pass
            case SwitchSession():
                check_path(self.request.path, self._current.cwd)
            case ForkSession(position="at"):
                self._leaf = self._current.tree.find(self.request.entry_id)
                if self._leaf is None:
                    raise errors.ClientError(errors.FORK_INVALID_ENTRY, errors.ErrorCode.ENTRY_NOT_FOUND)
            case ForkSession():
                self._check_fork(self.request.entry_id)
            case BranchSession():
                entries = self._current.tree.entries
                if not 0 <= self.request.entry_index < len(entries):
                    raise errors.ClientError(errors.FORK_INVALID_ENTRY, errors.ErrorCode.ENTRY_NOT_FOUND)
                self._check_fork(str(entries[self.request.entry_index]["id"]))
            case CloneSession():
                if self._current.tree.leaf is None:
                    raise errors.ClientError(errors.CLONE_NO_ENTRY, errors.ErrorCode.ENTRY_NOT_FOUND)
            case _:
                assert_never(self.request)

    def _check_fork(self, entry_id: str) -> None:
        from pinnace_agent.session.branch_copy import fork_point  # not at start

        point = fork_point(self._current.tree, entry_id)
        if point is None:
            raise errors.ClientError(errors.FORK_INVALID_ENTRY, errors.ErrorCode.ENTRY_NOT_FOUND)
        self._leaf, self.text = point

    async def prepare(self) -> None:
        """Read the file that is switched to. Cancelled or failed, it has not been touched.

        Raises:
            ClientError: It can't be read, it is no session, or it is not admitted.
        """
        if not isinstance(self.request, SwitchSession):
            return
        path = check_path(self.request.path, self._current.cwd)
        if (found := self._library.find_open(path)) is not None:
            self.folder = await self._admit(found)
            return
        await self._library.closed(path)
        lease: Lease | LeaseHeld | None
        try:
            lease = await take_lease(path, LEASE_WAIT_S, waits_for_all=False)
        except LeaseHeld as held:
            lease = held
        except OSError:
            lease = None
        try:
            # Not abandoned when cancelled: what was opened must be closed again, here.
            self._opened = await trio.to_thread.run_sync(self._library.open, path, self._current.cwd, lease)
        except trio.Cancelled:  # before the thread began
            if isinstance(lease, Lease):
                lease.release()
            raise
        self.notices = self._opened.notices
        if self._is_discarded:
            await self.discard()
        else:
            self.folder = await self._admit(self._opened.session)

    async def discard(self) -> None:
        """Close what was prepared and not committed, or is still being prepared."""
        self._is_discarded = True
        opened, self._opened = self._opened, None
        if opened is not None:
            close = self._library.begin_close(opened.session)
            with trio.move_on_after(_DISCARD_S, shield=True):  # the task that prepared it is being cancelled
                await close()

    async def commit(self) -> Session:
        """Make the session.

        Raises:
            ClientError: It could not be made; the former one stays current.
        """
        current = self._current
        match self.request:
            case EmptySession():
                return self._library.new(current.cwd, beside=current, parent=self.request.parent)
            case SwitchSession():
                if self._opened is not None:
                    opened, self._opened = self._opened, None
                    return opened.session
                found = self._library.find_open(check_path(self.request.path, current.cwd))
                if found is None:  # closed meanwhile, by the last shell that worked there
                    await self.prepare()
                    return await self.commit()
                return found
            case ForkSession() | BranchSession():
                return await self._copy(self._leaf)
            case CloneSession():
                return await self._copy(current.tree.leaf)
            case _:
                assert_never(self.request)

    async def _copy(self, leaf: int | None) -> Session:
        try:
            entries = self._library.branch(self._current, leaf)
            return await trio.to_thread.run_sync(self._library.copy, self._current, entries)
        except (OSError, SaveError, LeaseHeld) as error:
            text = error.strerror or str(error) if isinstance(error, OSError) else error.text
            raise errors.ClientError(errors.session_not_copied(text), errors.ErrorCode.IO_ERROR) from None


def _check_saved(session: Session) -> None:
    """Reject leaving a session while some of it is in memory alone (R-SES-08)."""
    if session.file is None or not session.file.unsaved:
        return
    try:
        session.file.flush()
    except SaveError as error:
        raise errors.ClientError(error.text, errors.ErrorCode.SESSION_NOT_SAVED) from None
