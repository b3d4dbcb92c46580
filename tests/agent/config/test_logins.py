"""Logins in auth.json: which are used, how they are refreshed, and that no token is shown."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pinnace_agent.config.credentials import login_refresh
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.login_refresh import REFRESH_LIMIT_S, LoginStore
from pinnace_agent.config.credentials.logins import Login, LoginCallbacks, LoginFailed, new_login
from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.models import ModelRegistry, ProviderCode
from pinnace_agent.files.file_lock import file_lock

MARK = "token-marker"
OLD: Mapping[str, object] = {
    "type": "oauth",
    "access": f"old-{MARK}",
    "refresh": f"r1-{MARK}",
    "expires": 1_600_000_000_000,
}
VALID_MS = 9_000_000_000_000


def fresh(number: int = 2) -> dict[str, object]:
    return {**OLD, "access": f"new{number}-{MARK}", "refresh": f"r{number}-{MARK}", "expires": VALID_MS}


def write(folder: Path, **entries: object) -> Path:
    path = folder / "auth.json"
    path.write_text(json.dumps(entries))
    return path


def stored(path: Path, provider: str = "x") -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(path.read_text())[provider]
    return entry


class Method:
    """Refreshes when it is let go. No user logs in."""

    name = "Method"

    def __init__(self, answer: object = None, *, is_open: bool = True) -> None:
        self.answer = fresh() if answer is None else answer
        self.asked: list[Mapping[str, object]] = []
        self.begun = trio.Event()
        self.let_go = trio.Event()
        if is_open:
            self.let_go.set()

    async def refresh(self, credentials: dict[str, object]) -> object:
        self.asked.append(credentials)
        self.begun.set()
        await self.let_go.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def api_key(self, credentials: dict[str, object]) -> str:
        return str(credentials["access"])

    async def log_in(self, callbacks: LoginCallbacks) -> Login:
        raise AssertionError(callbacks)

    def stored(self) -> None:
        raise AssertionError


async def test_requests_that_wait_at_once_refresh_once(tmp_path: Path) -> None:
    path = write(tmp_path, x=OLD, other={"type": "api_key", "key": "k"})
    store, method = LoginStore(path), Method(is_open=False)
    got: list[str] = []

    async def ask() -> None:
        got.append((await store.valid("x", Login(OLD), method)).access)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
        await method.begun.wait()
        method.let_go.set()
    assert (1, [f"new2-{MARK}"] * 5) == (len(method.asked), got)
    assert fresh() == stored(path)
    assert {"type": "api_key", "key": "k"} == stored(path, "other")
    assert not (tmp_path / "auth.json.lock").exists()


async def test_the_login_of_a_process_that_was_faster_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, x=fresh())
    method = Method()
    login = await LoginStore(path).valid("x", Login(OLD), method)
    assert (f"new2-{MARK}", []) == (login.access, method.asked)


async def test_a_refresh_waits_for_the_lock_that_another_process_holds(tmp_path: Path) -> None:
    path = write(tmp_path, x=OLD)
    method = Method()
    got: list[str] = []

    async def ask() -> None:
        got.append((await LoginStore(path).valid("x", Login(OLD), method)).access)

    async with trio.open_nursery() as nursery:
        with file_lock(path):
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert [] == method.asked
            path.write_text(json.dumps({"x": fresh(7)}))
    assert ([f"new7-{MARK}"], []) == (got, method.asked)


async def test_a_request_that_is_cancelled_leaves_the_refresh_to_finish(tmp_path: Path) -> None:
    """The refresh token may be used only once, so what came for it is kept."""
    path = write(tmp_path, x=OLD)
    store, method = LoginStore(path), Method(is_open=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.valid, "x", Login(OLD), method)
        await method.begun.wait()
        nursery.cancel_scope.cancel()
    method.let_go.set()
    await store.valid("x", Login(OLD), method)
    assert (fresh(), 1) == (stored(path), len(method.asked))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (RuntimeError("refused"), "refused"),
        (SystemExit(3), "3"),
        (7, "must be a dict"),
        ({"access": ""}, "access must be a token"),
        ({"access": "a\n"}, "access must be a token"),
        ({"expires": "soon"}, "expires must be a number"),
        ({"expires": 3600}, "expires must count milliseconds"),
        ({"access": "a"}, "expired already"),
        ({**fresh(), "more": {1, 2}}, "JSON values"),
    ],
)
async def test_a_refresh_that_fails_leaves_the_login_as_it_is(tmp_path: Path, answer: object, told: str) -> None:
    path = write(tmp_path, x=OLD)
    store = LoginStore(path)
    with pytest.raises(LoginFailed) as raised:
        await store.valid("x", Login(OLD), Method(answer))
    assert told in str(raised.value)
    assert MARK not in str(raised.value)
    assert OLD == stored(path)
    assert f"new2-{MARK}" == (await store.valid("x", Login(OLD), Method())).access


async def test_an_authorization_server_that_does_not_answer_is_given_up(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    path = write(tmp_path, x=OLD)
    method = Method(is_open=False)
    failures: list[str] = []

    async def ask() -> None:
        try:
            await LoginStore(path).valid("x", Login(OLD), method)
        except LoginFailed as error:
            failures.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await method.begun.wait()
        mock_clock.jump(REFRESH_LIMIT_S + 1)
    assert ["no answer came for 30 s"] == failures
    assert not (tmp_path / "auth.json.lock").exists()


def test_a_run_that_ends_does_not_wait_for_the_lock_that_another_process_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits gives back what it gets later."""
    monkeypatch.setattr(login_refresh, "LOCK_LIMIT_S", 3600.0)
    path = write(tmp_path, x=OLD)
    method = Method()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(LoginStore(path).valid, "x", Login(OLD), method)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    with file_lock(path):
        trio.run(main)
    with file_lock(path):
        pass
    assert ([], OLD) == (method.asked, stored(path))


async def test_a_process_for_a_refresh_that_can_not_be_started_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    path = write(tmp_path, xai=OLD)
    with pytest.raises(LoginFailed, match="missing"):
        await LoginStore(path).valid("xai", Login(OLD), None)

    assert OLD == stored(path, "xai")
    assert not (tmp_path / "auth.json.lock").exists()


async def test_a_login_that_another_process_has_replaced_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path, x=OLD)
    method = Method(is_open=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(LoginStore(path).valid, "x", Login(OLD), method)
        await method.begun.wait()
        path.write_text(json.dumps({"x": fresh(9)}))  # by a program that takes no lock
        method.let_go.set()
    assert fresh(9) == stored(path)


def registry(path: Path, **env: str) -> ModelRegistry:
    return ModelRegistry(Catalog(), read_auth(path), env)


@pytest.mark.parametrize(
    ("provider", "carried"),
    [("anthropic", "key"), ("openrouter", "key"), ("xai", "key"), ("meta", "key"), ("kimi-coding", "bearer")],
)
async def test_a_valid_login_of_pi_is_used_as_it_is(tmp_path: Path, provider: str, carried: str) -> None:
    models = registry(write(tmp_path, **{provider: fresh()}))
    model = models.models_of(provider)[0]
    credentials = await models.credentials(model)
    assert models.is_usable(model)
    token = f"new2-{MARK}"
    if carried == "key":
        assert token == credentials.api_key
    else:
        assert f"Bearer {token}" == credentials.headers["Authorization"]
    assert MARK not in repr(credentials) + repr(models)


@pytest.mark.parametrize(
    ("provider", "entry", "told"),
    [
        ("anthropic", OLD, "has expired, and only pi refreshes it"),
        ("groq", fresh(), "only the extension that registers the provider"),
        ("anthropic", {"type": "oauth"}, "has expired"),
        (
            "xai",
            {**OLD, "refresh": ""},
            "has expired and can't be refreshed. Log in again: pinnace auth login xai --dev",
        ),
        (
            "xai",
            {**OLD, "expires": "soon"},
            "can't be used: expires must be a number of milliseconds since the epoch. Log",
        ),
        (
            "xai",
            {**OLD, "expires": None},
            "can't be used: expires must be a number of milliseconds since the epoch. Log",
        ),
        (
            "xai",
            {**fresh(), "access": "é"},
            "can't be used: access must be a token, a string of printable ASCII charact",
        ),
    ],
)
async def test_a_login_that_can_not_be_used_is_refused_by_name(
    tmp_path: Path, provider: str, entry: object, told: str
) -> None:
    models = registry(write(tmp_path, **{provider: entry}))
    model = models.models_of(provider)[0]
    problem = (await models.credentials(model)).problem
    assert problem is not None
    assert not models.is_usable(model)
    assert f"No API key found for {provider}" in problem
    assert told in problem
    assert MARK not in problem


@pytest.mark.parametrize(
    ("provider", "entry"), [("anthropic", OLD), ("xai", {**OLD, "expires": "soon"}), ("xai", {**OLD, "refresh": ""})]
)
async def test_a_login_that_can_not_be_used_gives_way_to_a_key_of_the_environment(
    tmp_path: Path, provider: str, entry: object
) -> None:
    models = registry(write(tmp_path, **{provider: entry}), ANTHROPIC_API_KEY="sk", XAI_API_KEY="sk")
    assert "sk" == (await models.credentials(models.models_of(provider)[0])).api_key


async def test_code_of_an_extension_refreshes_the_login_of_its_provider(tmp_path: Path) -> None:
    path = write(tmp_path, x=OLD)
    models, method = registry(path), Method()
    entry: dict[str, object] = {
        "baseUrl": "http://h/v1",
        "api": "openai-completions",
        "models": [{"id": "m"}],
        "oauth": "x",
    }
    models.describe_provider("x", entry, ProviderCode(login=method))
    [model] = models.models_of("x")
    assert models.is_usable(model)
    assert [f"new2-{MARK}"] * 2 == [(await models.credentials(model)).api_key for _ in range(2)]
    assert 1 == len(method.asked)
    models.forget_provider("x")
    assert [] == models.models_of("x")


def test_a_key_that_is_no_text_is_refused_as_a_login() -> None:
    with pytest.raises(ValueError, match="access must be a token"):
        new_login({"access": 7, "refresh": "", "expires": VALID_MS})
