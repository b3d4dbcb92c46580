"""A host as a task of the caller's event loop, with what it reaches in the caller's hands.

For programs that decide about everything around a host: its clients, the processes of its agents, its clocks, its disk.
It is what `pinnace host` runs, without the folder's lock, the socket and the signals of a process. Needs trio.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pinnace_rpc.host import locations
from pinnace_rpc.host.agents.ports import AgentStarter, OnCrash
from pinnace_rpc.host.server import Host, HostSettings
from pinnace_rpc.host.surroundings import HostSurroundings, Listener, boot_of_machine

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System

_RELEASE: Final = "0"


async def serve(  # noqa: PLR0913 - all that it reaches
    agent_folder: str,
    listener: Listener,
    starter: AgentStarter,
    system: "System",
    wall_time_s: Callable[[], float],
    elapsed_s: Callable[[], float],
    *,
    idle_s: float,
    journal_bytes: int,
    on_crash: OnCrash,
    boot: Callable[[], str] = boot_of_machine,
) -> None:
    """Run the host of an agent folder until a client ends it. One at a time for each folder, which this does not check.

    Cancelled, it ends at once: the processes of its agents get the end of their stdin, clients that of theirs.

    Args:
        agent_folder: An absolute path. Journals and tables are below it.
        listener: Where clients connect.
        starter: Starts the processes of agents.
        system: Keeps the files.
        wall_time_s: Returns seconds since the epoch.
        elapsed_s: Returns seconds since some moment, for durations.
        idle_s: After so many seconds without clients and use an agent is put to sleep.
        journal_bytes: The most that the files of an agent's journal have.
        on_crash: What an agent does with queued messages after its crash.
        boot: Returns what identifies the time since the machine was started.

    Raises:
        LocationError: The folder can't be used.
    """
    settings = HostSettings(agent_folder, "", _RELEASE, idle_s=idle_s, journal_bytes=journal_bytes, on_crash=on_crash)
    locations.make_folder(locations.journals_folder(agent_folder), system)
    await Host(settings, HostSurroundings(system, wall_time_s, elapsed_s, boot)).serve(listener, starter)
