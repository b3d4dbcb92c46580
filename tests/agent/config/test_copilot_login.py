"""Logins of GitHub Copilot, against a local server that stands for GitHub: a code, its token, Copilot's own token."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from tests.agent.config.json_server import Asked, JsonServer

from pinnace_agent.config.credentials.auth_file import store_login
from pinnace_agent.config.credentials.copilot_login import CopilotLogin
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.device_login import DeviceCode
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status
from pinnace_agent.config.credentials.login_methods import device_login_of
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.credentials.vendor_logins import VENDORS
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.llm.copilot import EDITOR_HEADERS
from pinnace_agent.llm.transport.client import close_clients

MARK = "marker-of-a-secret"
COPILOT = "github-copilot"
CLIENT = VENDORS[COPILOT].client_id
EXPIRES_S = 4_000_000_000
MODELS = [
    {"id": "gpt-6.1-sol", "model_picker_enabled": True, "capabilities": {"supports": {"tool_calls": True}}},
    {"id": "claude-opus-5", "model_picker_enabled": True, "policy": {"state": "enabled"}},
    {"id": "disabled", "model_picker_enabled": True, "policy": {"state": "disabled"}},
    {"id": "without-tools", "model_picker_enabled": True, "capabilities": {"supports": {"tool_calls": False}}},
    {"id": "not-offered"},
    {"name": "without an id", "model_picker_enabled": True},
    "odd",
]
LISTED = ["gpt-6.1-sol", "claude-opus-5"]

REFUSALS: list[tuple[list[tuple[int, object]], list[tuple[int, object]], str]] = [
    ([(200, {"error": "access_denied", "error_description": "no"})], [], "access_denied: no"),
    ([(200, {"error": "expired_token"})], [], "expired_token"),
    ([(200, {})], [], "no usable access_token"),
    ([], [(403, {"message": "no access to Copilot"})], "no access to Copilot"),
    ([], [(200, {"token": "", "expires_at": EXPIRES_S})], "no usable token"),
    ([], [(200, {"token": "t"})], "no usable token"),
    ([], [(200, {"token": "t", "expires_at": 10**400})], "no usable token"),
    ([], [(200, {"token": "t\n", "expires_at": EXPIRES_S})], "no usable token"),
]


class GitHub(JsonServer):
    """Gives a code, a token for it, tokens of Copilot, and a list of models."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[tuple[int, object]] = []
        """Answers in place of the token of GitHub."""
        self.exchanged: list[tuple[int, object]] = []
        """Answers in place of Copilot's token."""
        self.models: tuple[int, object] = (200, {"data": MODELS})
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self._number = 0

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.requests]

    def answer(self, asked: Asked) -> tuple[int, object]:
        self.requests.append((asked.path, asked.fields, dict(asked.headers)))
        match asked.path:
            case "/login/device/code":
                return 200, {
                    "device_code": f"device-{MARK}",
                    "user_code": "ABCD-1234",
                    "verification_uri": f"{self.url}/login/device",
                    "expires_in": 600,
                    "interval": 0.01,
                }
            case "/login/oauth/access_token":
                return self.polls.pop(0) if self.polls else (200, {"access_token": f"gho-{MARK}", "scope": "read:user"})
            case "/copilot_internal/v2/token":
                if self.exchanged:
                    return self.exchanged.pop(0)
                self._number += 1
                return 200, {"token": f"tid={self._number};n={MARK}", "expires_at": EXPIRES_S}
            case "/models":
                return self.models
            case _:
                return 404, {}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[GitHub]:
    with GitHub() as server:
        yield server


async def test_a_token_without_an_end_is_written_so_that_it_can_be_read(server: GitHub, tmp_path: Path) -> None:
    server.exchanged = [(200, {"token": "t", "expires_at": 1e306})]
    store_login(tmp_path / "auth.json", COPILOT, await login_at(server, tmp_path).log_in(lambda _code: None))
    await close_clients()
    read = read_auth(tmp_path / "auth.json")
    assert read.diagnostics == ()
    login = read.entries[COPILOT].login
    assert login is not None
    assert login.is_valid


def login_at(server: GitHub, folder: Path) -> CopilotLogin:
    (folder / "settings.json").write_text(json.dumps({"logins": {COPILOT: {"url": server.url}}}))
    method = device_login_of(COPILOT, folder)
    assert isinstance(method, CopilotLogin)
    return method


def expired(**fields: object) -> dict[str, Any]:
    """Return a login as pi writes it, whose token has expired."""
    return {"type": "oauth", "refresh": f"gho-{MARK}", "access": "tid=0", "expires": 1_600_000_000_000, **fields}


async def test_a_user_logs_in_with_a_code_that_is_exchanged_twice(server: GitHub, tmp_path: Path) -> None:
    server.polls = [(200, {"error": "authorization_pending"}), (200, {"error": "slow_down", "interval": 0.02})]
    shown: list[DeviceCode] = []
    login = await login_at(server, tmp_path).log_in(shown.append)
    await close_clients()
    begun, *polls, exchanged, listed = server.requests

    assert shown == [("ABCD-1234", f"{server.url}/login/device", 600)]
    assert begun[:2] == ("/login/device/code", {"client_id": CLIENT, "scope": "read:user"})
    assert [fields["device_code"] for _, fields, _ in polls] == [f"device-{MARK}"] * 3
    assert (exchanged[0], exchanged[2]["authorization"]) == ("/copilot_internal/v2/token", f"Bearer gho-{MARK}")
    assert (listed[0], listed[2]["authorization"]) == ("/models", f"Bearer tid=1;n={MARK}")
    for _, _, headers in (exchanged, listed):
        assert all(headers[name.lower()] == value for name, value in EDITOR_HEADERS.items())
    assert login.reveal() == {
        "type": "oauth",
        "refresh": f"gho-{MARK}",
        "access": f"tid=1;n={MARK}",
        "expires": (EXPIRES_S - 300) * 1000,
        "availableModelIds": LISTED,
    }


@pytest.mark.parametrize(
    ("polls", "exchanged", "said"),
    REFUSALS,
)
async def test_a_login_that_is_refused_says_why_without_a_secret(
    polls: list[tuple[int, object]],
    exchanged: list[tuple[int, object]],
    said: str,
    server: GitHub,
    tmp_path: Path,
) -> None:
    server.polls, server.exchanged = polls, exchanged
    with pytest.raises(LoginFailed) as caught:
        await login_at(server, tmp_path).log_in(lambda _: None)
    await close_clients()

    assert said in str(caught.value)
    assert MARK not in str(caught.value)


async def test_a_login_of_pi_is_refreshed_and_stored_as_pi_stores_it(server: GitHub, tmp_path: Path) -> None:
    """By the process that refreshes logins."""
    login_at(server, tmp_path)
    entry = expired(enterpriseUrl="company.ghe.com", availableModelIds=["old"])
    (tmp_path / "auth.json").write_text(json.dumps({COPILOT: entry}))
    keys = CredentialResolver(read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), {})
    credentials = await keys.credentials_of(COPILOT, "")
    await close_clients()

    assert (credentials.api_key, credentials.problem) == (f"tid=1;n={MARK}", None)
    assert credentials.variables == {"enterpriseUrl": "company.ghe.com"}
    assert json.loads((tmp_path / "auth.json").read_text())[COPILOT] == {
        **entry,
        "access": f"tid=1;n={MARK}",
        "expires": (EXPIRES_S - 300) * 1000,
        "availableModelIds": LISTED,
    }


@pytest.mark.parametrize("models", [(500, {}), (200, {}), (200, {"data": "x"})])
async def test_models_that_can_not_be_listed_stay_as_they_were(
    models: tuple[int, object], server: GitHub, tmp_path: Path
) -> None:
    server.models = models
    method = login_at(server, tmp_path)
    kept: Any = await method.refresh(expired(availableModelIds=["old"]))
    none: Any = await method.refresh(expired())
    await close_clients()

    assert kept["availableModelIds"] == ["old"]
    assert "availableModelIds" not in none


@pytest.mark.parametrize(("status", "said"), [(401, "log in again"), (429, "temporary"), (502, "temporary")])
async def test_a_refresh_that_fails_keeps_the_login(status: int, said: str, server: GitHub, tmp_path: Path) -> None:
    server.exchanged = [(status, {"message": f"no {MARK}"[:2]})]
    with pytest.raises(LoginFailed, match=said):
        await login_at(server, tmp_path).refresh(expired())
    await close_clients()


async def test_requests_of_a_company_go_to_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked: the addresses are enough."""
    asked: list[str] = []

    async def ask_for(_: str, url: str, *__: object) -> object:
        await trio.lowlevel.checkpoint()
        asked.append(url)
        raise LoginFailed("offline")

    monkeypatch.setattr("pinnace_agent.config.credentials.copilot_login.ask_for", ask_for)
    method = device_login_of(COPILOT, tmp_path)
    assert isinstance(method, CopilotLogin)
    for fields in ({}, {"enterpriseUrl": "https://company.ghe.com/x"}):
        with pytest.raises(LoginFailed):
            await method.refresh(expired(**fields))
    (tmp_path / "settings.json").write_text('{"logins": {"github-copilot": {"url": "https://other.ghe.com"}}}')
    company = device_login_of(COPILOT, tmp_path)
    assert isinstance(company, CopilotLogin)
    with pytest.raises(LoginFailed):
        await company.refresh(expired())

    assert asked == [
        f"https://api.{domain}/copilot_internal/v2/token"
        for domain in ("github.com", "company.ghe.com", "other.ghe.com")
    ]


@pytest.mark.parametrize(("ids", "count"), [(None, 27), (LISTED, 2), ([], 0), ("odd", 27)])
def test_the_models_of_the_account_are_available(ids: object, count: int, tmp_path: Path) -> None:
    entry = expired(expires=(time.time() + 3600) * 1000, **({} if ids is None else {"availableModelIds": ids}))
    (tmp_path / "auth.json").write_text(json.dumps({COPILOT: entry}))
    registry = ModelRegistry(read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), {})

    assert len(registry.available()) == count


def test_an_expired_login_is_usable_since_it_is_refreshed(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({COPILOT: expired()}))
    status = key_status(COPILOT, read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), {})

    assert status == KeyStatus(COPILOT, "login", is_usable=True)
