"""Logins of extensions over ACP, in both versions: offered at the start, made by forms, seen in the status."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.v2.login_editor import LoginEditor, editor
from tests.rpc.server.test_extension_login_commands import EXTENSION, MARK

__all__ = ["editor"]

BOTH: Mapping[str, Any] = {"url": {}, "form": {}}
CORP = "extension-login-corp"


def begin(editor: LoginEditor, *flags: str, elicitation: Mapping[str, Any] = BOTH) -> list[str]:
    """Start the agent; return the methods that it offers."""
    return editor.begin("--provider", "xai", *flags, elicitation=elicitation, models={"providers": {}})


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    path = tmp_path / "corp.py"
    path.write_text(EXTENSION)
    return path


def test_a_login_of_an_extension_is_offered_made_and_removed(editor: LoginEditor, extension: Path) -> None:
    methods = begin(editor, "-e", str(extension))
    assert {CORP, "extension-login-xai", "login-xai"} & set(methods) == {CORP, "extension-login-xai"}
    login = editor.log_in(CORP)
    shown = editor.asked("url")
    assert "https://sso.example/login" == shown["url"]
    editor.reply(shown, "accept")
    where = editor.asked("form")
    after = len(editor.agent.messages)
    editor.reply(where, "accept", choice="0")
    editor.reply(editor.asked("form", after), "accept", value="123456")
    result = editor.agent.response(login)["result"]

    assert {"provider": "corp", "source": "login"}.items() <= result["_meta"]["pinnace"].items()
    assert f"eu-123456-{MARK}" == editor.stored()["corp"]["access"]
    if editor.version == 2:
        status = editor.agent.call("auth/status")
        [corp] = [each for each in status["_meta"]["pinnace"]["providers"] if each["provider"] == "corp"]
        assert ("login", True) == (corp["source"], corp["isUsable"])
    editor.agent.call("auth/logout" if editor.version == 2 else "logout")
    assert {} == editor.stored()
    assert 0 == editor.agent.end()
    assert MARK not in str(editor.agent.messages) + editor.agent.stderr.decode()


def test_a_question_that_is_declined_ends_the_login(editor: LoginEditor, extension: Path) -> None:
    begin(editor, "-e", str(extension))
    login = editor.log_in(CORP)
    editor.reply(editor.asked("form"), "decline")
    error = editor.agent.response(login)["error"]
    assert (-32000, "aborted") == (error["code"], error["data"]["errorCode"])
    assert {} == editor.stored()


def test_a_client_without_forms_can_not_answer(editor: LoginEditor, extension: Path) -> None:
    """The extension gives up when its question has no answer."""
    assert CORP in begin(editor, "-e", str(extension), elicitation={"url": {}})
    error = editor.agent.response(editor.log_in(CORP))["error"]
    assert "aborted" == error["data"]["errorCode"]
    assert {} == editor.stored()


def test_without_extensions_nothing_is_started(editor: LoginEditor) -> None:
    assert not [each for each in begin(editor) if each.startswith("extension-login-")]
    code = editor.agent.error(editor.login_method, methodId=CORP)["code"]
    assert -32602 == code


def test_extensions_of_a_project_are_logged_in_to_once_a_session_was_refused(editor: LoginEditor, work: Path) -> None:
    """`initialize` names no folder: the refusal of the session has the methods, which the schema leaves open."""
    (work / ".pi" / "extensions").mkdir(parents=True)
    (work / ".pi" / "extensions" / "corp.py").write_text(EXTENSION)
    assert CORP not in begin(editor, "--model", "c1", "--approve")
    assert -32602 == editor.agent.error(editor.login_method, methodId=CORP)["code"]
    folder: Mapping[str, Any] = {"cwd": str(work), "mcpServers": []}
    refused = editor.agent.error("session/new", **folder)
    offered = [each["methodId" if editor.version == 2 else "id"] for each in refused["data"]["authMethods"]]
    assert (-32000, "no_api_key") == (refused["code"], refused["data"]["errorCode"])
    assert refused["message"].endswith("Extensions that the session loads log in to xai, corp.")
    assert {CORP, "extension-login-xai", "api-key", "login-xai"} & set(offered) == {
        CORP,
        "extension-login-xai",
        "api-key",
    }

    login = editor.log_in(CORP)
    editor.reply(editor.asked("url"), "accept")
    after = len(editor.agent.messages)
    editor.reply(editor.asked("form"), "accept", choice="0")
    editor.reply(editor.asked("form", after), "accept", value="123456")
    assert {"provider": "corp", "isUsable": True}.items() <= editor.agent.response(login)["result"]["_meta"][
        "pinnace"
    ].items()
    assert editor.agent.call("session/new", **folder)["sessionId"]
    status = editor.agent.call("auth/status")
    [corp] = [each for each in status["_meta"]["pinnace"]["providers"] if each["provider"] == "corp"]
    assert ("login", True) == (corp["source"], corp["isUsable"])
    editor.agent.call("auth/logout" if editor.version == 2 else "logout")
    assert {} == editor.stored()
