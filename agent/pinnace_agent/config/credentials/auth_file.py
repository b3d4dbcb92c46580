"""Changes auth.json, one provider at a time: stores and removes keys.

pi stores its logins in the same file, and refreshes them under the same lock; they stay as they are, and so does every
field of an entry that this program does not know. The file is readable for the user alone from the first write.
`auth.json.bak`, as private, has the same content, in case another program is stopped while it writes: an older copy
would still contain removed keys. Shows no key.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pinnace_agent.config.credentials.logins import Login, LoginFailed, read_login
from pinnace_agent.files.file_lock import WAIT_S, wait_on
from pinnace_agent.files.json_file import FileForm, JsonEdit, LockedFile, edit_object, pretty
from pinnace_agent.files.relaxed_json import JsonObject, is_object
from pinnace_agent.redaction.policy import Secret

_FORM: Final = FileForm(pretty, has_backup=True, is_private=True)


class LoginInTheWay(Exception):
    """The provider has a login of pi's, which is not overwritten by accident."""


def store_key(
    path: Path,
    provider: str,
    key: Secret | None,
    *,
    replaces_login: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
    check: Callable[[], None] = wait_on,
) -> JsonEdit:
    """Store a key for a provider, in place of its former one.

    Args:
        path: auth.json; it is made if there is none.
        provider: Its id.
        key: As in the file: the key itself, `$NAME` or `!command`; None: variables alone, in place of a former key.
        replaces_login: Whether to overwrite a login.
        variables: Of the provider alone, for `env` of its entry; others there stay.
        check: What it raises ends the waiting for the lock.

    Raises:
        LoginInTheWay: There is a login, and `replaces_login` is false.
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not release its lock.
        OSError: It can't be written.
    """

    def change(content: JsonObject) -> JsonObject:
        old = content.get(provider)
        if _is_login(old) and not replaces_login:
            raise LoginInTheWay
        kept = old if is_object(old) and old.get("type") == "api_key" else {}
        former = kept.get("env")
        env = {"env": {**(former if is_object(former) else {}), **variables}} if variables else {}
        kept = {name: value for name, value in kept.items() if name != "key"}
        stored = {} if key is None else {"key": key.reveal()}
        content[provider] = {"type": "api_key", **stored, **kept, **env}
        return content

    return edit_object(path, change, _FORM, check)


def store_login(path: Path, provider: str, login: Login, *, check: Callable[[], None] = wait_on) -> JsonEdit:
    """Store a login for a provider, in place of its former entry. As `store_key`, but for LoginInTheWay."""

    def change(content: JsonObject) -> JsonObject:
        content[provider] = login.reveal()
        return content

    return edit_object(path, change, _FORM, check)


class LockedAuth:
    """auth.json, locked while a login is refreshed."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, descriptors: Sequence[int] = ()) -> None:
        """Take the lock, waiting in this thread. Arguments and errors as of `LockedFile`."""
        self._path = path
        self._file = LockedFile(path, wait_s, descriptors)

    @property
    def descriptors(self) -> list[int]:
        """What another process needs to hold the lock when this one leaves it."""
        return self._file.descriptors

    def login(self, provider: str) -> Login | None:
        """Return the login that the file stores now."""
        entry = self._file.read().get(provider)
        if not is_object(entry) or not _is_login(entry):
            return None
        try:
            return read_login(entry)
        except ValueError as error:
            raise LoginFailed(f"the login in auth.json can't be read: {error}") from None

    def store(self, provider: str, former: Login, login: Login) -> None:
        """Store a refreshed login in place of the login that it was refreshed from; never over a newer one."""

        def change(content: JsonObject) -> JsonObject:
            entry = content.get(provider)
            if is_object(entry) and _is_login(entry) and entry.get("refresh") == former.refresh_token:
                content[provider] = login.reveal()
            return content

        if self._file.edit(change, _FORM) is None:  # suspended for so long that another process took the lock over
            self.release()
            edit_object(self._path, change, _FORM)

    def release(self) -> None:
        """Release the lock. Idempotent; without effect once it was left to another process."""
        self._file.release()

    def leave(self) -> None:
        """Leave the lock to a process that has its descriptors. The login can still be read."""
        self._file.leave()


def remove_entry(
    path: Path, provider: str, *, removes_login: bool = False, check: Callable[[], None] = wait_on
) -> JsonEdit:
    """Remove the entry of a provider. Raises what `store_key` does."""

    def change(content: JsonObject) -> JsonObject:
        if _is_login(content.get(provider)) and not removes_login:
            raise LoginInTheWay
        content.pop(provider, None)
        return content

    # A file is not created in order to remove from it.
    return edit_object(path, change, _FORM, check) if path.exists() else JsonEdit(is_changed=False)


def _is_login(entry: object) -> bool:
    return is_object(entry) and entry.get("type") == "oauth"
