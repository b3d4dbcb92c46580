"""Closes this process to others of its user: each of our programs begins with it.

A command that an agent runs has the agent's user. It could open `/proc/<program>/fd/*`, write records and read commands
there, read keys in `/proc/<program>/environ` and in memory, or attach as a debugger. Linux only: elsewhere there is no
such /proc, and only core dumps are turned off. Loads little, since each client waits for it.

Not protected from: root, a process with CAP_SYS_PTRACE, signals of the same user, and the files of the same user.
"""

import os
import sys

_PR_SET_DUMPABLE = 4


def protect() -> "str | None":
    """Deny other processes of this user the memory, environment and descriptors of this one; write no core dumps.

    Programs that this process starts are not affected, except that the soft limit of their core dumps is 0 as well,
    which they may raise. Call it before keys are read and before anything is started.

    Returns:
        What could not be protected and the reason; None on success.
    """
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if sys.platform == "linux":
            import ctypes

            library = ctypes.CDLL(None, use_errno=True)
            arguments = (ctypes.c_ulong(each) for each in (0, 0, 0, 0))
            if library.prctl(_PR_SET_DUMPABLE, *arguments) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), "prctl")
    except OSError as error:
        return f"other processes of this user can read the agent's memory: {error}"
    return None
