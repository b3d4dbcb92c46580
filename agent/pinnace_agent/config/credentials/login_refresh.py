"""Refreshes logins of auth.json under the lock that pi takes too.

Each provider has at most one refresh task, which all requests share. A refresh by another process is detected under the
lock. A cancelled request does not stop a refresh, since a refresh token may be usable only once. Shows no token.
"""

from pathlib import Path
from typing import Final, cast

import trio

from pinnace_agent.config.credentials.auth_file import LockedAuth
from pinnace_agent.config.credentials.logins import Login, LoginFailed, LoginMethod, new_login
from pinnace_agent.core.finishing import finish_within
from pinnace_agent.files.relaxed_json import JsonObject, is_object

# One exchange with an authorisation server; the lock of auth.json is held meanwhile.
REFRESH_LIMIT_S: Final = 30.0


class _Refresh:
    """One refresh, shared by the requests that wait for it."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.login: Login | None = None
        self.failure: str | None = None


class LoginStore:
    """The logins of one auth.json, for one process."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self._refreshing: dict[str, _Refresh] = {}

    async def valid(self, provider: str, login: Login, method: LoginMethod) -> Login:
        """Return a login that has not expired: this one or a refreshed one.

        Cancelling lets a refresh finish and store its login.

        Raises:
            LoginFailed: It can't be refreshed; the stored one is left as it is.
        """
        if login.is_valid:
            await trio.lowlevel.checkpoint()
            return login
        refresh = self._refreshing.get(provider)
        if refresh is None:
            refresh = self._refreshing[provider] = _Refresh()
            trio.lowlevel.spawn_system_task(self._work, provider, method, refresh, name=f"login of {provider}")
        await refresh.done.wait()
        if refresh.login is None:
            raise LoginFailed(refresh.failure or "it was not refreshed")
        return refresh.login

    async def _work(self, provider: str, method: LoginMethod, refresh: _Refresh) -> None:
        """Refresh; delays the end of the process by three seconds at most. Raises nothing."""

        async def work() -> None:
            refresh.login = await self._refreshed(provider, method)

        try:
            if not await finish_within(REFRESH_LIMIT_S, work):
                refresh.failure = f"no answer came for {REFRESH_LIMIT_S:g} s"
        except BaseException as error:  # the boundary: code of an extension may raise anything
            refresh.failure = _reason(error)
        finally:
            del self._refreshing[provider]
            refresh.done.set()

    async def _refreshed(self, provider: str, method: LoginMethod) -> Login:
        lock = await trio.to_thread.run_sync(LockedAuth, self._path)
        try:
            login = await trio.to_thread.run_sync(lock.login, provider)
            if login is None:
                raise LoginFailed("auth.json has no login for it any more")
            if login.is_valid:  # another process was faster
                return login
            refreshed = new_login({**login.reveal(), **_object(await method.refresh(login.reveal()))})
            if not refreshed.is_valid:
                raise LoginFailed("what refresh_token returned has expired already")
            await trio.to_thread.run_sync(lock.store, provider, login, refreshed)
            return refreshed
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lock.release)


def _object(value: object) -> JsonObject:
    if not is_object(value):
        raise ValueError("the refreshed credentials must be a dict with access, refresh and expires")
    return dict(value)


def _reason(error: BaseException) -> str:
    """Return why a refresh has failed."""
    leaf = error
    while isinstance(leaf, BaseExceptionGroup):
        leaf = cast("BaseExceptionGroup[BaseException]", leaf).exceptions[0]
    return str(leaf) or type(leaf).__name__
