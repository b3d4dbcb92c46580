"""`python -m pinnace_rpc`: the program without its console script.

Python puts the current folder first on its module path here. That folder belongs to the user's project, whose
`click.py` must not be loaded in the place of ours, so it is taken off before anything else is imported.
"""

import os
import sys
from contextlib import suppress

with suppress(FileNotFoundError):  # the current folder is gone: what was put first is no folder at all
    if sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]

from pinnace_rpc.cli import main

if __name__ == "__main__":
    sys.exit(main())
