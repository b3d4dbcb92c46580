"""What is found when a session file is opened: whether it is one, what is wrong with it, where it works.

Looks, words what it found for people, and does what must be done before a file may be written: damage is copied aside,
an older format is brought up to date beside a copy. Blocks on the file system. Must not know who opens a file, nor
which others are open. Rules R-SES-03, R-SES-07.
"""

import os
import stat
from pathlib import Path
from typing import Final

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.context import context_message
from pinnace_agent.session.conversation import PENDING_SHELL, SessionReport
from pinnace_agent.session.file import SessionFile
from pinnace_agent.session.folders import loose_modes
from pinnace_agent.session.growing_file import TooLarge, read_whole
from pinnace_agent.session.migration import migrate
from pinnace_agent.session.new_file import keep_backup, replace_file
from pinnace_agent.session.reading import SessionText, read_session
from pinnace_agent.session.side_file import keep_damaged
from pinnace_agent.session.tree import EntryTree
from pinnace_spec import errors
from pinnace_spec.entries import CURRENT_VERSION, ENTRY_TYPES
from pinnace_spec.messages import Message
from pinnace_spec.wire import encode_record

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
    """Word that the system does not give a file."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return errors.ClientError(errors.session_unreadable(str(path), reason), errors.ErrorCode.SESSION_UNAVAILABLE)


def check_is_session(path: Path, text: SessionText) -> None:
    """Find out whether anything in a file says that it is a session.

    Raises:
        ClientError: Nothing does.
    """
    # Without its first line a session is known by its entries: other files have JSON lines too.
    is_known = text.header is not None or any(entry.get("type") in ENTRY_TYPES for entry in text.entries)
    if not is_known and text.size:
        raise errors.ClientError(errors.not_a_session(str(path)), errors.ErrorCode.SESSION_UNAVAILABLE)


def is_begun_header(text: SessionText) -> bool:
    """Say whether a file has the beginning of a header and nothing else: its first write was cut.

    The process died, or the disk was full. Nothing can have been promised in such a session.
    """
    if text.header is not None or text.entries or not text.has_torn_tail or len(text.damaged) != 1:
        return False
    line = text.damaged[0].data
    return len(line) == text.size and (line.startswith(_HEADER) or _HEADER.startswith(line))


def why_unwritable(text: SessionText) -> str | None:
    """Say why nothing may be appended to what was read."""
    if text.header is None:
        return "its first line is damaged"
    if text.version > CURRENT_VERSION:
        return f"it has version {text.header.get('version')} of the format, and this program knows {CURRENT_VERSION}"
    return None


def to_current(path: Path, text: SessionText) -> tuple[SessionText, str | None]:
    """Bring a file of an older version up to date: beside it first, never in the only copy."""
    if text.version == CURRENT_VERSION:
        return text, None
    migrated = migrate(text)
    header = migrated.header
    assert header is not None
    lines = [REDACTOR.line(encode_record(record)) for record in (header, *migrated.entries)]
    try:
        if text.damaged:
            keep_damaged(path, [line.data for line in text.damaged])
        keep_backup(path)
        replace_file(path, lines)
    except OSError as error:
        return migrated, f"{path} has an older format and can't be brought up to date: {error.strerror or error}"
    return migrated._replace(size=sum(map(len, lines)), has_torn_tail=False), None


def copy_damage(path: Path, text: SessionText) -> str | None:
    """Copy damaged lines aside; return where to."""
    if not text.damaged:
        return None
    try:
        copied = keep_damaged(path, [line.data for line in text.damaged])
    except OSError:  # told by the file when it is to be appended to
        return None
    return None if copied is None else str(copied)


def damage_notices(path: Path, report: SessionReport, file: SessionFile | None) -> tuple[str, ...]:
    """Say for people what is wrong with a file, and whether it can only be read."""
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
    """Say for people that others may read a file."""
    notice = loose_modes(path)
    return () if notice is None else (notice,)


def working_folder(text: SessionText, cwd: str) -> tuple[str, str | None]:
    """Follow the header's folder if it exists, else stay here."""
    header = text.header or {}
    told = header.get("cwd")
    if not isinstance(told, str) or not told or told == cwd:
        return cwd, None
    try:
        exists = Path(told).is_dir()
    except (OSError, ValueError):
        exists = False
    if exists:
        return told, f"the session works in {told}"
    return cwd, f"the session's folder {told} does not exist: it works in {cwd}"


def pending_shells(tree: EntryTree) -> list[Message]:
    """Return results of shell commands that were kept aside, and that a crash has kept out of the conversation."""
    entries = tree.entries if "custom" in tree.kinds else ()
    kept_aside = [entry.get("data") for entry in entries if entry.get("customType") == PENDING_SHELL]
    if not kept_aside:
        return []
    recorded = [message for entry in entries if (message := context_message(entry)) and _is_shell(message)]
    pending = [context_message({"type": "message", "message": data}) for data in kept_aside if data not in recorded]
    return [message for message in pending if message is not None and _is_shell(message)]


def _is_shell(message: Message) -> bool:
    return message["role"] == "bashExecution"
