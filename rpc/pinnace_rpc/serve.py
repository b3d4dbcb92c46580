"""One agent process on stdin and stdout: who starts, who ends, and with which exit code.

The nursery tree (docs/architecture.md): an outer nursery with the writer and the signals, an inner one with the reader and the jobs.
The reader never waits for work; the writer is the only task that writes. Stdin's end and signals are triggers of the chart
like any other: the process leaves when the chart says that all is answered and closed, or when its time is over.

Only here and in `jobs` are groups of exceptions and defects handled.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from pinnace_agent.host import Host
from pinnace_agent.jobs import Jobs
from pinnace_agent.shell import SHELL_GROUPS
from pinnace_rpc import stdio
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.options import Options
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.projection import make_projection
from pinnace_rpc.startup import build_agent
from pinnace_spec.framing import LineDecoder
from pinnace_statechart.machine import Chart
from pinnace_statechart.triggers import Happening

_log = logging.getLogger("pinnace.serve")

# The longest that a shutdown may take, whatever a job does; clients kill after one second, so this is for the worst case.
SHUTDOWN_S = 5.0
# A reader that takes nothing for this long after everything is closed will not read the rest.
FLUSH_S = 0.3


@dataclass(slots=True)
class Ending:
    """Why the process ends. The first signal decides the exit code; a drain may be turned into an abort."""

    signal_number: int | None = None
    stdout_broken: bool = False
    begun: bool = False
    done: trio.Event = field(default_factory=trio.Event)


def run(options: Options) -> int:
    """Serve until stdin ends or a signal comes, and return the exit code.

    Raises:
        StartupError: The configuration can't be used; nothing was written to stdout.
    """
    stdio.configure_logging(verbose=options.verbose)
    stdout = os.dup(1)
    os.dup2(2, 1)
    ending = Ending()
    trio.run(_serve, options, stdout, ending)
    if ending.signal_number == signal.SIGINT:
        stdio.die_by(signal.SIGINT)
    sys.stderr.flush()
    if ending.stdout_broken and ending.signal_number is None:
        return 1
    return stdio.exit_status(ending.signal_number)
