"""The packages that only judging needs: a checkout that is installed without them names the one that is missing."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

MISSING_EXIT: Final = 3
JUDGE_PACKAGES: Final = frozenset({"hypothesis", "jsonschema"})
"""Dependencies of `pinnace-conform` that `pinnace` has not, by the names that they are imported by."""


def missing_package(error: BaseException) -> str | None:
    """Return what to do about an import that has failed; None: it is none of these packages."""
    if isinstance(error, ModuleNotFoundError) and error.name in JUDGE_PACKAGES:
        command = f"{sys.executable} -m pip install {error.name}"
        return f"{error.name} is not installed, which `pinnace-conform` needs: {command}"
    return None


@contextmanager
def judge_packages() -> Generator[None]:
    """End the program with `MISSING_EXIT` and one line on stderr where one of these packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (text := missing_package(error)) is None:
            raise
        sys.stderr.write(f"{text}\n")
        sys.exit(MISSING_EXIT)
