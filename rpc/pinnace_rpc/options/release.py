"""Which release this is, for `--version`, `hello`, and an attach, which has no time to import what reads metadata."""

import os
import sys
from functools import cache


@cache  # an adapter answers with it again and again, and the metadata is a mail to parse
def program_version() -> str:
    """Return the version of the installed distribution, or `0+unknown` when run from its sources."""
    from importlib.metadata import PackageNotFoundError, version  # slow: it reads mails

    try:
        return version("pinnace")
    except PackageNotFoundError:
        return "0+unknown"


def installed_release() -> str:
    """Return the same by the name of the folder that has the metadata: without an import."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("pinnace-") and name.endswith(".dist-info"):
                return name[len("pinnace-") : -len(".dist-info")]
    return "0+unknown"
