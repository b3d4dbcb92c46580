"""Refuses connections that come from below the host: from commands of its agents, and from the agents themselves.

A command that an agent runs has the user of the host, and so could connect, attach to an agent and turn its approval
off. The host asks the kernel which process has connected, and follows its parents: below the host there is no client.

Commands can't leave: the host adopts orphans, as agents do, so that a process stays below it when those between them
end, however it was started (`setsid`, two forks) and even if a command kills its agent. What the walk reads is true of
one moment: each parent is read between two equal readings of its child, and a number that was read is not used again
while that child has it as parent. A handle of the process that connected (a pidfd) shows that it still exists at the
end. A process that has ended may have left the connection to any other one, and is refused.

Linux alone has these calls. Not covered, since such a process is not below the host: jobs that a command passed to
other services (`at`, `cron`, `systemd-run`), and a command that is left of a former host.
"""

import errno
import os
import select
import socket
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Final

from pinnace_rpc.host.locations import LocationError, peer_pid

_SO_PEERPIDFD: Final = 77
"""Linux 6.5 and later; <asm-generic/socket.h>."""
_MOST_ANCESTORS: Final = 256
_TRIES: Final = 10

_Link = tuple[int, int, int]
"""A process: its number, its start time, and the number of its parent."""


def check_origin(connection: socket.socket, agents: Collection[int]) -> None:
    """Check that the process that has connected is no descendant of this one.

    Args:
        connection: Accepted a moment ago.
        agents: The processes of the agents. They are below this one, too; where /proc hides a process from others of
            its user, the walk ends early, but not before its number.

    Raises:
        LocationError: It is one, or that can't be found out.
    """
    if sys.platform != "linux":
        return
    pid = peer_pid(connection)
    if pid == 0:
        raise LocationError(
            "the other end of the socket can't be examined: its process is in another container; attach in that of "
            "the host"
        )
    with _handle(connection, pid) as handle:
        ancestors = _ancestors(pid)
        if _has_ended(handle):
            raise _ended(pid)
    if not ancestors.isdisjoint((os.getpid(), *agents)):
        raise LocationError(
            f"process {pid} was started by an agent of this host, which accepts no connections of commands: they could "
            "approve their own calls; use a terminal of your own"
        )


def _ended(pid: int) -> LocationError:
    return LocationError(f"the process that has connected ({pid}) has ended")


@contextmanager
def _handle(connection: socket.socket, pid: int) -> Generator[int | None]:
    """Yield a pidfd of the process that has connected; None: the system has none."""
    handle: int | None = None
    try:
        try:
            handle = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:
                raise
            handle = os.pidfd_open(pid)  # its number may have been given to another one since
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise _ended(pid) from None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _has_ended(handle: int | None) -> bool:
    if handle is None:
        return False
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def _ancestors(pid: int) -> set[int]:
    """Return the numbers of a process and of its ancestors, as they were at one moment.

    Raises:
        LocationError: They change too often, or are too many.
    """
    former = _walk(pid)
    for _ in range(_TRIES):
        links = _walk(pid)
        if links == former:
            return {pid, *(parent for _, _, parent in links)}
        former = links
    raise LocationError(f"the parents of the process that has connected ({pid}) can't be found out: they change")


def _walk(pid: int) -> list[_Link]:
    # The host loads nothing of the agent before.
    from pinnace_agent.shell.process_table import status_of

    links: list[_Link] = []
    while pid and (status := status_of(pid)) is not None:
        links.append((pid, status.start, status.parent))
        pid = status.parent
        if len(links) > _MOST_ANCESTORS:
            raise LocationError(f"the process that has connected has more than {_MOST_ANCESTORS} ancestors")
    return links
