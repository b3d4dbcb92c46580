"""An agent as a task of the caller's event loop, with streams in place of stdin and stdout.

For programs that decide about everything around an agent: the order in which its tasks run, its clock, its disk. It is
what `pinnace --mode rpc` runs, and ends like it: when stdin ends, or when the task is cancelled. Needs trio.
"""

import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.session.store.lease import PAUSE
from pinnace_agent.shell.child_processes import children
from pinnace_rpc.embedded.thread import options_of_program
from pinnace_rpc.server.process import ProcessRun
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.serve import Server
from pinnace_rpc.server.startup import prepare

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System
    from pinnace_rpc.server.streams import Input, Output


async def serve(
    flags: Sequence[str],
    environment: MutableMapping[str, str],
    folder: str,
    stdin: "Input",
    stdout: "Output",
    system: "System",
    wall_time_ns: Callable[[], int],
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Run an agent until its stdin ends, and return the exit code that its process would have.

    Cancelled, it ends what it does, and its commands, as far as that needs no waiting; what is not saved is lost.

    Args:
        flags: Those of `pinnace --mode rpc`, but for what belongs to a process.
        environment: For its settings, keys and commands; it may change it.
        folder: Where it works; an absolute path.
        stdin: The commands. It is closed.
        stdout: Takes the records. It is closed.
        system: Keeps the session files.
        wall_time_ns: Returns nanoseconds since the epoch.
        pause: Lets so many seconds pass where the agent's thread waits for another process to give up a session.

    Raises:
        StartupError, CommandError, TextRequested: It can't start with these flags, or these files.
    """
    surroundings = Surroundings(environment, folder, system, wall_time_ns)
    surroundings.values[PAUSE] = pause
    with surrounded_by(surroundings):
        try:
            options = options_of_program(("--mode", "rpc", *flags), surroundings, may_be_hosted=True)
            run = ProcessRun(prepare(options), make_projection(options.protocol), owns_process=False)
            server = Server(
                run,
                is_drained=options.on_eof == "drain",
                continues_queue=options.on_restore == "continue",
                open_stdin=lambda: stdin,
            )
            await run.live(stdout, (server.read, server.warm))
        finally:
            children().end()
        if run.startup_failure is not None:
            raise run.startup_failure
        return run.exit_code()
