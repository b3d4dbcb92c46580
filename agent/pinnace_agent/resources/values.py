"""Values of configuration files that may name a variable or a command instead of holding a secret.

`$NAME` and `${NAME}` inside a text are variables, `$$` is `$`, `$!` is `!`; a text that begins with `!` is a
shell command whose output is the value. A variable that is not set, or is empty, leaves the whole value
unresolved. Whether a value is there can be asked without running anything. Must not know which file a value
came from, nor load what runs commands before one is to be run. No text made here holds a value or a command.
"""

import re
from collections.abc import Mapping
from typing import Final

# Long enough for a password manager to ask for a fingerprint; a request to a model waits for it.
COMMAND_TIMEOUT_S: Final = 10.0

_VARIABLE = re.compile(r"\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")


class Secret:
    """A text that is never shown: not by `repr`, `str` or a traceback."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        """Return the same for every secret."""
        return "Secret(...)"

    def reveal(self) -> str:
        """Return the text; the caller sends it to the provider and keeps it nowhere."""
        return self._text


class UnresolvedValue(Exception):
    """The value can't be had. The text says why, and holds neither the value nor a command."""


def is_command(value: Secret) -> bool:
    """Tell whether the value is a command's output."""
    return value.reveal().startswith("!")


def interpolate(value: Secret, env: Mapping[str, str]) -> str:
    """Return the text with its variables replaced.

    Raises:
        UnresolvedValue: A variable is not set, or empty.
    """

    def replace(found: re.Match[str]) -> str:
        escaped, braced, bare = found.groups()
        if escaped:
            return str(escaped)
        name = braced or bare
        if not env.get(name):
            raise UnresolvedValue(f"the variable {name} is not set")
        return env[name]

    return _VARIABLE.sub(replace, value.reveal())


def is_configured(value: Secret, env: Mapping[str, str]) -> bool:
    """Tell whether a value is there, without running a command."""
    if is_command(value):
        return True
    try:
        return bool(interpolate(value, env))
    except UnresolvedValue:
        return False


def legacy_variable(value: Secret, env: Mapping[str, str]) -> Secret:
    """Read a key that is nothing but the name of a set variable as old files mean it: as `$NAME`.

    Only for keys. A header such as `USER` must not turn into somebody's login name.
    """
    text = value.reveal()
    if _VARIABLE_NAME.fullmatch(text) and env.get(text):
        return Secret(f"${text}")
    return value


async def resolve(value: Secret, env: Mapping[str, str], timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Return the text that a value stands for; a command is run anew each time.

    Cancelling kills the command's process group before `Cancelled` leaves.

    Raises:
        UnresolvedValue: A variable is not set, the command failed, said nothing or took too long, or the
            result fits into no header.
    """
    if is_command(value):
        from pinnace_agent.resources.value_command import output_of

        text = await output_of(value.reveal()[1:], env, timeout_s)
    else:
        import trio

        await trio.lowlevel.checkpoint()
        text = interpolate(value, env)
    if not text:
        raise UnresolvedValue("it is empty")
    if not (text.isascii() and text.isprintable()):
        # Refused here, since the HTTP client would complain later in words that repeat a part of it.
        raise UnresolvedValue("it holds a line break or another character that a header can't carry")
    return text
