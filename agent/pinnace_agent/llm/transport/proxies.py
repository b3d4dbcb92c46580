"""Which proxy a request goes through: one that the environment names, or else that of the user's settings.

`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` are read as httpx reads them; they take precedence over the
setting. Reads the environment; opens no connection.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR

PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_SCHEMES: Final = frozenset({"http", "https", "socks5", "socks5h"})
_NO_ADDRESS: Final = "it is no address of a proxy, such as http://HOST:PORT"

_setting: Final[PerAgent[list[Secret]]] = PerAgent(list)


class ProxyUnusable(Exception):
    """A proxy that is configured cannot be used. The text is for the user."""


def use_proxy(address: Secret) -> None:
    """Use this proxy wherever the environment names none, and does not exempt the server (`NO_PROXY`).

    To be called once, before the first request. Child processes do not get it.
    """
    _setting.get()[:] = [address]
    REDACTOR.learn_address(address.reveal())


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
    """Return what is wrong with the proxies that variables name, one text a variable."""
    found: list[str] = []
    if "*" in map(str.strip, (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")):
        return found  # none is used
    for name in (each for upper in PROXY_VARIABLES for each in (upper, upper.lower())):
        if (address := env.get(name)) and (problem := proxy_problem(_whole(address))) is not None:
            found.append(f"{name}: {problem}, so that requests to models will fail")
    return found


def _whole(address: str) -> str:
    """Return a proxy of the environment as an address, as httpx reads it."""
    return address if "://" in address else f"http://{address}"


def configured_proxy(base_url: str) -> Secret | None:
    """Return the proxy of the settings if requests to an address go through it.

    It is not used for an address that a variable of the environment routes, or exempts.
    """
    from urllib.parse import urlsplit
    from urllib.request import getproxies_environment, proxy_bypass

    setting = _setting.get()
    if not setting:
        return None
    try:
        address = urlsplit(base_url)
        host = address.netloc.rpartition("@")[2]
    except ValueError:  # no address; sending the request reports it
        return None
    if getproxies_environment().keys() & {address.scheme.lower(), "all"} or proxy_bypass(host):
        return None
    return setting[0]


def environment_routes() -> Mapping[str, str | None]:
    """Return the proxies of the environment by patterns of httpx's `mounts`; None: reached directly."""
    from urllib.request import getproxies

    named = getproxies()
    routes: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        if proxy := named.get(scheme):
            routes[f"{scheme}://"] = _whole(proxy)
    for host in map(str.strip, named.get("no", "").split(",")):
        if host == "*":
            return {}
        if host:
            routes[_pattern(host)] = None
    return routes


def _pattern(host: str) -> str:
    """Return the pattern of an entry of `NO_PROXY`: a name includes its subdomains, an address only itself."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    if "://" in host:
        return host
    if host.lower() == "localhost":
        return f"all://{host}"
    address = host.partition("/")[0]
    try:
        IPv4Address(address)
    except AddressValueError:
        pass
    else:
        return f"all://{host}"
    try:
        IPv6Address(address)
    except AddressValueError:
        return f"all://*{host}"
    return f"all://[{host}]"
