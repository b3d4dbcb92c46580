"""Opens the terminal client, a program of its own that is installed with the extra `tui`.

It is known by its name alone: it is a client of the program like any other, and nothing here may depend on it.
"""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import CommandError

_PROGRAM: Final = "pinnace_tui.main"


class NotInstalled(CommandError):
    """The extra is missing."""

    exit_code = 2

    def __init__(self) -> None:
        """Say how it is installed, and how to do without it."""
        from pinnace_agent.core.installing import how_to_install

        super().__init__(
            f"the terminal client needs the extra tui. Install it with: {how_to_install('tui')}\n"
            "To ask once: pinnace -p TEXT"
        )


class DumbTerminal(CommandError):
    """The terminal says that it can't move its cursor."""

    exit_code = 2

    def __init__(self) -> None:
        """Name the variable, and how to do without the client."""
        super().__init__(
            "the terminal client needs a terminal that can move its cursor, and TERM is dumb. Set TERM if yours can; "
            "to ask once: pinnace -p TEXT"
        )


class _Program(Protocol):
    """What is called of it."""

    def open_own(
        self,
        flags: Sequence[str],
        messages: Sequence[str],
        *,
        opens_sessions: bool,
        look: str | None,
        themes: Sequence[str],
    ) -> int:
        """Open it with an agent of its own."""
        ...

    def open_attached(self, name: str | None, flags: Sequence[str], themes: Sequence[str]) -> int:
        """Open it on an agent of the host."""
        ...


def open_own(options: Options) -> int:
    """Open it with an agent of its own; return the exit code.

    Raises:
        NotInstalled: The extra is missing.
        DumbTerminal: The terminal can't show it.
    """
    program = _program()
    return program.open_own(
        options.agent_flags,
        options.messages,
        opens_sessions=options.opens_sessions,
        look=options.look,
        themes=packaged_themes(os.environ),
    )


def open_attached(name: str | None, flags: Sequence[str]) -> int:
    """Open it on an agent of the host; return the exit code.

    Raises:
        NotInstalled: The extra is missing.
        DumbTerminal: The terminal can't show it.
    """
    return _program().open_attached(name, flags, packaged_themes(os.environ))


def packaged_themes(env: Mapping[str, str]) -> list[str]:
    """Return the files of the themes in the user's packages; what is wrong with packages is reported by the agent."""
    from pinnace_agent.config.settings import read_settings
    from pinnace_agent.files.paths import agent_dir

    resources = read_settings(agent_dir(env) / "settings.json").settings.resources
    if not any(each.packages for each in resources):
        return []
    from pinnace_agent.packages.resolution import resolve_settings

    return [each.path for each in resolve_settings(resources, env).files["themes"]]


def _program() -> _Program:
    if find_spec("textual") is None:
        raise NotInstalled
    if os.environ.get("TERM") == "dumb":
        raise DumbTerminal
    return cast("_Program", import_module(_PROGRAM))
