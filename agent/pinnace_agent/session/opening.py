"""Examines a session file that is opened: whether it is one, what is wrong with it, where its tools work.

Reports its findings in words for people, and does what must be done before a file may be written: damaged lines are
quarantined, an older format is migrated beside a copy. Blocks on the file system. Has no access to the other open
sessions. Rules R-SES-03, R-SES-07.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from pinnace_agent.files.folders import loose_modes
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.conversation import SessionReport
from pinnace_agent.session.store.append_file import TooLarge, read_whole
from pinnace_agent.session.store.file import SessionFile
from pinnace_agent.session.store.reading import SessionText, read_session
from pinnace_spec.records.entries import CURRENT_VERSION, ENTRY_TYPES
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import encode_record

# What a header of ours, and of the original, begins with.
_HEADER: Final = b'{"type":"session","version":'


def check_path(text: str, cwd: str) -> Path:
    """Return the file that a path means: `~` and links resolved, relative to `cwd`.

    Raises:
        ClientError: There is none, or it is not a regular file.
    """
    path = resolve(text, cwd)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        # DEVIATION D-20: a file that is not there is an error.
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise errors.ClientError(errors.session_not_found(text), errors.ErrorCode.SESSION_NOT_FOUND) from None
        raise unreadable(path, error) from None
    if not stat.S_ISREG(mode):
        raise errors.ClientError(errors.not_a_session(str(path)), errors.ErrorCode.SESSION_UNAVAILABLE)
    return path


def resolve(text: str, cwd: str) -> Path:
    """Return the absolute path without links that a text means; whether it exists is another question.

    Raises:
        ClientError: It can't be a path.
    """
    try:
        return Path(os.path.realpath(Path(cwd, Path(text).expanduser())))
    except (OSError, ValueError, RuntimeError) as error:
        raise unreadable(Path("session path"), error) from None


def read_text(path: Path, *, keep_raw: bool = False) -> SessionText:
    """Read a file.

    Raises:
        ClientError: It can't be read, or is larger than a session may be (R-LIM-04).
    """
    try:
        data = read_whole(path)
    except TooLarge as error:
        text = errors.session_unreadable(str(path), error.text)
        raise errors.ClientError(text, errors.ErrorCode.SESSION_UNAVAILABLE) from None
    except OSError as error:
        raise unreadable(path, error) from None
    return read_session(data, keep_raw=keep_raw)


def unreadable(path: Path, error: Exception) -> errors.ClientError:
    """Return the error of a file that can't be read."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return errors.ClientError(errors.session_unreadable(str(path), reason), errors.ErrorCode.SESSION_UNAVAILABLE)


def check_is_session(path: Path, text: SessionText) -> None:
    """Check that anything in a file marks it as a session.

    Raises:
        ClientError: It is no session.
    """
    # Without its first line a session is known by its entries: other files have JSON lines too.
    is_known = text.header is not None or any(entry.get("type") in ENTRY_TYPES for entry in text.entries)
    if not is_known and text.size:
        raise errors.ClientError(errors.not_a_session(str(path)), errors.ErrorCode.SESSION_UNAVAILABLE)


def is_begun_header(text: SessionText) -> bool:
    """Return whether a file has the beginning of a header and nothing else: its first write was interrupted.

    The process died, or the disk was full. Nothing can have been promised in such a session.
    """
    if text.header is not None or text.entries or not text.has_torn_tail or len(text.damaged) != 1:
        return False
    line = text.damaged[0].data
    return len(line) == text.size and (line.startswith(_HEADER) or _HEADER.startswith(line))


def why_unwritable(text: SessionText) -> str | None:
    """Return why nothing may be appended to what was read."""
    if text.header is None:
        return "its first line is damaged"
    if text.version > CURRENT_VERSION:
        return f"it has version {text.header.get('version')} of the format, and this program knows {CURRENT_VERSION}"
    return None


def in_current(text: SessionText) -> SessionText:
    """Return the session in the current version of the format, in memory only."""
    if text.version >= CURRENT_VERSION:
        return text
    from pinnace_agent.session.store.migration import migrate  # not at start: for files of older versions

    return migrate(text)


def to_current(path: Path, text: SessionText) -> tuple[SessionText, str | None]:
    """Migrate a file of an older version: beside it first, never in the only copy."""
    if text.version == CURRENT_VERSION:
        return text, None
    migrated = in_current(text)
    header = migrated.header
    assert header is not None
    lines = [REDACTOR.line(encode_record(record)) for record in (header, *migrated.entries)]
    from pinnace_agent.files.atomic_file import replace_file  # not at start: for files of older versions
    from pinnace_agent.session.store.quarantine import quarantine

    try:
        if text.damaged:
            quarantine(path, [line.data for line in text.damaged])
        _keep_backup(path)
        replace_file(path, lines)
    except OSError as error:
        return migrated, f"{path} has an older format and can't be brought up to date: {error.strerror or error}"
    return migrated._replace(size=sum(map(len, lines)), has_torn_tail=False), None


def _keep_backup(path: Path) -> None:
    """Copy a file to the first free of the names `<name>.bak`, `<name>.bak.2` and so on."""
    from pinnace_agent.files.atomic_file import create_file

    content = path.read_bytes()
    for number in count(1):
        backup = _backup_path(path, number)
        with suppress(FileExistsError):
            create_file(backup, [content])
            return


def _backup_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.bak" if number == 1 else f"{path.name}.bak.{number}")


def copies_of(path: Path) -> Iterator[Path]:
    """Yield the files beside a session that hold parts of it: damaged lines, and what it was in older formats."""
    from pinnace_agent.session.store.quarantine import quarantine_path

    if os.path.lexists(quarantine_path(path)):
        yield quarantine_path(path)
    for number in count(1):
        backup = _backup_path(path, number)
        if not os.path.lexists(backup):
            return
        yield backup


def quarantine_damage(path: Path, text: SessionText) -> str | None:
    """Quarantine damaged lines; return the path of the file with them."""
    if not text.damaged:
        return None
    from pinnace_agent.session.store.quarantine import quarantine  # not at start: for damaged files

    try:
        copied = quarantine(path, [line.data for line in text.damaged])
    except OSError:  # reported when the file is to be appended to
        return None
    return None if copied is None else str(copied)


def damage_notices(path: Path, report: SessionReport, file: SessionFile | None) -> tuple[str, ...]:
    """Describe for people what is wrong with a file, and whether it is read-only."""
    notices: list[str] = []
    if report.damaged_lines or report.orphans:
        kept = f"; the damaged bytes are kept in {report.damaged_copy}" if report.damaged_copy else ""
        notices.append(
            f"{path}: {report.damaged_lines} damaged lines are passed over and {report.orphans} entries have lost "
            f"their parent; everything else is there{kept}"
        )
    if file is not None and file.read_only is not None:
        notices.append(file.read_only)
    return tuple(notices)


def mode_notices(path: Path) -> tuple[str, ...]:
    """Describe for people that others may read a file."""
    notice = loose_modes(path)
    return () if notice is None else (notice,)


def working_folder(text: SessionText, cwd: str) -> tuple[str, str | None]:
    """Follow the header's folder if it exists, else stay here."""
    header = text.header or {}
    named = header.get("cwd")
    if not isinstance(named, str) or not named or named == cwd:
        return cwd, None
    try:
        exists = Path(named).is_dir()
    except (OSError, ValueError):
        exists = False
    if exists:
        return named, f"the session works in {named}"
    return cwd, f"the session's folder {named} does not exist: it works in {cwd}"
