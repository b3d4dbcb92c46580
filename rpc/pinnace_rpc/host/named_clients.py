"""The clients of one agent that have given their names, and with them keep their commands across connections."""

from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.protocol import EXIT_LOST, Ended
from pinnace_rpc.host.surroundings import HostSurroundings
from pinnace_rpc.host.table import CommandTable


class NamedClient:
    """A run of a client program that has given its name."""

    def __init__(self, table: CommandTable, connection: int) -> None:
        """Begin with a connection."""
        self.table = table
        self.connection = connection
        """The newest one; it may have ended."""
        self.waiting: dict[str, int] = {}
        """The connections that get the responses to commands that are kept and not answered, by the ids as JSON: each
        time the one that has sent the command last."""


class NamedClients:
    """Those of one agent that are attached, or have commands that are executed."""

    def __init__(self, folder: str, surroundings: HostSurroundings, connections: AttachedConnections) -> None:
        """Begin with none; their tables are in the folder of the agent."""
        self._folder = folder
        self._surroundings = surroundings
        self._connections = connections
        self._clients: dict[str, NamedClient] = {}

    def join(self, name: str, connection: int) -> NamedClient:
        """Let a connection be that of a named client; a former one ends. Blocking.

        A command of the former one that is not answered yet is answered to a connection that repeats it: each gets one
        response to each command that it has sent, and no other.

        Raises:
            LocationError, OSError: The table of the client's commands can't be used.
        """
        for each in [each for each, client in self._clients.items() if self._is_gone(client)]:
            self._clients.pop(each).table.close()
        around, client = self._surroundings, self._clients.get(name)
        if client is None:
            client = self._clients[name] = NamedClient(
                CommandTable(self._folder, name, around.system, around.boot()), connection
            )
            return client
        client.table.is_known = True
        former, client.connection = client.connection, connection
        self._connections.finish_one(former, Ended(EXIT_LOST, "another connection of this client has replaced this"))
        return client

    def has_connected(self, name: str) -> bool:
        """Return whether a named client has a connection, which another one of it would replace."""
        client = self._clients.get(name)
        return client is not None and client.connection in self._connections

    def close(self) -> None:
        """Close the tables of those that are gone."""
        for client in self._clients.values():
            if self._is_gone(client):
                client.table.close()

    def _is_gone(self, client: NamedClient) -> bool:
        return client.connection not in self._connections and not client.table.has_open()
