"""An editor of either version of the protocol that logs in: what it is asked, and what is stored."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import INFO

from pinnace_fuzz.acp.agent import AcpAgent, Message


class LoginEditor:
    """A client of one version."""

    def __init__(self, start: StartAcp, folder: Path, version: int) -> None:
        self._start = start
        self._folder = folder
        self.version = version
        self.agent: AcpAgent

    def begin(self, *flags: str, elicitation: Mapping[str, Any], **options: Any) -> list[str]:
        """Start the agent, with options of `StartAcp`; return the methods that it offers."""
        self.agent = self._start(*flags, answer=lambda _: None, **options)
        capabilities = {"elicitation": elicitation}
        said: Mapping[str, object] = {"info": INFO, "capabilities": capabilities}
        if self.version == 1:
            said = {"clientCapabilities": capabilities}
        offered = self.agent.call("initialize", {"protocolVersion": self.version, **said})
        return [each["methodId" if self.version == 2 else "id"] for each in offered.get("authMethods", ())]

    @property
    def login_method(self) -> str:
        return "auth/login" if self.version == 2 else "authenticate"

    def log_in(self, way: str) -> int:
        """Send the request to log in by a method that was offered; return its id."""
        return self.agent.request(self.login_method, methodId=way)

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
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> LoginEditor:
    """An editor of each version."""
    return LoginEditor(request.getfixturevalue("acp" if request.param == 1 else "acp2"), tmp_path, request.param)
