"""Keeps what the user has written and not sent, so that it survives a crash, a kill and a lost terminal.

Each client has a file of its own in a folder of the user's alone; a lock shows that the client lives. The next client
in the same working folder takes the texts of those that have ended. What has failed in the client is logged beside
them. Must not know widgets.
"""

import fcntl
import json
import os
import traceback
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import strftime
from typing import Final, cast

_SUFFIX: Final = ".draft"
_LOG: Final = "errors.log"
_MOST_LOGGED: Final = 256 * 1024
_MODE: Final = 0o600
_FLAGS: Final = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Drafts:
    """The draft of one client, and those that others have left."""

    def __init__(self, folder: Path, place: str) -> None:
        """Prepare; nothing is written before there is a text.

        Args:
            folder: Where drafts are kept.
            place: The working folder, whose drafts are taken.
        """
        self._folder = folder
        self._place = place
        self._path = folder / f"{uuid.uuid4().hex}{_SUFFIX}"
        self._file: int | None = None
        self._kept = ""

    def keep(self, text: str) -> None:
        """Keep a text, or remove the file if there is none.

        Raises:
            OSError: It could not be written.
        """
        text = text if text.strip() else ""
        if text == self._kept:
            return
        if not text:
            self._path.unlink(missing_ok=True)
            self._close()
        else:
            if self._file is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | _FLAGS, _MODE)
                fcntl.flock(self._file, fcntl.LOCK_EX)
            content = json.dumps({"folder": self._place, "text": text}).encode()
            # What is behind a whole object is ignored: a client that is killed here leaves one of both texts.
            written = 0
            while written < len(content):
                written += os.pwrite(self._file, content[written:], written)
            os.ftruncate(self._file, len(content))
        self._kept = text

    def take_others(self) -> list[str]:
        """Take the texts that clients of this folder have left, oldest first, and keep them as the own.

        Raises:
            OSError: They could not be kept; they are left where they are.
        """
        found = sorted(self._left(), key=lambda each: each[0])
        if texts := [text for _, text, _, _ in found]:
            self.keep("\n\n".join(texts))
        for _, _, path, file in found:
            path.unlink(missing_ok=True)
            os.close(file)
        return texts

    def close(self) -> None:
        """Leave the text to the next client, if there is one."""
        self._close()

    def log(self, error: BaseException) -> None:
        """Log an exception with its traceback, without values."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._folder / _LOG, os.O_WRONLY | os.O_APPEND | _FLAGS, _MODE)
            with open(file, "a", encoding="utf-8", errors="replace") as log:
                if os.fstat(file).st_size > _MOST_LOGGED:
                    os.ftruncate(file, 0)
                log.write(f"{strftime('%Y-%m-%dT%H:%M:%S%z')}\n{''.join(traceback.format_exception(error))}\n")

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._kept = None, ""

    def _left(self) -> Iterator[tuple[float, str, Path, int]]:
        """Return time, text, path and the locked file of each draft whose client has ended."""
        for path in self._folder.glob(f"*{_SUFFIX}"):
            try:
                file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with open(file, "rb", closefd=False) as content:
                    text = _text(content.read().decode("utf-8", "replace"), self._place)
                if text is not None and os.fstat(file).st_nlink:  # not taken meanwhile
                    yield os.fstat(file).st_mtime, text, path, file
                    continue
            except OSError:  # its client lives
                pass
            os.close(file)


def _text(content: str, place: str) -> str | None:
    """Return the text of a draft of this folder."""
    try:
        value: object = json.JSONDecoder().raw_decode(content)[0]
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    draft = cast("dict[str, object]", value)
    text = draft.get("text")
    return text if draft.get("folder") == place and isinstance(text, str) and text.strip() else None
