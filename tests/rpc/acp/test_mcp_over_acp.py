"""MCP servers that the editor serves over its own connection: `mcpServers` of the type `acp`, and `mcp/message`."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.test_acp_clients import NODE, SDK, TIMEOUT_S, has_node_clients
from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.source_tree import REPOSITORY

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.process_tree import words_of
from pinnace_fuzz.script import Scripted

DONE = {"text": "done"}
SERVER = {"type": "acp", "name": "tools", "serverId": "the tools"}
TOOL = {"name": "echo", "description": "Say it.", "inputSchema": {"type": "object", "properties": {"said": {}}}}
INFO = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "e", "version": "1"}}
COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
Json = Mapping[str, Any]


def call(name: str, said: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": {"said": said}}]}


class Editor:
    """Serves one MCP server: answers as it, or leaves a call open."""

    def __init__(self) -> None:
        self.seen: list[Json] = []

    def __call__(self, message: Message) -> Mapping[str, object] | None:
        """Answer a request of the agent."""
        assert message["method"] == "mcp/message", message
        params = message["params"]
        self.seen.append(params)
        match params["method"]:
            case "server/discover":
                return {"result": {**COMPLETE, **INFO}}
            case "tools/list":
                return {"result": {**COMPLETE, "tools": [TOOL]}}
            case "tools/call" if params["params"]["arguments"]["said"] == "wait":
                return None
            case "tools/call" if params["params"]["arguments"]["said"] == "fail":
                return {"error": {"code": -32602, "message": "no such thing"}}
            case "tools/call":
                content = [{"type": "text", "text": f"echo: {params['params']['arguments']['said']}"}]
                return {"result": {"resultType": "complete", "content": content}}
            case _:
                return {"error": {"code": -32601, "message": "unknown"}}


def opened(agent: AcpAgent, work: Path, servers: object) -> Message:
    agent.call("initialize", protocolVersion=1)
    return agent.call("session/new", cwd=str(work), mcpServers=servers)


def prompt(agent: AcpAgent, session: Message) -> int:
    return agent.request("session/prompt", sessionId=session["sessionId"], prompt=[{"type": "text", "text": "Go"}])


def results(agent: AcpAgent) -> list[tuple[str, str]]:
    ended = [each for each in agent.updates() if each.get("status") in ("completed", "failed")]
    return [(each["status"], json.dumps(each.get("content"))) for each in ended]


def test_tools_of_the_editor_are_called_over_its_connection(acp: StartAcp, work: Path) -> None:
    """With a result, with an error of the server, and without a server of that id."""
    editor = Editor()
    script = [call("mcp__tools__echo", "hello"), call("mcp__tools__echo", "fail"), DONE]
    agent = acp(script=script, answer=editor)
    session = opened(agent, work, [SERVER])
    assert agent.response(prompt(agent, session))["result"]["stopReason"] == "end_turn"

    [state] = session["_meta"]["pinnace"]["mcpServers"]
    assert (state["name"], state["status"], state["tools"]) == ("tools", "connected", 1)
    [(first, shown), (second, error)] = results(agent)
    assert (first, "echo: hello" in shown) == ("completed", True)
    assert (second, "no such thing" in error) == ("failed", True)
    assert {each["serverId"] for each in editor.seen} == {"the tools"}
    ids = [each["requestId"] for each in editor.seen]
    assert len(ids) == len(set(ids))
    assert "initialize" not in [each["method"] for each in editor.seen]


def test_an_editor_serves_several_servers(acp: StartAcp, work: Path) -> None:
    editor = Editor()
    script = [call("mcp__others__echo", "one"), call("mcp__tools__echo", "two"), DONE]
    agent = acp(script=script, answer=editor)
    session = opened(agent, work, [SERVER, {"type": "acp", "name": "others", "serverId": "the others"}])
    assert agent.response(prompt(agent, session))["result"]["stopReason"] == "end_turn"

    asked = [
        (each["serverId"], each["params"]["arguments"]["said"]) for each in editor.seen if "call" in each["method"]
    ]
    assert asked == [("the others", "one"), ("the tools", "two")]
    assert [status for status, _ in results(agent)] == ["completed", "completed"]
    assert agent.end() == 0


def test_a_call_that_is_cancelled_is_withdrawn(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[call("mcp__tools__echo", "wait"), DONE], answer=Editor())
    session = opened(agent, work, [SERVER])
    response = prompt(agent, session)
    asked = agent.until(lambda message: (message.get("params") or {}).get("method") == "tools/call")
    agent.notify("session/cancel", sessionId=session["sessionId"])

    assert agent.response(response)["result"]["stopReason"] == "cancelled"
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"]["requestId"] == asked["id"]


def test_an_editor_that_does_not_serve_it_has_a_server_that_failed(acp: StartAcp, work: Path) -> None:
    """The session opens all the same."""

    def refuse(message: Message) -> None:
        agent.refuse(message, -33001, "no such server")

    agent = acp(answer=refuse)
    session = opened(agent, work, [SERVER])

    [state] = session["_meta"]["pinnace"]["mcpServers"]
    assert (state["status"], "the editor serves no such server" in state["error"]) == ("failed", True)


def test_nothing_is_left_behind_when_the_editor_ends(acp: StartAcp, work: Path) -> None:
    agent = acp(answer=Editor())
    opened(agent, work, [SERVER])
    relays = [words for pid in agent.process.descendants() if b"relay_program" in b" ".join(words := words_of(pid))]
    [place] = {Path(os.fsdecode(words[-1])) for words in relays}

    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert agent.end() == 0
    assert not place.parent.exists()


def test_a_server_without_an_id_is_refused(acp: StartAcp, work: Path) -> None:
    agent = acp()
    agent.call("initialize", protocolVersion=1)
    params = {"cwd": str(work), "mcpServers": [{"type": "acp", "name": "tools"}]}
    line = {"jsonrpc": "2.0", "id": "x", "method": "session/new", "params": params}
    agent.write(json.dumps(line).encode() + b"\n")

    error = agent.response("x")["error"]
    assert (error["code"], error["data"]["path"]) == (-32602, "params.mcpServers[0].serverId")


@has_node_clients
def test_the_official_sdk_serves_tools_over_its_connection(
    llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path, work: Path
) -> None:
    """With its own provider, which holds each message to the binding."""
    server = llm([{"tool_calls": [{"name": "mcp__ships__count", "args": {"ship": "Dorade"}}]}, DONE])
    home = prepare_pi_home(tmp_path / "home", server.base_url, env=ENVIRONMENT, has_session=True)
    agent = [*COMMAND, "--mode", "acp", "--provider", "fake", "--model", "m1"]
    script = REPOSITORY / "tests" / "data" / "acp" / "sdk_client_mcp.mjs"
    command = [str(NODE), str(script), str(SDK / "dist" / "v1" / "unstable" / "acp.js"), str(work), *agent]
    done = subprocess.run(command, env=home.env, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)

    assert seen["offered"]["acp"] is True
    assert seen["methods"][:2] == ["server/discover", "tools/list"]
    assert seen["arguments"] == [{"ship": "Dorade"}]
    assert "Dorade: 7" in seen["outputs"][0]
    assert seen["progress"] >= 1
    assert (seen["stop"], seen["code"]) == ("end_turn", 0)
