"""The HTTP client: one for every provider, made on first use.

Decides connections and timeouts; `certificates` decides who is believed. Must not know what is sent. HTTP/1.1 alone:
what streams to us is one response at a time, and local servers speak nothing else; HTTP/2 would be another package for
no gain. Proxies are taken from the environment, and else from the user's settings.

httpx takes 150 ms to import and the certificates 100 ms to read, so both wait until they are needed, and `warm`
does them in a thread. Certificates are not read for addresses that are not TLS.
"""

import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio

from pinnace_agent.llm.certificates import believe_more
from pinnace_agent.llm.content_encoding import ACCEPTED
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.resources.values import Secret

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_TIMEOUT_S: Final = 30.0
# The next request of a run follows when the tools are done; most servers keep a connection at least this long.
KEEP_ALIVE_S: Final = 30.0

_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

# Clients belong to one run of the event loop, the certificates to the process.
_clients: trio.lowlevel.RunVar[dict["_Kind", "httpx.AsyncClient"]] = trio.lowlevel.RunVar("pinnace_http_clients")
_trust_lock: Final = threading.Lock()
_trust: "list[ssl.SSLContext]" = []
_setting: list[Secret] = []


class ProxyUnusable(Exception):
    """A proxy that is configured cannot be used. The text is for the user."""


class _Kind(NamedTuple):
    """What makes one client differ from another."""

    needs_trust: bool
    uses_setting: bool
    """Whether it goes through the proxy of the settings."""


def use_proxy(address: Secret) -> None:
    """Go through this proxy wherever the environment names none, and does not exempt the server (`NO_PROXY`).

    To be called once, before the first request. Other programs that this process starts are not told.
    """
    _setting[:] = [address]
    REDACTOR.learn_address(address.reveal())


async def warm(base_url: str) -> None:
    """Do what makes the first request slow, in a thread. Cancelling leaves the thread to finish."""
    await trio.to_thread.run_sync(_load, _kind_for(base_url).needs_trust, abandon_on_cancel=True)


async def client_for(base_url: str) -> "httpx.AsyncClient":
    """Return the client for an address, the same one each time. Cancelling leaves nothing half made.

    Raises:
        OSError: The certificates cannot be read.
        ProxyUnusable: None can be made.
    """
    kind = _kind_for(base_url)
    clients = _clients_of_this_run()
    if kind not in clients:
        await warm(base_url)
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


def _kind_for(base_url: str) -> _Kind:
    """Tell which client an address needs. Certificates are checked for TLS, and for proxies that are reached by TLS."""
    uses_setting = bool(_setting) and _is_left_to_the_setting(base_url)
    if not base_url.lower().startswith("http://"):
        return _Kind(True, uses_setting)
    if uses_setting:
        return _Kind(_setting[0].reveal().lower().startswith("https:"), True)
    names = [spelt for name in _PROXY_VARIABLES if name != "HTTPS_PROXY" for spelt in (name, name.lower())]
    return _Kind(any(os.environ.get(name, "").lower().startswith("https:") for name in names), False)


def _is_left_to_the_setting(base_url: str) -> bool:
    """Tell whether the environment has nothing to say about how an address is reached."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies_environment, proxy_bypass

    try:
        address = urlsplit(base_url)
        host = address.netloc.rpartition("@")[2]
    except ValueError:  # no address; whoever sends the request says so
        return False
    return not (getproxies_environment().keys() & {address.scheme.lower(), "all"}) and not proxy_bypass(host)


def _load(needs_trust: bool) -> None:
    # httpx brings a command line, for which it loads rich and pygments where they are installed: 60 ms and 5 MiB for
    # nothing. None is how Python is told not to import a module; cast, since its type does not know that.
    sys.modules.setdefault("httpx._main", cast("ModuleType", None))
    import httpx

    if needs_trust:
        with _trust_lock:
            if not _trust:
                _trust.append(believe_more(httpx.create_ssl_context()))


def _make(kind: _Kind) -> "httpx.AsyncClient":
    import httpx

    from pinnace_agent.llm.joined_streams import join_chunks

    # Without a context httpcore would make one that believes the usual authorities, if there were TLS after all: a
    # request never goes out unchecked. cast: httpx hands None on, but does not say so.
    context = _trust[0] if kind.needs_trust else cast("ssl.SSLContext", None)
    try:
        client = httpx.AsyncClient(
            verify=context,
            proxy=_setting[0].reveal() if kind.uses_setting else None,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),  # each request brings its own limits
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=KEEP_ALIVE_S),
            headers={
                "User-Agent": "pinnace",
                "Accept": "text/event-stream, application/json",
                "Accept-Encoding": ACCEPTED,
            },
        )
        join_chunks(client)
        return client
    except ImportError:
        problem = "SOCKS needs the Python package socksio"
    except (ValueError, httpx.InvalidURL):  # what they say may quote a password
        problem = "it is no address of a proxy"
    if kind.uses_setting:
        raise ProxyUnusable(f"The proxy in settings.json (httpProxy) cannot be used: {problem}")
    raise ProxyUnusable(f"A proxy that the environment names ({', '.join(_PROXY_VARIABLES)}) cannot be used: {problem}")
