"""What the words of a command line mean: the options of one process, or a refusal.

Every option that a client of pi passes is accepted. One that means nothing without a terminal is accepted and
ignored; one whose loss would be noticed (a saved session) is refused. Unknown options are refused by name; a long one
may be an extension's, so it is only taken out if there may be any. Texts never repeat a value that may be a key or a
prompt. Must not read files, nor import anything slow.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import click

from pinnace_rpc.command import COMMAND
from pinnace_rpc.mode_choice import amount, choose_mode, count, marked_prompts, unmarked
from pinnace_rpc.not_here import RESUME, NotHere
from pinnace_rpc.option_words import no_such_option, places_of_taken, split_options
from pinnace_rpc.options import (
    ON_EOF,
    PROFILE_VARIABLE,
    TOOL_APPROVALS,
    ExportOptions,
    OnEof,
    Options,
    ToolApproval,
)
from pinnace_spec.messages import THINKING_LEVELS, ThinkingLevel
from pinnace_spec.profiles import CLIENT_PROFILES, ClientProfile

# The letters are those of pi. The length leaves room for a date and an ending in a file's name of 255 bytes.
_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9])?")

# What goes into records as it is given. Paths are not among them: their bytes are looked for in the file system.
_NAMES: Final = ("provider", "model", "models", "list_models", "name", "tools", "exclude_tools")


class RefusedOption(click.ClickException):
    """What was asked for is understood and not possible."""

    exit_code = 1


def parse_arguments(arguments: Sequence[str], env: Mapping[str, str], *, is_at_terminal: bool = False) -> Options:
    """Turn the words of a command line into options.

    Args:
        arguments: All words but the program's name.
        env: The environment.
        is_at_terminal: stdin and stdout are both one.

    Raises:
        click.UsageError: They make no sense (exit code 2).
        NotHere: They ask for what only pi has (exit code 2).
        RefusedOption: They ask for something that is not there (exit code 1).
        click.exceptions.Exit: `--help` or `--version` has been answered.
    """
    found = split_options(marked_prompts(arguments), COMMAND.params)
    with COMMAND.make_context("pinnace", found.known, obj=arguments) as context:
        given: dict[str, Any] = context.params  # Any: click knows the types only at run time
    words, taken = places_of_taken(given["messages"])
    given["messages"] = unmarked(words)
    may_have_extensions = given["list_models"] is None and given["export"] is None
    may_have_extensions &= bool(given["extension"]) or not given["no_extensions"]
    if found.unknown and not may_have_extensions:
        raise no_such_option(found.unknown[0][0], COMMAND.params)
    for name in _NAMES:
        given[name] = _readable(given[name])
    if given["list_models"] is not None:
        # As in pi, nothing else counts then. A word that begins with @ is a file.
        search = given["list_models"]
        return Options(
            list_models="" if search.startswith("@") else search,
            extensions=given["extension"],
            no_extensions=given["no_extensions"],
            approved=_approved(given["approved"]),
        )
    if given["export"] is not None:
        return Options(export=_export(given))
    chosen = choose_mode(given["mode"], given["messages"], is_print=given["print"], is_at_terminal=is_at_terminal)
    if chosen.mode == "rpc":
        _check_messages(given["messages"])
    _check_session(given)
    _check_key(given)
    return Options(
        provider=given["provider"],
        model=given["model"],
        models=_items(given["models"]) or (),
        api_key=_not_empty("--api-key", given["api_key"]),
        api_key_file=_not_empty("--api-key-file", given["api_key_file"]),
        api_key_fd=_descriptor(given["api_key_fd"]),
        thinking=_level(given["thinking"]),
        system_prompt=given["system_prompt"],
        append_system_prompt=given["append_system_prompt"],
        skills=given["skill"],
        prompt_templates=given["prompt_template"],
        no_skills=given["no_skills"],
        no_prompt_templates=given["no_prompt_templates"],
        no_context_files=given["no_context_files"],
        extensions=given["extension"],
        no_extensions=given["no_extensions"],
        keeps_going=given["keep_going"],
        tool_approval=_approval(given["tool_approval"]),
        extension_flags=found.unknown,
        taken_words=tuple(_taken_words(found.unknown, taken, given["messages"])),
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
        approved=_approved(given["approved"]),
        protocol=_profile(given["protocol"], env),
        on_eof=_on_eof(given["on_eof"]),
        mode=chosen.mode,
        messages=chosen.messages,
        files=chosen.files,
        fails_on_error=given["fail_on_error"],
        max_turns=count("--max-turns", given["max_turns"]),
        max_cost=amount("--max-cost", given["max_cost"]),
        max_run_s=amount("--max-run-seconds", given["max_run_seconds"]),
        is_offline=given["offline"],
        verbose=given["verbose"],
        log_file=_not_empty("--log-file", given["log_file"]),
    )


def _taken_words(
    unknown: Sequence[tuple[str, str | None]], taken: Mapping[int, int], words: Sequence[str]
) -> Iterable[tuple[int, int]]:
    """Say where words would stand that unknown options took: among the messages, or among the files."""
    for option, place in taken.items():
        is_file = (unknown[option][1] or "").startswith("@")
        yield option, sum(word.startswith("@") is is_file for word in words[:place])


def _readable(text: str | None) -> str | None:
    """Replace bytes that are no UTF-8, which Python keeps as half characters and JSON can't hold."""
    return text if text is None else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _export(given: Mapping[str, Any]) -> ExportOptions:
    source = _not_empty("--export", given["export"])
    assert source is not None
    words: Sequence[str] = given["messages"]
    if len(words) > 1:
        raise click.UsageError("--export takes the session and one file to write")
    branch = given["export_branch"]
    if branch not in {None, "all", "active"}:
        raise click.UsageError("--export-branch takes all or active")
    return ExportOptions(source, words[0] if words else None, only_active=branch == "active")


def _check_messages(words: Sequence[str]) -> None:
    if not words:
        return
    if any(word.startswith("@") for word in words):
        raise RefusedOption("@file arguments are not supported in mode rpc")
    raise RefusedOption("messages on the command line are not supported in mode rpc: send a prompt on stdin")


def _check_key(given: Mapping[str, Any]) -> None:
    ways = [name for name in ("api_key", "api_key_file", "api_key_fd") if given[name] is not None]
    if len(ways) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in ways[:2])
        raise click.UsageError(f"{first} and {second} are two ways to give one key: take one of them")


def _descriptor(text: str | None) -> int | None:
    number = count("--api-key-fd", text)
    if number is not None and number <= 2:
        raise click.UsageError("--api-key-fd takes a descriptor from 3 on: 0 to 2 are stdin, stdout and stderr")
    return number


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
        raise NotHere(RESUME)


def _not_empty(flag: str, text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise click.UsageError(f"{flag} requires a value")
    return text.strip() if text is not None else None


def _items(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(item for part in text.split(",") if (item := part.strip()))


# DEVIATION D-60: what limits a run is understood, or nothing starts.
def _level(text: str | None) -> ThinkingLevel | None:
    if text is None:
        return None
    for level in THINKING_LEVELS:
        if level == text:
            return level
    near = get_close_matches(text.lower(), THINKING_LEVELS, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise click.UsageError(f"--thinking takes one of {', '.join(THINKING_LEVELS)}{hint}")


def _profile(flag: str | None, env: Mapping[str, str]) -> ClientProfile:
    source, text = ("--protocol", flag) if flag is not None else (PROFILE_VARIABLE, env.get(PROFILE_VARIABLE))
    if not text and flag is None:
        return "pi"
    for name in CLIENT_PROFILES:
        if name == text:
            return name
    raise click.UsageError(f"{source} takes one of {', '.join(CLIENT_PROFILES)}")


def _approved(text: str | None) -> bool | None:
    return None if text is None else text == "yes"


def _approval(text: str) -> ToolApproval:
    for mode in TOOL_APPROVALS:
        if mode == text:
            return mode
    raise click.UsageError(f"--tool-approval takes {', '.join(TOOL_APPROVALS[:-1])} or {TOOL_APPROVALS[-1]}")


def _on_eof(text: str) -> OnEof:
    for name in ON_EOF:
        if name == text:
            return name
    raise click.UsageError(f"--on-eof takes {' or '.join(ON_EOF)}")
