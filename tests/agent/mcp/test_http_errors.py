"""What servers over HTTP do wrong: each costs one request, or the connection, and is said in words."""

import json
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp")

from tests.agent.mcp.web_server import Exchange, WebServer, web_server

from pinnace_agent.config.server_entries import ServerEntry, read_entry
from pinnace_agent.mcp.launching import Environment
from pinnace_agent.mcp.opening import load_library, open_link
from pinnace_agent.mcp.ports import (
    LinkLost,
    NeedsAuth,
    ServerError,
    ServerHooks,
    ServerLink,
    SessionExpired,
    Unreachable,
)
from pinnace_agent.mcp.server import Server
from pinnace_agent.mcp.wire.surrogates import Repairing, without_lone_surrogates

# Those of the library, whose generators are not closed when a connection ends.
pytestmark = [
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    load_library()


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


def drop(_said: object) -> None:
    """Take what a server reports."""


def entry_of(web: WebServer, **fields: object) -> ServerEntry:
    return read_entry(
        "web", {"url": web.url, "headers": {"Authorization": "Bearer x"}, "timeout": 5, **fields}, "user", ""
    )


async def opened(
    web: WebServer, tmp_path: Path, use: Callable[[ServerLink], object] | None = None, **fields: object
) -> None:
    """Connect, list the tools, and use the connection."""

    async def work(link: ServerLink) -> None:
        await link.request("tools/list", {}, 30)
        if use is not None:
            await use(link)  # type: ignore[misc]

    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path))
    with trio.fail_after(60):
        await open_link(entry_of(web, **fields), given, ServerHooks(drop, drop, str, None), "1", lambda: 1.0, work)


async def called(web: WebServer, tmp_path: Path) -> Mapping[str, object]:
    """Connect and call the tool once."""
    found: list[Mapping[str, object] | Exception] = []

    async def use(link: ServerLink) -> None:
        try:
            found.append(await link.request("tools/call", {"name": "echo"}, 5))
        except (ServerError, LinkLost) as error:
            found.append(error)

    await opened(web, tmp_path, use)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def status(number: int, headers: Mapping[str, str] | None = None, body: bytes = b"no") -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(number, body, headers)


HTML = {"Content-Type": "text/html"}
REFUSED = {
    # At `initialize`: what it is, and what is said.
    "401": (status(401, {"WWW-Authenticate": "Bearer"}), LinkLost, "HTTP status 401"),
    "403": (status(403), LinkLost, "HTTP status 403"),
    "404": (status(404), LinkLost, "HTTP status 404"),
    "408": (status(408), Unreachable, "HTTP status 408"),
    "429": (status(429, {"Retry-After": "3600"}), Unreachable, "HTTP status 429"),
    "500": (status(500), Unreachable, "HTTP status 500"),
    "501": (status(501), LinkLost, "HTTP status 501"),
    "503": (status(503, HTML, b"<h1>later</h1>"), Unreachable, "HTTP status 503"),
    "html": (status(200, HTML, b"<h1>Welcome</h1>"), LinkLost, "Unexpected content type: text/html"),
    "other origin": (status(307, {"Location": "http://127.0.0.2:9/mcp"}), LinkLost, "not followed"),
    "no json": (status(200, {"Content-Type": "application/json"}, b"{"), LinkLost, "parse"),
    "gzip bomb": (Exchange.bomb, LinkLost, "an encoding that was not asked for"),
    "200 MB": (Exchange.flood, LinkLost, "message over 16 MiB"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_connection_says_why(web: WebServer, tmp_path: Path, case: str) -> None:
    web.instead["initialize"], kind, text = REFUSED[case]
    web.instead["server/discover"] = web.instead["initialize"]  # asked if the other is unknown
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LinkLost) as failed:
        await opened(web, tmp_path)
    assert text.lower() in str(failed.value).lower()
    assert (type(failed.value) is Unreachable) == (kind is Unreachable) or case in ("gzip bomb", "200 MB")
    assert not isinstance(failed.value, NeedsAuth)
    assert web.count("initialize") == 1
    # Of both, the sender holds most in this process.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 150_000


def marked(header: str = "Region", kind: str = "string") -> Mapping[str, object]:
    """Return a tool that has an argument repeated as a header."""
    schema = {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": header}}}
    return {"name": f"in_{header or 'nothing'}", "inputSchema": schema}


def discovered(exchange: Exchange) -> None:
    result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
    exchange.result({**result, "ttlMs": 0, "cacheScope": "private"})


@pytest.mark.parametrize(
    "refusal", [status(400), status(404), status(406), lambda each: each.result({"no": "version"})]
)
async def test_a_server_that_refuses_the_handshake_is_asked_by_discovery(
    web: WebServer, tmp_path: Path, refusal: Callable[[Exchange], None]
) -> None:
    web.instead |= {"initialize": refusal, "server/discover": discovered}
    assert {"content": [{"type": "text", "text": "echoed"}]} == await called(web, tmp_path)
    assert (1, 1) == (web.count("initialize"), web.count("server/discover"))


@pytest.mark.parametrize("protocol", ["auto", "handshake"])
async def test_a_server_that_wants_a_token_is_asked_once_and_wants_a_sign_in(
    web: WebServer, tmp_path: Path, protocol: str
) -> None:
    denial = status(401, {"WWW-Authenticate": "Bearer"})
    web.instead |= {"initialize": denial, "server/discover": denial}
    with pytest.raises(NeedsAuth):
        await opened(web, tmp_path, headers={}, protocol=protocol)
    asked = {"auto": "server/discover", "handshake": "initialize"}[protocol]
    assert {asked} == {method for method, _, _ in web.seen} & {"initialize", "server/discover"}


async def test_marked_arguments_are_headers_and_tools_with_wrong_marks_are_left_out(
    web: WebServer, tmp_path: Path
) -> None:
    tools = [marked(), marked(""), marked("Two Words"), marked("Sum", "number"), marked("List", "array")]
    web.instead |= {"server/discover": discovered, "tools/list": lambda each: each.result({"tools": tools})}
    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path))

    async def open_it(server: Server, use: Callable[[ServerLink], object]) -> None:
        hooks = ServerHooks(drop, drop, str, None)
        await open_link(server.entry, given, hooks, "1", lambda: 1.0, use)  # type: ignore[arg-type]

    server = Server(entry_of(web, protocol="auto"), open_it, drop)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        with trio.fail_after(60):
            await server.request("tools/call", {"name": "in_Region", "arguments": {"region": "Zürich"}})
            await server.request("tools/call", {"name": "in_Region", "arguments": {}})
        nursery.cancel_scope.cancel()
    sent = [headers for method, _, headers in web.seen if method == "tools/call"]

    assert ["in_Region"] == list(server.tools)
    assert ["in_nothing", "in_Two Words", "in_Sum", "in_List"] == [each.split(":")[0] for each in server.dropped]
    assert ["=?base64?WsO8cmljaA==?=", None] == [each.get("mcp-param-region") for each in sent]


async def test_changes_are_reported_from_the_stream_on_until_it_is_cut(web: WebServer, tmp_path: Path) -> None:
    """R-MCP-09: with what every request of that version has; the connection outlives the stream."""
    acknowledged = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}}
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    events = [f"event: message\ndata: {json.dumps(each)}\n\n" for each in (acknowledged, changed)]
    capabilities = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {}}

    def announcing(exchange: Exchange) -> None:
        result = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"}
        exchange.result({**result, "ttlMs": 0, "cacheScope": "private"})

    web.instead |= {"server/discover": announcing, "subscriptions/listen": lambda each: each.stream(*events)}
    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path))
    found: list[str] = []

    async def use(link: ServerLink) -> None:
        with pytest.raises(ServerError):
            await link.listen()
        assert "content" in await link.request("tools/call", {"name": "echo"}, 5)

    with trio.fail_after(60):
        await open_link(
            entry_of(web, protocol="auto"), given, ServerHooks(drop, found.append, str, None), "1", lambda: 1.0, use
        )
    [(message, headers)] = [each[1:] for each in web.seen if each[0] == "subscriptions/listen"]

    assert found == ["tools", "prompts", "tools"]
    assert message["params"]["notifications"] == {"toolsListChanged": True, "promptsListChanged": True}
    assert (headers["mcp-method"], headers["mcp-protocol-version"]) == ("subscriptions/listen", "2026-07-28")
    assert message["params"]["_meta"]


async def test_a_server_that_is_busy_is_tried_again_twice(web: WebServer, tmp_path: Path) -> None:
    answers = [status(503), status(429, {"Retry-After": "1"})]

    def answer(exchange: Exchange) -> None:
        (answers.pop(0) if answers else Exchange.ordinary)(exchange)

    web.instead["initialize"] = answer
    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path))

    async def open_it(server: Server, use: Callable[[ServerLink], object]) -> None:
        hooks = ServerHooks(drop, drop, str, None)
        await open_link(server.entry, given, hooks, "1", lambda: 1.0, use)  # type: ignore[arg-type]

    server = Server(entry_of(web), open_it, drop)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve)
        with trio.fail_after(60):
            await server.settled.wait()
        assert (server.state, list(server.tools)) == ("connected", ["echo"])
        # A session that the server does not know any more is opened anew, and the call sent once more.
        web.instead["tools/call"] = lambda exchange: (
            exchange.ordinary()
            if exchange.headers["mcp-session-id"] == "session-2"
            else exchange.answer(404, b"no such session")
        )
        assert (await server.request("tools/call", {"name": "echo"}))["content"]
        assert [headers["mcp-session-id"] for method, _, headers in web.seen if method == "tools/call"] == [
            "session-1",
            "session-2",
        ]
        # So is one of which it says so with status 400.
        web.instead["tools/call"] = lambda exchange: (
            exchange.ordinary()
            if exchange.headers["mcp-session-id"] == "session-3"
            else exchange.answer(400, b"Bad Request: No valid session ID provided")
        )
        assert (await server.request("tools/call", {"name": "echo"}))["content"]
        assert (web.count("tools/call"), server.state) == (4, "connected")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("number", [400, 403, 408, 429, 500, 503])
async def test_a_refused_call_is_not_sent_again(web: WebServer, tmp_path: Path, number: int) -> None:
    web.instead["tools/call"] = status(number, {"Retry-After": "0"})
    with pytest.raises(ServerError, match=f"HTTP status {number}"):
        await called(web, tmp_path)
    assert web.count("tools/call") == 1


async def test_a_call_to_a_session_that_the_server_has_forgotten_is_known_by_400_too(
    web: WebServer, tmp_path: Path
) -> None:
    """The text says so; any other 400 is the call's own."""
    web.instead["tools/call"] = status(
        400, {"Content-Type": "text/plain"}, b"Bad Request: No valid session ID provided"
    )
    with pytest.raises(SessionExpired):
        await called(web, tmp_path)
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Session not found"}}
    web.instead["tools/call"] = status(400, {"Content-Type": "application/json"}, json.dumps(error).encode())
    with pytest.raises(SessionExpired):
        await called(web, tmp_path)
    web.instead["tools/call"] = status(400, {"Content-Type": "text/plain"}, b"no such argument")
    with pytest.raises(ServerError, match="HTTP status 400"):
        await called(web, tmp_path)
    assert web.count("tools/call") == 3


async def test_an_error_with_the_code_of_a_closed_connection_is_the_servers_answer(
    web: WebServer, tmp_path: Path
) -> None:
    def refuse(exchange: Exchange) -> None:
        error = {"code": -32000, "message": "the folder is closed"}
        body = json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}).encode()
        exchange.answer(200, body, {"Content-Type": "application/json"})

    web.instead["tools/call"] = refuse
    with pytest.raises(ServerError, match="the folder is closed"):
        await called(web, tmp_path)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_half_a_character_in_an_answer_is_replaced(web: WebServer, tmp_path: Path, is_stream: bool) -> None:
    def answer(exchange: Exchange) -> None:
        body = exchange.response({"content": [{"type": "text", "text": "half \ud83d, whole \U0001f600, \\ud83d"}]})
        if is_stream:
            exchange.stream(f"event: message\ndata: {body.decode()}\n\n")
        else:
            exchange.answer(200, body, {"Content-Type": "application/json"})

    web.instead["tools/call"] = answer
    assert await called(web, tmp_path) == {
        "content": [{"type": "text", "text": "half \ufffd, whole \U0001f600, \\ud83d"}]
    }


@pytest.mark.parametrize("to", [["/mcp"], ["/other", "/mcp"], [f"/{number}" for number in range(30)]])
async def test_a_call_that_is_redirected_in_a_circle_is_sent_to_each_address_once(
    web: WebServer, tmp_path: Path, to: list[str]
) -> None:
    left = [*to]

    def redirect(exchange: Exchange) -> None:
        exchange.answer(307, b"", {"Location": left.pop(0) if len(left) > 1 else left[0]})

    web.instead["tools/call"] = redirect
    with pytest.raises(ServerError, match="redirects the message in a circle, or too often"):
        await called(web, tmp_path)
    assert web.count("tools/call") == min(len(to), 4)


async def test_a_call_that_is_redirected_to_another_path_is_executed(web: WebServer, tmp_path: Path) -> None:
    def redirect(exchange: Exchange) -> None:
        (exchange.ordinary if exchange.path == "/mcp/" else status(307, {"Location": "/mcp/"}).__get__(exchange))()

    web.instead["tools/call"] = redirect
    assert (await called(web, tmp_path))["content"]
    assert web.count("tools/call") == 2


@given(
    st.text(st.sampled_from("\\ud83de00Ac9\n") | st.characters(), max_size=40), st.lists(st.integers(1, 5), max_size=20)
)
def test_pieces_are_repaired_as_the_whole_is(text: str, sizes: list[int]) -> None:
    """Whatever is cut where: what a JSON parser takes is not changed, and pairs stay pairs."""
    data = text.encode("utf-8", "surrogatepass")
    repairing, left, found = Repairing(), data, b""
    for size in [*sizes, len(data)]:
        found += repairing.add(left[:size])
        left = left[size:]
    assert found + repairing.rest() == without_lone_surrogates(data)
    said = json.dumps(text).encode()
    repaired = json.loads(without_lone_surrogates(said))
    assert repaired == "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in json.loads(said))


async def test_a_cut_stream_without_ids_ends_the_call(web: WebServer, tmp_path: Path) -> None:
    web.instead["tools/call"] = lambda exchange: exchange.stream(": soon\n\n")
    with pytest.raises(LinkLost, match="ended without a response"):
        await called(web, tmp_path)
    assert web.count("tools/call") == 1


async def test_a_cut_stream_with_ids_is_resumed_where_it_ended(web: WebServer, tmp_path: Path) -> None:
    asked: list[Exchange] = []

    def cut(exchange: Exchange) -> None:
        asked.append(exchange)
        exchange.stream("id: 7\nretry: 10\ndata: \n\n")

    def resume(exchange: Exchange) -> None:
        if exchange.headers["last-event-id"] is None:
            exchange.ordinary()
        else:
            text = asked[0].response({"content": []}).decode()
            exchange.stream(f"id: 8\nevent: message\ndata: {text}\n\n")

    web.instead |= {"tools/call": cut, "GET": resume}
    assert await called(web, tmp_path) == {"content": []}
    assert web.count("tools/call") == 1
    assert [headers["last-event-id"] for method, _, headers in web.seen if "last-event-id" in headers] == ["7"]


async def test_a_server_that_hangs_at_the_end_of_a_session_is_left(web: WebServer, tmp_path: Path) -> None:
    web.instead |= {"DELETE": Exchange.hang, "GET": Exchange.hang}
    assert await called(web, tmp_path)
    assert web.count("DELETE") == 1


async def test_a_server_that_hangs_at_a_message_without_an_answer_is_cut_off(web: WebServer, tmp_path: Path) -> None:
    web.instead["notifications/initialized"] = Exchange.hang
    with pytest.raises(LinkLost, match="has not taken a message within 2 seconds"):
        await opened(web, tmp_path)


async def test_a_header_is_not_sent_to_another_origin(web: WebServer, tmp_path: Path) -> None:
    with web_server() as other:
        web.instead["tools/call"] = status(307, {"Location": other.url})
        with pytest.raises(ServerError, match="not followed"):
            await called(web, tmp_path)
        assert other.seen == []
    web.instead["initialize"] = lambda exchange: exchange.answer(308, b"", {"Location": f"{web.url}/"})
    with pytest.raises(LinkLost):
        await opened(web, tmp_path)


async def certified(folder: Path, name: str) -> tuple[str, str]:
    """Return the files of a certificate for a name that nobody else vouches for, and of its key."""
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make += ["-days", "1", "-subj", "/CN=server", "-addext", f"subjectAltName={name}"]
    await trio.run_process([*make, "-keyout", key, "-out", certificate], capture_stderr=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_a_certificate_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with (
        web_server(await certified(tmp_path, "IP:127.0.0.1")) as web,
        pytest.raises(LinkLost, match="certificate verify failed"),
    ):
        await opened(web, tmp_path)
    assert web.seen == []


async def test_the_token_of_a_provider_is_read_for_each_request_and_sent_to_the_server_alone(
    web: WebServer, tmp_path: Path
) -> None:
    tokens = iter(range(100))

    async def token(provider: str) -> str:
        return f"{provider}-{next(tokens)}"

    given = Environment({}, {"PI_CODING_AGENT_DIR": str(tmp_path)}, str(tmp_path), token)
    entry = read_entry("web", {"url": web.url, "auth": {"provider": "acme"}}, "user", "")

    async def use(link: ServerLink) -> None:
        await link.request("tools/list", {}, 30)

    await open_link(entry, given, ServerHooks(drop, drop, str, None), "1", lambda: 1.0, use)
    sent = [headers["authorization"] for _, _, headers in web.seen]
    assert len(sent) == len(set(sent)) > 2
    assert all(each.startswith("Bearer acme-") for each in sent)
    web.instead["initialize"] = status(401)
    with pytest.raises(NeedsAuth, match="refuses the login of the provider acme"):
        await open_link(entry, given, ServerHooks(drop, drop, str, None), "1", lambda: 1.0, use)
