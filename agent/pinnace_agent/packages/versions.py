"""Compares versions of npm packages. The library is loaded with the first comparison of a start or an update."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded with the first comparison
    from semantic_version import Version  # pyright: ignore[reportMissingTypeStubs]


def meets(installed: str, wanted: str) -> bool:
    """Return whether a version is in a range; what is no range, such as a tag, has any."""
    from semantic_version import NpmSpec  # pyright: ignore[reportMissingTypeStubs]

    try:
        wanted_range = NpmSpec(wanted.strip().lstrip("=v") or "*")
    except ValueError:
        return True
    version = _version(installed)
    return version is not None and version in wanted_range


def is_newer(version: str, than: str) -> bool:
    """Return whether a version is newer than an installed one; any is newer than one that is no version."""
    one, other = _version(version), _version(than)
    return other is None or (one is not None and one > other)


def newest(versions: Iterable[str], wanted: str | None) -> str | None:
    """Return the newest version of a list that is in a range; None: there is none."""
    best: str | None = None
    for each in versions:
        if _version(each) is not None and (wanted is None or meets(each, wanted)):
            best = each if best is None or is_newer(each, best) else best
    return best


def _version(text: str) -> "Version | None":
    from semantic_version import Version  # pyright: ignore[reportMissingTypeStubs]

    try:
        return Version(text)
    except ValueError:
        return None
