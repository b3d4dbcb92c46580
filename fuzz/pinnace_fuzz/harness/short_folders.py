"""Folders whose paths are one word, and short enough for a Unix domain socket in them, whatever TMPDIR is."""

import tempfile
from pathlib import Path
from typing import Final

_MOST_CHARS: Final = 40
"""Of the folder for temporary files: a socket's path has 107 at most, and names below take half of them."""


def make_short_folder(prefix: str) -> Path:
    """Make a folder that only its owner can enter, and return its real path; the caller removes it.

    Args:
        prefix: What its name begins with.
    """
    base = tempfile.gettempdir()
    is_usable = len(base) <= _MOST_CHARS and len(base.split()) == 1
    return Path(tempfile.mkdtemp(prefix=prefix, dir=base if is_usable else "/tmp")).resolve()
