"""Logging in to a provider in a browser over ACP, in both versions. Rule R-KEY-06, which holds for the agent."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.agent.config.browser_authorization import KEY, MARK, BrowserServer, visit
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import INFO

from pinnace_fuzz.acp.agent import AcpAgent, Message

URL: Mapping[str, Any] = {"url": {}}
FORM: Mapping[str, Any] = {"form": {}}


@pytest.fixture
def server() -> Iterator[BrowserServer]:
    with BrowserServer() as server:
        yield server


class Editor:
    """A client of one version."""

    def __init__(self, start: StartAcp, folder: Path, version: int) -> None:
        self._start = start
        self._folder = folder
        self.version = version
        self.agent: AcpAgent

    def begin(self, server: BrowserServer, elicitation: Mapping[str, Any]) -> int:
        """Start the agent and send the request to log in; return its id."""
        self.agent = self._start(settings={"logins": {"openrouter": {"url": server.url}}}, answer=lambda _: None)
        capabilities = {"elicitation": elicitation}
        told: Mapping[str, object] = {"info": INFO, "capabilities": capabilities}
        if self.version == 1:
            told = {"clientCapabilities": capabilities}
        self.agent.call("initialize", {"protocolVersion": self.version, **told})
        method = "auth/login" if self.version == 2 else "authenticate"
        return self.agent.request(method, methodId="browser-login-openrouter")

    def asked(self, mode: str, after: int = 0) -> Message:
        """Wait until the client is asked in a mode; return the parameters, with the id of the request."""
        message = self.agent.until(
            lambda each: each.get("method") == "elicitation/create" and each["params"]["mode"] == mode, after
        )
        return {**message["params"], "id": message["id"], "method": message["method"]}

    def reply(self, asked: Message, action: str, **content: object) -> None:
        self.agent.respond(asked, {"action": action, **({"content": content} if content else {})})

    def notified(self, method: str, field: str) -> list[object]:
        return [each["params"][field] for each in self.agent.messages if each.get("method") == method]

    def stored(self) -> dict[str, Any]:
        path = self._folder / "home" / "agent" / "auth.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Editor:
    return Editor(request.getfixturevalue("acp" if request.param == 1 else "acp2"), tmp_path, request.param)


def test_the_browser_comes_back_and_the_form_is_withdrawn(editor: Editor, server: BrowserServer) -> None:
    login = editor.begin(server, {**URL, **FORM})
    shown, form = editor.asked("url"), editor.asked("form")
    editor.reply(shown, "accept")
    assert 200 == visit(server.redirect(shown["url"]))[0]
    result = editor.agent.response(login)["result"]

    assert {"provider": "openrouter", "source": "login"}.items() <= result["_meta"]["pinnace"].items()
    assert [shown["elicitationId"]] == editor.notified("elicitation/complete", "elicitationId")
    assert [form["id"]] == editor.notified("$/cancel_request", "requestId")
    assert (login, login) == (shown["requestId"], form["requestId"])
    assert KEY == editor.stored()["openrouter"]["access"]
    assert 0 == editor.agent.end()
    assert MARK not in str(editor.agent.messages) + editor.agent.stderr.decode()


def test_what_is_pasted_into_the_form_logs_in(editor: Editor, server: BrowserServer) -> None:
    """Also of a client without addresses, whose form shows it; a wrong one is asked for again."""
    login = editor.begin(server, FORM)
    form = editor.asked("form")
    address = form["message"].splitlines()[1]
    after = len(editor.agent.messages)
    editor.reply(form, "accept", value="http://127.0.0.1/other?code=x")
    again = editor.asked("form", after)
    assert "another login" in again["message"]
    editor.reply(again, "accept", value=server.redirect(address))

    assert "result" in editor.agent.response(login)
    assert KEY == editor.stored()["openrouter"]["access"]
    assert [] == editor.notified("$/cancel_request", "requestId")


def test_a_client_without_forms_waits_for_the_browser(editor: Editor, server: BrowserServer) -> None:
    login = editor.begin(server, URL)
    shown = editor.asked("url")
    editor.agent.call("auth/status")
    assert 200 == visit(server.redirect(shown["url"]))[0]
    assert "result" in editor.agent.response(login)
    assert [shown["id"]] == editor.notified("$/cancel_request", "requestId")


@pytest.mark.parametrize("elicitation", [{**URL, **FORM}, FORM], ids=["both", "form"])
def test_a_user_who_declines_ends_the_login(
    editor: Editor, server: BrowserServer, elicitation: Mapping[str, Any]
) -> None:
    """A declined form alone ends it only where it is all that the client shows."""
    login = editor.begin(server, elicitation)
    form = editor.asked("form")
    editor.reply(form, "decline")
    if "url" in elicitation:
        editor.agent.call("auth/status")
        assert not [each for each in editor.agent.messages if each.get("id") == login and "error" in each]
        editor.reply(editor.asked("url"), "decline")
    error = editor.agent.response(login)["error"]
    assert (-32000, "aborted", True) == (error["code"], error["data"]["errorCode"], "--browser" in error["message"])
    assert {} == editor.stored()
