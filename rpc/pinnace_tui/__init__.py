"""The terminal client (extra `tui`): a program of its own that speaks to an agent by the public Python client.

Imports `pinnace` and Textual, nothing else of the project: what it shows is what the protocol reports. Inside, `main`
imports `app`, which makes the parts; most get what they work with as a `terminal`. Parts import widgets and `content`,
and none imports one that is made after it.
"""

import sys
from typing import Final

PROGRAM: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
"""The program that this client is a client of."""
