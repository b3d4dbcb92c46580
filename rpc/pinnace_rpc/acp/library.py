"""The stored sessions that editors list, load, archive and delete: those of the user's session folders, also of pi.

An id is compared exactly with the headers of files; it is never a path nor the beginning of one. Blocks on the file
system: called in a thread.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.session.folders import SessionFolder, choose_folder, sessions_root
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, NOT_FOUND, RequestError
from pinnace_rpc.acp.translation.params import InvalidParams
from pinnace_rpc.acp.translation.titles import date_text, session_title

if TYPE_CHECKING:  # loaded with the first session that is looked for
    from pinnace_agent.session.archive import Archive
    from pinnace_agent.session.listing import SessionInfo

PAGE: Final = 50
Archived: TypeAlias = Literal["exclude", "include", "only"]
"""Which sessions are listed, by whether they are archived."""


class StoredSession(NamedTuple):
    """A session's file."""

    path: Path
    cwd: str


class Library:
    """The stored sessions."""

    def __init__(self, environment: Mapping[str, str], session_dir: str | None) -> None:
        """Read nothing yet.

        Args:
            environment: Of this process.
            session_dir: The folder that the command line names, if any.
        """
        self._environment = environment
        self._session_dir = session_dir

    def page(
        self, cwd: str | None, cursor: str | None, archived: str, check: Callable[[], object]
    ) -> dict[str, object]:
        """Return a page of sessions, those written to last first.

        Raises:
            InvalidParams: The cursor is none, or `archived` is none of `Archived`.
        """
        from pinnace_agent.session.listing import NoCursor, page_of_sessions

        if archived not in get_args(Archived):
            raise InvalidParams("params.archived", f"must be one of {', '.join(get_args(Archived))}")
        archive = self._archive()
        folder = self._folder(cwd or os.sep)
        known: dict[str, bool] = {}

        def wants(session_id: str) -> bool:
            known[session_id] = archive.has(session_id)
            return archived == "include" or known[session_id] == (archived == "only")

        try:
            page = page_of_sessions(folder, None if cwd is None else os.path.realpath(cwd), cursor, PAGE, check, wants)
        except NoCursor:
            raise InvalidParams("params.cursor", "must be a nextCursor of this list") from None
        listed: dict[str, object] = {
            "sessions": [{**_listed(info), "archived": known.get(info.id, False)} for info in page.sessions]
        }
        return listed if page.next_cursor is None else {**listed, "nextCursor": page.next_cursor}

    def find(self, session_id: str, cwd: str) -> StoredSession:
        """Return the file of a session that belongs to a folder.

        Raises:
            RequestError: There is none, or it belongs to another folder, which the text names.
        """
        found = self._all(session_id)
        here = [each for each in found if _is_same(each.cwd, cwd)]
        if here:
            return here[0]
        if not found:
            raise unknown_session(session_id)
        gone = [each for each in found if not os.path.isdir(each.cwd)]
        if gone:
            return gone[0]
        raise InvalidParams("params.cwd", f"is {cwd}, but the session belongs to {found[0].cwd}")

    def first(self, session_id: str) -> StoredSession | None:
        """Return the file of a session, in whatever folder it works; None: there is none."""
        return next(iter(self._all(session_id)), None)

    def delete(self, session_id: str) -> None:
        """Delete the files of a session, with the copies of parts of it. It is no error if there is none.

        Raises:
            RequestError: Another process uses it.
        """
        from pinnace_agent.session.opening import copies_of

        for stored in self._all(session_id):
            with _leased(stored.path):
                for path in (*copies_of(stored.path), stored.path):
                    with suppress(FileNotFoundError):
                        system().unlink(path)
        _change(self._archive().remove, session_id)

    def archive(self, session_id: str) -> None:
        """Take a session out of the list, where it is not asked for. It is no error if it is archived.

        Raises:
            RequestError: There is none, or the mark could not be written.
        """
        self._change_archive(session_id, self._archive().add)

    def unarchive(self, session_id: str) -> None:
        """Put a session back into the list. It is no error if it is not archived.

        Raises:
            RequestError: There is none, or the mark could not be removed.
        """
        self._change_archive(session_id, self._archive().remove)

    def _change_archive(self, session_id: str, change: Callable[[str], object]) -> None:
        if self.first(session_id) is None:
            raise unknown_session(session_id)
        _change(change, session_id)

    def _archive(self) -> "Archive":
        from pinnace_agent.session.archive import Archive  # with the first list

        return Archive(agent_dir(self._environment))

    def check_free(self, path: Path) -> None:
        """Do nothing if no process uses a session.

        Raises:
            RequestError: One does; the text names it.
        """
        with _leased(path):
            pass

    def _all(self, session_id: str) -> list[StoredSession]:
        from pinnace_agent.session.listing import files_with_id

        root = sessions_root(agent_dir(self._environment))
        found = files_with_id(session_id, root, self._folder(os.sep))
        return [StoredSession(path, cwd) for path, cwd in found]

    def _folder(self, cwd: str) -> SessionFolder:
        from pinnace_agent.config.configuration import load_configuration

        configured = load_configuration(self._environment, Path(cwd)).settings.session_dir
        return choose_folder(agent_dir(self._environment), cwd, self._session_dir, self._environment, configured)


@contextmanager
def _leased(path: Path) -> Generator[None]:
    from pinnace_agent.session.store.lease import Lease, LeaseHeld

    try:
        lease = Lease.take(path)
        try:
            yield
        finally:
            lease.release()
    except LeaseHeld as error:
        raise _failed(error.text, "session_unavailable") from None
    except OSError as error:
        raise _failed(f"{path}: {error.strerror}", "io_error") from None


def _change(change: Callable[[str], object], session_id: str) -> None:
    try:
        change(session_id)
    except OSError as error:
        raise _failed(f"{error.filename}: {error.strerror}", "io_error") from None


def check_folder(of_session: str, cwd: str) -> None:
    """Check that a session that is open in a folder is asked for in that folder.

    Raises:
        InvalidParams: It is asked for in another one; the text names both.
    """
    if not _is_same(of_session, cwd):
        raise InvalidParams("params.cwd", f"is {cwd}, but the session is open in {of_session}")


def unknown_session(session_id: str) -> RequestError:
    """Return the error of an id that names no session."""
    data = {"errorCode": "session_not_found", "sessionId": session_id}
    return RequestError(NOT_FOUND, f"no session has the id {session_id[:200]!r}", data)


def _failed(text: str, code: str) -> RequestError:
    return RequestError(INTERNAL_ERROR, text, {"errorCode": code})


def _listed(info: "SessionInfo") -> dict[str, object]:
    listed: dict[str, object] = {"sessionId": info.id, "cwd": info.cwd}
    if title := session_title(info.name, info.first_message):
        listed["title"] = title
    listed["updatedAt"] = date_text(info.modified_ms / 1000)
    listed["_meta"] = {"pinnace": {"messageCount": info.message_count}}
    return listed


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
