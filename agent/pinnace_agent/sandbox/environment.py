"""The environment of commands in a sandbox.

Pure. Leaves out the addresses of services that commands can't reach, and names folders for temporary files and caches
that they can write.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.config.settings import SandboxMode

MODE_VARIABLE: Final = "PINNACE_SANDBOX"
"""The variable that tells commands the mode. Information alone: nothing trusts it."""

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
