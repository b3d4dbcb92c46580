"""Values of configuration files that may name a variable or a command instead of holding a secret.

`$NAME` and `${NAME}` inside a text are variables, `$$` is `$`, `$!` is `!`; a text that begins with `!` is a shell
command whose output is the value. A variable that is unset or empty leaves the whole value unresolved. Whether a value
is configured can be determined without running a command; the module that runs commands is imported with the first
one. Error texts contain neither a value nor a command.
"""

import re
from collections.abc import Mapping
from typing import Final

from pinnace_agent.redaction.policy import Secret

# Long enough for a password manager to ask for a fingerprint; a request to a model waits for it.
COMMAND_TIMEOUT_S: Final = 10.0

_VARIABLE = re.compile(r"\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")


class UnresolvedValue(Exception):
    """A value has no result. The text gives the reason, and holds neither the value nor a command."""


def is_command(value: Secret) -> bool:
    """Return whether the value is a command's output."""
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


def literal(text: Secret) -> Secret:
    """Return the value that stands for exactly this text: no part of it is a variable or a command."""
    written = text.reveal().replace("$", "$$")
    return Secret(f"${written}" if written.startswith("!") else written)


def variables_of(value: Secret) -> set[str]:
    """Return the names of the variables that a text holds; a command holds none."""
    if is_command(value):
        return set()
    return {name for _, braced, bare in _VARIABLE.findall(value.reveal()) if (name := braced or bare)}


def is_configured(value: Secret, env: Mapping[str, str]) -> bool:
    """Return whether a value is configured, and can be sent. Runs no command."""
    return problem_of(value, env) is None


def problem_of(value: Secret, env: Mapping[str, str]) -> str | None:
    """Return why a value can't be used, or None. Runs no command."""
    if is_command(value):
        return None
    try:
        _checked(interpolate(value, env))
    except UnresolvedValue as why:
        return str(why)
    return None


def _checked(text: str) -> str:
    """Return a text that a header can carry."""
    if not text:
        raise UnresolvedValue("it is empty")
    if not (text.isascii() and text.isprintable()):
        # Rejected here: the error of the HTTP client would repeat a part of it.
        raise UnresolvedValue("it holds a line break or another character that a header can't carry")
    return text


def legacy_variable(value: Secret, env: Mapping[str, str]) -> Secret:
    """Read a key that is exactly the name of a set variable as `$NAME`, which is its meaning in old files.

    Only for keys. A header such as `USER` must not turn into the user's login name.
    """
    text = value.reveal()
    if _VARIABLE_NAME.fullmatch(text) and env.get(text):
        return Secret(f"${text}")
    return value


async def resolve(value: Secret, env: Mapping[str, str], timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Return the text that a value stands for; a command is run anew each time.

    Cancelling kills the command's process group before `Cancelled` leaves.

    Raises:
        UnresolvedValue: A variable is not set; the command failed, printed nothing or took too long; or the result
            fits into no header.
    """
    if is_command(value):
        from pinnace_agent.shell.value_command import CommandFailed, output_of

        try:
            text = await output_of(value.reveal()[1:], env, timeout_s)
        except CommandFailed as error:
            raise UnresolvedValue(str(error)) from None
    else:
        import trio

        await trio.lowlevel.checkpoint()
        text = interpolate(value, env)
    return _checked(text)
