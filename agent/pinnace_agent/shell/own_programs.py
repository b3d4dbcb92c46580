"""Commands that run a module of this agent in an interpreter of its own: the file helper, the search.

Such a program imports the standard library and `pinnace_agent` alone. It may run inside a sandbox, which shows folders
where they really are and may forbid listing the folder of a package: the package is named, never searched for.
"""

import os
import sys
from typing import Final

# Without a search, so without listing the folder that holds the package.
_START: Final = (
    "import sys; package = sys.modules['pinnace_agent'] = type(sys)('pinnace_agent'); "
    "package.__path__ = [sys.argv.pop(1)]; "
)


def own_program(run: str) -> list[str]:
    """Return the command of a program; it takes arguments, which follow.

    The interpreter reads no environment, no folder and no installed package, and writes no bytecode.

    Args:
        run: What it does, as Python statements.
    """
    import pinnace_agent

    folder, name = os.path.split(sys.executable)
    # The interpreter itself stays a link, since its environment is found beside it.
    python = os.path.join(os.path.realpath(folder), name)
    package = os.path.dirname(os.path.realpath(str(pinnace_agent.__file__)))
    return [python, "-I", "-S", "-B", "-X", "utf8", "-c", _START + run, package]
