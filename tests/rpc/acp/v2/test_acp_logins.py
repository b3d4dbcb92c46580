"""Logging in to a provider over ACP, in both versions, against an authorisation server and with a real auth.json.

Rules R-KEY-03 to R-KEY-05, which hold for the agent that makes the login.
"""

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.agent.config.authorization_server import MARK, USER_CODE, AuthorizationServer
from tests.rpc.acp.conftest import StartAcp, text
from tests.rpc.acp.v2.conftest import INFO

from pinnace_agent.config.credentials.vendor_logins import VENDORS
from pinnace_agent.files.file_lock import file_lock
from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

AN_HOUR_S = 3600.0
URL: Mapping[str, Any] = {"elicitation": {"url": {}}}
FORM: Mapping[str, Any] = {"elicitation": {"form": {}}}
MakeLlm: TypeAlias = Callable[[Iterable[Scripted]], FakeLlm]


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


class Editor:
    """A client of one version, and the home of its agent, whose model is the provider's of the login."""

    def __init__(self, start: StartAcp, llm: MakeLlm, folder: Path, version: int) -> None:
        self._start = start
        self.home = folder / "home"
        self._make_llm = llm
        self.script: list[Scripted] = [{"text": "one"}]
        """The answers of the model."""
        self.version = version
        self.offered: Message = {}
        self.agent: AcpAgent
        self.llm: FakeLlm

    def begin(self, server: AuthorizationServer, capabilities: Mapping[str, Any] = URL, *flags: str) -> "Editor":
        """Start the agent, whose logins are made at this server."""
        self.llm = self._make_llm(self.script)
        models: dict[str, Any] = {"xai": pi_models(self.llm.base_url)["providers"]["fake"]}  # type: ignore[index]
        del models["xai"]["apiKey"]
        self.agent = self._start(
            *("--provider", "xai", *flags),
            models={"providers": models},
            settings={"logins": {"xai": {"url": server.url}}},
            server=self.llm,
            answer=self._answer,
        )
        told = {"info": INFO, "capabilities": capabilities}
        if self.version == 1:
            told = {"clientCapabilities": capabilities}
        self.offered = self.agent.call("initialize", {"protocolVersion": self.version, **told})
        return self

    action: str | None = "accept"
    """What the client answers to what it shows; None: nothing."""

    def _answer(self, message: Message) -> Mapping[str, object] | None:
        return {"action": self.action} if self.action and message["method"] == "elicitation/create" else None

    @property
    def methods(self) -> list[str]:
        return [each["methodId" if self.version == 2 else "id"] for each in self.offered["authMethods"]]

    def log_in(self, method: str = "login-xai") -> int:
        """Send the request to log in; return its id."""
        return self.agent.request("auth/login" if self.version == 2 else "authenticate", methodId=method)

    def log_out(self) -> Message:
        return self.agent.call("auth/logout" if self.version == 2 else "logout")

    def asked(self, after: int = 0) -> Message:
        """Wait until the client is asked to show a code; return the parameters, with the id of the request."""
        message = self.agent.until(lambda each: each.get("method") == "elicitation/create", after)
        return {**message["params"], "id": message["id"]}

    def begin_login(self) -> tuple[int, Message]:
        """Send the request, and wait until the client is asked to show a code."""
        after = len(self.agent.messages)
        return self.log_in(), self.asked(after)

    def error(self, identity: int) -> tuple[int, str, str]:
        """Wait for the error of a request; return its code, the code in its data, and its text."""
        error = self.agent.response(identity)["error"]
        return error["code"], error["data"]["errorCode"], error["message"]

    def withdrawn(self) -> list[object]:
        """Return the requests that the agent has taken back."""
        found = [each for each in self.agent.messages if each.get("method") == "$/cancel_request"]
        return [each["params"]["requestId"] for each in found]

    def completed(self) -> list[object]:
        found = [each for each in self.agent.messages if each.get("method") == "elicitation/complete"]
        return [each["params"]["elicitationId"] for each in found]

    def new_session(self) -> str:
        session: str = self.agent.call("session/new", cwd=str(self.home / "work"), mcpServers=[])["sessionId"]
        return session

    def auth_file(self) -> Path:
        return self.home / "agent" / "auth.json"

    def stored(self) -> dict[str, Any]:
        path = self.auth_file()
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def editor(request: pytest.FixtureRequest, llm: MakeLlm, tmp_path: Path) -> Editor:
    start = request.getfixturevalue("acp" if request.param == 1 else "acp2")
    return Editor(start, llm, tmp_path, request.param)


def test_a_login_is_shown_as_an_address_and_its_model_can_be_used(editor: Editor, server: AuthorizationServer) -> None:
    """The request is answered when the login is stored; that the user agrees to open the address does not end it."""
    server.pending = ["authorization_pending"] * 100_000
    editor.begin(server)
    refused = editor.agent.error("session/new", cwd=str(editor.home / "work"), mcpServers=[])
    login, asked = editor.begin_login()
    editor.agent.call("auth/status")  # behind it the answer to what was shown has been read
    server.pending = []
    result = editor.agent.response(login)["result"]

    assert -32000 == refused["code"]
    assert ("url", f"{server.url}/enter", login) == tuple(asked[each] for each in ("mode", "url", "requestId"))
    assert USER_CODE in asked["message"]
    assert [asked["elicitationId"]] == editor.completed()
    assert [] == editor.withdrawn()
    assert {"provider": "xai", "source": "login"}.items() <= result["_meta"]["pinnace"].items()
    assert f"access1-{MARK}" == editor.stored()["xai"]["access"]
    session = editor.new_session()
    editor.agent.request("session/prompt", sessionId=session, prompt=text("a"))
    [asked_model] = editor.llm.wait_requests(1)
    assert f"Bearer access1-{MARK}" == asked_model.headers["authorization"]
    assert 0 == editor.agent.end()
    assert MARK not in str(editor.agent.messages) + editor.agent.stderr.decode()


def test_a_client_without_addresses_shows_a_form(editor: Editor, server: AuthorizationServer) -> None:
    """It has no field, and is taken back when the login is made: it may be open still."""
    editor.action = None
    editor.begin(server, FORM)
    login, asked = editor.begin_login()
    editor.agent.response(login)

    assert {"type": "object", "properties": {}} == asked["requestedSchema"]
    assert {f"{server.url}/enter", USER_CODE} <= set(asked["message"].replace(",", "").split())
    assert [asked["id"]] == editor.withdrawn()
    assert [] == editor.completed()
    assert "xai" in editor.stored()


def test_methods_are_those_that_the_client_can_show(editor: Editor, server: AuthorizationServer) -> None:
    """The provider of the configured model comes first. Without a way to show a code the error says what to do."""
    editor.begin(server)
    expected = {f"login-{name}" for name, each in VENDORS.items() if each.device_path}
    expected |= {f"browser-login-{name}" for name, each in VENDORS.items() if each.browser}
    assert "login-xai" == editor.methods[0]
    assert sorted(expected) == sorted(editor.methods[:-1])
    assert "api-key" == editor.methods[-1]
    described = editor.offered["authMethods"][-1]["description"]
    assert ("XAI_API_KEY" in described, "pinnace auth login xai" in described) == (True, True)

    editor.begin(server, {})
    assert ["api-key"] == editor.methods
    code, kind, said = editor.error(editor.log_in())
    assert (-32602, "invalid_field", True) == (code, kind, "pinnace auth login xai --device-code" in said)
    code, kind, said = editor.error(editor.log_in("browser-login-openrouter"))
    assert (-32602, True) == (code, "pinnace auth login openrouter --browser" in said)
    for method in ("login-nobody", "browser-login-xai", "login-openrouter"):
        assert -32602 == editor.error(editor.log_in(method))[0]
    assert [] == server.requests


def test_a_login_that_is_refused_says_why(editor: Editor, server: AuthorizationServer) -> None:
    """The client's settings of the login are errors, too."""
    server.pending = ["access_denied"]
    editor.begin(server)
    login, _ = editor.begin_login()
    code, kind, said = editor.error(login)

    assert (-32000, "authentication_failed", True) == (code, kind, "access_denied" in said)
    assert {} == editor.stored()
    assert [] == editor.completed()
    (editor.home / "agent" / "settings.json").write_text(json.dumps({"logins": {"xai": {"url": 5}}}))
    code, kind, said = editor.error(editor.log_in())
    assert (-32603, "invalid_configuration", True) == (code, kind, "logins.xai.url" in said)


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_declines_ends_the_login(editor: Editor, server: AuthorizationServer, action: str) -> None:
    server.interval_s = AN_HOUR_S
    editor.action = action
    editor.begin(server)
    code, kind, said = editor.error(editor.log_in())

    assert (-32000, "aborted", True) == (code, kind, "--device-code" in said)
    assert {} == editor.stored()
    server.interval_s, editor.action = 0.01, "accept"
    assert "result" in editor.agent.response(editor.log_in())


def test_a_cancelled_request_ends_the_login(editor: Editor, server: AuthorizationServer) -> None:
    """What the client was asked to show is taken back."""
    server.interval_s = AN_HOUR_S
    editor.action = None
    editor.begin(server)
    login, asked = editor.begin_login()
    editor.agent.notify("$/cancel_request", requestId=login)

    assert -32800 == editor.agent.response(login)["error"]["code"]
    assert [asked["id"]] == editor.withdrawn()
    assert {} == editor.stored()
    server.interval_s, editor.action = 0.01, "accept"
    assert "result" in editor.agent.response(editor.log_in())


def test_a_later_login_or_a_logout_ends_the_one_that_waits(editor: Editor, server: AuthorizationServer) -> None:
    server.interval_s = AN_HOUR_S
    editor.begin(server)
    first, _ = editor.begin_login()
    second, _ = editor.begin_login()
    assert (-32800, "aborted") == editor.error(first)[:2]
    editor.log_out()
    assert (-32800, "aborted") == editor.error(second)[:2]
    server.interval_s = 0.01
    assert "result" in editor.agent.response(editor.log_in())


@pytest.mark.parametrize("end", ["eof", "SIGTERM"])
def test_the_end_of_the_connection_ends_a_login(editor: Editor, server: AuthorizationServer, end: str) -> None:
    """At once, with an answer: the client can answer no question any more. Nothing is written, and no lock is left."""
    server.interval_s = AN_HOUR_S
    editor.begin(server)
    login, _ = editor.begin_login()
    if end == "eof":
        assert 0 == editor.agent.end()
    else:
        editor.agent.process.signal(signal.SIGTERM)
        assert editor.agent.process.await_exit(30)

    error = editor.agent.response(login)["error"]
    assert -32800 == error["code"]
    if end == "eof":  # a signal ends all requests at once, logins and others
        assert "shutting_down" == error["data"]["errorCode"]
    names = {each.name for each in (editor.home / "agent").iterdir()}
    assert not {"auth.json", "auth.json.bak", "auth.json.lock"} & names


def test_a_logout_removes_the_login_and_no_key(editor: Editor, server: AuthorizationServer) -> None:
    """Also of open sessions: after the next login with a key they have no credentials of the removed one."""
    editor.begin(server)
    editor.agent.response(editor.log_in())
    session = editor.new_session()
    accounts = [editor.agent.call("auth/status")]
    editor.auth_file().write_text(json.dumps({**editor.stored(), "groq": {"type": "api_key", "key": "sk-of-groq"}}))
    removed = editor.log_out()
    accounts.append(editor.agent.call("auth/status"))
    editor.agent.response(editor.log_in("api-key"))
    error = editor.agent.error("session/prompt", sessionId=session, prompt=text("a"))

    changed = [each["params"] for each in editor.agent.messages if each.get("method") == "auth/status_update"]
    assert accounts[1:] == changed[:1]  # without a question; what the client has is not sent again
    assert ["unauthenticated", "authenticated"] == [each["state"] for each in changed]
    assert ["xai"] == removed["_meta"]["pinnace"]["providers"]
    assert {"groq": {"type": "api_key", "key": "sk-of-groq"}} == editor.stored()
    assert ("authenticated", [{"label": "xai (login)", "active": True}]) == (
        accounts[0]["state"],
        accounts[0]["accounts"],
    )
    assert ("unauthenticated", [{"label": "groq (auth.json)", "active": False}]) == (
        accounts[1]["state"],
        accounts[1]["accounts"],
    )
    assert (-32000, "no_api_key") == (error["code"], error["data"]["errorCode"])
    assert [] == editor.log_out()["_meta"]["pinnace"]["providers"]
    assert 0 == editor.agent.end()
    assert "sk-of-groq" not in str(editor.agent.messages)


def test_a_logout_that_cannot_know_the_logins_says_so(editor: Editor, server: AuthorizationServer) -> None:
    editor.begin(server)
    editor.agent.response(editor.log_in())
    whole = editor.auth_file().read_text()
    editor.auth_file().write_text(whole[:-2])
    error = editor.agent.error("auth/logout" if editor.version == 2 else "logout")
    editor.auth_file().write_text(whole)

    assert (-32603, "invalid_configuration") == (error["code"], error["data"]["errorCode"])
    assert "auth.json" in error["message"]
    assert error["message"].endswith("no login was removed")
    assert ["xai"] == editor.log_out()["_meta"]["pinnace"]["providers"]


def test_a_logout_ends_the_requests_of_a_run(editor: Editor, server: AuthorizationServer) -> None:
    """The request that is at work goes on; the next one has no credentials."""
    editor.script = [{"tool_calls": [{"name": "bash", "args": {"command": "true"}}], "hold": "first"}]
    editor.begin(server)
    editor.agent.response(editor.log_in())
    session = editor.new_session()
    editor.agent.request("session/prompt", sessionId=session, prompt=text("a"))
    editor.llm.wait_reached("first")
    editor.log_out()
    editor.llm.release("first")

    editor.agent.until(lambda each: "no_credentials" in str(each))
    assert 1 == len(editor.llm.requests)
    assert 0 == editor.agent.end()


def test_a_cancelled_logout_may_leave_the_login(editor: Editor, server: AuthorizationServer) -> None:
    """As while another program changes auth.json. The connection is logged out all the same."""
    editor.begin(server)
    editor.agent.response(editor.log_in())
    with file_lock(editor.auth_file()):
        log_out = editor.agent.request("auth/logout" if editor.version == 2 else "logout")
        editor.agent.notify("$/cancel_request", requestId=log_out)
        assert -32800 == editor.agent.response(log_out)["error"]["code"]
        assert 0 == editor.agent.end()

    assert "xai" in editor.stored()
