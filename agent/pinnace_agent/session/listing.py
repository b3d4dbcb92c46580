"""Lists and finds sessions by the content of their files.

A file's name is no more than a hint, and so is its folder: two projects may share one, so the header decides which
project a session belongs to. Finding a session reads headers only, listing reads whole files. What can't be read, or is
no session, is skipped. Changes nothing. Blocks on the file system, so a running agent calls it from a thread.
"""

import base64
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pinnace_agent.core.json_access import as_array, as_count, as_object
from pinnace_agent.session.folders import SessionFolder, default_folder
from pinnace_agent.session.identity import NotOne
from pinnace_agent.session.store.append_file import TooLarge, read_whole
from pinnace_agent.session.store.entries import time_ms
from pinnace_agent.session.store.reading import read_header, read_session
from pinnace_agent.session.tree import clean_name
from pinnace_spec.printable import printable
from pinnace_spec.records.entries import Entry
from pinnace_spec.rules.limits import MAX_FIRST_MESSAGE_CHARS

NO_MESSAGES: Final = "(no messages)"

# Most headers have some 200 bytes; one with a long folder and a long parent has several thousand. What has no header
# within a MiB is no session, and must not be read whole to find out.
_HEADER_READS: Final = (4096, 2**20)
_SUFFIX: Final = ".jsonl"
# As many as fit on a screen; a user who matched more has to give more of the id anyway.
_MAX_LISTED: Final = 20
# Files that a page looks at, whether they hold a session of the working folder or not: it must not take long.
_MAX_SCANNED: Final = 2_000


class SessionInfo(NamedTuple):
    """A session in a list."""

    path: Path
    id: str
    cwd: str
    """Empty if the header, an old one, has none."""
    name: str | None
    parent_session: str | None
    created: str
    """As in the header."""
    modified_ms: int
    """The time of the last message of the user or a model; else when it was created, else the file's time."""
    message_count: int
    """Of all branches."""
    first_message: str
    """The first text of the user that is not empty."""

    @property
    def file(self) -> str:
        """The path as a text."""
        return str(self.path)

    def record(self) -> Mapping[str, object]:
        """Return it as it is on the wire."""
        record: dict[str, object] = {
            "id": self.id,
            "path": self.file,
            "cwd": self.cwd,
            "created": self.created,
            "modified": self.modified_ms,
            "messageCount": self.message_count,
            "firstMessage": _shortened(self.first_message),
        }
        if self.name is not None:
            record["name"] = self.name
        if self.parent_session is not None:
            record["parentSession"] = self.parent_session
        return record


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_FIRST_MESSAGE_CHARS else f"{text[: MAX_FIRST_MESSAGE_CHARS - 1]}…"


class SessionPage(NamedTuple):
    """Some of the sessions, and where the next ones begin."""

    sessions: Sequence[SessionInfo]
    next_cursor: str | None
    """None: there are no more."""


class NoCursor(Exception):
    """A text that is no cursor of a page."""


class NotFound(NotOne):
    """No session of this folder matches. `text` names the reference, and a match elsewhere."""


class Ambiguous(NotOne):
    """Several sessions match. `text` lists them."""


Report: TypeAlias = Callable[[str], object]


def _ignore(_text: str) -> None:
    pass


class _Found(NamedTuple):
    path: Path
    id: str
    cwd: str


def list_sessions(folder: SessionFolder, cwd: str | None, report: Report = _ignore) -> list[SessionInfo]:
    """Return the sessions in a folder, the most recent first.

    Args:
        folder: The folder to search.
        cwd: Only those of this working folder; None: all.
        report: Takes a sentence for people for each file that is too large to be listed.
    """
    infos = [_info(session.path, report) for session in _found(folder, cwd)]
    return sorted((info for info in infos if info), key=lambda info: info.modified_ms, reverse=True)


def list_all_sessions(root: Path, folder: SessionFolder, report: Report = _ignore) -> list[SessionInfo]:
    """Return the sessions of all working folders, the most recent first.

    Args:
        root: The folder of all folders of sessions.
        folder: Where the user keeps sessions; one with the sessions of all working folders is the only one.
        report: As of `list_sessions`.
    """
    folders = [folder]
    if not folder.is_flat:
        folders = [SessionFolder(path, is_flat=False) for path in root.iterdir()] if root.is_dir() else []
    infos = [info for each in folders for info in list_sessions(each, None, report)]
    return sorted(infos, key=lambda info: info.modified_ms, reverse=True)


def page_of_sessions(
    folder: SessionFolder,
    cwd: str | None,
    cursor: str | None,
    limit: int,
    check: Callable[[], object],
    wants: Callable[[str], bool] = lambda session_id: True,
) -> SessionPage:
    """Return the next sessions, those whose files were written to last first.

    Reads names and times of all files, and the content of those on the page alone. A session that is written to between
    two pages moves to the front: it is not returned twice, and one that was not returned yet is on a new first page.

    Args:
        folder: Where the user keeps sessions; unless it is flat, the folders of other working folders are beside it.
        cwd: Only those of this working folder; None: all.
        cursor: Of the former page; None: the first one.
        limit: How many to return at most.
        check: Called before each file, and may raise to end the reading.
        wants: Whether the session with an id is one of those that are listed.

    Raises:
        NoCursor: The cursor is none.
    """
    after = None if cursor is None else _place_of(cursor)
    places = sorted(_places(folder, cwd), reverse=True)
    infos: list[SessionInfo] = []
    for number, place in enumerate(places if after is None else [each for each in places if each < after], 1):
        check()
        header = _header(place.path)
        if header is not None and (cwd is None or _is_of(header, cwd, folder)) and wants(str(header["id"])):
            info = _info(place.path, _ignore)
            if info is not None:
                infos.append(info)
        if len(infos) == limit or number == _MAX_SCANNED:
            return SessionPage(infos, _cursor_of(place) if place != places[-1] else None)
    return SessionPage(infos, None)


class _Place(NamedTuple):
    """Where a file is in the order of pages."""

    modified_ns: int
    path: Path


def _places(folder: SessionFolder, cwd: str | None) -> Iterator[_Place]:
    """Yield the files that may hold sessions of a working folder, or of all."""
    root = folder.path.parent
    folders = [folder.path]
    if not folder.is_flat:
        folders = _folders(root) if cwd is None else [default_folder(root, cwd).path]
    for each in folders:
        for path, (modified_ns, _) in _times(each).items():
            yield _Place(modified_ns, path)


def _cursor_of(place: _Place) -> str:
    return base64.urlsafe_b64encode(f"{place.modified_ns} {place.path}".encode(errors="surrogateescape")).decode()


def _place_of(cursor: str) -> _Place:
    try:
        data = base64.b64decode(cursor, altchars=b"-_", validate=True)
        number, _, path = data.decode(errors="surrogateescape").partition(" ")
        return _Place(int(number), Path(path))
    except ValueError:
        raise NoCursor from None


def most_recent(folder: SessionFolder, cwd: str) -> Path | None:
    """Return the session file of a working folder that was written to last."""
    return next((session.path for session in _found(folder, cwd)), None)


def find_exact(session_id: str, folder: SessionFolder, cwd: str) -> Path | None:
    """Return the file of the session of a working folder that has an id; of several the one written to last."""
    return next((session.path for session in _found(folder, cwd) if session.id == session_id), None)


def find_session(reference: str, root: Path, folder: SessionFolder, cwd: str) -> Path:
    """Return the file of the session of a working folder that has an id, or the only one whose id begins so.

    Args:
        reference: The id or its beginning; a path is not this function's business.
        root: The folder of all folders of sessions.
        folder: Where the working folder's sessions are.
        cwd: The working folder.

    Raises:
        NotFound: There is none; the text names one of another working folder.
        Ambiguous: Several ids begin so.
    """
    here = _matches(reference, _found(folder, cwd))
    if here:
        return _only(reference, here)
    elsewhere = _matches(reference, _found_anywhere(root, folder))
    if not elsewhere:
        raise NotFound(f"No session matches '{printable(reference)}'")
    raise NotFound(
        f"No session of this folder matches '{printable(reference)}'. Start in the folder that it belongs to, or use "
        f"`--fork` to continue in a copy here:{_lines_of(elsewhere)}"
    )


def find_anywhere(reference: str, root: Path, folder: SessionFolder, cwd: str) -> Path:
    """Return a session's file like `find_session`, but if this working folder has none then that of another one.

    Raises:
        NotFound: There is none.
        Ambiguous: Several ids begin so.
    """
    found = _matches(reference, _found(folder, cwd)) or _matches(reference, _found_anywhere(root, folder))
    if not found:
        raise NotFound(f"No session matches '{printable(reference)}'")
    return _only(reference, found)


def files_with_id(session_id: str, root: Path, folder: SessionFolder) -> list[tuple[Path, str]]:
    """Return the files of the sessions that have exactly an id, with the working folder of each.

    Args:
        session_id: The whole id.
        root: The folder of all folders of sessions.
        folder: Where the user keeps sessions.
    """
    return [(found.path, found.cwd) for found in _found_anywhere(root, folder) if found.id == session_id]


def _files(folder: Path) -> list[Path]:
    """Return the session files in a folder, the one that was written to last first."""
    times = _times(folder)
    return sorted(times, key=times.__getitem__, reverse=True)


def _times(folder: Path) -> Mapping[Path, tuple[int, str]]:
    """Return when each session file in a folder was written to, and its name."""
    times: dict[Path, tuple[int, str]] = {}
    try:
        with os.scandir(folder) as found:
            for file in found:
                with suppress(OSError):
                    # Only regular files, or links to them: reading a pipe would wait for ever.
                    if file.name.endswith(_SUFFIX) and file.is_file():
                        times[Path(file.path)] = (file.stat().st_mtime_ns, file.name)
    except (OSError, ValueError):
        pass
    return times


def _header(path: Path) -> Mapping[str, object] | None:
    try:
        with path.open("rb", buffering=0) as file:
            start = b""
            for size in _HEADER_READS:
                start += file.read(size - len(start))
                header = read_header(start)
                if header is not None or len(start) < size:
                    return header
    except OSError:
        pass
    return None


def _found(folder: SessionFolder, cwd: str | None) -> Iterator[_Found]:
    """Yield the sessions in a folder, of one working folder or of all, the one that was written to last first."""
    for path in _files(folder.path):
        header = _header(path)
        if header is not None and (cwd is None or _is_of(header, cwd, folder)):
            yield _Found(path, str(header["id"]), _text(header.get("cwd")))


def _found_anywhere(root: Path, folder: SessionFolder) -> Iterator[_Found]:
    folders = _folders(root)
    # One for each place that they really are, so that no session is found twice and ambiguous with itself.
    places = {os.path.realpath(each): each for each in [*folders, folder.path]}
    for place in places.values():
        yield from _found(SessionFolder(place, is_flat=True), None)


def _folders(root: Path) -> list[Path]:
    try:
        return [each for each in root.iterdir() if os.path.isdir(each)]
    except OSError:
        return []


def _is_of(header: Mapping[str, object], cwd: str, folder: SessionFolder) -> bool:
    """Return whether a session belongs to a working folder, whichever way its header names that."""
    folder_named = _text(header.get("cwd"))
    if not folder_named:
        # Old headers have none; the folder is all there is to go by, unless everything lies in it.
        return not folder.is_flat
    if folder_named == cwd:
        return True
    try:
        return os.path.isabs(folder_named) and os.path.realpath(folder_named) == os.path.realpath(cwd)
    except ValueError:  # it can't be a path
        return False


def _matches(reference: str, sessions: Iterable[_Found]) -> list[_Found]:
    """Return those with the id; if there are none, those whose id begins so."""
    if not reference:
        return []
    beginning = [session for session in sessions if session.id.startswith(reference)]
    return [session for session in beginning if session.id == reference] or beginning


def _only(reference: str, found: list[_Found]) -> Path:
    if len(found) > 1:
        question = f"Several sessions match '{printable(reference)}'"
        raise Ambiguous(f"{question}; give more of the id, or the path of the file:{_lines_of(found)}")
    return found[0].path


def _lines_of(found: list[_Found]) -> str:
    """List sessions, a line each: id, working folder, file."""
    listed = sorted(found)[:_MAX_LISTED]
    lines = [f"{session.id}  {session.cwd or '(unknown folder)'}  {session.path}" for session in listed]
    if len(found) > len(listed):
        lines.append(f"and {len(found) - len(listed)} more")
    return "".join(f"\n  {printable(line)}" for line in lines)


def _info(path: Path, report: Report) -> SessionInfo | None:
    try:
        text = read_session(read_whole(path))
        file_ms = path.stat().st_mtime_ns // 1_000_000
    except TooLarge as error:
        report(f"{path} is not listed: {error.text}")
        return None
    except OSError:
        return None
    if text.header is None:
        return None
    messages = [entry for entry in text.entries if entry.get("type") == "message"]
    times_ms = [ms for entry in messages if (ms := _message_ms(entry)) is not None]
    created_ms = time_ms(text.header.get("timestamp"))
    names = [entry.get("name") for entry in text.entries if entry.get("type") == "session_info"]
    name = names[-1] if names else None
    return SessionInfo(
        path,
        id=str(text.header["id"]),
        cwd=_text(text.header.get("cwd")),
        name=clean_name(name) if isinstance(name, str) else None,
        parent_session=_text(text.header.get("parentSession")) or None,
        created=_text(text.header.get("timestamp")),
        modified_ms=max(times_ms, default=file_ms if created_ms is None else created_ms),
        message_count=len(messages),
        first_message=next(_user_texts(messages), NO_MESSAGES),
    )


def _message_ms(entry: Entry) -> int | None:
    """Return the time of a message of the user or a model; None if it has another role or no time."""
    message = as_object(entry.get("message"))
    if message is None or message.get("role") not in ("user", "assistant"):
        return None
    ms = as_count(message.get("timestamp"))
    return time_ms(entry.get("timestamp")) if ms is None else ms


def _user_texts(messages: list[Entry]) -> Iterator[str]:
    """Yield the texts of the user that are not empty."""
    for entry in messages:
        message = as_object(entry.get("message"))
        if message is not None and message.get("role") == "user":
            text = _content_text(message.get("content"))
            if text.strip():
                yield text


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = filter(None, map(as_object, as_array(content)))
    return " ".join(_text(block.get("text")) for block in blocks if block.get("type") == "text")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
