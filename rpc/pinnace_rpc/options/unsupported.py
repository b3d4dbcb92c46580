"""Features of pi that pinnace does not support, with an alternative, one line each.

docs/migrating-from-pi.md and the answers to the commands and flags of pi have the same lines. Must import
nothing slow, since every start loads it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_rpc.options.parser import CommandError


# DEVIATION D-41: to request one of these is a usage error.
class UnsupportedFeature(NamedTuple):
    """An unsupported feature of pi."""

    topic: str
    instead: str


RESUME: Final = UnsupportedFeature(
    "A menu of sessions (`--resume`) without a terminal",
    "`pinnace sessions` lists them; `--session ID` continues one, `--continue` the newest",
)
CONFIG: Final = UnsupportedFeature(
    "A menu of settings (`config`)",
    "edit `~/.pi/agent/settings.json`; docs/configuration.md describes it",
)
UPDATES: Final = UnsupportedFeature(
    "Updating itself and its models (`update --self`, `--all`, `--models`, `update pi`)",
    "install a newer checkout with `scripts/setup`; pinnace never looks for updates",
)
LOGIN: Final = UnsupportedFeature(
    "Built-in logins (OAuth) of providers other than `xai`, `kimi-coding`, `openai-codex`, `github-copilot`, "
    "`radius` and `openrouter`",
    "log in by an extension that registers the provider with `oauth`, or use a key: `pinnace auth login PROVIDER`, or "
    "the command `login` of the protocol; logins of pi are used while they are valid",
)
SHOWN_KEYS: Final = UnsupportedFeature(
    "Printing keys (`auth check`, `auth print-api-key`, `auth print-bearer-token`)",
    "`pinnace auth status PROVIDER` exits with 0 if there is a key; none is ever shown",
)
WIDGETS: Final = UnsupportedFeature(
    "Terminal widgets of extensions",
    "the client draws; flags about them are accepted and ignored",
)

ABSENCES: Final = (
    RESUME,
    CONFIG,
    UPDATES,
    LOGIN,
    SHOWN_KEYS,
    WIDGETS,
)

FOREIGN_COMMANDS: Final[Mapping[str, UnsupportedFeature]] = {
    "config": CONFIG,
}
OTHER_NAMES: Final[Mapping[str, str]] = {
    "extensions": "doctor",
    "help": "--help",
    "keys": "auth",
    "login": "auth",
    "logout": "auth",
    "models": "--list-models",
    "version": "--version",
}
"""Subcommands of other programs, and what has their effect here."""
_AUTH_FORMS: Final[Mapping[str, UnsupportedFeature]] = {
    "check": SHOWN_KEYS,
    "print-api-key": SHOWN_KEYS,
    "print-bearer-token": SHOWN_KEYS,
}


class UnsupportedFeatureError(CommandError):
    """The command line requests a feature of pi that pinnace does not support."""

    exit_code = 2

    def __init__(self, absence: UnsupportedFeature) -> None:
        """Name the alternative."""
        first = absence.topic.split()[0]
        is_acronym = len(first) > 1 and first.isupper()
        topic = absence.topic if is_acronym else absence.topic[0].lower() + absence.topic[1:]
        super().__init__(f"not supported: {topic}. Instead: {absence.instead}".replace("`", ""))


def refuse_foreign_command(words: Sequence[str]) -> None:
    """Refuse an unsupported subcommand of pi; only the first word of a command line is one.

    Raises:
        UnsupportedFeatureError: It is one.
    """
    match words:
        case ["auth", form, *_] if form in _AUTH_FORMS:
            raise UnsupportedFeatureError(_AUTH_FORMS[form])
        case [name, *_] if name in FOREIGN_COMMANDS:
            raise UnsupportedFeatureError(FOREIGN_COMMANDS[name])
        case _:
            pass
