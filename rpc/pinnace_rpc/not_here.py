"""What pi has and this program has not: the nearest way, one line each.

The README has the same lines; so does the answer to a command or a flag of pi that a user may try here. Must import
nothing slow, since every start loads it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import click


# DEVIATION D-41: asking for one of these is a mistake in the command line.
class Absence(NamedTuple):
    """Something that is not here."""

    topic: str
    instead: str


INTERACTIVE: Final = Absence(
    "Interactive mode",
    "ask with `pinnace -p TEXT`, or let a client speak to `pinnace --mode rpc`",
)
RESUME: Final = Absence(
    "A menu of sessions (`--resume`)",
    "`pinnace sessions` lists them; `--session ID` goes on with one, `--continue` with the newest",
)
PACKAGES: Final = Absence(
    "Installing packages (`install`, `remove`, `uninstall`, `list`)",
    "put skills and prompts into `~/.pi/agent` yourself, or with pi, which has the same folder",
)
CONFIG: Final = Absence(
    "A menu of settings (`config`)",
    "edit `~/.pi/agent/settings.json`; docs/settings.md describes it",
)
UPDATES: Final = Absence(
    "Updating itself (`update`)",
    "install a newer checkout with `scripts/setup`; it never looks for updates",
)
MCP: Final = Absence(
    "MCP (`mcp`)",
    "let the model call a program of the server's by `bash`, and describe it in `AGENTS.md`",
)
LOGIN: Final = Absence(
    "Built-in logins (OAuth)",
    "log in by an extension that registers the provider with `oauth`, or use a key: `pinnace auth login PROVIDER`; "
    "logins of pi are used while they are valid",
)
SHOWN_KEYS: Final = Absence(
    "Printing keys (`auth check`, `auth print-api-key`, `auth print-bearer-token`)",
    "`pinnace auth status PROVIDER` exits with 0 if there is a key; none is ever shown",
)
TYPESCRIPT: Final = Absence(
    "Extensions in TypeScript",
    "run those with pi, or write them in Python: docs/extensions.md",
)
WIDGETS: Final = Absence(
    "Terminal widgets, themes, key bindings",
    "the client draws; flags about them are accepted and ignored",
)

ABSENCES: Final = (
    INTERACTIVE,
    RESUME,
    PACKAGES,
    CONFIG,
    UPDATES,
    MCP,
    LOGIN,
    SHOWN_KEYS,
    TYPESCRIPT,
    WIDGETS,
)

FOREIGN_COMMANDS: Final[Mapping[str, Absence]] = {
    "config": CONFIG,
    "install": PACKAGES,
    "list": PACKAGES,
    "mcp": MCP,
    "remove": PACKAGES,
    "uninstall": PACKAGES,
    "update": UPDATES,
}
_AUTH_FORMS: Final[Mapping[str, Absence]] = {
    "check": SHOWN_KEYS,
    "print-api-key": SHOWN_KEYS,
    "print-bearer-token": SHOWN_KEYS,
}


class NotHere(click.ClickException):
    """What was asked for is a part of pi that this program leaves out."""

    exit_code = 2

    def __init__(self, absence: Absence) -> None:
        """Say what to do instead."""
        first = absence.topic.split()[0]
        is_acronym = len(first) > 1 and first.isupper()
        topic = absence.topic if is_acronym else absence.topic[0].lower() + absence.topic[1:]
        super().__init__(f"not here: {topic}. Instead: {absence.instead}".replace("`", ""))


def refuse_foreign_command(words: Sequence[str]) -> None:
    """Refuse a subcommand of pi's; only the first word of a command line is one.

    Raises:
        NotHere: It is one.
    """
    match words:
        case ["auth", form, *_] if form in _AUTH_FORMS:
            raise NotHere(_AUTH_FORMS[form])
        case [name, *_] if name in FOREIGN_COMMANDS:
            raise NotHere(FOREIGN_COMMANDS[name])
        case _:
            pass
