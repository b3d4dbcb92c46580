"""Opens the terminal client, a program of its own that is installed with the extra `tui`.

It is known by its name alone: it is a client of the program like any other, and nothing here may depend on it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import CommandError

if TYPE_CHECKING:
    from pinnace_agent.config.settings import ResourceSettings
    from pinnace_agent.files.project_reach import ProjectReach
    from pinnace_agent.prompting.origin import Resource

_PROGRAM: Final = "pinnace_tui.main"
ThemeFiles = Callable[[str | None], tuple[Sequence[str], Sequence[str]]]
"""`theme_files` without the environment."""


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
        themes: ThemeFiles,
    ) -> int:
        """Open it with an agent of its own."""
        ...

    def open_attached(self, name: str | None, flags: Sequence[str], themes: ThemeFiles) -> int:
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


def theme_files(env: Mapping[str, str], project: str | None = None) -> tuple[list[str], list[str]]:
    """Return the files of themes, and what is wrong with where they are said to be.

    Of equal names the first one counts, as in pi: what the project's settings name, its folder, the same of the user,
    then packages, the project's first. What is wrong with settings and packages is reported by the agent.

    Args:
        env: The environment.
        project: The folder of a trusted project; None: the user's alone.
    """
    from pinnace_agent.config.settings import read_settings
    from pinnace_agent.files.paths import agent_dir, project_dir
    from pinnace_agent.prompting.discovery import ResourceDiscovery, Root, ScopeSources

    user = agent_dir(env)
    own = None if project is None else project_dir(Path(project))
    if own is not None and os.path.realpath(own) == os.path.realpath(user):
        own = None
    read = read_settings(user / "settings.json", None if own is None else own / "settings.json")
    named = read.settings.resources  # the project's first
    entries = {each.is_project: each.themes for each in named}
    sources = [ScopeSources("user", entries.get(False, ()), str(user), [Root(str(user / "themes"))])]
    reach: ProjectReach | None = None
    if project is not None and own is not None:
        from pinnace_agent.prompting.context_files import project_reach

        reach = project_reach(Path(project), env)
        root = Root(str(own / "themes"), reach=reach.of(Path(project)))
        sources.insert(0, ScopeSources("project", entries.get(True, ()), str(own), [root], reach.of_named))
    discovery = ResourceDiscovery(env, str(user))
    return discovery.themes(sources, _packaged(named, env, reach)), discovery.found.notices


def _packaged(
    named: "Sequence[ResourceSettings]", env: Mapping[str, str], reach: "ProjectReach | None"
) -> "list[Resource]":
    """Return the themes of the packages of settings."""
    if not any(each.packages for each in named):
        return []
    from pinnace_agent.packages.resolution import resolve_settings
    from pinnace_agent.prompting.origin import Origin, Resource

    return [
        Resource(
            each.path,
            Origin(each.scope, each.source, each.base_dir, "package"),
            is_declared=True,
            reach=reach.of_named(each.base_dir) if reach is not None and each.owner == "project" else None,
        )
        for each in resolve_settings(named, env).files["themes"]
    ]


def _program() -> _Program:
    if find_spec("textual") is None:
        raise NotInstalled
    if os.environ.get("TERM") == "dumb":
        raise DumbTerminal
    return cast("_Program", import_module(_PROGRAM))
