"""Sign-ins to servers in a session, and by `pinnace mcp login` beside one."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

pytest.importorskip("mcp")

from tests.agent.mcp.authorization_server import AuthorizationServer, authorization_server, browse
from tests.agent.mcp.web_server import web_server
from tests.rpc.conftest import COMMAND, CONVERSATION_TIMEOUT_S
from tests.rpc.mcp.conftest import Start, status

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import HomedAgent


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with authorization_server() as found:
        yield found


def prompt(pi: HomedAgent, text: str) -> Record:
    """Send a prompt that runs the model, and return the last request."""
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_settled"}, since=mark)
    found: Record = pi.llm.requests[-1].body
    return found


def tools(request: Mapping[str, Any]) -> list[str]:
    return [name for each in request["tools"] if (name := each["function"]["name"]).startswith("mcp__")]


def notice(pi: HomedAgent, since: int) -> Record:
    return pi.wait({"type": "extension_ui_request", "method": "notify"}, since=since)


def address(pi: HomedAgent, since: int) -> str:
    """Return the address that the user is to open."""
    shown = str(notice(pi, since)["message"])
    assert shown.startswith('Sign in to MCP server "door" in your browser:\n')
    return shown.partition("\n")[2]


def test_a_user_signs_in_and_out_in_a_session(with_servers: Start, server: AuthorizationServer) -> None:
    call = {"tool_calls": [{"name": "mcp__door__open_door", "args": {}}]}
    script = [{"text": "one"}, call, {"text": "two"}, call, {"text": "three"}]
    pi = with_servers({"door": {"url": server.address}}, script)
    assert tools(prompt(pi, "go")) == []
    warning = notice(pi, 0)
    assert "  door: needs sign-in (/mcp login door, or pinnace mcp login door)" in warning["message"]
    assert server.count("/register") == 0

    # The first sign-in is aborted, the second one cancelled by the user, the third one pasted.
    mark = pi.mark()
    pi.send({"type": "prompt", "message": "/mcp login", "id": "login"})
    address(pi, mark)
    assert pi.request({"type": "abort"})["success"]
    pi.wait({"type": "response", "id": "login"}, since=mark)
    for pasted, said in ((None, "Sign-in cancelled."), (browse, 'Signed in to MCP server "door" (1 tools).')):
        mark = pi.mark()
        pi.send({"type": "prompt", "message": "/mcp login door"})
        shown = address(pi, mark)
        asked = pi.wait({"type": "extension_ui_request", "method": "input"}, since=mark)
        assert 'Waiting for sign-in to "door"' in asked["title"]
        mark = pi.mark()
        answer: Record = {"cancelled": True} if pasted is None else {"value": pasted(shown)}
        pi.send({"type": "extension_ui_response", "id": asked["id"], **answer})
        assert notice(pi, mark)["message"] == said

    assert tools(prompt(pi, "open")) == ["mcp__door__open_door"]
    (end,) = pi.found({"type": "tool_execution_end"})
    assert end["result"]["content"] == [{"type": "text", "text": "open"}]

    # A token that is refused in a call: one refresh; then a sign-in is asked for, once, and the call was not made.
    server.access.clear()
    server.refresh.clear()
    mark = pi.mark()
    prompt(pi, "open again")
    (end,) = pi.found({"type": "tool_execution_end"}, since=mark)
    assert end["isError"]
    assert "needs sign-in" in end["result"]["content"][0]["text"]
    assert "The call was not executed." in end["result"]["content"][0]["text"]
    pi.wait({"type": "extension_ui_request", "notifyType": "warning"}, since=mark)
    assert "door: needs-auth" in status(pi)
    assert len(pi.found({"type": "extension_ui_request", "notifyType": "warning"}, since=mark)) == 1

    tokens = json.loads((pi.home.agent_dir / "mcp-auth.json").read_text())
    (state,) = tokens.values()
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "/mcp logout door"})["success"]
    assert notice(pi, mark)["message"] == 'Signed out of MCP server "door".'
    assert json.loads((pi.home.agent_dir / "mcp-auth.json").read_text()) == {}
    secret = state["clientInformation"]["client_secret"]
    said_all = json.dumps([each.record for each in pi.records])
    assert [] == [word for word in ("access-", "refresh-", secret) if word in said_all]
    pi.check_end()


def test_a_sign_in_by_another_process_is_used_with_the_next_run(
    with_servers: Start, server: AuthorizationServer
) -> None:
    pi = with_servers({"door": {"url": server.address}}, [{"text": "one"}, {"text": "two"}])
    assert tools(prompt(pi, "go")) == []

    def run(*words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, "mcp", *words],
            env=pi.home.env,
            cwd=pi.home.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with run("login", "door", "--timeout", "60") as login:
        assert login.stdout is not None
        assert login.stdout.readline() == 'Sign in to MCP server "door" in your browser:\n'
        assert httpx.get(browse(login.stdout.readline().strip())).status_code == 200
        said, errors = login.communicate(timeout=CONVERSATION_TIMEOUT_S)
    assert (login.returncode, said) == (0, 'Signed in to MCP server "door" (1 tools).\n'), errors
    assert tools(prompt(pi, "again")) == ["mcp__door__open_door"]

    with run("logout", "door") as logout:
        said, errors = logout.communicate(timeout=CONVERSATION_TIMEOUT_S)
    assert (logout.returncode, said) == (0, 'Signed out of MCP server "door".\n'), errors


def test_a_server_gets_the_key_of_a_provider_of_models(with_servers: Start) -> None:
    with web_server() as web:
        pi = with_servers({"web": {"url": web.url, "auth": {"provider": "fake"}}}, [{"text": "fine"}])
        assert tools(prompt(pi, "go")) == ["mcp__web__echo"]
        sent = {headers["authorization"] for _, _, headers in web.seen}
        assert sent == {pi.llm.requests[0].headers["authorization"]}
        mark = pi.mark()
        assert pi.request({"type": "prompt", "message": "/mcp login web"})["success"]
        assert 'uses the credentials of provider "fake"' in notice(pi, mark)["message"]
