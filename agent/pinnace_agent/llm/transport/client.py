"""The HTTP client: one for every provider, made on first use.

Decides connections, timeouts and accepted certificates; has no access to requests. HTTP/1.1 only: one response is
streamed at a time, and local servers support nothing else; HTTP/2 would need another package for no gain.

httpx takes 75 ms to import (without its command line: `lean_httpx`) and the certificates 100 ms to read, so both wait
until they are needed, and are done in a thread. Certificates are not read for addresses that are not TLS.
"""

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.llm.transport.authorities import add_ca_certificates
from pinnace_agent.llm.transport.bodies import ACCEPTED
from pinnace_agent.llm.transport.lean_httpx import load_httpx
from pinnace_agent.llm.transport.proxies import ProxyUnusable, proxy_for
from pinnace_agent.redaction.policy import Secret

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_TIMEOUT_S: Final = 30.0

# Clients belong to one run of the event loop, the certificates to the process.
_clients: trio.lowlevel.RunVar[dict["_Kind", "httpx.AsyncClient"]] = trio.lowlevel.RunVar("pinnace_http_clients")
_trust_lock: Final = threading.Lock()
_trust: "list[ssl.SSLContext]" = []


class _Kind(NamedTuple):
    """The parameters of a client."""

    needs_trust: bool
    proxy: Secret | None
    """None: directly."""


def load(base_url: str) -> None:
    """Do the slow work of the first request to an address. Blocking, so it belongs into a thread.

    Raises:
        OSError: The certificates cannot be read.
    """
    _load(_kind_for(base_url))


async def client_for(base_url: str, *, is_direct: bool = False) -> "httpx.AsyncClient":
    """Return the client for an address, the same one each time. Cancelling leaves no incomplete client.

    Args:
        base_url: Where it sends requests to.
        is_direct: Whether it goes past the proxy of the environment, which may not be able to reach this machine.

    Raises:
        OSError: The certificates cannot be read.
        ProxyUnusable: None can be made.
    """
    kind = _kind_for(base_url, is_direct=is_direct)
    clients = _clients_of_this_run()
    if kind not in clients:
        # A cancelled one leaves the thread to finish.
        await trio.to_thread.run_sync(_load, kind, abandon_on_cancel=True)
        if kind not in clients:  # another task may have been faster
            clients[kind] = _make(kind)
    return clients[kind]


async def close_clients() -> None:
    """Close every connection that is kept open. The next request makes a new client."""
    clients = _clients_of_this_run()
    while clients:
        _, client = clients.popitem()
        await client.aclose()


def _clients_of_this_run() -> dict[_Kind, "httpx.AsyncClient"]:
    try:
        return _clients.get()
    except LookupError:
        clients: dict[_Kind, httpx.AsyncClient] = {}
        _clients.set(clients)
        return clients


def _kind_for(base_url: str, *, is_direct: bool = False) -> _Kind:
    """Return which client an address needs. Certificates are read for TLS, and for proxies that are reached by TLS."""
    proxy = None if is_direct else proxy_for(base_url)
    is_tls = not base_url.lower().startswith("http://")
    return _Kind(is_tls or (proxy is not None and proxy.reveal().lower().startswith("https:")), proxy)


def _load(kind: _Kind) -> None:
    load_httpx()
    import httpx

    import_module("pinnace_agent.llm.transport.connections")  # used by `_make`; loaded here, in a thread
    if kind.needs_trust:
        with _trust_lock:
            if not _trust:
                _trust.append(add_ca_certificates(httpx.create_ssl_context()))


def _make(kind: _Kind) -> "httpx.AsyncClient":
    import httpx

    from pinnace_agent.llm.transport.connections import PooledTransport

    # Without a context httpcore makes one that accepts the usual authorities, if there is TLS after all: a request
    # never goes out unchecked.
    context = _trust[0] if kind.needs_trust else None
    try:
        transport = PooledTransport(context, None if kind.proxy is None else kind.proxy.reveal())
    except (ImportError, ValueError, httpx.InvalidURL):  # their texts may quote a password
        raise ProxyUnusable("The proxy cannot be used") from None
    return httpx.AsyncClient(
        transport=transport,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),  # each request brings its own limits
        headers={
            "User-Agent": "pinnace",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": ACCEPTED,
        },
    )
