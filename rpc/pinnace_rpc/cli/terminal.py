"""Opens the terminal client, a program of its own that is installed with the extra `tui`.

It is known by its name alone: it is a client of the program like any other, and nothing here may depend on it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
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
        themes: Callable[[str | None], Sequence[str]],
    ) -> int:
        """Open it with an agent of its own."""
        ...

    def open_attached(
        self, name: str | None, flags: Sequence[str], themes: Callable[[str | None], Sequence[str]]
    ) -> int:
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
        themes=partial(theme_files, os.environ),
    )


def open_attached(name: str | None, flags: Sequence[str]) -> int:
    """Open it on an agent of the host; return the exit code.

    Raises:
        NotInstalled: The extra is missing.
        DumbTerminal: The terminal can't show it.
    """
    return _program().open_attached(name, flags, partial(theme_files, os.environ))


def theme_files(env: Mapping[str, str], project: str | None = None) -> list[str]:
    """Return the files of themes beside the user's own; what is wrong with packages is reported by the agent.

    Args:
        env: The environment.
        project: The folder of a trusted project: its themes and those of its packages, instead of those of the user's
            packages; None: the latter.
    """
    from pinnace_agent.config.settings import read_settings
    from pinnace_agent.files.paths import agent_dir, project_dir

    user = agent_dir(env)
    own = None if project is None else project_dir(Path(project))
    if own is not None and os.path.realpath(own) == os.path.realpath(user):
        return []  # the user's, which are read anyway
    read = read_settings(user / "settings.json", None if own is None else own / "settings.json")
    resources = [each for each in read.settings.resources if each.is_project is (own is not None)]
    files = [] if own is None else sorted(map(str, own.glob("themes/*.json")))
    if not any(each.packages for each in resources):
        return files
    from pinnace_agent.packages.resolution import resolve_settings

    return [*files, *(each.path for each in resolve_settings(resources, env).files["themes"])]


def _program() -> _Program:
    if find_spec("textual") is None:
        raise NotInstalled
    if os.environ.get("TERM") == "dumb":
        raise DumbTerminal
    return cast("_Program", import_module(_PROGRAM))
