"""What must hold for the messages of one connection in every version: responses, and MCP servers of the client.

The base of the observers of both versions, which add what must hold of sessions. Takes only messages that the schema
allows. Must not know what agent it observes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object

Json: TypeAlias = Mapping[str, Any]  # Any: JSON
S = TypeVar("S")

RULES: Final = ("R-ACP-03", "R-ACP-29", "R-ACP-88", "R-ACP-98")
"""Those that are watched here."""


class Fault(NamedTuple):
    """A rule that does not hold."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


class ConnectionObserver(Generic[S]):
    """Observes one connection, with a state for each session."""

    def __init__(self, new_session: Callable[[], S], capabilities: str) -> None:
        """Begin before the first message.

        Args:
            new_session: Makes the state of a session.
            capabilities: The field of `initialize` with what the client offers.
        """
        self._new_session = new_session
        self._capabilities = capabilities
        self._open: dict[object, tuple[str, Json]] = {}
        """Requests of the client without a response: method and parameters."""
        self._sessions: dict[str, S] = {}
        self._offered: Json = {}
        self._served: set[str] = set()
        """The MCP servers of the client, by their ids."""
        self._inner_ids: set[str] = set()
        """Of requests to them."""
        self._status: Json | None = None
        """What the agent has said of its logins, the last time."""

    def sent(self, message: Json) -> None:
        """Take a message that was written to the agent."""
        if "method" not in message:
            return
        params: Json = as_object(message.get("params")) or {}
        if message["method"] == "initialize":
            self._offered = as_object(params.get(self._capabilities)) or {}
        servers = [as_object(each) or {} for each in as_list(params.get("mcpServers")) or ()]
        self._served |= {str(each.get("serverId")) for each in servers if each.get("type") == "acp"}
        if "id" in message:
            self._open[message["id"]] = (message["method"], params)
            self._requested(message["id"], message["method"], params)

    def received(self, message: Json) -> Sequence[Fault]:
        """Take a message of the agent, and return the rules that it breaks."""
        if "method" not in message:
            return [*self._responded(message)]
        params: Json = as_object(message.get("params")) or {}
        method = message["method"]
        inner = self._inner(params, message) if method == "mcp/message" else ()
        changed = self._status_changed(params) if method == "auth/status_update" else ()
        return [*inner, *changed, *self._called(method, params, message)]

    def forget(self, identity: object) -> None:
        """Take a response that the schema does not allow: the request is answered, and nothing more is known."""
        method, params = self._open.pop(identity, ("", {}))
        self._forgotten(identity, method, params)

    def closed(self) -> Sequence[Fault]:
        """Take the end of the connection, after the end of the agent's input; return the rules that are broken."""
        if self._open:
            return [Fault("R-ACP-29", f"without a response: {sorted(map(str, self._open))}")]
        return []

    # What each version adds.

    def _requested(self, identity: object, method: str, params: Json) -> None:
        """Take a request of the client."""
        raise NotImplementedError

    def _called(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        """Take a request or a notification of the agent."""
        raise NotImplementedError

    def _answered(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        """Take the response of a request that was open."""
        raise NotImplementedError

    def _forgotten(self, identity: object, method: str, params: Json) -> None:
        """Take the end of a request of which nothing more is known."""
        raise NotImplementedError

    # What they share.

    def _session(self, params: Json) -> S | None:
        identity = params.get("sessionId")
        return self._named(identity) if isinstance(identity, str) else None

    def _named(self, identity: str) -> S:
        return self._sessions.setdefault(identity, self._new_session())

    def _responded(self, message: Json) -> Iterator[Fault]:
        if (identity := message.get("id")) is None:
            return  # of a line that could not be read
        opened = self._open.pop(identity, None)
        if opened is None:
            yield Fault("R-ACP-03", f"a response to no open request: {message}")
            return
        if opened[0] == "auth/status" and (result := as_object(message.get("result"))) is not None:
            self._status = _without_details(result)
        yield from self._answered(*opened, message)

    def _status_changed(self, status: Json) -> Iterator[Fault]:
        """Take an `auth/status_update`."""
        former, self._status = self._status, _without_details(status)
        if self._status == former:
            yield Fault("R-ACP-98", f"the status that the client has: {status}")

    def _inner(self, params: Json, message: Json) -> Iterator[Fault]:
        """Take a message for an MCP server of the client."""
        if params["serverId"] not in self._served:
            yield Fault("R-ACP-88", f"for a server that the client has not named: {message}")
        if "id" not in message:
            return  # about a request that is open
        inner = params.get("requestId")
        if inner in self._inner_ids:
            yield Fault("R-ACP-88", f"the requestId of an earlier request: {message}")
        self._inner_ids.add(str(inner))


def _without_details(status: Json) -> Json:
    return {name: value for name, value in status.items() if name != "_meta"}
