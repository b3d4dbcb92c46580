"""Logins in a browser as commands, against an authorisation server, with real listeners. Rule R-KEY-06."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.config.browser_authorization import KEY, MARK, BrowserServer, access, registered_port, visit

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

NEVER_MS = 2**53 - 1
LOGIN = {"type": "login", "provider": "openrouter", "method": "browser"}
STORED = {"openrouter": {"type": "oauth", "access": KEY, "refresh": "", "expires": NEVER_MS}}


@pytest.fixture
def server() -> Iterator[BrowserServer]:
    with BrowserServer() as server:
        yield server


def begin(pi: HomedAgent, server: BrowserServer, identity: str = "l", **fields: object) -> tuple[str, dict[str, Any]]:
    """Begin a login; return its address and the dialog that asks for what the browser was sent to."""
    urls = {each: {"url": server.url} for each in ("openrouter", "openai-codex")}
    (pi.home.agent_dir / "settings.json").write_text(json.dumps({"logins": urls}))
    mark = pi.mark()
    pi.send({**LOGIN, "id": identity, **fields})
    announced = pi.wait({"type": "login_start"}, since=mark)
    dialog = pi.wait({"type": "extension_ui_request", "method": "input"}, since=mark)
    assert "userCode" not in announced
    assert announced["url"] in dialog["title"]
    assert announced["provider"] == dialog["loginProvider"]
    return announced["url"], dialog


def answered(pi: HomedAgent, identity: str = "l") -> dict[str, Any]:
    return dict(pi.wait({"type": "response", "id": identity}, since=0))


def paste(pi: HomedAgent, dialog: dict[str, Any], text: str | None) -> None:
    answer: dict[str, object] = {"cancelled": True} if text is None else {"value": text}
    pi.send({"type": "extension_ui_response", "id": dialog["id"], **answer})


def stored(pi: HomedAgent) -> dict[str, Any]:
    path: Path = pi.home.agent_dir / "auth.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def test_the_browser_logs_in_and_the_dialog_is_taken_back(agent: AgentStarter, server: BrowserServer) -> None:
    """R-KEY-06, R-UI-08: and its models can be used."""
    pi = agent()
    [shown] = pi.ask("auth_status", provider="openrouter")["providers"]
    assert ["key", "browser"] == shown["methods"]
    address, dialog = begin(pi, server)
    back = server.redirect(address)
    assert 200 == visit(back)[0]
    answer = answered(pi)

    assert ("login", True, NEVER_MS) == tuple(answer["data"][each] for each in ("source", "isUsable", "expiresAt"))
    assert pi.found({"type": "extension_ui_resolved", "id": dialog["id"], "reason": "cancelled"})
    assert pi.found({"type": "login_end", "provider": "openrouter", "success": True})
    assert STORED == stored(pi)
    assert "openrouter" in {each["provider"] for each in pi.ask("get_available_models")["models"]}
    with pytest.raises(OSError):
        visit(back)
    pi.check_end()
    assert MARK not in json.dumps([each.record for each in pi.records]) + pi.stderr_text


def test_what_is_pasted_logs_in(agent: AgentStarter, server: BrowserServer) -> None:
    """R-KEY-06: during a run, a new session and an abort, which end no login; and the text is in no record."""
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "half"}, {"text": " two"}]}])
    address, dialog = begin(pi, server)
    pi.ask("prompt", message="Hello")
    pi.llm.wait_reached("half")
    pi.ask("abort")
    pi.ask("new_session")
    assert not pi.found({"type": "extension_ui_resolved"})
    paste(pi, dialog, server.redirect(address))

    assert answered(pi)["success"]
    assert STORED == stored(pi)
    assert not pi.found({"type": "extension_ui_resolved"})
    pi.llm.release("half")
    pi.check_end()
    assert MARK not in json.dumps([each.record for each in pi.records])


def test_another_login_and_a_refused_dialog_end_nothing(agent: AgentStarter, server: BrowserServer) -> None:
    """R-KEY-06: the question is asked again, and the browser is still awaited, at the registered port."""
    pi = agent()
    with registered_port():
        address, dialog = begin(pi, server, provider="openai-codex")
        mark = pi.mark()
        paste(pi, dialog, "http://localhost:1455/auth/callback?code=a&state=b")
        again = pi.wait({"type": "extension_ui_request", "method": "input"}, since=mark)
        assert again["title"].endswith("\nThe pasted URL belongs to another login.")
        paste(pi, again, None)
        pi.ask("get_state")
        assert not pi.found({"type": "login_end"})
        assert 200 == visit(server.redirect(address))[0]
        assert answered(pi)["success"]
    login = stored(pi)["openai-codex"]
    assert (access(1), "acc-1", f"refresh1-{MARK}") == tuple(login[each] for each in ("access", "accountId", "refresh"))


def test_the_end_of_a_login_closes_its_port_and_its_dialog(agent: AgentStarter, server: BrowserServer) -> None:
    """R-KEY-04: by `abort_login`, by a later login of the provider, which has the port then, by the end of stdin."""
    pi = agent()
    with registered_port():
        first, dialog = begin(pi, server, "a", provider="openai-codex")
        second, later = begin(pi, server, "b", provider="openai-codex")
        assert "aborted" == answered(pi, "a")["errorCode"]
        assert "can't be used" not in later["title"]
        assert later["title"].splitlines()[2].startswith("If the browser then")
        assert 400 == visit(server.redirect(first))[0]
        pi.ask("abort_login")
        assert "aborted" == answered(pi, "b")["errorCode"]
        third, last = begin(pi, server, "c", provider="openai-codex")
        pi.check_end()
    assert "shutting_down" == pi.found({"type": "response", "id": "c"})[0]["errorCode"]
    for each in (dialog, later, last):
        assert pi.found({"type": "extension_ui_resolved", "id": each["id"], "reason": "cancelled"})
    for address in (second, third):
        with pytest.raises(OSError):
            visit(server.redirect(address))
    assert {} == stored(pi)


def test_a_server_that_refuses_the_code_is_named(agent: AgentStarter, server: BrowserServer) -> None:
    """R-KEY-03, R-KEY-06."""
    pi = agent()
    _, dialog = begin(pi, server)
    paste(pi, dialog, "a-foreign-code")
    refused = answered(pi)
    assert ("authentication_failed", True) == (refused["errorCode"], "the code is not good" in refused["error"])
    assert pi.found({"type": "login_end", "success": False, "error": refused["error"]})
    assert {} == stored(pi)
