"""Which proxy a request goes through: one that the environment names, or else that of the user's settings.

Decided for each address by itself, as curl does: a proxy that cannot be used fails the requests that would go through
it, and no other, and an entry of `NO_PROXY` that cannot be read is passed over; a start names both. `HTTP_PROXY`,
`HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` may be written in small letters, which go before the others. Reads the
environment; opens no connection.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR

if TYPE_CHECKING:  # for annotations alone
    from ipaddress import IPv4Network, IPv6Network

PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_SCHEMES: Final = frozenset({"http", "https", "socks5", "socks5h"})
_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_NO_ADDRESS: Final = "it is no address of a proxy, such as http://HOST:PORT"
_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_MOST_SHOWN_CHARS: Final = 100

_setting: Final[PerAgent[list[Secret]]] = PerAgent(list)


class ProxyUnusable(Exception):
    """A proxy that is configured cannot be used. The text is for the user."""


class _Exemption(NamedTuple):
    """An entry of `NO_PROXY`."""

    name: str = ""
    """A host, which includes its subdomains; empty: `network` counts."""
    network: "IPv4Network | IPv6Network | None" = None
    port: int | None = None
    """None: all."""
    scheme: str | None = None
    """None: all."""

    def includes(self, scheme: str, host: str, port: int | None) -> bool:
        """Return whether an address is exempt. The host is in small letters."""
        from ipaddress import ip_address

        if (self.scheme or scheme, self.port or port) != (scheme, port):
            return False
        if self.network is None:
            return host == self.name or host.endswith(f".{self.name}")
        try:
            return ip_address(host) in self.network
        except ValueError:  # a name
            return False


def use_proxy(address: Secret) -> None:
    """Use this proxy wherever the environment names none, and does not exempt the server (`NO_PROXY`).

    To be called once, before the first request. Child processes do not get it.
    """
    _setting.get()[:] = [address]
    REDACTOR.learn_address(address.reveal())


def proxy_for(url: str) -> Secret | None:
    """Return the proxy that requests to an address go through; None: they go there directly.

    Raises:
        ProxyUnusable: It is none, or needs a package that is not installed.
    """
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, (parts.hostname or "").rstrip(".")
        port = parts.port or _PORTS.get(scheme)
    except ValueError:  # no address; sending the request reports it
        return None
    named = getproxies()
    if _is_exempt(named.get("no", ""), scheme, host, port):
        return None
    for kind in (scheme, "all"):
        if address := named.get(kind):
            return _usable(_whole(address), f"The proxy that {_variable_of(kind)} names")
    setting = _setting.get()
    return _usable(setting[0].reveal(), "The proxy in settings.json (httpProxy)") if setting else None


def _usable(address: str, description: str) -> Secret:
    if (problem := proxy_problem(address)) is not None:
        raise ProxyUnusable(f"{description} cannot be used: {problem}")
    return Secret(address)


def _variable_of(kind: str) -> str:
    lower = f"{kind}_proxy"
    return lower if lower in os.environ else lower.upper()


def _whole(address: str) -> str:
    """Return a proxy of the environment as an address: it may have no scheme."""
    return address if "://" in address else f"http://{address}"


def proxy_problem(address: str) -> str | None:
    """Return why an address can't be that of a proxy, without repeating it; None: it can."""
    from importlib.util import find_spec
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        is_address = bool(parts.hostname) and parts.port != 0 and address.isprintable() and " " not in address
    except ValueError:
        return _NO_ADDRESS
    scheme = parts.scheme.lower()
    if not is_address or scheme not in _SCHEMES:
        return _NO_ADDRESS
    if scheme.startswith("socks") and find_spec("socksio") is None:
        return "SOCKS needs the Python package socksio"
    return None


def environment_problems(env: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the variables about proxies, each text with the name of the variable before it."""
    exempt = "no_proxy" if "no_proxy" in env else "NO_PROXY"
    entries = list(_entries(env.get(exempt, "")))
    if "*" in entries:
        return []  # no proxy is used
    found: list[str] = []
    for name in (each for upper in PROXY_VARIABLES for each in (upper, upper.lower())):
        if (address := env.get(name)) and (problem := proxy_problem(_whole(address))) is not None:
            found.append(f"{name}: {problem}, so that requests through it will fail")
    for entry in entries:
        if _exemption(entry) is None:
            shown = entry[:_MOST_SHOWN_CHARS]
            found.append(f"{exempt}: {shown!r} is passed over: expected a host, an address or a network")
    return found


def _is_exempt(exempt: str, scheme: str, host: str, port: int | None) -> bool:
    for entry in _entries(exempt):
        if entry == "*":
            return True
        if (exemption := _exemption(entry)) is not None and exemption.includes(scheme, host, port):
            return True
    return False


def _entries(exempt: str) -> Iterator[str]:
    """Yield the entries of `NO_PROXY`, between which there are commas or blanks."""
    return (entry for entry in re.split(r"[\s,]+", exempt) if entry)


def _exemption(entry: str) -> _Exemption | None:
    """Read an entry of `NO_PROXY`: a host, an address or a network, also with a scheme or a port; None: it is none."""
    scheme, separator, place = entry.lower().rpartition("://")
    if separator and scheme not in {*_PORTS, "all"}:
        return None
    of_scheme = scheme if scheme in _PORTS else None
    if (network := _network(place)) is not None:
        return _Exemption(network=network, scheme=of_scheme)
    host, separator, number = place.rpartition(":")
    if separator:
        if not (number.isdecimal() and number.isascii() and 0 < int(number[:6]) <= 65535):
            return None
        place, port = host, int(number)
        if (network := _network(place)) is not None:
            return _Exemption(network=network, port=port, scheme=of_scheme)
    else:
        port = None
    name = place.removeprefix("*").removeprefix(".").removesuffix(".")
    return _Exemption(name, port=port, scheme=of_scheme) if _NAME.fullmatch(name) else None


def _network(place: str) -> "IPv4Network | IPv6Network | None":
    """Return an address, or the addresses that begin alike, in brackets or not; None: it is no such thing."""
    from ipaddress import ip_network

    try:
        return ip_network(place[1:-1] if place.startswith("[") and place.endswith("]") else place, strict=False)
    except ValueError:
        return None
