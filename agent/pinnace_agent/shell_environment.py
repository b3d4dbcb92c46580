"""The environment of shells and of the programs that tools run.

It is the process' own, without what holds the providers' keys: what a model runs could send them anywhere. Every
command can see that an agent runs it; a command of the model also which session. The commands that get a key for a
configuration file are not run with it: they may need another provider's.
"""

import os
from collections.abc import Collection, Mapping
from typing import Final

from pinnace_agent.session import Session

# As pi says it, for programs that behave differently under an agent.
_MARKS: Final = {"AI_AGENT": "pi", "PI_CODING_AGENT": "true"}
_OF_SESSIONS: Final = ("PI_SESSION_ID", "PI_SESSION_FILE", "PI_PROVIDER", "PI_MODEL", "PI_REASONING_LEVEL")


def shell_environment(env: Mapping[str, str], hidden: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of the client's commands.

    Args:
        env: The process' own.
        hidden: Names that are left out.
    """
    # DEVIATION D-32: without keys.
    return {**{name: value for name, value in env.items() if name not in hidden}, **_MARKS}


def keyless_environment() -> dict[str, str]:
    """Return the environment of commands where nothing is known of the user's files."""
    from pinnace_agent.resources.key_variables import key_variables_of

    return shell_environment(os.environ, key_variables_of((), ()))


def tool_environment(base: Mapping[str, str], session: Session) -> dict[str, str]:
    """Return the environment of what the model runs: that of the client's commands, and what tells of the session."""
    # What an agent around this one says about its own session is not true of ours.
    env = {name: value for name, value in base.items() if name not in _OF_SESSIONS}
    env["PI_SESSION_ID"] = session.id
    env["PI_REASONING_LEVEL"] = session.thinking_level
    if session.path is not None:
        env["PI_SESSION_FILE"] = session.path
    if session.model is not None:
        env["PI_PROVIDER"] = session.model["provider"]
        env["PI_MODEL"] = session.model["id"]
    return env
