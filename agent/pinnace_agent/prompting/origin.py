"""The origin of a prompt template or a skill, as clients receive it.

Light: importing it costs a start next to nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pinnace_agent.files.opener import Reach

Scope = Literal["user", "project", "temporary"]


class Origin(NamedTuple):
    """The scope and the place of a resource."""

    scope: Scope
    """The user, the project, or the command line of this process."""
    source: str
    """`auto`: found in a usual folder; `local`: named by settings or the command line; else the package that has it."""
    base_dir: str | None = None
    """The folder that it was found from."""
    origin: Literal["top-level", "package"] = "top-level"

    def source_info(self, path: str) -> Mapping[str, object]:
        """Return the protocol's record of the origin of the file at `path`."""
        info: dict[str, object] = {"path": path, "source": self.source, "scope": self.scope, "origin": self.origin}
        if self.base_dir is not None:
            info["baseDir"] = self.base_dir
        return info


class Resource(NamedTuple):
    """A file that may be a resource."""

    path: str
    """Absolute, as it was found: links are not resolved."""
    origin: Origin
    is_declared: bool = True
    """Whether its name or place declares it as a resource, so that an invalid one is reported."""
    reach: "Reach | None" = None
    """Where links may lead; None: anywhere, since it is the user's."""
