"""An adapter as a task of the caller's event loop, with what it reaches in the caller's hands.

For programs that decide about everything around an adapter: its client, the host that it finds, the processes of its
agents, its clock. It is what `pinnace --mode acp` runs, without the signals of a process, and ends like it: when stdin
ends, or when the task is cancelled. Needs trio.
"""

import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.session.store.lease import PAUSE
from pinnace_rpc.acp.serve import Adapter
from pinnace_rpc.options.arguments import parse_arguments

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System
    from pinnace_rpc.acp.machine import Machine
    from pinnace_rpc.server.streams import Input, Output


async def serve(  # noqa: PLR0913 - all that it reaches
    flags: Sequence[str],
    environment: MutableMapping[str, str],
    folder: str,
    stdin: "Input",
    stdout: "Output",
    machine: "Machine",
    system: "System",
    wall_time_ns: Callable[[], int],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Run an adapter until its stdin ends, and return the exit code that its process would have.

    Cancelled, it answers nothing more; the agents that it has started get the end of their stdin.

    Args:
        flags: Those of `pinnace --mode acp`, which its agents get, too.
        environment: Of the adapter and its agents.
        folder: Where it works; an absolute path.
        stdin: The messages of the client. It is closed.
        stdout: Takes its own. It is closed.
        machine: Has a host, or starts its agents.
        system: Changes files; its random bytes are identities.
        wall_time_ns: Returns nanoseconds since the epoch.
        pause: Lets so many seconds pass where a thread waits for another process to give up a session.

    Raises:
        CommandError: The flags are invalid.
    """
    surroundings = Surroundings(environment, folder, system, wall_time_ns)
    surroundings.values[PAUSE] = pause
    with surrounded_by(surroundings):
        adapter = Adapter(parse_arguments(("--mode", "acp", *flags), environment), flags, machine, lambda: stdin)
        await adapter.run(stdout)
        return adapter.exit_code
