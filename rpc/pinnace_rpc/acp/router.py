"""The start of a connection: `initialize` chooses the version, and everything after it goes to the connection of that.

The version is the highest that is at or below the one that the client asks for. Before `initialize` every other request
is refused, and notifications are ignored. A refused `initialize` changes nothing, so the client may send another one.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

from pinnace_rpc.acp.agents import Agents
from pinnace_rpc.acp.connection import Connection
from pinnace_rpc.acp.keys import UsersKeys
from pinnace_rpc.acp.library import Library
from pinnace_rpc.acp.logins import can_show_code
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.translation.jsonrpc import (
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    MalformedMessage,
    Notification,
    Reply,
    Request,
    RequestError,
    parse_message,
)
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.version import Client, Offer, Translation
from pinnace_spec.wire.framing import TooLong

_log: Final = logging.getLogger("pinnace.acp")
_MOST_VERSION: Final = 65535


def _version1() -> Translation:
    from pinnace_rpc.acp.translation.v1.protocol import Version1  # each is loaded when a client speaks it

    return Version1()


def _version2() -> Translation:
    from pinnace_rpc.acp.translation.v2.protocol import Version2

    return Version2()


VERSIONS: Final[Mapping[int, Callable[[], Translation]]] = {1: _version1, 2: _version2}


def choose(requested: int) -> Translation:
    """Return the translation for a client that asks for a version.

    Raises:
        RequestError: All versions are newer.
    """
    known = [version for version in VERSIONS if version <= requested]
    if not known:
        text = f"params.protocolVersion: {requested} is not supported; use one of {', '.join(map(str, VERSIONS))}"
        raise RequestError(UNSUPPORTED_VERSION, text, {"requested": requested, "supported": [*VERSIONS]})
    return VERSIONS[max(known)]()


class Router:
    """The lines of one client."""

    def __init__(
        self,
        nursery: trio.Nursery,
        outbox: Outbox,
        agents: Agents,
        keys: UsersKeys,
        providers: ClientProviders,
        library: Library | None,
        release: str,
    ) -> None:
        """Begin; nothing is started before the first session.

        Args:
            nursery: Gets the tasks of requests and of agents.
            outbox: Takes what is written for the client.
            agents: Starts agents.
            keys: Of the user.
            providers: Those that the client sets.
            library: The stored sessions; None: none are kept.
            release: Of this program.
        """
        self._nursery = nursery
        self._outbox = outbox
        self._agents = agents
        self._keys = keys
        self._providers = providers
        self._library = library
        self._release = release
        self._connection: Connection | None = None
        self._held: list[bytes | TooLong] | None = None
        """What came behind an `initialize` that is not answered yet; None: none is open."""
        self._described: trio.Event | None = None
        self._is_ending = False

    def take_line(self, line: bytes | TooLong) -> None:
        """Take one line of the client."""
        if self._held is not None:
            self._held.append(line)
            return
        match parse_message(line):
            case MalformedMessage(identity, error):
                self._outbox.refuse_line(identity, error)
            case Reply() as reply:
                if not self._outbox.take_reply(reply):
                    _log.info("a response to no request: %r", reply.id)
            case Notification(method, params):
                if self._connection is not None:
                    self._connection.notified(method, params)
            case Request() as request:
                self._requested(request)

    def end_turns(self) -> None:
        """The client sends no more: cancel all work that no agent continues. Other requests go on."""
        self._is_ending = True
        if self._connection is not None and self._held is None:
            self._connection.end_turns()

    async def wait_answered(self) -> None:
        """Wait until every request that is a task of its own is answered."""
        if self._described is not None:
            await self._described.wait()
        if self._connection is not None:
            await self._connection.wait_answered()

    def close(self) -> None:
        """The client is gone: cancel what is left, and end all agents but those that outlive it."""
        if self._connection is not None:
            self._connection.close()

    async def wait_closed(self) -> None:
        """Wait until all agents have ended, and every request is answered that their ends answer."""
        if self._connection is not None:
            await self._connection.wait_closed()

    def _requested(self, request: Request) -> None:
        if not self._outbox.begin(request.id):
            self._outbox.refuse_line(None, RequestError(INVALID_REQUEST, f"id: {request.id!r} is in flight"))
            return
        try:
            if request.method == "initialize":
                self._initialize(request)
            elif self._connection is None:
                raise RequestError(INVALID_REQUEST, f"{request.method[:200]}: initialize comes first")
            else:
                self._connection.requested(request)
        except RequestError as error:
            self._outbox.refuse(request.id, error)

    def _initialize(self, request: Request) -> None:
        if self._connection is not None and not self._connection.may_begin_again:
            raise RequestError(INVALID_REQUEST, "initialize: was called before")
        params = Params(request.params)
        requested = params.integer("protocolVersion", 0, _MOST_VERSION)
        translation = choose(requested)
        if self._connection is not None and translation.version != self._connection.version:
            raise RequestError(INVALID_REQUEST, "initialize: was called before, for another version")
        translation.check_request(request.id, params, is_newer=requested > translation.version)
        client = Client(translation, translation.abilities(params))
        offer = self._keys.offer(self._release, client.abilities, is_persistent=self._library is not None)
        self._connection = Connection(
            self._nursery, self._outbox, self._agents, self._keys, self._providers, self._library, client
        )
        if can_show_code(client.abilities) and self._keys.may_have_extensions():
            self._held, self._described = [], trio.Event()
            self._nursery.start_soon(self._describe, request, self._connection, translation, offer, self._described)
        else:
            self._outbox.respond(request.id, translation.description(offer))

    async def _describe(
        self,
        request: Request,
        connection: Connection,
        translation: Translation,
        offer: Offer,
        described: trio.Event,
    ) -> None:
        """Answer `initialize` when the logins of extensions are known, and then what came behind it."""
        found = await connection.extension_logins()
        self._outbox.respond(request.id, translation.description(offer.with_own(found)))
        held, self._held = self._held or (), None
        for line in held:
            self.take_line(line)
        if self._is_ending and self._held is None:
            connection.end_turns()
        described.set()
