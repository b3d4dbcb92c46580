"""Changes auth.json, one provider at a time: keys that the user gives or takes back.

pi keeps its logins in the same file, and refreshes them under the same lock; they stay as they are, and so does every
field of an entry that this program does not know. The file is the user's alone: it is made so, and others lose the
right to read it when it is written. `auth.json.bak`, as private, has the same content, for the case that another
program is stopped while it writes: an older one would keep keys that were taken back. Shows no key.
"""

from pathlib import Path
from typing import Final

from pinnace_agent.resources.json_file import Edited, FileForm, edit_object, pretty
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
