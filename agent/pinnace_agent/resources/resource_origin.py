"""Where a prompt template or a skill comes from, as clients are told.

Imports nothing that takes time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pinnace_agent.files.opener import Reach

Scope = Literal["user", "project", "temporary"]
Source = Literal["auto", "local"]


class Origin(NamedTuple):
    """Who brought it."""

    scope: Scope
    """The user, the project, or the command line of this process."""
    source: Source
    """Found in a folder for such things, or named by settings or the command line."""
    base_dir: str | None = None
    """The folder that it was found from."""

    def source_info(self, path: str) -> Mapping[str, object]:
        """Say of the file at `path` where it comes from, in the words of the protocol."""
        info: dict[str, object] = {"path": path, "source": self.source, "scope": self.scope, "origin": "top-level"}
        if self.base_dir is not None:
            info["baseDir"] = self.base_dir
        return info


class Resource(NamedTuple):
    """A file that may be a resource."""

    path: str
    """Absolute, as it was found: links are not resolved."""
    origin: Origin
    is_declared: bool = True
    """Whether it says of itself what it is, so that it is worth a notice if it is not: not just any Markdown file."""
    reach: "Reach | None" = None
    """Where it may lead; None: anywhere, it is the user's."""
