"""Lines that are no messages, and requests that can't be fulfilled: an error says why, and nothing else happens."""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import AcpAgent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

FILES: dict[str, Any] = {"name": "files", "command": "/bin/files", "args": [], "env": []}
WEB: dict[str, Any] = {"type": "http", "name": "web", "url": "http://x", "headers": []}
_NEW: dict[str, Any] = {"jsonrpc": "2.0", "id": "x", "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


def _initialized(agent: AcpAgent) -> AcpAgent:
    assert agent.call("initialize", protocolVersion=1)["protocolVersion"] == 1
    return agent


def test_what_is_no_message_is_refused_and_the_next_line_is_read(acp: StartAcp) -> None:
    agent = _initialized(acp())
    cases: list[tuple[bytes, int, object]] = [
        (b"null", -32600, None),
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 600 + b"]" * 600, -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"session/list"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7.5,"method":"session/list"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"n","method":"no/such"}', -32601, "n"),
        (b'{"jsonrpc":"2.0","id":"p","method":"session/list","params":[]}', -32602, "p"),
        (b'{"jsonrpc":"2.0","id":"q","method":"initialize","params":{"protocolVersion":1}}', -32600, "q"),
    ]
    for line, code, identity in cases:
        before = len(agent.messages)
        agent.write(line + b"\r\n\n")
        error = agent.until(lambda message: "error" in message, before)
        assert (error["error"]["code"], error["id"]) == (code, identity), line
    agent.write(b'{"jsonrpc":"2.0","method":"no/such"}\n{"jsonrpc":"2.0","id":99,"result":{}}\n')
    assert agent.call("session/list") == {"sessions": []}


def test_a_line_that_is_too_long_is_refused(acp: StartAcp) -> None:
    agent = _initialized(acp())
    for _ in range(65):
        agent.write(b" " * 2**20)
    agent.write(b'{"a":1}\n')
    assert agent.until(lambda message: "error" in message)["error"]["code"] == -32700
    assert agent.call("session/list") == {"sessions": []}


def test_nothing_comes_before_initialize(acp: StartAcp) -> None:
    agent = acp()
    assert agent.error("session/list")["code"] == -32600
    for version in (-1, 65536, "1", None):
        line = {"jsonrpc": "2.0", "id": f"v{version}", "method": "initialize", "params": {"protocolVersion": version}}
        agent.write(json.dumps(line).encode() + b"\n")
        assert agent.response(f"v{version}")["error"]["code"] == -32602
    malformed = {"clientCapabilities": 7, "clientInfo": [], "_meta": "no object"}
    agent.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}\n' % _json(protocolVersion=1, **malformed))
    assert agent.response(0)["result"]["protocolVersion"] == 1
    for field in ("cwd", "cursor"):
        agent.write(
            b'{"jsonrpc":"2.0","id":"%s","method":"session/list","params":{"%s":7}}\n' % ((field.encode(),) * 2)
        )
        assert agent.response(field)["error"]["message"] == f"params.{field}: must be a string"


def _json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_lines_may_come_in_any_pieces(acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]) -> None:
    """Only LF ends a line: a CR before it is ignored, and other separators of lines are text."""
    server = llm([{"text": "one"}])
    agent = acp(server=server)
    agent.write(b'\r\n{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\r\n', piece_bytes=1)
    agent.response(0)
    session = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    said = "one\u2028two\x85three\u2029four"
    params = json.dumps({"sessionId": session, "prompt": text(said)}, ensure_ascii=False).encode()
    line = b'{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}\r\n' % params
    agent.write(line, piece_bytes=7)  # within characters, too
    assert agent.response("p")["result"]["stopReason"] == "end_turn"
    assert said in json.dumps(server.requests[0].body["messages"][-1], ensure_ascii=False)


def test_an_id_that_is_in_flight_is_refused(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """Of whatever request; the error has no id, so that no request has two responses."""
    server = llm([{"text": "one", "hold": "gate"}])
    agent = acp(server=server)
    session = opened(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    server.wait_reached("gate")
    for method in (b"session/prompt", b"session/list"):
        seen = len(agent.messages)
        agent.write(b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":{}}\n' % (prompt, method))
        assert agent.until(lambda message: message.get("id", 0) is None, seen)["error"]["code"] == -32600
    seen = len(agent.messages)
    agent.write(b'{"jsonrpc":"1.0","id":%d}\n' % prompt)
    assert agent.until(lambda message: message.get("id", 0) is None, seen)["error"]["code"] == -32600
    server.release("gate")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"


def test_a_session_that_does_not_exist_is_unknown_to_every_method(acp: StartAcp, work: Path) -> None:
    agent = _initialized(acp())
    opening = {"cwd": str(work), "mcpServers": []}
    methods: dict[str, dict[str, Any]] = {
        "session/load": opening,
        "session/resume": opening,
        "session/close": {},
        "session/set_mode": {"modeId": "ask"},
        "session/set_config_option": {"configId": "mode", "value": "ask"},
        "session/prompt": {"prompt": text("Go")},
        "_session/steering": {"prompt": text("Go")},
    }
    for method, params in methods.items():
        error = agent.error(method, {"sessionId": "no-such-session", **params})
        assert (error["code"], error["data"]["errorCode"]) == (-32002, "session_not_found"), method
    agent.call("session/delete", sessionId="no-such-session")


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"mcpServers": []}, "params.cwd"),
        ({"cwd": "work", "mcpServers": []}, "params.cwd"),
        ({"cwd": "/no/such/folder", "mcpServers": []}, "params.cwd"),
        ({"cwd": "/etc/passwd", "mcpServers": []}, "params.cwd"),
        ({"cwd": "/", "mcpServers": 7}, "params.mcpServers"),
        ({"cwd": "/", "mcpServers": [{"command": "x"}]}, "params.mcpServers[0].name"),
        ({"cwd": "/", "mcpServers": [FILES, {**FILES, "name": "b", "args": [7]}]}, "params.mcpServers[1].args[0]"),
        ({"cwd": "/", "mcpServers": [{**FILES, "env": [{"name": "A"}]}]}, "params.mcpServers[0].env[0].value"),
        ({"cwd": "/", "mcpServers": [FILES, FILES]}, "params.mcpServers[1].name"),
        ({"cwd": "/", "mcpServers": [], "additionalDirectories": ["/", "tmp"]}, "params.additionalDirectories[1]"),
        ({"cwd": "/", "mcpServers": [], "additionalDirectories": ["/no/such"]}, "params.additionalDirectories[0]"),
        ({"cwd": "/", "mcpServers": [], "additionalDirectories": 7}, "params.additionalDirectories"),
        ({"cwd": "/", "mcpServers": [{**FILES, "type": "sse"}]}, "params.mcpServers[0].type"),
        ({"cwd": "/", "mcpServers": [FILES, {**WEB, "url": "ftp://x"}]}, "params.mcpServers[1]"),
        (
            {"cwd": "/", "mcpServers": [{"type": "http", "name": "web", "url": "http://x"}]},
            "params.mcpServers[0].headers",
        ),
    ],
)
def test_a_session_needs_a_folder(acp: StartAcp, params: dict[str, Any], named: str) -> None:
    agent = _initialized(acp())
    agent.write(json.dumps({**_NEW, "params": params}).encode() + b"\n")
    error = agent.response("x")["error"]
    assert error["code"] == -32602
    assert error["message"].startswith(f"{named}: ")
    assert error["data"]["path"] == named


@pytest.mark.parametrize("cwd", ["/tmp/\ud800", "/tmp\0", "", "."])
def test_a_folder_that_no_system_can_have_is_refused_by_every_method(acp: StartAcp, cwd: str) -> None:
    agent = _initialized(acp())
    for method in ("session/list", "session/new", "session/load", "session/resume"):
        error = agent.error(method, cwd=cwd, sessionId="x", mcpServers=[])
        assert (error["code"], error["message"]) == (-32602, "params.cwd: must be an absolute path"), method
    assert agent.call("session/list")["sessions"] == []


def test_a_prompt_needs_something_to_say(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "fine"}])
    session = opened(agent, work)
    cases: list[tuple[list[Any], str]] = [
        ([], "params.prompt"),
        (text(" \n"), "params.prompt"),
        ([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], "params.prompt[0].type"),
        ([*text("see"), {"type": "image", "data": "?", "mimeType": "image/png"}], "params.prompt[1].data"),
        ([{"type": "image", "data": "AAAA", "mimeType": "image/tiff"}], "params.prompt[0].mimeType"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "blob": "?"}}], "params.prompt[0].resource.blob"),
        ([{"type": "resource", "resource": {"uri": "", "text": "t"}}], "params.prompt[0].resource.uri"),
    ]
    for blocks, named in cases:
        error = agent.error("session/prompt", sessionId=session, prompt=blocks)
        assert error["code"] == -32602
        assert error["message"].startswith(f"{named}: "), error
    assert agent.error("session/prompt", sessionId="no", prompt=text("x"))["code"] == -32002
    assert agent.call("session/prompt", sessionId=session, prompt=text("x"))["stopReason"] == "end_turn"
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    shown = agent.updates(session)
    assert [each["content"]["text"] for each in shown if each["sessionUpdate"] == "user_message_chunk"] == ["x"]


ORDINARY = Path(__file__).parents[1] / "mcp" / "ordinary_server.py"


def test_servers_of_the_client_have_their_tools_used(acp: StartAcp, work: Path) -> None:
    """Their variables are in no message, and in the environment of no command."""
    server = {
        "name": "My server",
        "command": sys.executable,
        "args": [str(ORDINARY)],
        "env": [{"name": "SERVER_TOKEN", "value": "$HOME-sekret-4711"}],
    }
    gone = {"type": "http", "name": "gone", "url": "http://127.0.0.1:9/", "headers": []}
    script = [
        {"tool_calls": [{"name": "mcp__My_server__environment", "args": {"name": "SERVER_TOKEN"}}]},
        {"tool_calls": [{"name": "bash", "args": {"command": "env"}}]},
        {"text": "fine"},
    ]
    agent = acp(script=script)
    agent.call("initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})
    opened_session = agent.call("session/new", cwd=str(work), mcpServers=[server, gone])
    session = opened_session["sessionId"]
    servers = {each["name"]: each for each in opened_session["_meta"]["pinnace"]["mcpServers"]}
    assert servers["My_server"]["status"] in ("starting", "connecting", "connected")
    assert servers["gone"]["tools"] == 0
    result = agent.call("session/prompt", sessionId=session, prompt=text("go"))
    assert result["stopReason"] == "end_turn"
    ended = [each for each in agent.updates(session) if each.get("status") in ("completed", "failed")]
    assert [each["status"] for each in ended] == ["completed", "completed"]
    assert "[redacted]" in str(ended[0]["content"])
    assert "PINNACE_MCP_SERVERS" not in str(ended[1])
    assert "gone" in str(agent.update("notice", severity="warning"))
    assert "sekret" not in str(agent.messages) + str(agent.stderr)
    refused = agent.error("session/load", sessionId=session, cwd=str(work), mcpServers=[gone])
    assert refused["message"].startswith("params.mcpServers")
    assert agent.end() == 0
