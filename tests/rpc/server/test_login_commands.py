"""Logins as commands, against an authorisation server and with a real auth.json. Rules R-KEY-01 to R-KEY-05."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.config.authorization_server import MARK, USER_CODE, AuthorizationServer

from pinnace_agent.files.file_lock import file_lock
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

KEY = "skMarker0123456789abcdef"
AN_HOUR_S = 3600.0
LOGIN = {"type": "login", "provider": "xai", "method": "device-code"}
PI_LOGIN = {"type": "oauth", "access": "a", "refresh": "r", "expires": 9_000_000_000_000}
HANGING = [{"chunks": [{"text": "one"}, {"gate": "half"}, {"text": " two"}]}]


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


def ask_server(pi: HomedAgent, server: AuthorizationServer) -> None:
    """Let the logins of the agent be made at this server."""
    path = pi.home.agent_dir / "settings.json"
    former: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**former, "logins": {"xai": {"url": server.url}}}))


def auth_file(pi: HomedAgent) -> Path:
    return pi.home.agent_dir / "auth.json"


def stored(pi: HomedAgent) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(auth_file(pi).read_text()) if auth_file(pi).exists() else {}
    return content


def status(pi: HomedAgent, provider: str = "xai") -> dict[str, Any]:
    [found] = pi.ask("auth_status", provider=provider)["providers"]
    return dict(found)


def providers(pi: HomedAgent) -> set[str]:
    return {each["provider"] for each in pi.ask("get_available_models")["models"]}


def begin(pi: HomedAgent, **fields: object) -> None:
    """Begin a login that waits for its user."""
    mark = pi.mark()
    pi.send({**LOGIN, **fields})
    pi.wait({"type": "login_start"}, since=mark)


def test_the_status_names_sources_and_ways(agent: AgentStarter) -> None:
    """R-KEY-01."""
    pi = agent()
    auth_file(pi).write_text(json.dumps({"xai": PI_LOGIN, "gone": {"type": "api_key", "key": KEY}}))
    pi.ask("reload")

    every = {each["provider"]: each for each in pi.ask("auth_status")["providers"]}
    assert every["xai"] == status(pi)
    assert ("login", True, PI_LOGIN["expires"]) == tuple(status(pi)[key] for key in ("source", "isUsable", "expiresAt"))
    assert ["key", "device-code"] == status(pi)["methods"]
    assert ["device-code", "browser"] == every["openai-codex"]["methods"]
    assert (None, False, ["OPENAI_API_KEY"]) == tuple(
        every["openai"][key] for key in ("source", "isUsable", "variables")
    )
    assert ("auth.json", ["key"]) == (every["gone"]["source"], every["gone"]["methods"])


def test_a_key_is_stored_and_its_models_can_be_used(agent: AgentStarter) -> None:
    """R-KEY-02: without a restart or a reload."""
    pi = agent()
    assert "openai" not in providers(pi)

    shown = pi.ask("login", provider="openai", method="key", key=KEY)
    assert ("openai", "auth.json", True) == (shown["provider"], shown["source"], shown["isUsable"])
    assert "openai" in providers(pi)
    assert {"openai": {"type": "api_key", "key": KEY}} == stored(pi)
    assert 0o600 == auth_file(pi).stat().st_mode & 0o777

    pi.ask("login", provider="openai", method="key", key="$HOME!literal")
    assert "$$HOME!literal" == stored(pi)["openai"]["key"]


def test_a_key_is_said_nowhere(agent: AgentStarter, tmp_path: Path) -> None:
    """R-KEY-02: not in a record, on stderr, in a log, or in the arguments of a process."""
    log = tmp_path / "log"
    pi = agent((), "--log-file", str(log), "--verbose")
    pi.ask("login", provider="openai", method="key", key=KEY)
    refused = [
        pi.request({"type": "login", "provider": "nobody", "method": "key", "key": KEY}),
        pi.request({"type": "login", "provider": KEY, "method": "key", "key": KEY}),
        pi.request({"type": "login", "provider": "xai", "method": "device-code", "key": KEY}),
        pi.request({"type": "login", "provider": "xai", "method": "key", "key": f"{KEY}\n{KEY}"}),
    ]
    pi.ask("logout", provider="openai")
    pi.check_end()

    assert [False] * 4 == [each["success"] for each in refused]
    assert KEY not in json.dumps([each.record for each in pi.records])
    assert KEY not in pi.stderr_text
    assert "login" in log.read_text()
    assert KEY not in log.read_text()


def test_a_login_is_not_lost_to_a_key(agent: AgentStarter) -> None:
    """R-KEY-02, R-KEY-05: a login that this program can't make again, neither by a key nor by a logout."""
    pi = agent()
    auth_file(pi).write_text(json.dumps({"anthropic": PI_LOGIN}))
    pi.ask("reload")

    key = {"type": "login", "provider": "anthropic", "method": "key", "key": KEY}
    for command in (key, {"type": "logout", "provider": "anthropic"}):
        refused = pi.request(command)
        assert ("invalid_field", True) == (refused["errorCode"], "force" in refused["error"])
        assert {"anthropic": PI_LOGIN} == stored(pi)
    assert pi.request({**key, "force": True})["success"]
    assert KEY == stored(pi)["anthropic"]["key"]


def test_a_file_that_is_damaged_is_left_and_named(agent: AgentStarter) -> None:
    """R-KEY-02."""
    pi = agent()
    auth_file(pi).write_text("{")
    refused = pi.request({"type": "login", "provider": "openai", "method": "key", "key": KEY})

    assert ("invalid_configuration", True) == (refused["errorCode"], str(auth_file(pi)) in refused["error"])
    assert "{" == auth_file(pi).read_text()


def test_a_code_logs_in_during_a_run(agent: AgentStarter, server: AuthorizationServer) -> None:
    """R-KEY-03, R-KEY-04: the code is announced, the end comes before the answer, and the run goes on."""
    server.pending = ["authorization_pending"]
    pi = agent(HANGING)
    ask_server(pi, server)
    pi.ask("prompt", message="Hello")
    pi.llm.wait_reached("half")
    answer = pi.request(LOGIN)

    [announced] = pi.found({"type": "login_start"})
    assert ("xai", f"{server.url}/enter", USER_CODE) == tuple(announced[key] for key in ("provider", "url", "userCode"))
    kinds = [each.record["type"] for each in pi.records]
    assert kinds.index("login_start") < kinds.index("login_end") < len(kinds) - 1
    assert pi.found({"type": "login_end", "provider": "xai", "success": True})
    assert ("login", True) == (answer["data"]["source"], answer["data"]["isUsable"])
    assert f"access1-{MARK}" == stored(pi)["xai"]["access"]
    assert "xai" in providers(pi)
    pi.llm.release("half")
    pi.wait({"type": "agent_settled"})
    assert MARK not in json.dumps([each.record for each in pi.records])


def test_a_server_that_refuses_is_named(agent: AgentStarter, server: AuthorizationServer) -> None:
    """R-KEY-03."""
    server.pending = ["access_denied"]
    pi = agent()
    ask_server(pi, server)
    refused = pi.request(LOGIN)

    assert ("authentication_failed", True) == (refused["errorCode"], "access_denied" in refused["error"])
    assert pi.found({"type": "login_end", "success": False, "error": refused["error"]})
    assert {} == stored(pi)
    (pi.home.agent_dir / "settings.json").write_text(json.dumps({"logins": {"xai": {"url": 5}}}))
    wrong = pi.request(LOGIN)
    assert ("invalid_configuration", True) == (wrong["errorCode"], "logins.xai.url" in wrong["error"])


def test_abort_login_ends_a_login_and_abort_does_not(agent: AgentStarter, server: AuthorizationServer) -> None:
    """R-KEY-04: nor does another session."""
    server.interval_s = AN_HOUR_S
    pi = agent()
    ask_server(pi, server)
    begin(pi, id="l")
    pi.ask("abort")
    pi.ask("new_session")
    pi.ask("abort_login", provider="openai")
    assert not pi.found({"type": "login_end"})

    pi.ask("abort_login", provider="xai")
    answer = pi.wait({"type": "response", "id": "l"}, since=0)
    assert ("aborted", answer["error"]) == (answer["errorCode"], pi.found({"type": "login_end"})[0]["error"])
    assert {} == stored(pi)
    server.interval_s = 0.01
    assert pi.request(LOGIN)["success"]


def test_a_later_login_ends_the_earlier_one(agent: AgentStarter, server: AuthorizationServer) -> None:
    """R-KEY-04: a key, too, which no code that is entered late replaces; and so does a logout."""
    server.interval_s = AN_HOUR_S
    pi = agent()
    ask_server(pi, server)
    begin(pi, id="first")
    begin(pi, id="second")
    assert "aborted" == pi.wait({"type": "response", "id": "first"}, since=0)["errorCode"]
    pi.ask("login", provider="xai", method="key", key=KEY)
    assert "aborted" == pi.wait({"type": "response", "id": "second"}, since=0)["errorCode"]
    begin(pi, id="third")
    pi.ask("logout", provider="xai")
    assert "aborted" == pi.wait({"type": "response", "id": "third"}, since=0)["errorCode"]
    server.interval_s = 0.01

    assert {} == stored(pi)


def test_logout_leaves_what_is_not_stored(agent: AgentStarter) -> None:
    """R-KEY-05: a key in a variable is left, and a second logout changes nothing."""
    pi = agent((), env={"OPENAI_API_KEY": KEY})
    pi.ask("login", provider="openai", method="key", key=f"{KEY}2")
    for _ in range(2):
        left = pi.ask("logout", provider="openai")
        assert ("variable", "OPENAI_API_KEY", True) == (left["source"], left["variable"], left["isUsable"])
        assert {} == stored(pi)
    pi.ask("login", provider="xai", method="key", key=KEY)
    assert "xai" in providers(pi)
    assert (None, False) == tuple(pi.ask("logout", provider="xai")[key] for key in ("source", "isUsable"))
    assert "xai" not in providers(pi)


def test_the_end_of_stdin_ends_a_login(agent: AgentStarter, server: AuthorizationServer) -> None:
    """R-KEY-04: it is announced and answered; `check_end` finds exit code 0 and nothing left open."""
    server.interval_s = AN_HOUR_S
    pi = agent()
    ask_server(pi, server)
    begin(pi, id="l")
    pi.check_end()

    assert "shutting_down" == pi.found({"type": "response", "id": "l"})[0]["errorCode"]
    assert pi.found({"type": "login_end", "success": False})
    assert {} == stored(pi)


@pytest.mark.parametrize(
    "command", [{"type": "login", "method": "key", "key": KEY}, {"type": "logout"}], ids=["login", "logout"]
)
def test_the_end_of_stdin_ends_the_waiting_for_another_program(agent: AgentStarter, command: dict[str, str]) -> None:
    """R-KEY-04: one that is changing auth.json, such as a refresh at a server that does not answer."""
    pi = agent()
    pi.ask("login", provider="groq", method="key", key=f"{KEY}0")
    with file_lock(auth_file(pi)):
        pi.send({"id": "l", "provider": "groq", **command})
        pi.check_end()

    assert "shutting_down" == pi.found({"type": "response", "id": "l"})[0]["errorCode"]
    assert f"{KEY}0" == stored(pi)["groq"]["key"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_the_process_stores_nothing(
    agent: AgentStarter, server: AuthorizationServer, number: signal.Signals
) -> None:
    """R-KEY-03: nothing is written, and no lock is left; the next process logs in."""
    server.interval_s = AN_HOUR_S
    pi = agent()
    ask_server(pi, server)
    begin(pi, id="l")
    pi.process.signal(number)
    pi.wait_exit(30)

    names = {each.name for each in pi.home.agent_dir.iterdir()}
    assert not {"auth.json", "auth.json.bak", "auth.json.lock"} & names
    server.interval_s = 0.01
    again = agent(again=pi)
    assert again.request(LOGIN)["success"]


def test_settings_are_stored_beside_a_key_or_without_one(agent: AgentStarter) -> None:
    """R-KEY-01, R-KEY-02: `auth_status` lists them, and which of them a client asks for."""
    pi = agent()
    listed = {each["name"]: (each["isSet"], each["isAsked"]) for each in status(pi, "azure")["settings"]}
    assert (False, True) == listed["AZURE_OPENAI_RESOURCE_NAME"]
    assert (False, False) == listed["AZURE_OPENAI_BASE_URL"]
    assert "settings" not in status(pi, "groq")
    assert "needsKey" not in status(pi, "azure")
    assert False is status(pi, "amazon-bedrock")["needsKey"]

    key = {"type": "login", "method": "key"}
    pi.ask("login", provider="azure", method="key", key=KEY, settings=["AZURE_OPENAI_RESOURCE_NAME=mine"])
    shown = pi.ask("login", provider="amazon-bedrock", method="key", settings=["AWS_PROFILE=work"])
    assert ("auth.json", "AWS_PROFILE", True) == tuple(shown[each] for each in ("source", "variable", "isUsable"))
    assert {
        "azure": {"type": "api_key", "key": KEY, "env": {"AZURE_OPENAI_RESOURCE_NAME": "mine"}},
        "amazon-bedrock": {"type": "api_key", "env": {"AWS_PROFILE": "work"}},
    } == stored(pi)
    assert {"azure", "amazon-bedrock"} <= providers(pi)
    assert [] == [each for each in status(pi, "azure")["settings"] if each["isAsked"]]

    for fields, problem in (
        ({"provider": "azure", "settings": ["AZURE_OPENAI_RESOURCE_NAME=mine"]}, "key is required"),
        ({"provider": "amazon-bedrock", "settings": []}, "key is required"),
        ({"provider": "amazon-bedrock", "settings": ["AWS_REGION=a b"]}, "wrong: AWS_REGION must be a region"),
        ({"provider": "xai", "settings": ["A=b"], "key": KEY}, "settings are wrong: a setting of xai must be left out"),
        ({"provider": "xai", "method": "device-code", "settings": ["A=b"]}, "settings must not be given"),
        ({"provider": "azure", "settings": "A=b", "key": KEY}, "settings must be"),
    ):
        refused = pi.request({**key, **fields})
        assert ("invalid_field", True) == (refused["errorCode"], problem in refused["error"]), refused
