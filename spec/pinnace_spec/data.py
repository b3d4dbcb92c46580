"""Finds the specification's own files: those written by hand (rules, deviations, …) and the published ones.

In a checkout they are beside the package, in `spec/`; in a wheel inside it, in `published/`. Readers use the name in
`spec/` (`rules.toml`, `schema/pi.json`) in both cases. Reads, never writes.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = Path(__file__).resolve().parent
_PUBLISHED: Final = _PACKAGE / "published"

FOLDER: Final = _PUBLISHED if _PUBLISHED.is_dir() else _PACKAGE.parent
"""Where the files are."""

IS_CHECKOUT: Final = FOLDER != _PUBLISHED
"""Whether there are sources to publish from; false in an installed wheel."""


def text(name: str) -> str:
    """Return a file's text.

    Raises:
        FileNotFoundError: There is no such file.
    """
    return (FOLDER / name).read_text(encoding="utf-8")


def has(name: str) -> bool:
    """Return whether there is a file of this name."""
    return (FOLDER / name).is_file()


def names(folder: str) -> tuple[str, ...]:
    """Return the files of a folder, sorted, each as `text` takes it; none if there is no such folder."""
    return tuple(f"{folder}/{path.name}" for path in sorted((FOLDER / folder).glob("*")) if path.is_file())


def table(name: str) -> dict[str, Any]:
    """Return what a TOML file says."""
    return tomllib.loads(text(name))
