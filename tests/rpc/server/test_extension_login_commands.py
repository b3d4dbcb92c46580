"""Logins of extensions as commands, with real extensions and a real auth.json. Rule R-KEY-07."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MARK = "extensionMarker0123456789"
LOGIN = {"type": "login", "provider": "corp", "method": "extension", "id": "l"}
EXTENSION = f"""
import time


async def log_in(callbacks):
    callbacks.on_auth("https://sso.example/login", "Use your badge.")
    callbacks.on_device_code("ABCD", "https://sso.example/code", 60)
    region = await callbacks.on_select("Where?", {{"eu": "Europe", "us": "America"}})
    code = await callbacks.on_prompt("The code", "six digits")
    if code == "wrong":
        raise ValueError("the code is not good")
    expires = (time.time() + 3600) * 1000
    return {{"access": f"{{region}}-{{code}}-{MARK}", "refresh": "r", "expires": expires}}


def extension(pi):
    oauth = {{"name": "Corp", "login": log_in, "refresh_token": lambda c: c, "get_api_key": lambda c: c["access"]}}
    models = [{{"id": "c1"}}]
    pi.register_provider("corp", {{"baseUrl": "http://127.0.0.1:1", "api": "openai-completions", "models": models,
                                  "oauth": oauth}})
    pi.register_provider("xai", {{"oauth": oauth}})

    @pi.command("renew")
    def renew(_arguments, _ctx):
        pi.register_provider("corp", {{"baseUrl": "http://127.0.0.1:1", "api": "openai-completions", "models": models,
                                      "oauth": oauth}})

    @pi.command("withdraw")
    def withdraw(_arguments, _ctx):
        pi.unregister_provider("corp")
"""


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    path = tmp_path / "corp.py"
    path.write_text(EXTENSION)
    return path


def dialog(pi: HomedAgent, method: str, since: int = 0) -> dict[str, Any]:
    found = dict(pi.wait({"type": "extension_ui_request", "method": method}, since=since))
    assert "corp" == found["loginProvider"]
    return found


def answer(pi: HomedAgent, asked: dict[str, Any], value: str | None) -> None:
    fields: dict[str, object] = {"cancelled": True} if value is None else {"value": value}
    pi.send({"type": "extension_ui_response", "id": asked["id"], **fields})


def stored(pi: HomedAgent) -> dict[str, Any]:
    path: Path = pi.home.agent_dir / "auth.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def begin(pi: HomedAgent, identity: str = "l") -> dict[str, Any]:
    """Begin a login, once its extension is loaded, and return its first question."""
    pi.ask("auth_status", provider="corp")
    mark = pi.mark()
    pi.send({**LOGIN, "id": identity})
    return dialog(pi, "select", mark)


def response(pi: HomedAgent, identity: str = "l") -> dict[str, Any]:
    return dict(pi.wait({"type": "response", "id": identity}, since=0))


def test_an_extension_logs_in_by_dialogs(agent: AgentStarter, extension: Path) -> None:
    """R-KEY-07: its logins are offered in the place of ours; its models can be used; a logout removes them."""
    pi = agent((), "-e", str(extension))
    every = {each["provider"]: each["methods"] for each in pi.ask("auth_status")["providers"]}
    assert (["key", "extension"], ["key", "extension"], ["key"]) == (every["corp"], every["xai"], every["groq"])
    answer(pi, begin(pi), "Europe")
    asked = dialog(pi, "input")
    assert ("The code", "six digits") == (asked["title"], asked["placeholder"])
    pi.ask("abort")
    answer(pi, asked, " 123456 ")

    shown = response(pi)["data"]
    assert ("corp", "login", True) == (shown["provider"], shown["source"], shown["isUsable"])
    [announced] = pi.found({"type": "login_start"})
    assert {"type": "login_start", "provider": "corp", "url": "https://sso.example/login"} == announced
    assert pi.found({"type": "login_end", "provider": "corp", "success": True})
    texts = [each["message"] for each in pi.found({"type": "extension_ui_request", "method": "notify"})]
    assert [
        "Use your badge.",
        "To log in to Corp, enter the code ABCD at https://sso.example/code within 60 s",
    ] == texts
    assert f"eu-123456-{MARK}" == stored(pi)["corp"]["access"]
    assert "corp" in {each["provider"] for each in pi.ask("get_available_models")["models"]}
    pi.ask("logout", provider="corp")
    assert {} == stored(pi)
    pi.check_end()
    assert MARK not in json.dumps([each.record for each in pi.records]) + pi.stderr_text


def test_a_login_that_fails_or_is_left_stores_nothing(agent: AgentStarter, extension: Path) -> None:
    """R-KEY-07: by the extension, by a question that is left, by `abort_login`, by the end of stdin."""
    pi = agent((), "-e", str(extension))
    mark = pi.mark()
    answer(pi, begin(pi, "a"), "America")
    answer(pi, dialog(pi, "input", mark), "wrong")
    failed = response(pi, "a")
    assert ("authentication_failed", True) == (failed["errorCode"], "Corp: login failed: " in failed["error"])
    mark = pi.mark()
    answer(pi, begin(pi, "b"), "America")
    answer(pi, dialog(pi, "input", mark), None)
    assert "aborted" == response(pi, "b")["errorCode"]
    asked = begin(pi, "c")
    pi.ask("abort_login", provider="corp")
    assert "aborted" == response(pi, "c")["errorCode"]
    pi.wait({"type": "extension_ui_resolved", "id": asked["id"], "reason": "cancelled"}, since=0)
    begin(pi, "d")
    pi.check_end()
    assert "shutting_down" == response(pi, "d")["errorCode"]
    assert 4 == len(pi.found({"type": "login_end", "success": False}))
    assert {} == stored(pi)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ({"type": "new_session"}, "another session was opened, which loads its own extensions"),
        ({"type": "reload"}, "the extensions were reloaded"),
        ({"type": "prompt", "message": "/renew"}, "its extension has registered the provider again"),
        ({"type": "prompt", "message": "/withdraw"}, "its extension has taken the provider away"),
    ],
)
def test_a_login_ends_with_its_registration(
    agent: AgentStarter, extension: Path, command: dict[str, object], why: str
) -> None:
    """R-KEY-07: at once and with the reason, its dialog is withdrawn, and nothing is stored."""
    pi = agent((), "-e", str(extension))
    asked = begin(pi)
    pi.send({**command, "id": "c"})
    ended = response(pi)
    assert ("aborted", f"The login was ended: {why}; log in again") == (ended["errorCode"], ended["error"])
    pi.wait({"type": "extension_ui_resolved", "id": asked["id"], "reason": "cancelled"}, since=0)
    assert pi.found({"type": "login_end", "provider": "corp", "success": False, "error": ended["error"]})
    assert response(pi, "c")["success"]
    assert {} == stored(pi)


def test_a_login_waits_for_extensions_that_are_loaded(agent: AgentStarter, extension: Path) -> None:
    """R-KEY-07: at the start, and while they are reloaded; so does a key, and a logout. `abort_login` ends it."""
    gate = extension.parent / "gate"
    os.mkfifo(gate)
    waiting = f"async def extension(pi):\n    await trio.to_thread.run_sync(open, {str(gate)!r})"
    extension.write_text("import trio\n" + EXTENSION.replace("def extension(pi):", waiting))
    pi = agent((), "-e", str(extension))

    def load() -> None:
        gate.open("w").close()

    pi.send({**LOGIN, "id": "ended"})
    pi.send({"type": "login", "provider": "corp", "method": "key", "key": MARK, "id": "k"})
    assert "aborted" == response(pi, "ended")["errorCode"]  # by the later one
    pi.ask("abort_login", provider="corp")
    assert "aborted" == response(pi, "k")["errorCode"]
    pi.send({**LOGIN, "id": "l"})
    load()
    answer(pi, dialog(pi, "select"), None)
    pi.send({"type": "login", "provider": "corp", "method": "key", "key": MARK, "id": "kept"})
    assert response(pi, "kept")["success"]
    pi.send({"type": "reload", "id": "r"})
    pi.send({"type": "logout", "provider": "corp", "id": "out"})
    load()
    assert response(pi, "out")["success"]
    assert {} == stored(pi)
    pi.send({"type": "login", "provider": "nowhere", "method": "extension", "id": "n"})
    assert "provider_not_found" == response(pi, "n")["errorCode"]
