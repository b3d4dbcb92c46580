"""Logins of extensions over ACP, in both versions: offered at the start, made by forms, seen in the status."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import INFO
from tests.rpc.server.test_extension_login_commands import EXTENSION, MARK

from pinnace_fuzz.acp.agent import AcpAgent, Message

BOTH: Mapping[str, Any] = {"url": {}, "form": {}}
CORP = "extension-login-corp"


class Editor:
    """A client of one version."""

    def __init__(self, start: StartAcp, folder: Path, version: int) -> None:
        self._start = start
        self._folder = folder
        self.version = version
        self.agent: AcpAgent

    def begin(self, *flags: str, elicitation: Mapping[str, Any] = BOTH) -> list[str]:
        """Start the agent; return the methods that it offers."""
        self.agent = self._start("--provider", "xai", *flags, models={"providers": {}}, answer=lambda _: None)
        capabilities = {"elicitation": elicitation}
        told: Mapping[str, object] = {"info": INFO, "capabilities": capabilities}
        if self.version == 1:
            told = {"clientCapabilities": capabilities}
        offered = self.agent.call("initialize", {"protocolVersion": self.version, **told})
        return [each["methodId" if self.version == 2 else "id"] for each in offered["authMethods"]]

    def log_in(self) -> int:
        return self.agent.request("auth/login" if self.version == 2 else "authenticate", methodId=CORP)

    def asked(self, mode: str, after: int = 0) -> Message:
        message = self.agent.until(
            lambda each: each.get("method") == "elicitation/create" and each["params"]["mode"] == mode, after
        )
        return {**message["params"], "id": message["id"], "method": message["method"]}

    def reply(self, asked: Message, action: str, **content: object) -> None:
        self.agent.respond(asked, {"action": action, **({"content": content} if content else {})})

    def stored(self) -> dict[str, Any]:
        path = self._folder / "home" / "agent" / "auth.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Editor:
    return Editor(request.getfixturevalue("acp" if request.param == 1 else "acp2"), tmp_path, request.param)


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    path = tmp_path / "corp.py"
    path.write_text(EXTENSION)
    return path


def test_a_login_of_an_extension_is_offered_made_and_removed(editor: Editor, extension: Path) -> None:
    methods = editor.begin("-e", str(extension))
    assert {CORP, "extension-login-xai", "login-xai"} & set(methods) == {CORP, "extension-login-xai"}
    login = editor.log_in()
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


def test_a_question_that_is_declined_ends_the_login(editor: Editor, extension: Path) -> None:
    editor.begin("-e", str(extension))
    login = editor.log_in()
    editor.reply(editor.asked("form"), "decline")
    error = editor.agent.response(login)["error"]
    assert (-32000, "aborted") == (error["code"], error["data"]["errorCode"])
    assert {} == editor.stored()


def test_a_client_without_forms_can_not_answer(editor: Editor, extension: Path) -> None:
    """The extension gives up when its question has no answer."""
    assert CORP in editor.begin("-e", str(extension), elicitation={"url": {}})
    error = editor.agent.response(editor.log_in())["error"]
    assert "aborted" == error["data"]["errorCode"]
    assert {} == editor.stored()


def test_without_extensions_nothing_is_started(editor: Editor) -> None:
    assert not [each for each in editor.begin() if each.startswith("extension-login-")]
    code = editor.agent.error("auth/login" if editor.version == 2 else "authenticate", methodId=CORP)["code"]
    assert -32602 == code
