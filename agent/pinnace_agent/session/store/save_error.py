"""The error texts of a session that can't be saved: what failed, where, why, and what to do about it. Rule R-SES-08."""

import errno
from pathlib import Path
from typing import Final

_ADVICE: Final = {
    errno.ENOSPC: "free some disk space",
    errno.EDQUOT: "free some disk space",
    errno.EFBIG: "raise the limit for file sizes, or clone the session",
    errno.EACCES: "make it writable, or clone the session",
    errno.EPERM: "make it writable, or clone the session",
    errno.EROFS: "make it writable, or clone the session",
    errno.ELOOP: "put a file in the place of the link, or clone the session",
    errno.EEXIST: "move the other file away, or clone the session",
}
_OTHER_ADVICE: Final = "see what is wrong with the disk, or clone the session"


class SaveError(Exception):
    """Something appended to a session is not on the disk. It is kept in memory, and so is its order."""

    def __init__(self, text: str) -> None:
        """Take a sentence for the client."""
        super().__init__(text)
        self.text = text


def not_written(path: Path, error: OSError) -> str:
    """Return the text for an error of the system."""
    return _sentence(path, error.strerror or str(error), _ADVICE.get(error.errno or 0, _OTHER_ADVICE))


def damage_not_quarantined(path: Path, error: OSError) -> str:
    """Return the text for damaged lines that could not be quarantined, without which nothing is appended (R-SES-07)."""
    reason = f"its damaged lines can't be copied to {path.name}.damaged: {error.strerror or error}"
    return _sentence(path, reason, _ADVICE.get(error.errno or 0, _OTHER_ADVICE))


def replaced(path: Path, reason: str) -> str:
    """Return the text for a file that was replaced; what is there now is not touched."""
    return _sentence(path, f"the file was replaced: {reason}", "move the other file away, or clone the session")


def in_use(path: Path, reason: str) -> str:
    """Return the text for a lease that another process holds now."""
    return _sentence(path, reason.rstrip("."), "or clone the session")


def closed(path: Path) -> str:
    """Return the text for a session that is closed."""
    return f"Session can't be saved: {path}: it is closed."


def _sentence(path: Path, reason: str, advice: str) -> str:
    return f"Session can't be saved: {path}: {reason}. What is not saved is kept in memory and tried again: {advice}."


def recreated(path: Path) -> str:
    """Return the notice of a deleted file that was written back."""
    return f"The session file {path} was deleted; it has been written back with everything that was in it."


def shared(path: Path) -> str:
    """Return the notice of another program that appends to the file."""
    return f"Another program writes to the session file {path} as well; its lines are kept, beside our branch."
