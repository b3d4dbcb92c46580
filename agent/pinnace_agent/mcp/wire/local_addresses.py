"""Addresses of this machine, which no server elsewhere may have this program ask.

A server names the addresses of a sign-in: where its metadata is, where to register, where tokens come from. It may name
a service of this machine, which nothing else on the network reaches. What counts is the address that is connected to,
not its name: a name is looked up once, and the connection goes to what was found. Where a proxy connects, only what the
name says by itself is known here.
"""

import ipaddress
import socket
from collections.abc import Iterable
from typing import Final

import httpx2
import trio

REFUSED: Final = "it is an address of this machine, and the MCP server is not on it"
_LOCALHOST: Final = "localhost"


class RemoteOnlyTransport(httpx2.AsyncBaseTransport):
    """Sends requests to other machines alone."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, is_proxied: bool) -> None:
        """Send by `inner`; a proxy looks names up by itself."""
        self._inner = inner
        self._is_proxied = is_proxied

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            httpx2.ConnectError: Its address is one of this machine, or there is none.
        """
        host = request.url.host
        if is_local_name(host):
            raise httpx2.ConnectError(REFUSED)
        if self._is_proxied:
            return await self._inner.handle_async_request(request)
        found = await _addresses(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        if not found or any(map(is_local, found)):
            raise httpx2.ConnectError(REFUSED if found else f"no address of {host} was found")
        # The certificate and the header are for the name.
        request.extensions = {**request.extensions, "sni_hostname": host}
        url = request.url
        for place, address in enumerate(found):
            request.url = url.copy_with(host=address)
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectError:
                if place == len(found) - 1:
                    raise
            finally:
                request.url = url
        raise AssertionError("there is an address")

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()


async def leads_here(url: str) -> bool:
    """Return whether an address that a browser is to open is one of this machine, as far as is known here."""
    parsed = httpx2.URL(url)
    return is_local_name(parsed.host) or any(map(is_local, await _addresses(parsed.host, parsed.port or 443)))


async def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, without repetitions; empty: there is none."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def must_be_elsewhere(url: str, configured: Iterable[str | None]) -> bool:
    """Return whether an address that a server names may not be one of this machine.

    Args:
        url: The address.
        configured: The addresses that the user has configured. If one of these is of this machine by its spelling, all
            may be; else only those of their hosts may.
    """
    hosts = {_host(each) for each in configured if each is not None}
    return _host(url) not in hosts and not any(map(is_local_name, hosts))


def _host(url: str) -> str:
    return httpx2.URL(url).host


def is_local_name(host: str) -> bool:
    """Return whether a host is one of this machine by its spelling: `localhost`, or an address in any form."""
    name = host.rstrip(".").casefold()
    if name == _LOCALHOST or name.endswith(f".{_LOCALHOST}"):
        return True
    try:
        return is_local(socket.inet_ntoa(socket.inet_aton(name)))  # also 127.1, 0x7f.1, 2130706433
    except (OSError, UnicodeError):
        return is_local(name)


def is_local(address: str) -> bool:
    """Return whether an address is one of this machine, or of its link alone. What is no address is none of it."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        embedded = parsed.ipv4_mapped or parsed.sixtofour
        if embedded is None and parsed in ipaddress.ip_network("64:ff9b::/96"):
            embedded = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if embedded is not None:
            return is_local(str(embedded))
    if parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local or parsed.is_multicast:
        return True
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(parsed), 0))  # works for an address of an own interface only
    except OSError:
        return False
    return True
