"""Finds the node that runs extensions, and the user's installation of pi. Starts nothing."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NODE_VARIABLE: Final = "PINNACE_NODE"
"""Names the program; without it, it is `node` on the path."""
OLDEST: Final = "22.18"
"""The first release with synchronous hooks for modules that strips types without an option."""
INSTALL: Final = f"install Node {OLDEST} or newer, or set {NODE_VARIABLE} to its program"
_PI_PACKAGE: Final = ("@earendil-works", "pi-coding-agent")


class NoNode(Exception):
    """Extensions in TypeScript can't be run here; the text says why, and what to do."""


def find_node(env: Mapping[str, str]) -> str:
    """Return the program to use; whether it can run extensions shows when it is started.

    Raises:
        NoNode: There is none.
    """
    named = env.get(NODE_VARIABLE)
    path = shutil.which(named or "node", path=env.get("PATH"))
    if path is None:
        raise NoNode(f"{NODE_VARIABLE} is {named}, which is no program" if named else f"there is no node: {INSTALL}")
    return path


def installed_pi(env: Mapping[str, str]) -> str | None:
    """Return the folder of the user's installation of pi, whose `pi` is on the path; None: there is none."""
    program = shutil.which("pi", path=env.get("PATH"))
    if program is None:
        return None
    for folder in Path(os.path.realpath(program)).parents:
        if folder.parts[-2:] == _PI_PACKAGE:
            return str(folder)
    return None
