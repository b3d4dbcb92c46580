"""The session that a process starts with: found, opened or created as the flags require.

Order as in pi: `--no-session`, `--fork`, `--session`, `--continue`, `--session-id`, a new one. Non-interactive.
Only a session that is named by its path, or copied, may belong to another folder (R-SES-09). Takes the lease of a file
that it opens, or opens it beside the process that has the lease (R-SES-06).
"""

from collections.abc import Mapping
from pathlib import Path

from pinnace_agent.config.settings import Settings
from pinnace_agent.files.folders import make_folder
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder, choose_folder, sessions_root
from pinnace_agent.session.identity import NotOne
from pinnace_agent.session.library import LEASE_WAIT_S, Library, OpenedSession
from pinnace_agent.session.opening import check_path, resolve
from pinnace_agent.session.store.lease import Lease, LeaseHeld, take_waiting
from pinnace_rpc.options.options import Options, StartupError
from pinnace_spec.rules import errors


class SessionChoice:
    """Finds the session of one process."""

    def __init__(self, options: Options, settings: Settings, env: Mapping[str, str], cwd: str) -> None:
        """Decide where sessions are kept."""
        self._options = options
        self._cwd = cwd
        self._root = sessions_root(agent_dir(env))
        self._folder: SessionFolder | None = None
        if options.is_persistent:
            self._folder = choose_folder(agent_dir(env), cwd, options.session_dir, env, settings.session_dir)
        self.library = Library(self._folder, naming_file=None if options.hosted is None else Path(options.hosted))
        self.notices: tuple[str, ...] = ()  # about the session that was opened

    def session(self) -> Session:
        """Return the session; `notices` is about it.

        Raises:
            StartupError: The requested session does not exist, or can't be opened.
        """
        try:
            return self._session()
        except (errors.ClientError, NotOne, LeaseHeld) as error:
            raise StartupError(error.text, "session_error", is_retryable=isinstance(error, LeaseHeld)) from None
        except OSError as error:
            raise StartupError(f"the session can't be written: {error}", "session_error", is_retryable=True) from None

    def _session(self) -> Session:
        options, folder = self._options, self._folder
        if folder is None:
            return self.library.new(self._cwd, session_id=options.session_id)
        if (named := self._named_by_host()) is not None:
            return named
        if options.fork is not None:
            return self._fork(options.fork, folder)
        if options.session is not None:
            return self._named(options.session, folder)
        if options.continues:
            from pinnace_agent.session.listing import most_recent  # not at the start of a new session, here and below

            recent = most_recent(folder, self._cwd)
            return self.library.new(self._cwd) if recent is None else self._open(recent)
        if options.session_id is not None:
            return self._with_id(options.session_id, folder)
        return self.library.new(self._cwd)

    def _fork(self, reference: str, folder: SessionFolder) -> Session:
        from pinnace_agent.session.listing import find_anywhere, find_exact

        session_id = self._options.session_id
        if session_id is not None and find_exact(session_id, folder, self._cwd) is not None:
            text = f"the session {session_id} exists already: choose another id for the copy"
            raise StartupError(text, "session_error")
        path = (
            check_path(reference, self._cwd)
            if _is_path(reference)
            else find_anywhere(reference, self._root, folder, self._cwd)
        )
        return self._noticed(self.library.fork_file(path, self._cwd, session_id))

    def _named_by_host(self) -> Session | None:
        """Return the session with which the former process of a hosted agent has ended; None: it has named none.

        That process may work off what it was sent, and replace its session, until its lease is free: so the name is
        read again then.
        """
        while (named := self.library.named()) is not None:
            session_id, path = named
            try:
                make_folder(path.parent)
                lease = take_waiting(path, LEASE_WAIT_S)
            except OSError:
                return self._open(path)  # it can be read at best
            if self.library.named() != named:
                lease.release()
            elif path.exists():
                return self._noticed(self.library.open(path, self._cwd, lease))
            else:
                lease.release()
                return self.library.make_at(path, self._cwd, session_id)
        return None

    def _named(self, reference: str, folder: SessionFolder) -> Session:
        if not _is_path(reference):
            from pinnace_agent.session.listing import find_session

            return self._open(find_session(reference, self._root, folder, self._cwd))
        path = resolve(reference, self._cwd)
        if not path.exists():
            return self.library.make_at(path, self._cwd, self._options.session_id)
        return self._open(check_path(reference, self._cwd))

    def _with_id(self, session_id: str, folder: SessionFolder) -> Session:
        from pinnace_agent.session.listing import find_exact

        path = find_exact(session_id, folder, self._cwd)
        return self.library.new(self._cwd, session_id=session_id) if path is None else self._open(path)

    def _open(self, path: Path) -> Session:
        path = resolve(str(path), self._cwd)
        # Mode rpc has commands that append nothing; the others are started to append. A host repeats messages to the
        # next process of its agent, and these must not be refused while the former one ends.
        may_be_beside = self._options.mode == "rpc" and self._options.hosted is None
        lease: Lease | LeaseHeld | None
        try:
            lease = take_waiting(path, LEASE_WAIT_S, waits_for_all=not may_be_beside)
        except LeaseHeld as held:
            if not may_be_beside:
                raise
            lease = held
        except OSError:  # the folder is read-only: the session can still be read
            lease = None
        return self._noticed(self.library.open(path, self._cwd, lease))

    def _noticed(self, opened: OpenedSession) -> Session:
        self.notices = opened.notices
        return opened.session


def _is_path(reference: str) -> bool:
    return "/" in reference or "\\" in reference or reference.endswith(".jsonl")
