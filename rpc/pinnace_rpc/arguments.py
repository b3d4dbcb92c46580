"""What the words of a command line mean: the options of one process, or a refusal.

Every option that a client of pi passes is accepted. One that means nothing without a terminal is accepted and
ignored; one whose loss would be noticed (an extension, a saved session) is refused. Unknown options are
refused by name. Texts never repeat a value that may be a key or a prompt. Must not read files, nor import
anything slow.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from pinnace_rpc.command import COMMAND, PROFILE_VARIABLE
from pinnace_rpc.options import ON_EOF, OnEof, Options
from pinnace_spec.messages import THINKING_LEVELS, ThinkingLevel
from pinnace_spec.profiles import PROFILES, Profile

# The letters are those of pi. The length leaves room for a date and an ending in a file's name of 255 bytes.
_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")

# What goes into records as it is given. Paths are not among them: their bytes are looked for in the file system.
_NAMES: Final = ("provider", "model", "models", "name", "tools", "exclude_tools")

# Subcommands of pi that a user may try here.
_FOREIGN_COMMANDS: Final = frozenset({"auth", "config", "install", "list", "mcp", "remove", "uninstall", "update"})


class RefusedOption(click.ClickException):
    """What was asked for is understood and not possible."""

    exit_code = 1


class Arguments(NamedTuple):
    """The meaning of a command line."""

    options: Options
    notices: tuple[str, ...]
    """For stderr: what is different from what the user may expect."""


def parse_arguments(arguments: Sequence[str], env: Mapping[str, str]) -> Arguments:
    """Turn the words of a command line into options.

    Raises:
        click.UsageError: They make no sense (exit code 2).
        RefusedOption: They ask for something that is not there (exit code 1).
        click.exceptions.Exit: `--help` or `--version` has been answered.
    """
    with COMMAND.make_context("pinnace", list(arguments)) as context:
        given: dict[str, Any] = context.params  # Any: click knows the types only at run time
    for name in _NAMES:
        given[name] = _readable(given[name])
    _check_unavailable(given)
    _check_command(given["messages"])
    _check_mode(given)
    _check_messages(given["messages"])
    _check_session(given)
    notices: list[str] = []
    options = Options(
        provider=given["provider"],
        model=given["model"],
        models=_items(given["models"]) or (),
        api_key=_not_empty("--api-key", given["api_key"]),
        thinking=_level(given["thinking"], notices),
        system_prompt=given["system_prompt"],
        append_system_prompt=given["append_system_prompt"],
        tools=_items(given["tools"]),
        exclude_tools=_items(given["exclude_tools"]) or (),
        no_tools=given["no_tools"],
        no_builtin_tools=given["no_builtin_tools"],
        name=_not_empty("--name", given["name"]),
        session_id=given["session_id"],
        is_persistent=not given["no_session"],
        session=_not_empty("--session", given["session"]),
        continues=given["continue"],
        fork=_not_empty("--fork", given["fork"]),
        session_dir=_not_empty("--session-dir", given["session_dir"]),
        protocol=_profile(given["protocol"], env),
        on_eof=_on_eof(given["on_eof"]),
        verbose=given["verbose"],
    )
    for flag, values in (("--skill", given["skill"]), ("--prompt-template", given["prompt_template"])):
        if values:
            notices.append(f"{flag} is not available in this release and is ignored")
    return Arguments(options, tuple(notices))


def _readable(text: str | None) -> str | None:
    """Replace bytes that are no UTF-8, which Python keeps as half characters and JSON can't hold."""
    return text if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _check_mode(given: Mapping[str, Any]) -> None:
    match given["mode"]:
        case "rpc" if not given["print"]:
            return
        case None if not given["print"]:
            raise click.UsageError("there is no interactive mode: use --mode rpc (pinnace --help tells more)")
        case "rpc" | "text" | "json" | None:
            raise click.UsageError(
                "modes text and json (and --print) are not available in this release: use --mode rpc"
            )
        case _:
            raise click.UsageError("--mode takes rpc; text and json are not available in this release")


def _check_command(words: Sequence[str]) -> None:
    if words and words[0] in _FOREIGN_COMMANDS:
        raise RefusedOption(f"the command {words[0]} is not available in this release")


def _check_messages(words: Sequence[str]) -> None:
    if not words:
        return
    if any(word.startswith("@") for word in words):
        raise RefusedOption("@file arguments are not supported in mode rpc")
    raise RefusedOption("messages on the command line are not supported in mode rpc: send a prompt on stdin")


def _check_unavailable(given: Mapping[str, Any]) -> None:
    if given["extension"]:
        raise RefusedOption("--extension: extensions are not available in this release")
    for name in ("export", "list_models"):
        if given[name]:
            raise RefusedOption(f"--{name.replace('_', '-')} is not available in this release")


def _check_session(given: Mapping[str, Any]) -> None:
    opening = [name for name in ("session", "continue", "resume") if given[name]]
    if given["fork"] is not None and (opening or given["no_session"]):
        other = opening[0] if opening else "no-session"
        raise RefusedOption(f"--fork cannot be combined with --{other}")
    if given["session_id"] is not None:
        if opening:
            raise RefusedOption(f"--session-id cannot be combined with --{opening[0]}")
        if not _SESSION_ID.fullmatch(given["session_id"]):
            raise click.UsageError(
                "--session-id takes up to 200 letters, digits, dots, dashes and underscores, "
                "with a letter or digit at both ends"
            )
    # As in pi, --no-session and --session go before it.
    if given["resume"] and not given["no_session"] and given["session"] is None:
        raise RefusedOption(
            "--resume asks which session, which is not available in this release: use --session or --continue"
        )


def _not_empty(flag: str, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise click.UsageError(f"{flag} requires a value")
    return text.strip() if text is not None else None


def _items(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(item for part in text.split(",") if (item := part.strip()))


def _level(text: str | None, notices: list[str]) -> ThinkingLevel | None:
    if text is None:
        return None
    for level in THINKING_LEVELS:
        if level == text:
            return level
    # A warning, as in pi: clients pass on what their users configured for some other release.
    notices.append(f"--thinking takes one of {', '.join(THINKING_LEVELS)}; the value given is ignored")
    return None


def _profile(flag: str | None, env: Mapping[str, str]) -> Profile:
    source, text = ("--protocol", flag) if flag is not None else (PROFILE_VARIABLE, env.get(PROFILE_VARIABLE))
    if not text and flag is None:
        return "pi"
    for name in PROFILES:
        if name == text:
            return name
    raise click.UsageError(f"{source} takes one of {', '.join(PROFILES)}")


def _on_eof(text: str) -> OnEof:
    for name in ON_EOF:
        if name == text:
            return name
    raise click.UsageError(f"--on-eof takes {' or '.join(ON_EOF)}")
