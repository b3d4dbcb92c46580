"""Which sessions the user has archived: marks beside the folder of sessions, one file for each.

Session files have no place for it that other programs would keep, and must not change when nothing was said. A mark is
made and removed in one step and is on the disk when that returns, so neither a crash nor another process loses one; two
processes may archive sessions at once. Its name is a hash, since the ids of foreign files are any text; its content is
the id, for people. A session that is deleted takes its mark with it. Blocking: call it from a thread.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.atomic_file import create_file
from pinnace_agent.files.folders import flush_folder, make_folder

FOLDER: Final = "archived-sessions"
"""In the agent's folder."""


class Archive:
    """The marks of one user."""

    def __init__(self, agent_folder: Path) -> None:
        """Read nothing yet.

        Args:
            agent_folder: The agent's folder.
        """
        self._folder = agent_folder / FOLDER

    def has(self, session_id: str) -> bool:
        """Return whether a session is archived."""
        return os.path.lexists(self._mark(session_id))

    def add(self, session_id: str) -> None:
        """Archive a session; it is no error if it is.

        Raises:
            OSError: The mark could not be written.
        """
        make_folder(self._folder)
        with suppress(FileExistsError):
            create_file(self._mark(session_id), [session_id.encode("utf-8", "surrogatepass"), b"\n"])

    def remove(self, session_id: str) -> None:
        """Take a session out of the archive; it is no error if it is not in it.

        Raises:
            OSError: The mark could not be removed.
        """
        with suppress(FileNotFoundError):
            system().unlink(self._mark(session_id))
            flush_folder(self._folder)

    def _mark(self, session_id: str) -> Path:
        return self._folder / sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
