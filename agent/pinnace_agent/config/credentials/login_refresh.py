"""Refreshes logins of auth.json under the lock that pi takes too.

Each provider has at most one refresh task, which all requests share. A refresh by another process is detected under the
lock, so of all processes of a user one asks the authorisation server, and the others wait for what it stores.

A refresh token may be good once: what its use has brought must reach the file. The logins of this program itself are
refreshed by a process of its own (`refresh_program`), which gets the lock with it and outlives this one, however that
ends. What code of an extension refreshes is exchanged here; a request that is cancelled does not stop it. Shows no
token.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final, cast

import trio

from pinnace_agent.config.credentials.auth_file import LockedAuth
from pinnace_agent.config.credentials.logins import Login, LoginFailed, LoginMethod, new_login
from pinnace_agent.core.finishing import finish_within
from pinnace_agent.files.file_lock import WAIT_S
from pinnace_agent.files.relaxed_json import JsonObject, is_object
from pinnace_agent.shell.child_processes import Child, children

# One exchange with an authorisation server; the lock of auth.json is held meanwhile.
REFRESH_LIMIT_S: Final = 30.0
LOCK_LIMIT_S: Final = REFRESH_LIMIT_S + WAIT_S
"""How long to wait for the lock: another process may be asking a slow server for the same login."""
_PROGRAM: Final = "pinnace_agent.config.credentials.refresh_program"
_REAP_LIMIT_S: Final = 1.0


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

    async def valid(self, provider: str, login: Login, method: LoginMethod | None) -> Login:
        """Return a login that has not expired: this one or a refreshed one.

        Cancelling lets a refresh finish and store its login.

        Args:
            provider: Its id.
            login: As this process knows it.
            method: How the provider refreshes it; None: this program does it itself (`vendor_logins`).

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

    async def _work(self, provider: str, method: LoginMethod | None, refresh: _Refresh) -> None:
        """Refresh. Raises nothing."""
        try:
            refresh.login = await self._refreshed(provider, method)
        except BaseException as error:  # the boundary: code of an extension may raise anything
            refresh.failure = _reason(error)
        finally:
            del self._refreshing[provider]
            refresh.done.set()

    async def _refreshed(self, provider: str, method: LoginMethod | None) -> Login:
        lock = await _locked(self._path)
        try:
            login = await trio.to_thread.run_sync(lock.login, provider)
            if login is None:
                raise LoginFailed("auth.json has no login for it any more")
            if login.is_valid:  # another process was faster
                return login
            if method is None:
                return await _refreshed_apart(self._path, provider, lock)
            return await _refreshed_here(provider, login, method, lock)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lock.release)


async def exchange(provider: str, login: Login, method: LoginMethod, lock: LockedAuth) -> Login:
    """Have a provider refresh a login, and store what it returns.

    Raises:
        LoginFailed: What it returns has expired.
        ValueError: It is no login. Other errors are those of the method, of the lock and of the file.
    """
    refreshed = new_login({**login.reveal(), **_object(await method.refresh(login.reveal()))})
    if not refreshed.is_valid:
        raise LoginFailed("what refresh_token returned has expired already")
    await trio.to_thread.run_sync(lock.store, provider, login, refreshed)
    return refreshed


async def _refreshed_here(provider: str, login: Login, method: LoginMethod, lock: LockedAuth) -> Login:
    """Refresh in this process, whose end it delays by three seconds at most."""
    refreshed: list[Login] = []

    async def work() -> None:
        refreshed.append(await exchange(provider, login, method, lock))

    if not await finish_within(REFRESH_LIMIT_S, work):
        raise LoginFailed(f"no answer came for {REFRESH_LIMIT_S:g} s")
    return refreshed[0]


async def _refreshed_apart(path: Path, provider: str, lock: LockedAuth) -> Login:
    """Leave the lock and the refresh to a process of its own, and wait for it. It goes on when this is cancelled."""
    words = [sys.executable, "-P", "-m", _PROGRAM, provider, str(path), *map(str, lock.descriptors)]
    child: Child | None = None
    with trio.CancelScope(shield=True):  # once it is started, the lock is its own
        child = await children().start(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            is_outside=True,
            pass_fds=lock.descriptors,
        )
        child.release()
        await trio.to_thread.run_sync(lock.leave)
    said = bytearray()
    status: int | None = None
    assert child is not None
    assert child.process.stdout is not None
    async with child.process.stdout:
        with trio.move_on_after(REFRESH_LIMIT_S) as scope:
            async for piece in child.process.stdout:
                said += piece
            status = await child.reap(_REAP_LIMIT_S)
    login = await trio.to_thread.run_sync(lock.login, provider)
    if login is not None and login.is_valid:
        return login
    if scope.cancelled_caught:
        raise LoginFailed(f"no answer came for {REFRESH_LIMIT_S:g} s")
    raise LoginFailed(_reported(said) or f"the process that refreshes it has ended with status {status}")


def _reported(said: bytes | bytearray) -> str:
    """Return why the process has failed, in its own words."""
    try:
        return str(json.loads(said))
    except ValueError:
        return ""


class _Taking:
    """Takes the lock in a thread, which can be given up."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._deciding = threading.Lock()
        self._is_given_up = False
        self._lock: LockedAuth | None = None

    def take(self) -> LockedAuth:
        lock = LockedAuth(self._path, LOCK_LIMIT_S)
        with self._deciding:
            if not self._is_given_up:
                self._lock = lock
                return lock
        lock.release()
        return lock

    def give_up(self) -> None:
        """Give back the lock: now, or when the thread gets it."""
        with self._deciding:
            self._is_given_up = True
        if self._lock is not None:
            self._lock.release()


async def _locked(path: Path) -> LockedAuth:
    """Take the lock. Cancelling does not wait for it. Raises as `LockedFile` does."""
    taking = _Taking(path)
    try:
        return await trio.to_thread.run_sync(taking.take, abandon_on_cancel=True)
    except trio.Cancelled:
        taking.give_up()
        raise


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
