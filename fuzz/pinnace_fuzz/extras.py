"""The packages that only judging needs: an installation without them names the extra that brings them."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

MISSING_EXIT: Final = 3
JUDGE_PACKAGES: Final = frozenset({"hypothesis", "jsonschema"})
"""The packages of the extra `judge`, by the names that they are imported by."""


def missing_package(error: BaseException) -> str | None:
    """Return what to do about an import that has failed; None: no extra would help."""
    if isinstance(error, ModuleNotFoundError) and error.name in JUDGE_PACKAGES:
        return f"{error.name} is not installed, which the extra `judge` brings: pip install {error.name}"
    return None


@contextmanager
def judge_packages() -> Generator[None]:
    """End the program with `MISSING_EXIT` and one line on stderr where a package of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (text := missing_package(error)) is None:
            raise
        sys.stderr.write(f"{text}\n")
        sys.exit(MISSING_EXIT)
