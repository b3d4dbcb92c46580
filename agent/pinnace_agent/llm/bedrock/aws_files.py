"""AWS's own configuration: the profiles in the files `credentials` and `config` of `~/.aws`.

Decides which files are read, and what a profile holds: in `config` a section is `profile NAME`, except for `default`,
and what `credentials` says of the same profile takes precedence. A line that is no setting is passed over, as by AWS's
clients. Blocking. Independent of what settings mean. Source: AWS SDKs and Tools Reference, "Shared config and
credentials files".
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.files.paths import expand_home
from pinnace_agent.files.text_file import TextFileError, read_text_file

_PLACES: Final = (
    ("AWS_CONFIG_FILE", "~/.aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
)
PROFILE_VARIABLE: Final = "AWS_PROFILE"
_DEFAULT: Final = "default"


class Profile(NamedTuple):
    """A profile. Its settings may be secret."""

    name: str
    settings: Mapping[str, str]
    """Names in lower case. Empty: no file has the profile."""
    files: tuple[str, ...]
    """The files that were looked at, with what was wrong with them."""

    def __repr__(self) -> str:
        """Return the name alone."""
        return f"Profile({self.name!r})"


def profile_name(env: Mapping[str, str]) -> str:
    """Return the name of the profile in use."""
    return env.get(PROFILE_VARIABLE) or _DEFAULT


def read_profile(name: str, env: Mapping[str, str]) -> Profile:
    """Read a profile. A file that is missing or can't be read has none, and is named with the reason."""
    settings: dict[str, str] = {}
    files: list[str] = []
    for variable, usual in _PLACES:
        path = expand_home(env.get(variable) or usual, env)
        try:
            text = read_text_file(path)
        except TextFileError as error:
            files.append(f"{path} ({error.text})")
            continue
        files.append(path)
        settings |= _section(text, name, is_config=variable == "AWS_CONFIG_FILE")
    return Profile(name, settings, tuple(files))


def _section(text: str, name: str, *, is_config: bool) -> dict[str, str]:
    """Return the settings of a profile in a file; of a section that comes twice, all of them."""
    settings: dict[str, str] = {}
    is_inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if stripped.startswith("["):
            is_inside = _profile_of(stripped[1:].partition("]")[0], is_config=is_config) == name
        elif is_inside and line[:1] not in (" ", "\t"):  # an indented line belongs to the setting before it
            key, sign, value = stripped.partition("=")
            if sign:
                settings[key.strip().lower()] = _without_comment(value).strip()
    return settings


def _profile_of(section: str, *, is_config: bool) -> str | None:
    words = section.split(None, 1)
    if is_config and len(words) == 2:
        return words[1].strip("\"' \t") if words[0] == "profile" else None
    name = section.strip()
    return name if not is_config or name == _DEFAULT else None


def _without_comment(value: str) -> str:
    """Return a value without a comment behind it, which begins after a blank: keys hold neither."""
    for mark in (" #", " ;", "\t#", "\t;"):
        value = value.partition(mark)[0]
    return value
