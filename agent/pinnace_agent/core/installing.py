"""What to run to get a missing extra, as error texts name it.

Decided by the installation that is running: its own interpreter, since the `pip` of the PATH is mostly that of the
system, which refuses; and in a checkout `scripts/setup`, since `pip install '.[EXTRA]'` would replace the editable
installation. The packages of an extra are those that the distribution declares. Must not import anything slow at module
level.
"""

import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def how_to_install(extra: str) -> str:
    """Return a command line for a shell that installs what an extra needs."""
    return command_for(extra, Path(__file__).parents[3], sys.executable, _requirements(extra))


def command_for(extra: str, root: Path, executable: str, requirements: Sequence[str]) -> str:
    """Return the command line for an installation.

    Args:
        extra: The name of the extra.
        root: Where a checkout would have its `scripts`.
        executable: The interpreter that runs.
        requirements: What the extra adds; empty: it is not known.
    """
    setup = root / "scripts" / "setup"
    if setup.is_file() and Path(executable).is_relative_to(root / ".venv"):
        return f"{shlex.quote(str(setup))} --with {extra}"
    # Never the name of this distribution: a release that an index has under it need not be ours.
    wanted = shlex.join(requirements) if requirements else f"PACKAGES of the extra {extra}"
    if find_spec("pip") is None:  # an environment that uv has made
        return f"uv pip install --python {shlex.quote(executable)} {wanted}"
    return f"{shlex.quote(executable)} -m pip install {wanted}"


def _requirements(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires  # slow: it reads mails

    try:
        declared = requires("pinnace") or []
    except PackageNotFoundError:
        return []
    found: list[str] = []
    for each in declared:
        requirement, _, marker = each.partition(";")
        if marker.replace("'", '"').strip() == f'extra == "{extra}"':
            found.append(requirement.strip())
    return sorted(found)
