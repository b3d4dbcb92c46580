"""The program of an agent in a new interpreter: handles signals as if nothing of the host's were inherited, then runs.

A host that is started with `nohup`, or in the background of a script, ignores signals, and an exec keeps that. The
process itself resets them: between fork and exec a host, which has threads, may run no Python. `python -P -m` it.
"""

import signal
import sys
from contextlib import suppress
from typing import Final

# The handlers of a new interpreter that are not the system's.
_IGNORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)


def main() -> int:
    """Run an agent with the words of the command line; returns its exit code."""
    reset_signals()
    from pinnace_rpc.cli.main import main as run_agent

    return run_agent()


def reset_signals() -> None:
    """Handle each signal as a new interpreter does, whatever this process has inherited."""
    for number in signal.valid_signals():
        if number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        elif number not in (signal.SIGKILL, signal.SIGSTOP):
            with suppress(OSError, ValueError):  # reserved by the C library
                is_interrupt = number == signal.SIGINT
                signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.set_wakeup_fd(-1)


if __name__ == "__main__":
    sys.exit(main())
