"""The environment of shells and of the programs that tools run.

It is the environment of the process without the variables that hold providers' keys: what a model runs could send them
anywhere. Every command can detect that an agent runs it; a command of the model also learns its session. The commands
that print a key for a configuration file do not run with it: they may need another provider's key.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from pinnace_spec.records.messages import Model

# Set by pi too, for programs that behave differently under an agent.
_MARKS: Final = {"AI_AGENT": "pi", "PI_CODING_AGENT": "true"}
WITHHELD: Final[set[str]] = set()
"""Variables that the sandbox of this process keeps from programs: they hold keys of others than providers."""

_OF_SESSIONS: Final = ("PI_SESSION_ID", "PI_SESSION_FILE", "PI_PROVIDER", "PI_MODEL", "PI_REASONING_LEVEL")


class SessionFacts(Protocol):
    """What commands of the model learn about their session."""

    @property
    def id(self) -> str:
        """The id of the session."""
        ...

    @property
    def path(self) -> str | None:
        """Its file; None: it has none."""
        ...

    @property
    def model(self) -> Model | None:
        """The model of the next request."""
        ...

    @property
    def thinking_level(self) -> str:
        """The thinking level of the next request."""
        ...


def shell_environment(env: Mapping[str, str], hidden: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of the client's commands.

    Args:
        env: The process' own.
        hidden: Names that are left out, beside those that the sandbox withholds.
    """
    # DEVIATION D-32: without keys.
    left_out = WITHHELD.union(hidden)
    return {**{name: value for name, value in env.items() if name not in left_out}, **_MARKS}


def tool_environment(base: Mapping[str, str], session: SessionFacts) -> dict[str, str]:
    """Return the environment of the model's commands: that of the client's commands, and facts of the session."""
    # An agent around this one may have set these for its own session.
    env = {name: value for name, value in base.items() if name not in _OF_SESSIONS}
    env["PI_SESSION_ID"] = session.id
    env["PI_REASONING_LEVEL"] = session.thinking_level
    if session.path is not None:
        env["PI_SESSION_FILE"] = session.path
    if session.model is not None:
        env["PI_PROVIDER"] = session.model["provider"]
        env["PI_MODEL"] = session.model["id"]
    return env
