"""Changes auth.json, one provider at a time: keys that the user gives or takes back.

pi keeps its logins in the same file, and refreshes them under the same lock; they stay as they are, and so does every
field of an entry that this program does not know. The file is the user's alone: it is made so, and others lose the
right to read it when it is written. `auth.json.bak`, as private, has the same content, for the case that another
program is stopped while it writes: an older one would keep keys that were taken back. Shows no key.
"""

from pathlib import Path
from typing import Final

from pinnace_agent.resources.json_file import Edited, FileForm, LockedFile, edit_object, pretty
from pinnace_agent.resources.logins import Login, LoginFailed, read_login
from pinnace_agent.resources.relaxed_json import JsonObject, is_object
from pinnace_agent.resources.values import Secret

_FORM: Final = FileForm(pretty, backup="after", is_private=True)


class LoginInTheWay(Exception):
    """The provider has a login of pi's, which is not to be lost by accident."""


def store_key(path: Path, provider: str, key: Secret, *, replaces_login: bool = False) -> Edited:
    """Keep a key for a provider, in the place of the one it had.

    Args:
        path: auth.json; it is made if there is none.
        provider: Its id.
        key: As in the file: a text, `$NAME` or `!command`.
        replaces_login: Whether a login gives way.

    Raises:
        LoginInTheWay: There is one, and it does not.
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written.
    """

    def change(content: JsonObject) -> JsonObject:
        old = content.get(provider)
        if _is_login(old) and not replaces_login:
            raise LoginInTheWay
        kept = old if is_object(old) and old.get("type") == "api_key" else {}
        content[provider] = {**kept, "type": "api_key", "key": key.reveal()}
        return content

    return edit_object(path, change, _FORM)


def store_login(path: Path, provider: str, login: Login) -> Edited:
    """Keep a login for a provider, in the place of what it had. Raises as `store_key` does, but for LoginInTheWay."""

    def change(content: JsonObject) -> JsonObject:
        content[provider] = login.reveal()
        return content

    return edit_object(path, change, _FORM)


class LockedAuth:
    """auth.json, locked while a login is refreshed."""

    def __init__(self, path: Path) -> None:
        """Take the lock, waiting in this thread. Raises as `LockedFile` does."""
        self._path = path
        self._file: LockedFile | None = LockedFile(path)

    def login(self, provider: str) -> Login | None:
        """Return the login that is stored now."""
        assert self._file is not None
        entry = self._file.read().get(provider)
        if not is_object(entry) or not _is_login(entry):
            return None
        try:
            return read_login(entry)
        except ValueError as error:
            raise LoginFailed(f"the login in auth.json can't be read: {error}") from None

    def store(self, provider: str, former: Login, login: Login) -> None:
        """Keep a refreshed login in the place of the one that it was refreshed from; never over a newer one."""

        def change(content: JsonObject) -> JsonObject:
            entry = content.get(provider)
            if is_object(entry) and _is_login(entry) and entry.get("refresh") == former.refresh_token:
                content[provider] = login.reveal()
            return content

        assert self._file is not None
        if self._file.edit(change, _FORM) is None:  # stopped for so long that another process took the lock over
            self.release()
            edit_object(self._path, change, _FORM)

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            self._file.release()
            self._file = None


def remove_entry(path: Path, provider: str, *, removes_login: bool = False) -> Edited:
    """Forget what is stored for a provider. Raises as `store_key` does."""

    def change(content: JsonObject) -> JsonObject:
        if _is_login(content.get(provider)) and not removes_login:
            raise LoginInTheWay
        content.pop(provider, None)
        return content

    # Nothing to remove is no reason to make a file.
    return edit_object(path, change, _FORM) if path.exists() else Edited(is_changed=False)


def _is_login(entry: object) -> bool:
    return is_object(entry) and entry.get("type") == "oauth"
