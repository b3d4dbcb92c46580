"""The words by which settings and the command line name packages: enough to detect that there is none.

Decides on texts; what a word names exactly is for `packages.sources`.
"""

from collections.abc import Mapping
from typing import Final

NPM_PREFIX: Final = "npm:"
GIT_PREFIX: Final = "git:"
PYTHON_PREFIX: Final = "python:"
"""The prefix of installed Python packages, which have no files to resolve."""
_REMOTE: Final = (NPM_PREFIX, GIT_PREFIX, "github:", "http:", "https:", "ssh:")


def source_of(entry: str | Mapping[str, object]) -> str:
    """Return the source that an entry of `packages` in settings names."""
    return entry if isinstance(entry, str) else str(entry.get("source"))


def is_remote(word: str) -> bool:
    """Return whether a word names a package of npm or git, not a path."""
    return word.strip().startswith(_REMOTE)
