"""Installs the packages that `-e` names before a start. Loaded where the command line has `-e`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pinnace_agent.core.surroundings import environment
from pinnace_agent.packages.words import is_remote
from pinnace_rpc.options.options import StartupError, UsageRefused


def install_named(words: Sequence[str], cwd: Path, say: Callable[[str], None]) -> None:
    """Install the packages of npm and git among `words` that are not there; a start installs nothing else.

    Raises:
        StartupError: One is invalid, or can't be installed.
    """
    if not any(map(is_remote, words)):
        return
    from pinnace_agent.files.file_lock import LockHeld
    from pinnace_agent.packages.programs import PackageError
    from pinnace_agent.packages.sources import SourceError
    from pinnace_agent.packages.temporary import install_missing

    try:
        install_missing(words, environment(), cwd, say)
    except SourceError as error:
        raise UsageRefused(f"-e {error}") from None
    except (PackageError, LockHeld, OSError) as error:
        raise StartupError(f"-e: {error}") from None
