"""Tokens that AWS's command line has stored in the user's files: read, refreshed when they end, and stored again.

A token is refreshed in its last five minutes, and the new one is stored in the same file, where AWS's own clients find
it: under a lock that other processes of this program take too, and to the end once it was asked for, since a refresh
token may be good once. While a token is good, a refresh that fails costs nothing.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.finishing import finish_within
from pinnace_agent.core.json_access import as_text
from pinnace_agent.files.file_lock import WAIT_S as LOCK_WAIT_S
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.json_file import FileForm, LockedFile, edit_object, pretty
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.llm.bedrock.identity.asking import WAIT_S, moment, written
from pinnace_agent.llm.bedrock.identity.sources import Unusable
from pinnace_agent.redaction.redactor import REDACTOR

_EARLY_S: Final = 300.0
_REFRESH_LIMIT_S: Final = WAIT_S + LOCK_WAIT_S
"""Another process may be asking a slow server for the same token."""
PRIVATE_FORM: Final = FileForm(pretty, is_private=True)

Refresh = Callable[[JsonObject], Awaitable[Mapping[str, object]]]
"""Takes what is stored, and returns the members that change. Raises `Unusable`."""


class StoredToken(NamedTuple):
    """A token in a file."""

    place: str
    """Which setting of which profile names it, for users."""
    path: Path
    sign_in: str
    """What the user does for a new one: `sign in with …`."""
    left_s: Callable[[JsonObject], float]
    """Returns for how long what is stored is good; zero or less: it is not."""
    secrets: Callable[[JsonObject], Sequence[str | None]]
    """Returns what of it is redacted from now on."""

    async def content(self, refresh: Refresh | None) -> JsonObject:
        """Return what is stored, after a refresh if it ends soon. `refresh`: None: it can't be refreshed.

        Raises:
            Unusable: There is none that is good.
        """
        content = await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        if refresh is not None and self.left_s(content) < _EARLY_S:
            content = await self._refreshed(content, refresh)
        if self.left_s(content) <= 0:
            raise Unusable(f"{self.place}: the token in {self.path} has expired: {self.sign_in}")
        return content

    def _read(self) -> JsonObject:
        """Read it. Blocking."""
        try:
            content = read_object(self.path, is_relaxed=False)
        except ConfigurationFileError as error:
            raise Unusable(f"{self.place}: {self.path}: {error}") from None
        if content is None:
            raise Unusable(f"{self.place}: there is no token in {self.path}: {self.sign_in}")
        return self._known(content)

    def _known(self, content: JsonObject) -> JsonObject:
        REDACTOR.learn(*self.secrets(content))
        return content

    async def _refreshed(self, content: JsonObject, refresh: Refresh) -> JsonObject:
        """Return what is stored after a refresh; the same as before if that fails while it is good."""
        refreshed: list[JsonObject] = []
        failures: list[str] = []

        async def work() -> None:
            try:
                refreshed.append(await self._refresh(refresh))
            except Unusable as why:
                failures.append(str(why))
            except (LockHeld, OSError, ConfigurationFileError) as error:
                failures.append(f"{self.place}: {self.path}: {error}")

        await finish_within(_REFRESH_LIMIT_S, work)
        if not refreshed and self.left_s(content) <= 0:
            failure = failures[0] if failures else f"{self.place}: no token came in time (timeout)"
            raise Unusable(f"{failure}; {self.sign_in}")
        return refreshed[0] if refreshed else content

    async def _refresh(self, refresh: Refresh) -> JsonObject:
        lock = await trio.to_thread.run_sync(LockedFile, self.path)
        try:
            stored = self._known(await trio.to_thread.run_sync(lock.read))
            if self.left_s(stored) >= _EARLY_S:  # another process was faster
                return stored
            new = self._known({**stored, **await refresh(stored)})
            await trio.to_thread.run_sync(self._store, lock, new)
            return new
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lock.release)

    def _store(self, lock: LockedFile, new: JsonObject) -> None:
        """Store what a refresh has brought, also if the lock was lost meanwhile. Blocking."""

        def change(old: JsonObject) -> JsonObject:
            return {**old, **new}

        if lock.edit(change, PRIVATE_FORM) is None:
            edit_object(self.path, change, PRIVATE_FORM)


def seconds_left(content: Mapping[str, object], member: str = "expiresAt") -> float:
    """Return for how long something is good; nothing if it does not say so."""
    try:
        return moment(as_text(content.get(member)) or "") - time.time()
    except (ValueError, OverflowError):
        return 0.0


def end_after(life_s: float) -> str:
    """Return when something ends that is good from now on, as AWS's clients write it."""
    return written(time.time() + life_s)
