"""Logins of ChatGPT plans, against a local server that gives codes as theirs does, and tokens that name an account."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.config.json_server import Asked, JsonServer
from tests.agent.llm.test_llm_codex_like_the_original import token

from pinnace_agent.config.credentials.codex_login import CodexLogin
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.device_login import DeviceCode
from pinnace_agent.config.credentials.login_methods import device_login_of
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.credentials.vendor_logins import VENDORS
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.llm.transport.client import close_clients

MARK = "marker-of-a-secret"
CLIENT = VENDORS["openai-codex"].client_id
PENDING: tuple[int, object] = (403, {"error": {"code": "deviceauth_authorization_pending"}})


def access(number: int) -> str:
    return token({"https://api.openai.com/auth": {"chatgpt_account_id": f"acc-{number}"}, "n": MARK})


class CodexServer(JsonServer):
    """Gives a code, tokens for it, and new tokens for refresh tokens."""

    def __init__(self) -> None:
        super().__init__()
        code = {"device_auth_id": f"id-{MARK}", "user_code": "ABCD", "interval": "0.01"}
        self.begins: tuple[int, object] = (200, code)
        self.polls: list[tuple[int, object]] = []
        self.tokens: list[tuple[int, object]] = []
        """Answers in place of tokens."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._number = 0

    def answer(self, asked: Asked) -> tuple[int, object]:
        path = asked.path
        self.requests.append((path, asked.fields))
        if path.endswith("/usercode"):
            return self.begins
        if path.endswith("/deviceauth/token"):
            granted = {"authorization_code": f"code-{MARK}", "code_verifier": f"verifier-{MARK}"}
            return self.polls.pop(0) if self.polls else (200, granted)
        if self.tokens:
            return self.tokens.pop(0)
        self._number += 1
        number = self._number
        return 200, {"access_token": access(number), "refresh_token": f"refresh{number}-{MARK}", "expires_in": 3600}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[CodexServer]:
    with CodexServer() as server:
        yield server


def login_at(server: CodexServer, folder: Path) -> CodexLogin:
    (folder / "settings.json").write_text(json.dumps({"logins": {"openai-codex": {"url": server.url}}}))
    method = device_login_of("openai-codex", folder)
    assert isinstance(method, CodexLogin)
    return method


async def test_a_user_logs_in_with_a_code(server: CodexServer, tmp_path: Path) -> None:
    server.polls = [
        PENDING,
        (404, {}),
        (503, {}),
        (429, {"error": {"code": "slow"}}),
        (400, {"error": {"code": "deviceauth_authorization_pending"}}),
    ]
    shown: list[DeviceCode] = []
    login = await login_at(server, tmp_path).log_in(shown.append)
    await close_clients()
    begun, *polls, bought = server.requests

    assert shown == [("ABCD", f"{server.url}/codex/device", 900)]
    assert begun == ("/api/accounts/deviceauth/usercode", {"client_id": CLIENT})
    assert polls == [("/api/accounts/deviceauth/token", {"device_auth_id": f"id-{MARK}", "user_code": "ABCD"})] * 6
    assert bought == (
        "/oauth/token",
        {
            "grant_type": "authorization_code",
            "client_id": CLIENT,
            "code": f"code-{MARK}",
            "code_verifier": f"verifier-{MARK}",
            "redirect_uri": f"{server.url}/deviceauth/callback",
        },
    )
    assert list(login.reveal()) == ["type", "access", "refresh", "expires", "accountId"]
    assert (login.access, login.reveal()["accountId"], login.is_valid) == (access(1), "acc-1", True)


@pytest.mark.parametrize(
    ("begins", "polls", "tokens", "said"),
    [
        ((404, {}), [], [], "does not begin the login .404"),
        ((200, {"user_code": "A"}), [], [], "no usable device_auth_id"),
        (None, [(400, {"error": "access_denied"})], [], "refuses the login .400, access_denied"),
        (None, [(200, {"authorization_code": f"{MARK}"})], [], "no usable code_verifier"),
        (None, [], [(400, {"error": {"code": "bad", "message": "no"}})], "refuses the login .400, bad: no"),
        (None, [], [(200, {"access_token": "x", "refresh_token": MARK, "expires_in": 1})], "names no account"),
    ],
)
async def test_a_login_that_fails_says_why_without_a_secret(
    begins: tuple[int, object] | None,
    polls: list[tuple[int, object]],
    tokens: list[tuple[int, object]],
    said: str,
    server: CodexServer,
    tmp_path: Path,
) -> None:
    server.begins, server.polls, server.tokens = begins or server.begins, polls, tokens
    with pytest.raises(LoginFailed, match=said) as failed:
        await login_at(server, tmp_path).log_in(lambda _code: None)
    await close_clients()

    assert MARK not in str(failed.value)


async def test_an_expired_login_of_pi_is_refreshed_and_stored_as_pi_writes_it(
    server: CodexServer, tmp_path: Path
) -> None:
    login_at(server, tmp_path)
    path = tmp_path / "auth.json"
    tokens = {"access": access(0), "refresh": f"r0-{MARK}", "expires": 1}
    entry = {"type": "oauth", **tokens, "accountId": "acc-0", "own": 1}
    path.write_text(json.dumps({"openai-codex": entry}))
    registry = CredentialResolver(read_catalog(tmp_path / "models.json"), read_auth(path), {})
    got = await registry.credentials_of("openai-codex", "gpt-6.1-sol")
    await close_clients()
    stored = json.loads(path.read_text())["openai-codex"]

    assert (got.api_key, got.problem) == (access(1), None)
    assert server.requests == [
        ("/oauth/token", {"grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": f"r0-{MARK}"})
    ]
    assert stored.pop("expires") > 1_600_000_000_000
    assert stored == {
        "type": "oauth",
        "access": access(1),
        "refresh": f"refresh1-{MARK}",
        "accountId": "acc-1",
        "own": 1,
    }


async def test_without_a_login_the_error_names_the_command(tmp_path: Path) -> None:
    registry = CredentialResolver(read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), {})
    assert not registry.opens_provider("openai-codex")

    problem = (await registry.credentials_of("openai-codex", "")).problem or ""
    assert "pinnace auth login openai-codex --device-code" in problem
