"""Keys and logins in the terminal client, on a screen in memory, with real agents and a server that gives codes."""

import asyncio
import json
from pathlib import Path

from tests.agent.config.authorization_server import MARK, USER_CODE, AuthorizationServer
from tests.agent.config.browser_authorization import KEY as BOUGHT
from tests.agent.config.browser_authorization import BrowserServer, visit
from tests.rpc.tui.terminal import Screen, environment, terminal
from textual.widgets import Input

from pinnace_tui.screens import Dialog, InputDialog, Notice, Picker, SelectDialog

KEY = "skMarker0123456789abcdef"
AN_HOUR_S = 3600.0


def auth_file(folder: Path) -> Path:
    return folder / "home" / "agent" / "auth.json"


async def opened(screen: Screen, kind: type[Dialog | Picker]) -> None:
    await screen.until(lambda: isinstance(screen.app.screen, kind))


def test_a_key_is_chosen_entered_unseen_and_removed(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path) as screen:
            await screen.say("/login")
            await opened(screen, Picker)
            await screen.pilot.press(*"groq", "enter")
            await opened(screen, InputDialog)
            await screen.shows("Key of groq")
            await screen.press(*KEY)
            await screen.until(lambda: screen.app.screen.query_one(Input).value == KEY)
            assert "skMarker" not in screen.text
            await screen.press("enter")
            await screen.shows("groq: stored")
            assert json.loads(auth_file(tmp_path).read_text()) == {"groq": {"type": "api_key", "key": KEY}}

            await screen.press("up")
            assert KEY not in screen.editor.text
            screen.editor.put("")
            await screen.say("/logout groq")
            await screen.shows("groq: nothing is stored any more")
            assert json.loads(auth_file(tmp_path).read_text()) == {}
            await screen.say("/logout")
            await screen.shows("nothing is stored for any provider")

    asyncio.run(check())


def test_settings_are_asked_for_behind_the_key(tmp_path: Path) -> None:
    """And in the place of one, where a cloud has other credentials."""

    async def check() -> None:
        async with terminal(tmp_path) as screen:
            await screen.say("/login amazon-bedrock")
            await opened(screen, InputDialog)
            await screen.press("enter")
            await screen.shows("AWS_PROFILE of amazon-bedrock: the name of a profile")
            await screen.press(*"work", "enter")
            await screen.shows("AWS_REGION of amazon-bedrock")
            await screen.press("enter")
            await screen.shows("amazon-bedrock: stored")
            entry = {"type": "api_key", "env": {"AWS_PROFILE": "work"}}
            assert json.loads(auth_file(tmp_path).read_text()) == {"amazon-bedrock": entry}

    asyncio.run(check())


def test_what_is_refused_or_left_stores_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with terminal(tmp_path) as screen:
            await screen.say("/login gorq")
            await screen.shows("Provider not found: gorq")
            await screen.say("/login groq")
            await opened(screen, InputDialog)
            await screen.press("escape")
            await screen.until(lambda: not isinstance(screen.app.screen, InputDialog))
            await screen.say("/login groq")
            await opened(screen, InputDialog)  # a variable in old files
            await screen.press(*"HOME", "enter")
            await screen.shows("✗ Invalid login command: key must be the key itself")
            assert not auth_file(tmp_path).exists()

    asyncio.run(check())


def test_a_code_is_shown_until_its_login_has_ended(tmp_path: Path) -> None:
    """By Escape, by the server, and by the user's success."""
    env = environment(tmp_path)

    async def check(server: AuthorizationServer) -> None:
        async with terminal(tmp_path, env=env) as screen:
            await begin(screen)
            await screen.shows("Log in to xai", f"{server.url}/enter", USER_CODE)
            await screen.press("escape")
            await screen.shows("✗ ")
            await screen.until(lambda: not isinstance(screen.app.screen, Notice))
            assert not auth_file(tmp_path).exists()

            server.interval_s = 0.01
            server.pending = ["access_denied"]
            await begin(screen, is_awaited=False)
            await screen.shows("access_denied")
            assert not isinstance(screen.app.screen, Notice)

            await begin(screen, is_awaited=False)
            await screen.shows("xai: stored")
            await screen.until(lambda: len(screen.app.screen_stack) == 1)
            assert f"access1-{MARK}" == json.loads(auth_file(tmp_path).read_text())["xai"]["access"]

    async def begin(screen: Screen, *, is_awaited: bool = True) -> None:
        await screen.say("/login xai")
        await opened(screen, SelectDialog)
        await screen.shows("Log in with a code, in a browser")
        await screen.press("down", "enter")
        if is_awaited:
            await opened(screen, Notice)

    with AuthorizationServer() as server:
        server.interval_s = AN_HOUR_S
        (tmp_path / "home" / "agent" / "settings.json").write_text(json.dumps({"logins": {"xai": {"url": server.url}}}))
        asyncio.run(check(server))


def test_a_browser_is_awaited_until_its_login_has_ended(tmp_path: Path) -> None:
    """By Escape, by the browser, and by a paste."""
    env = environment(tmp_path)

    async def check(server: BrowserServer) -> None:
        async with terminal(tmp_path, env=env) as screen:
            await begin(screen)
            await screen.press("escape")
            await screen.shows("✗ The login was ended")
            assert not auth_file(tmp_path).exists()

            address = await begin(screen)
            status, _ = await asyncio.to_thread(visit, server.redirect(address))
            assert 200 == status
            await screen.shows("openrouter: stored")
            await screen.until(lambda: len(screen.app.screen_stack) == 1)
            assert BOUGHT == json.loads(auth_file(tmp_path).read_text())["openrouter"]["access"]

            await screen.say("/logout openrouter")
            await screen.shows("openrouter: nothing is stored any more")
            address = await begin(screen)
            await screen.press(*server.redirect(address).partition("?")[2].removeprefix("code="), "enter")
            await screen.until(lambda: "openrouter" in json.loads(auth_file(tmp_path).read_text()))

    async def begin(screen: Screen) -> str:
        await screen.say("/login openrouter")
        await opened(screen, SelectDialog)
        await screen.shows("Log in in a browser")
        await screen.press("down", "enter")
        await opened(screen, InputDialog)
        await screen.shows("Log in to openrouter", "/auth?callback_url")
        assert isinstance(screen.app.screen, InputDialog)
        return screen.app.screen._title.splitlines()[1]

    with BrowserServer() as server:
        logins = {"openrouter": {"url": server.url}}
        (tmp_path / "home" / "agent" / "settings.json").write_text(json.dumps({"logins": logins}))
        asyncio.run(check(server))
