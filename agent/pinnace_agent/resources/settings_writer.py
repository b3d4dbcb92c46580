"""Changes single settings in a settings.json and leaves everything else in it as it is.

For those who keep a choice of the user's: commands of the protocol change the session and never come here (R-SET-03).
pi may change the same file at the same time. A file that can't be read is not written.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace_agent.resources.json_file import FileForm, edit_object, pretty
from pinnace_agent.resources.relaxed_json import ConfigurationFileError, JsonObject, is_object
from pinnace_agent.resources.settings_migration import migrated

_FORM: Final = FileForm(pretty, backup="before")


class Removed:
    """Stands for the value of a setting that is to be removed."""


REMOVED: Final = Removed()


def change_settings(path: Path, changes: Mapping[tuple[str, ...], object]) -> bool:
    """Set or remove settings; return whether that changed the file. What was there stays in `settings.json.bak`.

    When this returns it is on the disk; if it raises, the file is as it was. Waits for other programs, so it is not to
    be called in the event loop's thread.

    Args:
        path: The file; it is made if there is none.
        changes: Values of JSON or `REMOVED`, by the keys that lead to them: `("compaction", "enabled")`.

    Raises:
        ConfigurationFileError: The file can't be read, or has something else in the place of an object on the way.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written.
    """

    def change(content: JsonObject) -> JsonObject:
        content = migrated(content)
        for keys, value in changes.items():
            _set(content, keys, value)
        return content

    return edit_object(path, change, _FORM).is_changed


def _set(content: JsonObject, keys: tuple[str, ...], value: object) -> None:
    *groups, member = keys
    for depth, group in enumerate(groups, 1):
        inner = content.get(group)
        if inner is None:
            if value is REMOVED:
                return
            inner = content[group] = {}
        if not is_object(inner):
            raise ConfigurationFileError(f"{'.'.join(keys[:depth])}: must be an object")
        content = inner
    if value is REMOVED:
        content.pop(member, None)
    else:
        content[member] = value
