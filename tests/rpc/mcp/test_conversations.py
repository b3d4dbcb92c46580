"""Conversations with servers of the official SDK, over both transports."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.mcp.conftest import HERE, Start, status

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.reading import kinds
from pinnace_fuzz.trials.workbench import HomedAgent

SERVER = str(HERE / "ordinary_server.py")
SECRET = "sekret-of-the-server-0815"


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool_calls": [{"name": f"mcp__ordinary__{tool}", "args": arguments}]}


def prompt(pi: HomedAgent, text: str) -> None:
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_settled"}, since=mark)


def results(pi: HomedAgent) -> list[tuple[str, bool]]:
    found = pi.found({"type": "tool_execution_end"})
    return [("".join(block.get("text", "") for block in each["result"]["content"]), each["isError"]) for each in found]


@pytest.fixture(params=["stdio", "http"])
def entry(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Any]]:
    """The entry of the server, which over HTTP runs by itself."""
    if request.param == "stdio":
        yield {"command": sys.executable, "args": [SERVER], "env": {"OF_SERVER": SECRET}}
        return
    environment = {**os.environ, "OF_SERVER": SECRET}
    # Listens before the server has begun, so that no other process gets the port and a request waits for the server.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, descriptor = listening.getsockname()[1], listening.fileno()
        command = [sys.executable, SERVER, str(descriptor)]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, pass_fds=[descriptor])
    with process:
        try:
            yield {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Secret": SECRET}}
        finally:
            process.terminate()


def test_tools_are_offered_and_called(with_servers: Start, entry: Mapping[str, Any]) -> None:
    script = [call("add", a=1, b=2), call("count", steps=3), call("add", a="x"), {"text": "fine"}]
    pi = with_servers({"ordinary": entry}, script)
    prompt(pi, "go")
    request = pi.llm.requests[0].body
    tools = {each["function"]["name"]: each["function"] for each in request["tools"]}
    assert {"mcp__ordinary__add", "mcp__ordinary__count", "read_mcp_resource"} <= tools.keys()
    assert tools["mcp__ordinary__add"]["description"] == "Add two numbers."
    assert tools["mcp__ordinary__add"]["parameters"]["properties"]["a"] == {"type": "integer"}
    assert "<mcp_servers>\n- ordinary: Adds numbers.\n</mcp_servers>" in json.dumps(request["messages"][0]).replace(
        "\\n", "\n"
    )
    added, counted, wrong = results(pi)
    assert (added, counted) == (("3", False), ("counted", False))
    assert wrong[1]
    shown = [each["partialResult"]["content"][0]["text"] for each in pi.found({"type": "tool_execution_update"})]
    assert shown[-1:] == ["Progress 3/3"]
    assert "ordinary: connected" in status(pi)
    pi.check_end()


def test_the_response_of_a_prompt_does_not_wait_for_servers(with_servers: Start, entry: Mapping[str, Any]) -> None:
    pi = with_servers({"ordinary": entry}, [{"text": "fine"}])
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    pi.wait({"type": "agent_settled"}, since=mark)
    assert kinds(pi.records[mark:], "prompt:ok", "message_update")[:2] == ["prompt:ok", "message_update"]
    assert any(each["function"]["name"] == "mcp__ordinary__add" for each in pi.llm.requests[0].body["tools"])


def test_resources_are_listed_and_read(with_servers: Start, entry: Mapping[str, Any]) -> None:
    script = [
        {"tool_calls": [{"name": "list_mcp_resources", "args": {}}]},
        {"tool_calls": [{"name": "read_mcp_resource", "args": {"server": "ordinary", "uri": "note://one"}}]},
        {"tool_calls": [{"name": "read_mcp_resource", "args": {"server": "other", "uri": "note://one"}}]},
        {"tool_calls": [{"name": "list_mcp_resource_templates", "args": {"server": "ordinary"}}]},
        {"text": "fine"},
    ]
    pi = with_servers({"ordinary": entry}, script)
    prompt(pi, "go")
    listed, read, unknown, templates = results(pi)
    assert json.loads(listed[0])["resources"][0]["uri"] == "note://one"
    assert read == ("the note", False)
    assert unknown == ("There is no MCP server other. There are: ordinary", True)
    assert json.loads(templates[0]) == {"server": "ordinary", "resourceTemplates": []}


def test_prompts_are_commands(with_servers: Start, entry: Mapping[str, Any]) -> None:
    pi = with_servers({"ordinary": entry}, [{"text": "one"}, {"text": "two"}])
    prompt(pi, "go")
    until(lambda: any(each["name"] == "mcp__ordinary__greet" for each in commands(pi)))
    prompt(pi, "/mcp__ordinary__greet Ann how=loudly")
    assert "Greet Ann loudly." in json.dumps(pi.llm.requests[-1].body["messages"][-1])
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "/mcp__ordinary__greet"})["success"]
    notice = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "error"}, since=mark)
    assert notice["message"] == "greet of ordinary: missing: name"


def commands(pi: HomedAgent) -> list[Record]:
    found: list[Record] = pi.request({"type": "get_commands"})["data"]["commands"]
    return found


def until(is_true: Any, limit_s: float = 60) -> None:
    deadline_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_server_asks_the_user(with_servers: Start, entry: Mapping[str, Any]) -> None:
    pi = with_servers({"ordinary": entry}, [call("ask"), {"text": "fine"}])
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    dialogs = [("MCP server ordinary asks: Who are you?", "Answer"), ("Name", "Ann"), ("Age", "no"), ("Age", "9")]
    call_id = pi.wait({"type": "tool_execution_start"})["toolCallId"]
    mark = 0
    for wanted, answer in dialogs:
        asked = pi.wait({"type": "extension_ui_request"}, since=mark)
        assert wanted in asked["title"]
        assert asked["toolCallId"] == call_id
        mark = pi.mark()
        pi.send({"type": "extension_ui_response", "id": asked["id"], "value": answer})
    pi.wait({"type": "agent_settled"})
    ((said, is_error),) = results(pi)
    assert said == "accept name='Ann' age=9"
    assert not is_error


def test_what_a_server_knows_of_secrets_is_in_no_record(with_servers: Start, tmp_path: Path) -> None:
    """A path that it knows stays in arguments, answers and the session."""
    path = f"{tmp_path}/notes/memory.json"
    of_server = {"OF_SERVER": "$OUTSIDE_TOKEN", "MEMORY_FILE_PATH": path}
    entry = {"command": sys.executable, "args": [SERVER], "env": of_server}
    write = {"tool_calls": [{"name": "write", "args": {"path": path, "content": f"{path} class_factory.json"}}]}
    script = [
        call("environment", name="OF_SERVER"),
        call("environment", name="FAKE_KEY"),
        write,
        {"text": f"See {path}."},
    ]
    env = {"OUTSIDE_TOKEN": SECRET}
    pi = with_servers({"ordinary": entry}, script, env=env)
    prompt(pi, "go")
    (called,) = [each["args"] for each in pi.found({"type": "tool_execution_start"}) if each["toolName"] == "write"]
    assert called == {"path": path, "content": f"{path} class_factory.json"}
    messages = json.dumps(pi.request({"type": "get_messages"}))
    assert f'"arguments": {json.dumps(called)}' in messages
    assert f"See {path}." in messages
    assert not any(SECRET in json.dumps(each.record) for each in pi.records)
    assert results(pi)[0] == ("[redacted]", False)


def test_servers_are_asked_for_by_files_alone(with_servers: Start, entry: Mapping[str, Any]) -> None:
    pi = with_servers({"ordinary": entry, "off": {**entry, "enabled": False}}, [{"text": "fine"}], "--no-mcp")
    prompt(pi, "go")
    assert not any("mcp" in each["function"]["name"] for each in pi.llm.requests[0].body["tools"])
    assert not any(each["name"] == "mcp" for each in commands(pi))


def test_a_hidden_tool_is_not_offered(with_servers: Start, entry: Mapping[str, Any]) -> None:
    hidden = {**entry, "toolExposure": {"*": "hidden", "add": "direct"}}
    pi = with_servers({"ordinary": hidden}, [{"text": "fine"}])
    prompt(pi, "go")
    names = [each["function"]["name"] for each in pi.llm.requests[0].body["tools"]]
    assert [name for name in names if name.startswith("mcp__")] == ["mcp__ordinary__add"]
