"""Logins with a code, and their refresh, against an authorisation server whose refresh tokens are good once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agent.config.authorization_server import DEVICE_GRANT, MARK, USER_CODE, AuthorizationServer
from tests.agent.config.shared_login import Asking, Gate, expire, prepare, stored
from tests.forked_agents import COMMAND
from tests.source_tree import PYTHONPATH
from tests.waiting import wait_gone

from pinnace_agent.config.credentials import device_login
from pinnace_agent.config.credentials.credentials import Credentials, read_auth
from pinnace_agent.config.credentials.device_login import DeviceCode, DeviceLogin
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.credentials.vendor_logins import VENDORS, LoginSettingsWrong, vendor_of
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.files.file_lock import file_lock
from pinnace_agent.llm.transport.client import close_clients

# `test_codex_login` has the one that is not made as RFC 8628 has it.
PROVIDERS = [provider for provider, vendor in VENDORS.items() if vendor.kind == "device"]
AGENTS = 4
EXPIRIES = 2


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


async def credentials(folder: Path, provider: str = "xai") -> Credentials:
    registry = CredentialResolver(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), {})
    try:
        return await registry.credentials_of(provider, "")
    finally:
        await close_clients()


def login_at(server: AuthorizationServer, provider: str = "xai") -> DeviceLogin:
    return DeviceLogin(VENDORS[provider]._replace(url=server.url))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_user_logs_in_with_a_code(provider: str) -> None:
    shown: list[DeviceCode] = []
    with AuthorizationServer(pending=("authorization_pending", "slow_down", "authorization_pending")) as server:
        login = await login_at(server, provider).log_in(shown.append)
        await close_clients()
        (_, begun), *polls = server.requests

    assert shown == [(USER_CODE, f"{server.url}/enter", 600)]
    assert (login.access, login.refresh_token) == (f"access1-{MARK}", f"refresh1-{MARK}")
    assert list(login.reveal()) == ["type", "access", "refresh", "expires"]
    assert 7200 - VENDORS[provider].early_s - 60 < login.expires_ms / 1000 - time.time() <= 7200
    assert begun["client_id"] == VENDORS[provider].client_id
    assert [each["grant_type"] for _, each in polls] == [DEVICE_GRANT] * 4


@pytest.mark.parametrize(
    ("error", "said"),
    [("access_denied", "access_denied"), ("expired_token", "expired_token"), ("invalid_client", "invalid_client")],
)
async def test_a_login_that_is_refused_says_why(error: str, said: str) -> None:
    with AuthorizationServer(pending=(error,)) as server:
        with pytest.raises(LoginFailed, match=said) as failed:
            await login_at(server).log_in(lambda _code: None)
        await close_clients()

    assert MARK not in str(failed.value)


@pytest.mark.parametrize(
    "life", [pytest.param(10**400, id="huge"), 1e300, float("inf"), float("nan"), -1, 0, True, "3600", None, []]
)
async def test_whatever_a_server_says_of_the_life_of_a_token_it_is_kept(
    life: object, server: AuthorizationServer
) -> None:
    server.life = life
    login = await login_at(server).log_in(lambda _code: None)
    await close_clients()

    assert login.is_valid


@pytest.mark.parametrize(
    "failure",
    [(503, {}), (500, {"error": "server_error"}), (429, {"error": "rate_limited"}), (502, {"error": {}}), None],
)
async def test_a_failure_that_may_pass_does_not_end_the_waiting_for_a_code(
    failure: tuple[int, dict[str, object]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 8628, section 3.5: the server is asked again, more slowly, until the code has expired."""
    monkeypatch.setattr(device_login, "_MOST_INTERVAL_S", 0.02)
    with AuthorizationServer(pending=("authorization_pending",)) as server:
        if failure is None:
            server.cut = 2
        else:
            server.failures = [failure, failure]
        login = await login_at(server).log_in(lambda _code: None)
        await close_clients()
        assert login.access == f"access1-{MARK}"
        assert len(server.requests) == 5

    with AuthorizationServer() as server:
        server.code_life_s, server.failures = 0.1, [failure or (503, {})] * 100
        with pytest.raises(LoginFailed, match=r"the code has expired; xAI has a temporary failure \("):
            await login_at(server).log_in(lambda _code: None)
        await close_clients()


async def test_a_host_that_can_not_be_is_named() -> None:
    for host in ("a..b.example", f"{'a' * 64}.example"):
        method = DeviceLogin(VENDORS["xai"]._replace(url=f"https://{host}"))
        with pytest.raises(LoginFailed, match=f"xAI can't be reached: no host can have the name in https://{host}/"):
            await method.refresh({"refresh": f"refresh-{MARK}"})
    await close_clients()


async def test_no_token_is_sent_in_the_clear(server: AuthorizationServer) -> None:
    method = DeviceLogin(VENDORS["xai"]._replace(url=server.url.replace("127.0.0.1", "127.0.0.2")))
    with pytest.raises(LoginFailed, match="must be on an https address"):
        await method.log_in(lambda _code: None)
    with pytest.raises(LoginFailed, match="must be on an https address"):
        await method.refresh({"refresh": f"refresh-{MARK}"})

    assert [] == server.requests


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_expired_login_is_refreshed_and_used(
    provider: str, tmp_path: Path, server: AuthorizationServer
) -> None:
    path = prepare(tmp_path, server, provider)
    got = await credentials(tmp_path, provider)

    sent = got.api_key or got.headers.get("Authorization", "").removeprefix("Bearer ")
    assert (sent, got.problem) == (f"access2-{MARK}", None)
    entry = stored(path, provider)
    assert (entry["type"], entry["access"], entry["refresh"]) == ("oauth", f"access2-{MARK}", f"refresh2-{MARK}")
    assert json.loads(path.read_text())["other"] == {"type": "api_key", "key": "k"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "auth.json.lock").exists()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ((400, {"error": "invalid_grant"}), "log in again"),
        ((503, {}), "temporary failure"),
        ((200, {"access_token": ""}), "no usable"),
        ((200, {"access_token": "a b\n", "refresh_token": "r"}), "no usable access_token"),
    ],
)
async def test_a_refresh_that_fails_leaves_the_login_as_it_is(
    failure: tuple[int, dict[str, object]], said: str, tmp_path: Path, server: AuthorizationServer
) -> None:
    path = prepare(tmp_path, server)
    before = path.read_bytes()
    server.failures.append(failure)
    got = await credentials(tmp_path)

    assert said in (got.problem or "")
    assert " unavailable. Run 'pinnace auth login xai --device-code', or '/login xai' in the" in (got.problem or "")
    assert MARK not in (got.problem or "")
    assert path.read_bytes() == before
    assert (await credentials(tmp_path)).api_key == f"access2-{MARK}"


async def test_a_server_that_is_gone_is_named_without_a_token(tmp_path: Path) -> None:
    with AuthorizationServer() as server:
        path = prepare(tmp_path, server)
    got = await credentials(tmp_path)

    assert "can't be reached" in (got.problem or "")
    assert MARK not in (got.problem or "")
    assert stored(path)["refresh"] == f"refresh1-{MARK}"


@pytest.mark.parametrize(
    ("logins", "said"),
    [
        ([], "logins must be an object"),
        ({"xai": 1}, "logins.xai must be an object"),
        ({"xai": {"clientId": ""}}, "logins.xai.clientId must be a text"),
        ({"xai": {"client": "a"}}, "logins.xai.client is unknown"),
    ],
)
def test_wrong_settings_of_a_login_are_named(logins: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"logins": logins}))
    with pytest.raises(LoginSettingsWrong, match=said):
        vendor_of("xai", tmp_path)


def test_an_address_that_is_not_of_the_web_is_not_shown(server: AuthorizationServer) -> None:
    with pytest.raises(LoginFailed, match="no https address"):
        login_at(server)._address({"verification_uri": "file:///etc/passwd"})


# Several processes


def test_several_processes_refresh_a_login_once_at_each_expiry(tmp_path: Path, server: AuthorizationServer) -> None:
    """A second refresh with the same token would revoke the login."""
    path = prepare(tmp_path, server)
    agents = [Asking(tmp_path) for _ in range(AGENTS)]
    try:
        for number in range(EXPIRIES):
            expire(path)
            for agent in agents:
                agent.ask()
            assert [agent.answer() for agent in agents] == [[f"access{number + 2}-{MARK}", None]] * AGENTS
            assert (server.refreshes, server.is_revoked) == (number + 1, False)
    finally:
        for agent in agents:
            agent.kill()


STEPS = ("before_grant", "before_reply")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("step", STEPS)
def test_a_group_of_processes_that_ends_while_it_refreshes_loses_no_login(
    step: str, number: signal.Signals, tmp_path: Path, server: AuthorizationServer
) -> None:
    """What was asked for once is stored, and the next process uses it."""
    path = prepare(tmp_path, server)
    gate = Gate(server, step)
    ended, other = Asking(tmp_path), Asking(tmp_path)
    ended.ask()
    assert gate.reached.wait(60)
    os.killpg(ended.process.pid, number)
    ended.kill()
    assert stored(path)["refresh"] == f"refresh1-{MARK}"
    other.ask()
    gate.open()
    try:
        key, problem = other.answer()
    finally:
        other.kill()

    assert (key, problem) == (f"access2-{MARK}", None)
    assert (server.refreshes, server.is_revoked, stored(path)["access"]) == (1, False, key)
    # What was refreshed is read as soon as it is in the file; the lock goes next.
    wait_gone(tmp_path / "auth.json.lock")


@pytest.mark.parametrize("step", STEPS)
def test_if_the_refreshing_process_itself_is_killed_a_lenient_server_takes_the_token_again(
    step: str, tmp_path: Path
) -> None:
    with AuthorizationServer(has_leeway=True) as server:
        path = prepare(tmp_path, server)
        gate = Gate(server, step)
        first, other = Asking(tmp_path), Asking(tmp_path)
        first.ask()
        assert gate.reached.wait(60)
        [program] = programs(path)
        os.kill(program, signal.SIGKILL)
        _, problem = first.answer()
        # The lock of the dead process, as old as it is after ten seconds.
        os.utime(tmp_path / "auth.json.lock", (0, 0))
        gate.open()
        other.ask()
        answer = other.answer()
        for each in (first, other):
            each.kill()

        assert "has ended with status -9" in (problem or "")
        assert (answer[1], server.is_revoked) == (None, False)
        assert answer[0] == stored(path)["access"] != f"access1-{MARK}"


def programs(path: Path) -> list[int]:
    """Return the processes that refresh a login of this auth.json."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"refresh_program\0xai\0{path}\0" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(("number", "status"), [(None, 0), (signal.SIGTERM, 143)])
def test_an_agent_ends_at_once_while_a_login_is_refreshed_and_the_login_is_stored(
    number: signal.Signals | None, status: int, tmp_path: Path, server: AuthorizationServer
) -> None:
    """At the end of its input, also if a signal comes in the same moment: it is stopped until there are both."""
    path = prepare(tmp_path, server)
    gate = Gate(server, "before_reply")
    agent = prompted(tmp_path)
    assert gate.reached.wait(60)
    if number is not None:
        agent.send_signal(signal.SIGSTOP)
        assert agent.stdin is not None
        agent.stdin.close()
        agent.stdin = None
        agent.send_signal(number)
        agent.send_signal(signal.SIGCONT)
    # The exchange goes on: it can't end before the gate is opened.
    _, stderr = agent.communicate(timeout=60)
    [program] = programs(path)
    limits = Path(f"/proc/{program}/limits").read_text().splitlines()
    assert [each.split()[4] for each in limits if each.startswith("Max core file size")] == ["0"]  # it is protected
    gate.open()
    with file_lock(path):
        pass  # the process has given it back

    assert (agent.returncode, server.refreshes) == (status, 1), stderr
    assert stored(path)["access"] == f"access2-{MARK}"


def prompted(folder: Path) -> "subprocess.Popen[str]":
    """Start an agent whose stdin ends with its first prompt, for which it needs a login of `prepare`."""
    command = [*COMMAND, "--mode", "rpc", "--no-session", "--model", "xai/grok-4.5", "--on-eof", "abort"]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "PI_CODING_AGENT_DIR": str(folder)}
    agent = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env
    )
    assert agent.stdin is not None
    agent.stdin.write(json.dumps({"type": "prompt", "message": "Hello"}) + "\n")
    agent.stdin.flush()
    return agent


# The command


def test_the_command_logs_in_shows_the_login_and_logs_out(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "PI_CODING_AGENT_DIR": str(tmp_path)}

    def auth(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", "pinnace_rpc", "auth", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    with AuthorizationServer(pending=("authorization_pending",)) as server:
        (tmp_path / "settings.json").write_text(json.dumps({"logins": {"xai": {"url": server.url, "clientId": "me"}}}))
        done = [
            auth("login", "xai", "--device-code"),
            auth("status", "xai"),
            auth("logout", "xai"),
            auth("status", "xai"),
            auth("login", "openai", "--device-code"),
        ]
        assert {fields["client_id"] for _, fields in server.requests} == {"me"}

    assert [each.returncode for each in done] == [0, 0, 0, 1, 1]
    assert f"enter the code {USER_CODE} within 10 min" in done[0].stderr
    assert done[0].stdout == f"xai: logged in; the login is stored in {tmp_path / 'auth.json'}\n"
    assert "login in auth.json" in done[1].stdout
    assert "no login with a code for openai" in done[4].stderr
    assert json.loads((tmp_path / "auth.json").read_text()) == {}
    assert not any(MARK in each.stdout + each.stderr for each in done)
