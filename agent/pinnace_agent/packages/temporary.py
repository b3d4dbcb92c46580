"""Installs the packages of npm and git that the command line names (`-e`) and that are not there yet, before a start.

They are kept in `tmp/extensions` of the agent folder, as pi keeps them, and are in no settings. One that is there is
used as it is. Loaded by a start whose command line names one.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from pinnace_agent.files.paths import agent_dir
from pinnace_agent.packages.managing import PackageManager, npm_command
from pinnace_agent.packages.programs import Programs
from pinnace_agent.packages.resolution import resolve_named
from pinnace_agent.packages.sources import FolderSource, parse_source, places_of
from pinnace_agent.packages.words import is_remote


def install_missing(words: Sequence[str], env: Mapping[str, str], cwd: Path, say: Callable[[str], None]) -> None:
    """Install what is missing. Blocks; must not be called in an event loop.

    Args:
        words: The values of `-e`.
        env: The environment.
        cwd: The working folder.
        say: Takes a line for the user before each installation.

    Raises:
        PackageError: One can't be installed.
        SourceError: One is invalid.
        LockHeld: Another process is changing packages.
        OSError: A folder can't be written.
    """
    missing = resolve_named([word for word in words if is_remote(word)], env, cwd).missing
    if not missing:
        return
    places = places_of("temporary", env, cwd)
    manager = PackageManager(env, cwd, Programs(env, npm_command(agent_dir(env) / "settings.json")))

    async def install() -> None:
        for word in missing:
            source = parse_source(word)
            assert not isinstance(source, FolderSource)
            say(f"installing {word} for this start")
            await manager.store(source, places)

    os.makedirs(places.root, mode=0o700, exist_ok=True)
    trio.run(install)
