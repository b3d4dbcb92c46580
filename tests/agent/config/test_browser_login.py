"""Logins in a browser, against a local server that checks the proof of each code, with a real listener."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from tests.agent.config.browser_authorization import KEY, MARK, BrowserServer, access, registered_port, visit
from tests.source_tree import PYTHONPATH

from pinnace_agent.config.credentials import browser_login
from pinnace_agent.config.credentials.browser_login import BrowserLogin, LoginPage
from pinnace_agent.config.credentials.login_methods import browser_login_of, device_login_of
from pinnace_agent.config.credentials.logins import Login, LoginFailed
from pinnace_agent.config.credentials.loopback_redirect import Redirect, loopback_redirect
from pinnace_agent.config.credentials.vendor_logins import VENDORS
from pinnace_agent.llm.transport.client import close_clients

BROWSERS = {name: vendor.browser for name, vendor in VENDORS.items() if vendor.browser is not None}
NEVER_MS = 2**53 - 1


@pytest.fixture
def server() -> Iterator[BrowserServer]:
    with BrowserServer() as server:
        yield server


class User:
    """Opens the page, and pastes what a test says."""

    def __init__(self, *pasted: str | Callable[[LoginPage], str] | None) -> None:
        self.pages: list[LoginPage] = []
        self.shown = trio.Event()
        self.problems: list[str | None] = []
        self._pasted = list(pasted)

    def show(self, page: LoginPage) -> None:
        self.pages.append(page)
        self.shown.set()

    async def paste(self, page: LoginPage, problem: str | None) -> str | None:
        self.problems.append(problem)
        if not self._pasted:
            await trio.sleep_forever()
        each = self._pasted.pop(0)
        return each(page) if callable(each) else each


def method_at(server: BrowserServer, folder: Path, provider: str = "openrouter") -> BrowserLogin:
    (folder / "settings.json").write_text(json.dumps({"logins": {provider: {"url": server.url}}}))
    method = browser_login_of(provider, folder)
    assert method is not None
    return method


async def logged_in(method: BrowserLogin, user: User, browser: Callable[[LoginPage], None] | None = None) -> Login:
    """Log in, while a browser does what a test says."""
    got: list[Login | LoginFailed] = []

    async def log_in() -> None:
        try:
            got.append(await method.log_in(user))
        except LoginFailed as error:
            got.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_in)
        if browser is not None:
            await user.shown.wait()
            await trio.to_thread.run_sync(browser, user.pages[0])
    await close_clients()
    if isinstance(got[0], LoginFailed):
        raise got[0]
    return got[0]


@pytest.mark.parametrize("provider", BROWSERS)
async def test_a_browser_logs_in_at_the_registered_redirect(
    provider: str, server: BrowserServer, tmp_path: Path
) -> None:
    user, browser = User(), BROWSERS[provider]
    with registered_port():
        login = await logged_in(
            method_at(server, tmp_path, provider), user, lambda page: check(visit(server.redirect(page.address)))
        )
    [page], [asked] = user.pages, server.pages
    uri = urlsplit(page.redirect_uri)

    assert browser is not None
    assert (browser.host, True) == (uri.hostname, page.is_awaited)
    assert browser.port in {uri.port, 0}
    assert uri.path.startswith(browser.path)
    assert "S256" == asked["code_challenge_method"]
    assert browser.parameters.items() <= asked.items()
    if provider == "openrouter":
        assert {"callback_url", "code_challenge", "code_challenge_method"} == asked.keys()
        assert (KEY, "", NEVER_MS) == (login.access, login.refresh_token, login.expires_ms)
    else:
        assert (VENDORS[provider].client_id, browser.scope) == (asked["client_id"], asked["scope"])
        assert (access(1), f"refresh1-{MARK}", True) == (login.access, login.refresh_token, login.is_valid)
    assert ("acc-1" if provider == "openai-codex" else None) == login.reveal().get("accountId")


def check(answer: tuple[int, str]) -> None:
    status, page = answer
    assert (200, True) == (status, "can be closed" in page)
    assert MARK not in page


PASTES: dict[str, Callable[[str], str]] = {
    "address": lambda back: f" {back}\n",
    "query": lambda back: back.partition("?")[2],
    "code": lambda back: dict(each.split("=") for each in back.partition("?")[2].split("&"))["code"],
    "code-and-state": lambda back: "#".join(
        dict(each.split("=") for each in back.partition("?")[2].split("&"))[name] for name in ("code", "state")
    ),
}


@pytest.mark.parametrize("form", PASTES)
async def test_what_is_pasted_logs_in(form: str, server: BrowserServer, tmp_path: Path) -> None:
    """At the same time as the listener is there, which is closed then."""
    provider = "openrouter" if form in {"address", "query", "code"} else "openai-codex"
    user = User(lambda page: PASTES[form](server.redirect(page.address)))
    with registered_port():
        login = await logged_in(method_at(server, tmp_path, provider), user)

    assert MARK in login.access or login.access == access(1)
    with pytest.raises(OSError):
        visit(user.pages[0].redirect_uri)


async def test_what_belongs_to_another_login_ends_nothing(server: BrowserServer, tmp_path: Path) -> None:
    """Neither a redirect nor a paste; a page can have a browser ask for anything here."""
    with registered_port():
        user = User("http://localhost:1455/auth/callback?code=x&state=foreign", "x#foreign", None)

        def browser(page: LoginPage) -> None:
            back = server.redirect(page.address)
            foreign = back.replace("state=", "state=not-")
            assert [400, 400, 404] == [visit(each)[0] for each in (foreign, page.redirect_uri, f"{page.redirect_uri}/")]
            host, port = "127.0.0.1", urlsplit(page.redirect_uri).port
            for request in (b"GET //[ HTTP/1.1\r\n\r\n", b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\xff\x00\r\n\r\n"):
                with socket.create_connection((host, port or 0), timeout=30) as connection:
                    connection.sendall(request)
                    assert b"404" in connection.recv(100)
            check(visit(back))

        login = await logged_in(method_at(server, tmp_path, "openai-codex"), user, browser)

    assert access(1) == login.access
    assert [
        None,
        "the pasted URL belongs to another login",
        "the pasted code belongs to another login",
    ] == user.problems
    assert ["/oauth/token"] == [path for path, _ in server.requests]


async def test_a_path_takes_the_place_of_a_state(server: BrowserServer, tmp_path: Path) -> None:
    user = User("http://127.0.0.1:1/oauth/callback/another?code=x", "", None)

    def browser(page: LoginPage) -> None:
        assert 404 == visit(f"{page.redirect_uri.rpartition('/')[0]}/another?code=x")[0]
        check(visit(server.redirect(page.address)))

    assert KEY == (await logged_in(method_at(server, tmp_path), user, browser)).access
    assert [None, "the pasted URL belongs to another login", "nothing was pasted"] == user.problems


async def test_a_refusal_ends_the_login(server: BrowserServer, tmp_path: Path) -> None:
    """By the browser, by a paste, and by the server that takes the code."""

    def refuse(page: LoginPage) -> str:
        return f"{page.redirect_uri}?error=access_denied&error_description=No."

    with pytest.raises(LoginFailed, match=r"OpenRouter: the authorization server refused: No\."):
        await logged_in(method_at(server, tmp_path), User(), lambda page: check_refused(visit(refuse(page))))
    with pytest.raises(LoginFailed, match=r"OpenRouter: the authorization server refused: No\."):
        await logged_in(method_at(server, tmp_path), User(refuse))
    with pytest.raises(LoginFailed, match=r"OpenRouter refuses the login .400, invalid_grant: the code is not good"):
        await logged_in(method_at(server, tmp_path), User("a-foreign-code"))


def check_refused(answer: tuple[int, str]) -> None:
    assert (200, True) == (answer[0], "refused" in answer[1])


async def test_a_user_who_is_too_slow_or_leaves_closes_the_port(server: BrowserServer, tmp_path: Path) -> None:
    user, method = User(), method_at(server, tmp_path)
    with pytest.raises(LoginFailed, match="OpenRouter: the login was not completed within"):
        await method.log_in(user, 0.05)
    left = User()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(method.log_in, left))
        await left.shown.wait()
        nursery.cancel_scope.cancel()
    for each in (user, left):
        with pytest.raises(OSError):
            visit(each.pages[0].redirect_uri)
    assert [] == server.requests


async def test_a_port_that_another_program_has_leaves_pasting(
    server: BrowserServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a paste the login fails at once, and the other program gets no code of it."""
    monkeypatch.setattr(browser_login, "_PORT_LIMIT_S", 0.1)
    with registered_port(), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 1455))
        other.listen()
        method = method_at(server, tmp_path, "openai-codex")
        user = User(lambda page: server.redirect(page.address))
        login = await method.log_in(user)
        assert (access(1), False) == (login.access, user.pages[0].is_awaited)
        with pytest.raises(
            LoginFailed, match="nothing was pasted, and http://localhost:1455/auth/callback can't be used"
        ):
            await method.log_in(User(None))
        with pytest.raises(LoginFailed, match="the pasted code belongs to another login"):
            await method.log_in(User("x#y", "x#y", "x#y", "never asked for"))
    await close_clients()


async def test_a_port_that_is_about_to_be_left_is_waited_for(
    server: BrowserServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the login that a later one replaces."""
    with registered_port():
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 1455))
        other.listen()
        attempts: list[int] = []

        def attempt(port: int, *words: Any, **named: Any) -> Any:
            attempts.append(port)
            if len(attempts) == 3:
                other.close()
            return loopback_redirect(port, *words, **named)

        monkeypatch.setattr(browser_login, "loopback_redirect", attempt)
        user = User(lambda page: server.redirect(page.address))
        await method_at(server, tmp_path, "openai-codex").log_in(user)
        assert ([1455] * 3, True) == (attempts, user.pages[0].is_awaited)
    await close_clients()


async def test_a_page_that_is_no_address_of_the_web_is_not_shown(server: BrowserServer, tmp_path: Path) -> None:
    server.endpoint = "file:///etc/passwd"
    user = User()
    with pytest.raises(LoginFailed, match="Radius sent an authorizationEndpoint that is no https address"):
        await method_at(server, tmp_path, "radius").log_in(user)
    await close_clients()
    assert [] == user.pages


def test_each_provider_has_the_ways_of_its_vendor(tmp_path: Path) -> None:
    for provider, vendor in VENDORS.items():
        assert bool(vendor.device_path) == (device_login_of(provider, tmp_path) is not None)
        assert (vendor.browser is not None) == (browser_login_of(provider, tmp_path) is not None)
    assert (None, None) == (browser_login_of("groq", tmp_path), device_login_of("groq", tmp_path))


@pytest.mark.parametrize(
    ("pasted", "code"),
    [("https://h/cb?code=c&state=S", "c"), ("?code=c&state=S", "c"), ("c#S", "c"), ("c", "c"), ("a/b+c=", "a/b+c=")],
)
def test_forms_of_a_code(pasted: str, code: str) -> None:
    redirect = Redirect("http://127.0.0.1:1/cb", "/cb")
    redirect.state = "S"
    assert code == redirect.read(pasted)


# The command


def test_the_command_logs_in_by_the_browser_or_a_line_of_stdin(server: BrowserServer, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"logins": {"openrouter": {"url": server.url}}}))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "PI_CODING_AGENT_DIR": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "auth", "login"]

    for is_pasted in (False, True):
        process = subprocess.Popen(
            [*command, "openrouter", "--browser"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        assert process.stdin is not None
        assert process.stderr is not None
        assert "To log in to OpenRouter, open" in process.stderr.readline()
        back = server.redirect(process.stderr.readline().strip())
        if is_pasted:
            process.stdin.write(f"nonsense://x\n{back}\n")
            process.stdin.flush()
        else:
            check(visit(back))
        out, err = process.communicate()
        assert (0, is_pasted) == (process.returncode, "belongs to another login" in err), err
        assert out == f"openrouter: logged in; the login is stored in {tmp_path / 'auth.json'}\n"
        assert MARK not in out + err
        assert KEY == json.loads((tmp_path / "auth.json").read_text())["openrouter"]["access"]
        (tmp_path / "auth.json").unlink()

    for words, problem in (
        (
            ["xai", "--browser"],
            "no login in a browser for xai, only for openai-codex, radius, openrouter: use --device",
        ),
        (["openrouter", "--device-code"], "no login with a code for openrouter, only for "),
        (["openai", "--browser"], "store a key instead"),
        (["radius", "--browser", "--device-code"], "--device-code can't be combined with --browser"),
    ):
        done = subprocess.run([*command, *words], env=env, capture_output=True, text=True, check=False)
        assert problem in done.stderr
        assert done.returncode
