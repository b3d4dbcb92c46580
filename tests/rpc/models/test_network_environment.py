"""What the environment says of the network, told to a real agent: proxies, and whose certificates are believed.

The proxy and the TLS server are real ones on the loopback address; the authority is made for each run.
"""

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pytest

from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter

KEY: Final = "sk-fake-0123456789"
# Resolved nowhere: who reaches it went through the proxy.
HOST: Final = "model.example"
SETTLED: Final = {"type": "agent_settled"}
NO_RETRY: Final = {"retry": {"enabled": False}}


def greet(reply: Reply) -> None:
    """Answer as a server of chat completions."""
    chunk = {"choices": [{"delta": {"content": "hello"}, "finish_reason": "stop"}]}
    reply.whole(b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")


def ask(agent: AgentStarter, base_url: str, env: Mapping[str, str]) -> Record:
    """Start an agent, ask something, and return the answer's message."""
    model = {"id": "m1", "contextWindow": 100_000, "maxTokens": 4_096}
    provider = {"baseUrl": base_url, "api": "openai-completions", "apiKey": KEY, "models": [model]}
    pi = agent([], models={"providers": {"fake": provider}}, env=env, settings=NO_RETRY)
    pi.ask("prompt", message="hi")
    pi.wait(SETTLED)
    answer: Record = pi.ask("get_messages")["messages"][-1]
    assert answer["role"] == "assistant"
    return answer


def is_greeted(answer: Record) -> bool:
    return [block["text"] for block in answer["content"]] == ["hello"]


# Proxies


class Proxy(RawServer):
    """Forwards every request, whatever host it names, to one port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__(self._forward)
        self._target = port

    def _forward(self, reply: Reply) -> None:
        request = reply.request
        if request.method == "CONNECT":
            reply.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            reply.tunnel(self._target)
        else:
            address = urlsplit(request.path)
            lines = [f"{request.method} {address.path} HTTP/1.1", *map(": ".join, request.headers.items()), "", ""]
            reply.tunnel(self._target, "\r\n".join(lines).encode() + request.body)


@pytest.fixture
def model() -> Iterator[RawServer]:
    with RawServer(greet) as server:
        yield server


@pytest.fixture
def proxy(model: RawServer) -> Iterator[Proxy]:
    with Proxy(model.port) as server:
        yield server


@pytest.mark.parametrize("name", ["HTTP_PROXY", "all_proxy"])
def test_a_proxy_of_the_environment_is_gone_through(
    agent: AgentStarter, model: RawServer, proxy: Proxy, name: str
) -> None:
    assert is_greeted(ask(agent, f"http://{HOST}/v1", {name: proxy.url}))
    assert proxy.requests[0].path == f"http://{HOST}/v1/chat/completions"
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_proxy_gets_the_password_of_its_address(agent: AgentStarter, proxy: Proxy) -> None:
    address = proxy.url.replace("//", "//user:pass%20word@")

    assert is_greeted(ask(agent, f"http://{HOST}/v1", {"HTTP_PROXY": address}))
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="


@pytest.mark.parametrize("exempt", ["*", "other.example,127.0.0.1"])
def test_hosts_that_are_exempt_are_reached_directly(
    agent: AgentStarter, model: RawServer, proxy: Proxy, exempt: str
) -> None:
    assert is_greeted(ask(agent, f"{model.url}/v1", {"HTTP_PROXY": proxy.url, "NO_PROXY": exempt}))
    assert proxy.connections == 0


def test_a_proxy_for_tls_is_none_for_plain_http(agent: AgentStarter, model: RawServer, proxy: Proxy) -> None:
    assert is_greeted(ask(agent, f"{model.url}/v1", {"HTTPS_PROXY": proxy.url}))
    assert proxy.connections == 0


# Certificates


class Authority(NamedTuple):
    """An authority of our own, and a server that it vouches for."""

    folder: Path
    server: RawServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> str:
        done = subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    may_sign = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
    extensions = {
        "authority": may_sign,
        "stranger": may_sign,
        "server": [f"subjectAltName=IP:127.0.0.1,DNS:{HOST}", "extendedKeyUsage=serverAuth"],
    }
    for name, lines in extensions.items():
        text = "\n".join(["[more]", *lines, "subjectKeyIdentifier=hash"])
        if name == "server":
            text += "\nauthorityKeyIdentifier=keyid"
        (folder / f"{name}.cnf").write_text(f"[req]\ndistinguished_name=name\n[name]\n{text}\n")
        request = ("req", "-new", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-config", f"{name}.cnf")
        openssl(*request, "-subj", f"/CN=pinnace test {name}")
        by_itself, by_authority = ("-signkey", f"{name}.key"), ("-CA", "authority.pem", "-CAkey", "authority.key")
        signed = by_authority if name == "server" else by_itself
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "2", "-set_serial", "7"),
            *(*signed, "-extfile", f"{name}.cnf", "-extensions", "more"),
        )
    hashed = openssl("x509", "-hash", "-noout", "-in", "authority.pem").strip()
    (folder / "folder").mkdir()
    shutil.copy(folder / "authority.pem", folder / "folder" / f"{hashed}.0")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with RawServer(greet, tls=context) as server:
        yield Authority(folder, server)


WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "a file": {"SSL_CERT_FILE": "authority.pem"},
    "a folder": {"SSL_CERT_DIR": "folder"},
    "a folder beside a file": {"SSL_CERT_FILE": "stranger.pem", "SSL_CERT_DIR": "folder"},
    "one more": {"NODE_EXTRA_CA_CERTS": "authority.pem"},
    "one more beside a file": {"SSL_CERT_FILE": "stranger.pem", "NODE_EXTRA_CA_CERTS": "authority.pem"},
}


@pytest.mark.parametrize("way", WAYS)
def test_an_authority_of_the_environment_is_believed(agent: AgentStarter, authority: Authority, way: str) -> None:
    env = {name: str(authority.folder / file) for name, file in WAYS[way].items()}

    assert is_greeted(ask(agent, f"{authority.server.url}/v1", env))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"NODE_EXTRA_CA_CERTS": "missing.pem"},
        {"NODE_EXTRA_CA_CERTS": "server.key"},
        {"SSL_CERT_FILE": "stranger.pem"},
    ],
    ids=["nothing", "a missing file", "no certificate", "a stranger"],
)
def test_no_other_certificate_is_accepted_and_the_key_stays_here(
    agent: AgentStarter, authority: Authority, files: Mapping[str, str]
) -> None:
    env = {name: str(authority.folder / file) for name, file in files.items()}
    requests = len(authority.server.requests)
    answer = ask(agent, f"{authority.server.url}/v1", env)

    assert answer["stopReason"] == "error"
    assert "CERTIFICATE_VERIFY_FAILED" in answer["errorMessage"]
    assert len(authority.server.requests) == requests


@pytest.mark.parametrize("file", ["missing.pem", "server.key", "authority.pem"])
def test_more_authorities_that_are_not_used_are_warned_of_by_the_start(
    agent: AgentStarter, authority: Authority, file: str
) -> None:
    path = str(authority.folder / file)
    warnings = agent([], env={"NODE_EXTRA_CA_CERTS": path}).ask("get_state").get("warnings", [])

    assert [(each["kind"], each["source"]) for each in warnings] == [("settings", "NODE_EXTRA_CA_CERTS")] * (
        file != "authority.pem"
    )
    assert all(path in each["text"] for each in warnings)


def test_a_file_of_authorities_that_is_missing_is_an_error_that_says_so(
    agent: AgentStarter, authority: Authority
) -> None:
    answer = ask(agent, f"{authority.server.url}/v1", {"SSL_CERT_FILE": "no-such-file.pem"})

    assert answer["errorMessage"].startswith("The certificates cannot be read: No such file or directory")


def test_a_proxy_carries_tls_without_reading_it(agent: AgentStarter, authority: Authority) -> None:
    with Proxy(authority.server.port) as proxy:
        env = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(authority.folder / "authority.pem")}

        assert is_greeted(ask(agent, f"https://{HOST}/v1", env))
        assert [(request.method, request.path) for request in proxy.requests] == [("CONNECT", f"{HOST}:443")]
        assert KEY not in str(proxy.requests)
