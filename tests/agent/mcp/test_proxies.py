"""Servers over HTTP behind a proxy: of the environment, of the settings, or exempted from both."""

import shutil
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from tests.agent.mcp.test_http_errors import certified, opened
from tests.agent.mcp.web_server import WebServer, web_server

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.llm.transport import proxies
from pinnace_agent.mcp.opening import load_library
from pinnace_agent.mcp.ports import LinkLost
from pinnace_agent.redaction.policy import Secret

# Those of the library, whose generators are not closed when a connection ends.
pytestmark = [
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
BEHIND = "http://server.invalid/mcp"


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    load_library()


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "_setting", PerAgent(list))


@pytest.fixture
def proxy() -> Iterator[WebServer]:
    """A proxy that answers for every server that it is asked for."""
    with web_server() as server:
        yield server


def address_of(proxy: WebServer) -> str:
    return f"http://me:mark@127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_used(
    proxy: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It goes before that of the settings; the header of the entry is the server's, and the password the proxy's."""
    proxies.use_proxy(Secret("http://127.0.0.1:9"))
    monkeypatch.setenv(name, address_of(proxy))
    await opened(proxy, tmp_path, url=BEHIND)
    assert proxy.count("tools/list") == 1
    for _, _, headers in proxy.seen:
        assert headers["host"] == "server.invalid"
        assert headers["proxy-authorization"].startswith("Basic ")
        assert headers["authorization"] == "Bearer x"


async def test_the_proxy_of_the_settings_is_used_where_the_environment_names_none(
    proxy: WebServer, tmp_path: Path
) -> None:
    proxies.use_proxy(Secret(address_of(proxy)))
    await opened(proxy, tmp_path, url=BEHIND)
    assert {headers["host"] for _, _, headers in proxy.seen} == {"server.invalid"}


@pytest.mark.parametrize("exempted", ["127.0.0.1", "localhost, 127.0.0.1", "*", "!!, 127.0.0.0/8"])
@pytest.mark.parametrize("is_proxy", [True, False])
async def test_a_server_that_the_environment_exempts_is_reached_directly(
    proxy: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exempted: str, is_proxy: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", address_of(proxy) if is_proxy else "gopher://127.0.0.1")
    monkeypatch.setenv("NO_PROXY", exempted)
    with web_server() as server:
        await opened(server, tmp_path)
        assert server.count("tools/list") == 1
        assert not any("proxy-authorization" in headers for _, _, headers in server.seen)
    assert proxy.seen == []


class Tunnel(socketserver.StreamRequestHandler):
    """A proxy for TLS, which connects to where it is asked to, and sees nothing of what passes."""

    asked: list[bytes]
    to: int
    """The port that is behind every name."""

    def handle(self) -> None:
        self.asked.append(self.rfile.readline().strip())
        while self.rfile.readline().strip():
            pass
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=pass_on, args=(server, self.connection), daemon=True)
            back.start()
            pass_on(self.connection, server)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_tls_goes_through_a_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = await certified(tmp_path, "DNS:server.invalid")
    with web_server((certificate, key)) as server:
        handler = type("Handler", (Tunnel,), {"asked": [], "to": server.port})
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as tunnel:
            tunnel.daemon_threads = True
            threading.Thread(target=tunnel.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            monkeypatch.setenv("NODE_EXTRA_CA_CERTS", certificate)
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{tunnel.server_address[1]}")
            await opened(server, tmp_path, url="https://server.invalid/mcp")
            tunnel.shutdown()
        assert set(handler.asked) == {b"CONNECT server.invalid:443 HTTP/1.1"}  # type: ignore[attr-defined]
        assert server.count("tools/list") == 1


@pytest.mark.parametrize("name", ["HTTP_PROXY", "httpProxy"])
@pytest.mark.parametrize("address", ["gopher://me:mark@127.0.0.1:1", "http://me:mark@[::1"])
async def test_a_proxy_that_is_none_is_named_without_its_password(
    proxy: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    if name == "httpProxy":
        proxies.use_proxy(Secret(address))
    else:
        monkeypatch.setenv(name, address)
    with pytest.raises(LinkLost) as failed:
        await opened(proxy, tmp_path, url=BEHIND)
    assert name in str(failed.value)
    assert "it is no address of a proxy" in str(failed.value)
    assert "mark" not in str(failed.value)


async def test_a_proxy_that_refuses_is_reported(
    proxy: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", address_of(proxy))
    proxy.instead["initialize"] = lambda exchange: exchange.answer(407, b"who are you?")
    with pytest.raises(LinkLost, match="HTTP status 407"):
        await opened(proxy, tmp_path, url=BEHIND)
