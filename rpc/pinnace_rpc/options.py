"""What the command line asks for, as data: made by `arguments`, used by the server.

Nothing here is resolved: a model is a pattern, a prompt may be a path. Must import nothing but types, since
`--help` loads it.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from pinnace_spec.messages import ThinkingLevel
from pinnace_spec.profiles import DEFAULT_PROFILE, Profile

OnEof = Literal["abort", "drain"]

ON_EOF: Final[tuple[OnEof, ...]] = get_args(OnEof)


class StartupError(Exception):
    """The process can't start: a model or a file that was asked for is not there. The text is for the user."""


@dataclass(frozen=True, slots=True)
class Options:
    """One process' options. Shown without the key."""

    provider: str | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    """Patterns of the models to cycle between; empty: all that are available."""
    api_key: str | None = field(default=None, repr=False)
    thinking: ThinkingLevel | None = None
    system_prompt: str | None = None
    """A text, or the path of a file."""
    append_system_prompt: tuple[str, ...] = ()
    """Each a text, or the path of a file."""
    tools: tuple[str, ...] | None = None
    """Names, patterns or changes; None: not said, empty: none."""
    exclude_tools: tuple[str, ...] = ()
    no_tools: bool = False
    no_builtin_tools: bool = False
    name: str | None = None
    session_id: str | None = None
    is_persistent: bool = True
    """Whether sessions are kept in files."""
    session: str | None = None
    """A path, or an id or its beginning."""
    continues: bool = False
    """Whether to go on with the folder's newest session."""
    fork: str | None = None
    """As `session`, to be copied."""
    session_dir: str | None = None
    protocol: Profile = DEFAULT_PROFILE
    on_eof: OnEof = "abort"
    verbose: bool = False
