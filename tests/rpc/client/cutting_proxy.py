"""A way to a host that a test can cut: a socket in front of the host's, which an agent folder of its own names."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pinnace_rpc.host.locations import HostLock, make_folder

_READ_BYTES = 65536


class CuttingProxy:
    """Passes bytes on in both directions, in threads; made by `cutting_proxy`."""

    def __init__(self, listener: socket.socket, target: str) -> None:
        self._listener = listener
        self._target = target
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.connections = 0
        """How many there have been."""

    def cut(self) -> None:
        """End all connections without a word, as a network that is lost."""
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def serve(self) -> None:
        """Take connections until the listener is shut down."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host = socket.socket(socket.AF_UNIX)
            host.connect(self._target)
            with self._lock:
                self._open += [client, host]
                self.connections += 1
            for source, sink in ((client, host), (host, client)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


@contextmanager
def cutting_proxy(target: str, folder: Path, agent_folder: Path) -> Generator[CuttingProxy]:
    """Have clients with this agent folder reach the host at `target` by a socket in `folder`."""
    make_folder(str(folder))
    path = str(folder / "host.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        lock = HostLock.take(str(agent_folder), path, "proxy")
        proxy = CuttingProxy(listener, target)
        thread = threading.Thread(target=proxy.serve)
        thread.start()
        try:
            yield proxy
        finally:
            lock.release()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            proxy.cut()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError), source:
        while data := source.recv(_READ_BYTES):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
