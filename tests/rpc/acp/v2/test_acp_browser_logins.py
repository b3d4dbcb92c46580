"""Logging in to a provider in a browser over ACP, in both versions. Rule R-KEY-06, which holds for the agent."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.agent.config.browser_authorization import KEY, MARK, BrowserServer, visit
from tests.rpc.acp.v2.login_editor import LoginEditor, editor

__all__ = ["editor"]

URL: Mapping[str, Any] = {"url": {}}
FORM: Mapping[str, Any] = {"form": {}}


@pytest.fixture
def server() -> Iterator[BrowserServer]:
    with BrowserServer() as server:
        yield server


def log_in(editor: LoginEditor, server: BrowserServer, elicitation: Mapping[str, Any]) -> int:
    """Start the agent and send the request to log in; return its id."""
    editor.begin(elicitation=elicitation, settings={"logins": {"openrouter": {"url": server.url}}})
    return editor.log_in("browser-login-openrouter")


def test_the_browser_comes_back_and_the_form_is_withdrawn(editor: LoginEditor, server: BrowserServer) -> None:
    login = log_in(editor, server, {**URL, **FORM})
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


def test_what_is_pasted_into_the_form_logs_in(editor: LoginEditor, server: BrowserServer) -> None:
    """Also of a client without addresses, whose form shows it; a wrong one is asked for again."""
    login = log_in(editor, server, FORM)
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


def test_a_client_without_forms_waits_for_the_browser(editor: LoginEditor, server: BrowserServer) -> None:
    login = log_in(editor, server, URL)
    shown = editor.asked("url")
    editor.agent.call("auth/status")
    assert 200 == visit(server.redirect(shown["url"]))[0]
    assert "result" in editor.agent.response(login)
    assert [shown["id"]] == editor.notified("$/cancel_request", "requestId")


@pytest.mark.parametrize("elicitation", [{**URL, **FORM}, FORM], ids=["both", "form"])
def test_a_user_who_declines_ends_the_login(
    editor: LoginEditor, server: BrowserServer, elicitation: Mapping[str, Any]
) -> None:
    """A declined form alone ends it only where it is all that the client shows."""
    login = log_in(editor, server, elicitation)
    form = editor.asked("form")
    editor.reply(form, "decline")
    if "url" in elicitation:
        editor.agent.call("auth/status")
        assert not [each for each in editor.agent.messages if each.get("id") == login and "error" in each]
        editor.reply(editor.asked("url"), "decline")
    error = editor.agent.response(login)["error"]
    assert (-32000, "aborted", True) == (error["code"], error["data"]["errorCode"], "--browser" in error["message"])
    assert {} == editor.stored()
