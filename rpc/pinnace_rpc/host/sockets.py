"""The socket of a host in the file system, and the connections of clients to it.

Only the holder of the folder's lock binds it. A socket whose file was removed is bound again; one that is left of a
host that has died is removed first. Who has connected is asked of the system (`locations`, `peers`).
"""

import errno
import logging
import os
import socket
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

import trio

from pinnace_rpc.host import locations
from pinnace_rpc.host.locations import LocationError
from pinnace_rpc.host.peers import check_origin

_log = logging.getLogger("pinnace.host")

_BACKLOG: Final = 256
_PAUSE_S: Final = 0.1
"""Before the next try, when no connection could be accepted."""


class SocketConnection:
    """A `ClientStream` over a socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        """Take over a connection."""
        self._stream = stream
        self._socket = stream.socket
        self.receive_some = stream.receive_some
        self.send_all = stream.send_all
        self.aclose = stream.aclose

    def check(self, agents: Collection[int]) -> None:
        """Check that the process that has connected is of the same user, and was started by no agent.

        Raises:
            LocationError: It is not, or that can't be found out.
        """
        with socket.socket(fileno=os.dup(self._socket.fileno())) as peer:
            locations.check_peer(peer)
            check_origin(peer, agents)

    def send_now(self, pieces: Sequence[memoryview]) -> int:
        """Write what the socket takes without waiting, and return how many bytes."""
        return os.writev(self._socket.fileno(), pieces)

    async def wait_writable(self) -> None:
        """Wait until the socket takes more, or is broken."""
        await trio.lowlevel.wait_writable(self._socket)


class HostSocket:
    """A `Listener` with a path."""

    def __init__(self, path: str) -> None:
        """Bind nothing yet; for `bind`."""
        self._path = path
        self._listener: trio.socket.SocketType | None = None
        self._bound: os.stat_result | None = None

    @classmethod
    def bind(cls, path: str) -> "HostSocket":
        """Bind a socket to a path, in a folder of the user alone.

        Raises:
            LocationError: The path or its folder can't be used.
        """
        listener = cls(path)
        listener._bind()
        return listener

    def _bind(self) -> None:
        path = self._path
        locations.make_folder(os.path.dirname(path))
        _remove_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        former = os.umask(0o777 & ~locations.FILE_MODE)
        try:
            listener.bind(path)
            self._bound = os.lstat(path)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise LocationError(f"{path}: {error.strerror}") from None
        finally:
            os.umask(former)
        self._listener = trio.socket.from_stdlib_socket(listener)

    async def accept(self) -> SocketConnection:
        """Wait for the next client."""
        while (listener := self._listener) is not None:
            try:
                connection, _ = await listener.accept()
            except trio.ClosedResourceError:  # another one has taken its place
                continue
            except OSError as error:
                _log.warning("no connection can be accepted: %s", error.strerror)
                await trio.sleep(_PAUSE_S)
                continue
            return SocketConnection(trio.SocketStream(connection))
        raise trio.ClosedResourceError

    def look_after(self) -> None:
        """Bind the socket again if its file was removed."""
        if self._is_bound():
            return
        _log.warning("%s was removed; it is bound again", self._path)
        former = self._listener
        try:
            self._bind()
        except LocationError as error:
            _log.warning("%s", error)
        else:
            if former is not None:
                former.close()

    def _is_bound(self) -> bool:
        try:
            return self._bound is not None and os.path.samestat(os.lstat(self._path), self._bound)
        except OSError:
            return False

    def unbind(self) -> None:
        """Close the socket, and remove its file if that is still its own."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._is_bound():
            with suppress(OSError):
                os.unlink(self._path)


def _remove_stale(path: str) -> None:
    """Remove the socket of a host that has died. The lock of this folder does not protect that of another one."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(state.st_mode):
        raise LocationError(f"{path}: is no socket; choose another path with --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EAGAIN:  # its queue is full: it lives
                raise LocationError(f"{path}: {error.strerror}") from None
    raise LocationError(f"{path}: the host of another agent folder serves there; choose another path with --socket")
