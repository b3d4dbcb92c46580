"""A server elsewhere names addresses of a sign-in: none of them may be one of this machine.

That a server of this machine may name some is what the tests of signing in rest on.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

pytest.importorskip("mcp")

import httpx2

from pinnace_agent.config.server_entries import read_entry
from pinnace_agent.mcp.launching import Environment
from pinnace_agent.mcp.oauth.sign_in import sign_in_to
from pinnace_agent.mcp.opening import credentials_of, load_library
from pinnace_agent.mcp.ports import Challenge, SignInFailed
from pinnace_agent.mcp.wire.http import client_opener
from pinnace_agent.mcp.wire.local_addresses import is_local, is_local_name, leads_here, must_be_elsewhere

# Those of the library, whose generators are not closed when a sign-in fails.
pytestmark = [
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

REMOTE = "https://mcp.example.org/mcp"


class Resolver(trio.abc.HostnameResolver):
    """Every name leads to this machine; what is an address stays one."""

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise NotImplementedError


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    load_library()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_asked(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("0.0.0.0", True),
        ("169.254.169.254", True),
        ("224.0.0.1", True),
        ("::1", True),
        ("::", True),
        ("fe80::1", True),
        ("fe80::1%eth0", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:169.254.169.254", True),
        ("64:ff9b::7f00:1", True),
        ("2002:7f00:1::", True),
        ("93.184.215.14", False),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", False),
        ("::ffff:93.184.215.14", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_an_address_is_of_this_machine_or_not(address: str, is_here: bool) -> None:
    assert is_local(address) is is_here


def test_the_address_of_an_own_interface_is_one_of_this_machine() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("no interface but the loopback one")
        own = probe.getsockname()[0]
    assert is_local(own)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("LocalHost.", True),
        ("a.localhost", True),
        ("127.1", True),
        ("0x7f.1", True),
        ("0177.0.0.1", True),
        ("2130706433", True),
        ("0", True),
        ("::1", True),
        ("example.org", False),
        ("localhost.example.org", False),
        ("8.8.8.8", False),
    ],
)
def test_a_name_is_of_this_machine_by_its_spelling(host: str, is_here: bool) -> None:
    assert is_local_name(host) is is_here


@pytest.mark.parametrize(
    ("url", "configured", "must"),
    [
        ("http://127.0.0.1:9/", (REMOTE, None), True),
        ("https://auth.example.org/", (REMOTE, None), True),
        ("https://mcp.example.org:8443/", (REMOTE, None), False),
        ("http://127.0.0.1:9/", ("http://localhost:1/mcp", None), False),
        ("http://127.0.0.1:9/", (REMOTE, "http://127.0.0.1:1/metadata"), False),
    ],
)
def test_only_what_the_user_has_configured_may_be_on_this_machine(
    url: str, configured: tuple[str | None, ...], must: bool
) -> None:
    assert must_be_elsewhere(url, configured) is must


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]", "auth.example.org"])
async def test_no_connection_is_made_to_this_machine(listener: socket.socket, host: str) -> None:
    """By none of its names, and whatever a name leads to when it is looked up."""
    trio.socket.set_custom_hostname_resolver(Resolver())
    url = f"https://{host}:{listener.getsockname()[1]}/"
    async with client_opener(REMOTE, None)(url) as client:
        with pytest.raises(httpx2.ConnectError, match="of this machine"):
            await client.get(url)
    assert not was_asked(listener)
    assert await leads_here(url)


async def test_a_name_is_connected_to_by_the_address_that_was_found(listener: socket.socket) -> None:
    """The certificate and the header stay those of the name: no second look-up decides."""
    sent: list[httpx2.Request] = []

    class Inner(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            sent.append(
                httpx2.Request(request.method, request.url, headers=request.headers, extensions=request.extensions)
            )
            return httpx2.Response(204)

    class Public(Resolver):
        async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))]

    from pinnace_agent.mcp.wire.local_addresses import RemoteOnlyTransport

    trio.socket.set_custom_hostname_resolver(Public())
    async with httpx2.AsyncClient(transport=RemoteOnlyTransport(Inner(), is_proxied=False)) as client:
        response = await client.get("https://auth.example.org:8443/token")
    (request,) = sent
    assert (request.url.host, request.url.port) == ("93.184.215.14", 8443)
    assert request.headers["host"] == "auth.example.org:8443"
    assert request.extensions["sni_hostname"] == "auth.example.org"
    assert str(response.request.url) == "https://auth.example.org:8443/token"


async def test_the_name_alone_decides_where_a_proxy_connects(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
    async with client_opener(REMOTE, None)("https://127.1/") as client:
        with pytest.raises(httpx2.ConnectError, match="of this machine"):
            await client.get("https://127.1/")
    assert not was_asked(listener)


class User:
    def show(self, url: str) -> None:
        raise AssertionError(url)

    async def paste(self) -> str | None:
        raise AssertionError


async def test_a_sign_in_to_a_server_elsewhere_asks_nothing_of_this_machine(
    listener: socket.socket, tmp_path: Path
) -> None:
    env = {"PI_CODING_AGENT_DIR": str(tmp_path / "agent"), "HOME": str(tmp_path)}
    given = Environment({}, env, str(tmp_path))
    entry = read_entry("a", {"url": "https://192.0.2.1/mcp"}, "user", "mcp.json")
    here = f"http://127.0.0.1:{listener.getsockname()[1]}/.well-known/oauth-protected-resource"
    challenge = Challenge(401, f'Bearer resource_metadata="{here}"')

    with pytest.raises(SignInFailed, match="of this machine"):
        await sign_in_to(entry, given, credentials_of(entry, given), challenge, User(), 20)

    assert not was_asked(listener)
