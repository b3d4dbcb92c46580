"""Extensions of installed Python packages: the entry points of a group, by the package's name (D6).

Nothing is loaded because it is installed: settings name the package. Reads metadata; imports nothing of a package.
"""

from collections.abc import Mapping, Sequence
from typing import Final

GROUP: Final = "pinnace.extensions"
PACKAGE_PREFIX: Final = "python:"
"""How settings and the command line write the name of a Python package: other kinds belong to pi."""


def package_names(packages: Sequence[str | Mapping[str, object]]) -> tuple[list[str], list[str]]:
    """Return the names of Python packages among those of the settings, and the sources of all others."""
    names: list[str] = []
    others: list[str] = []
    for each in packages:
        source = each if isinstance(each, str) else each.get("source")
        is_ours = isinstance(source, str) and source.startswith(PACKAGE_PREFIX)
        (names if is_ours else others).append(str(source))
    return names, others


def package_candidates(name: str) -> list[tuple[str, str]] | None:
    """Return module and function of each extension of a package, in the order of their names; None: not installed."""
    from importlib import metadata

    try:
        found = metadata.distribution(name).entry_points.select(group=GROUP)
    except (metadata.PackageNotFoundError, ValueError):
        return None
    return [(each.module, each.attr or "extension") for each in sorted(found, key=lambda each: each.name)]
