"""The terminal client (extra `tui`): a program of its own that speaks to an agent by the public Python client.

Imports `pinnace` and Textual, nothing else of the project: what it shows is what the protocol reports. Inside, `main`
imports `app`, which imports the widgets and commands; they import `content`.
"""

import sys
from typing import Final

PROGRAM: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
"""The program that this client is a client of."""
