"""The additional folders of a client that names them while the agent runs: `directories` of `hello`.

Loaded with the first of them. Rule R-HEL-02.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads


def real_folders(paths: Sequence[str]) -> list[str]:
    """Return the real paths of folders, each once.

    Raises:
        ClientError: One is no folder, or is not absolute.
    """
    for index, path in enumerate(paths):
        if not (os.path.isabs(path) and os.path.isdir(path)):
            problem = f"must be the absolute path of a folder, not {path[:200]!r}"
            raise errors.ClientError(errors.invalid_field("hello", f"directories[{index}]", problem))
    return list(dict.fromkeys(map(os.path.realpath, paths)))


def use_directories(agent: "AgentReads", directories: Sequence[str]) -> None:
    """Use these additional folders from the next request on, in place of all others. The same ones change nothing."""
    resources, cwd = agent.profile.resources, agent.session.cwd
    if list(directories) == list(resources.of(cwd).directories) or resources.on_directories is None:
        return
    resources.on_directories(directories)
    resources.renew(cwd)
