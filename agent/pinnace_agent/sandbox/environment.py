"""The environment of programs in a sandbox: without addresses of services, and without variables that hold keys.

What a key is, is decided by name and form, as for redaction. A variable that the user names (`sandbox.environment`, or
an entry of an MCP server) stays. Has no knowledge of mechanisms.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.redaction.credentials import secrets_of

MODE_VARIABLE: Final = "PINNACE_SANDBOX"
"""The variable that holds the mode for commands. Information alone: nothing trusts it."""

_LEFT_OUT: Final = frozenset(
    """SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO XDG_RUNTIME_DIR DISPLAY WAYLAND_DISPLAY XAUTHORITY DOCKER_HOST
    PULSE_SERVER NOTIFY_SOCKET TMUX TMUX_PANE STY""".split()
)
_PREFIXES: Final = ("DBUS_", "LISTEN_")


def confined_environment(env: Mapping[str, str], mode: SandboxMode) -> dict[str, str]:
    """Return the environment of a command inside the sandbox."""
    kept = {name: value for name, value in env.items() if name not in _LEFT_OUT and not name.startswith(_PREFIXES)}
    return {
        **kept,
        "TMPDIR": "/tmp",  # the private folder is mounted there
        "XDG_CACHE_HOME": "/tmp/.cache",
        "npm_config_cache": "/tmp/.cache/npm",
        MODE_VARIABLE: mode,
    }


def withheld_variables(env: Mapping[str, str], kept: Sequence[str]) -> frozenset[str]:
    """Return the names of the variables that hold a key, and are kept from what runs inside.

    Args:
        env: The environment of this process.
        kept: Names that stay; `*`, `?` and `[…]` stand for characters, as in names of files.
    """
    return frozenset(
        name
        for name, value in env.items()
        if any(True for _ in secrets_of(name, value)) and not any(fnmatchcase(name, each) for each in kept)
    )
