"""The sign-ins to servers in `mcp-auth.json`, whose shape, locks and keys are the original's.

An entry belongs to a server's name and address, so two names of one address are two accounts. Fields that this program
does not know stay. An entry whose shape it does not understand stays as well, and the sign-in of this program gets a
key of its own, `pinnace|…`. Every token that is read or written is known to the redactor. Knows no HTTP.
"""

import hashlib
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from pydantic_core import Url

from pinnace_agent.config.credentials.logins import is_token
from pinnace_agent.config.server_entries import namespace
from pinnace_agent.files.file_lock import FileLock, LockHeld, take_lock
from pinnace_agent.files.folders import make_folder
from pinnace_agent.files.json_file import FileForm, LockedFile, edit_object, pretty
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_object, read_object
from pinnace_agent.redaction.redactor import REDACTOR

FILE_NAME: Final = "mcp-auth.json"

# The original's figures for the lock of a refresh: it renews its lock every ten seconds, so ten would be too few.
_STALE_S: Final = 20.0
_WAIT_S: Final = 25.0
_POLL_S: Final = 0.1
_SECRETS: Final = ("access_token", "refresh_token", "id_token")


class StoredCredentials:
    """What is stored for one server. Shown without its contents."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        """Take the fields of an entry that is understood."""
        self._fields = fields

    def __repr__(self) -> str:
        """Return the same for every entry."""
        return "StoredCredentials(...)"

    @property
    def tokens(self) -> JsonObject:
        """The answer of the token endpoint; empty: there is none."""
        return self._object("tokens")

    @property
    def access_token(self) -> str | None:
        """What requests carry; None: nothing is stored."""
        token = self.tokens.get("access_token")
        return token if isinstance(token, str) else None

    @property
    def refresh_token(self) -> str | None:
        """What gets another access token; None: nothing does."""
        token = self.tokens.get("refresh_token")
        return token if isinstance(token, str) and token else None

    @property
    def client(self) -> JsonObject:
        """This program, or the original, as it is registered with the authorization server; empty: it is not."""
        return self._object("clientInformation")

    @property
    def discovery(self) -> JsonObject:
        """Where the authorization server is, and its metadata; empty: not known."""
        return self._object("discovery")

    def expires_within(self, seconds: float) -> bool:
        """Return whether the access token is known to expire by then."""
        expires_ms = self._fields.get("tokensExpireAt")
        is_number = isinstance(expires_ms, int | float) and not isinstance(expires_ms, bool)
        return is_number and float(str(expires_ms)) <= (time.time() + seconds) * 1000

    def _object(self, name: str) -> JsonObject:
        value = self._fields.get(name)
        return dict(value) if is_object(value) else {}


NOTHING: Final = StoredCredentials({})


class Credentials:
    """The sign-in to one server."""

    def __init__(self, folder: Path, name: str, url: str) -> None:
        """Read nothing yet.

        Args:
            folder: That of the agent.
            name: Of the server.
            url: Of the server, as configured.
        """
        self._path = folder / FILE_NAME
        # As the original's runtime writes addresses.
        self.url: Final = str(Url(url))
        """The address that the sign-in is for."""
        self._key = f"{namespace(name)}|{self.url}"
        self._own_key = f"pinnace|{self._key}"

    def load(self) -> StoredCredentials:
        """Return what is stored now. Blocking.

        Raises:
            ConfigurationFileError: The file can't be read.
            LockHeld: Another program does not release it.
            OSError: The file can't be read.
        """
        try:
            states = read_object(self._path, is_relaxed=False) or {}
        except ConfigurationFileError:
            if not self._path.exists():
                raise
            # The original writes in place, so this may have been half of it.
            file = LockedFile(self._path)
            try:
                states = file.read()
            finally:
                file.release()
        for each in states.values():
            _learn(each)
        key = self._found(states)
        state = None if key is None else states[key]
        return StoredCredentials(state) if is_object(state) else NOTHING

    def save(self, changes: Mapping[str, object]) -> None:
        """Change fields of the entry; None removes one. Blocking. Raises as `load` does."""
        _learn(changes)

        def change(content: JsonObject) -> JsonObject:
            key = self._found(content)
            former = content.get(key) if key is not None else None
            target = self._key if self._is_usable(content.get(self._key, {})) else self._own_key
            state = {**(former if is_object(former) else {}), "serverUrl": self.url, **changes}
            if key is not None and key != target:
                del content[key]
            content[target] = {name: value for name, value in state.items() if value is not None}
            return content

        edit_object(self._path, change, _FORM)

    def remove(self) -> bool:
        """Remove what is stored, and return whether there was anything. Blocking. Raises as `load` does."""
        removed: list[str] = []

        def change(content: JsonObject) -> JsonObject:
            legacy = self.url if self._key not in content else self._key
            removed[:] = [key for key in dict.fromkeys((self._key, legacy, self._own_key)) if key in content]
            for key in removed:
                del content[key]
            return content

        if self._path.exists():
            edit_object(self._path, change, _FORM)
        return bool(removed)

    @asynccontextmanager
    async def refreshing(self) -> AsyncGenerator[None, None]:
        """Be the only process that refreshes these tokens, also beside the original. Cancelling ends the wait.

        Raises:
            LockHeld: Another process does not release the lock.
            OSError: The folder can't be written.
        """
        digest = hashlib.sha256(self._key.encode()).hexdigest()[:16]
        place = self._path.with_name(f"mcp-auth-refresh-{digest}")
        await trio.to_thread.run_sync(make_folder, place.parent)
        lock: FileLock | None = None
        deadline_s = trio.current_time() + _WAIT_S
        while lock is None:
            try:
                lock = await trio.to_thread.run_sync(lambda: take_lock(place, 0, _STALE_S))
            except LockHeld:
                if trio.current_time() > deadline_s:
                    raise
                await trio.sleep(_POLL_S)
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lock.release)

    def _found(self, states: JsonObject) -> str | None:
        """Return the key of the entry that is used: by name and address, by address alone as once, or our own."""
        if self._key in states and self._is_usable(states[self._key]):
            return self._key
        if self._key not in states and self.url in states and self._is_usable(states[self.url]):
            return self.url
        return self._own_key if self._is_usable(states.get(self._own_key)) else None

    def _is_usable(self, state: object) -> bool:
        """Return whether an entry is understood, and is one of this address."""
        if not is_object(state):
            return False
        tokens, client = state.get("tokens", {}), state.get("clientInformation", {})
        return (
            state.get("serverUrl", self.url) == self.url
            and is_object(tokens)
            and is_object(client)
            and is_object(state.get("discovery", {}))
            and (not tokens or is_token(tokens.get("access_token")))
            and (not client or isinstance(client.get("client_id"), str))
        )


def _written(content: JsonObject) -> str:
    return f"{pretty(content)}\n"


_FORM: Final = FileForm(_written, is_private=True)


def _learn(state: object) -> None:
    if not is_object(state):
        return
    for name, keys in (("tokens", _SECRETS), ("clientInformation", ("client_secret", "registration_access_token"))):
        if is_object(fields := state.get(name)):
            REDACTOR.learn(*(value for key in keys if isinstance(value := fields.get(key), str)))
    if isinstance(verifier := state.get("codeVerifier"), str):
        REDACTOR.learn(verifier)
