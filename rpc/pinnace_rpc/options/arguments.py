"""Translates a command line into the options of one process, or refuses it.

Every option that a client of pi passes is accepted (`table`). Options that have no meaning without a terminal are
accepted and ignored; others that pinnace does not support are refused. Unknown options are refused by name; a long one
is set aside if there may be extensions, which may have registered it. Texts never repeat a value that may be a key or a
prompt. Must not read files, nor import anything slow.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from pinnace_rpc.options.options import PROFILE_VARIABLE, SERVING_MODES, ExportOptions, Mode, Options
from pinnace_rpc.options.parser import (
    HELP,
    CommandError,
    ParsedArguments,
    Scanner,
    TextRequested,
    UsageError,
    no_such_option,
)
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.table import NAMES, OPTIONS, SUBCOMMANDS
from pinnace_rpc.options.values import encodable

_Values = dict[str, Any]  # Any: the table names the type

# Mark the command line as a prompt, not a subcommand.
_PROMPTING: Final = frozenset({"-p", "--print", "--mode", "--"})
# As `difflib` measures: two letters exchanged in a word of four, and one left out or doubled in a word of six.
_NEAR: Final = 0.75
_VERY_NEAR: Final = 0.85
# A shorter word is similar to too many.
_SHORT: Final = 5
_GROUPS: Final = ("auth", "mcp", "host", "agents")
"""The subcommands with commands of their own, those of a shared name (`status`, `stop`) by precedence."""
_OPENING: Final[Mapping[str, str]] = {"session": "--session", "continues": "--continue", "resume": "--resume"}
"""The options that open an existing session, by field."""


def parse_arguments(arguments: Sequence[str], env: Mapping[str, str], *, is_at_terminal: bool = False) -> Options:
    """Turn the words of a command line into options.

    Args:
        arguments: All words but the program's name.
        env: The environment.
        is_at_terminal: stdin and stdout are both one.

    Raises:
        UsageError: They are not understood (exit code 2).
        UnsupportedFeatureError: They request a feature that only pi has (exit code 2).
        CommandError: They request something that can't be done (exit code 1).
        TextRequested: `--help` or `--version` has been answered.
    """
    found = Scanner(OPTIONS, keeps_unknown=True).scan(arguments)
    if found.requests:
        _answer(found.requests[0], arguments)
    given, words = found.values, found.words
    if given.get("as_json") and "list_models" not in given:
        # It may be an option of an extension, which had it before.
        found.unknown.append(("json", None))
        del given["as_json"]
    is_listing, is_exporting = "list_models" in given, "export" in given
    may_have_extensions = "extensions" in given or "no_extensions" not in given
    if found.unknown and (is_listing or is_exporting or not may_have_extensions):
        raise unknown_option(found.unknown[0][0])
    if is_listing:
        return Options(**_listing(given))
    if "login" in given:
        return Options(**_login(given))
    if is_exporting:
        return Options(export=_export(_read(given, ("export", "export_branch", "export_format")), words))
    if "export_format" in given:
        raise UsageError("--format is the format of an --export, which is missing")
    mode: Mode | None = _read(given, ("mode",)).get("mode")
    is_interactive = mode is None and is_at_terminal and "is_print" not in given
    mode = "rpc" if is_interactive else mode or "text"
    if is_interactive:
        _check_terminal(given, words)
    elif mode in SERVING_MODES:
        _check_messages(words, mode)
        if "message_id" in given:
            raise UsageError(f"--message-id is not supported in mode {mode}: `messageId` of a prompt does this")
    if mode == "acp":
        _check_sessions_are_the_clients(given)
    _check_session(given, is_interactive=is_interactive)
    _check_key(given)
    options = _read(given, Options._fields)
    if "protocol" not in options and (profile := env.get(PROFILE_VARIABLE)):
        options |= _read({"protocol": profile}, ("protocol",), source=PROFILE_VARIABLE)
    messages, files = _messages(words)
    options |= {"mode": mode, "messages": messages, "files": files}
    if is_interactive:
        options |= {"is_interactive": True, "opens_sessions": "resume" in given}
        options |= {"agent_flags": _agent_flags(arguments, found.places)}
    options |= {"extension_flags": tuple(found.unknown), "taken_words": tuple(_taken_words(found))}
    return Options(**options)


def unknown_option(name: str) -> UsageError:
    """Return the refusal of a long option, without its dashes, that neither the program nor an extension has."""
    if name == "json":
        return UsageError("--json is for commands that list something; --mode json prints the records of a question")
    return no_such_option(f"--{name}", NAMES)


def _answer(request: str, words: Sequence[str]) -> NoReturn:
    """Print the help or the version."""
    if request == HELP:
        from pinnace_rpc.options.help import manual

        echo(manual(words))
    else:
        from pinnace_rpc.options.shown.version import shown_version

        echo(shown_version())
    raise TextRequested


def _read(given: Mapping[str, Any], fields: Collection[str], source: str | None = None) -> _Values:
    """Return the values of some fields, parsed as the table requires; `source` names them in error texts."""
    values: _Values = {}
    for option in OPTIONS:
        if (field := option.field) is not None and field in fields and field in given:
            value = given[field]
            values[field] = value if option.read is None else option.read(source or option.names[0], value)
    return values


def _listing(given: Mapping[str, Any]) -> _Values:
    # As in pi, nothing else counts then. A word that begins with @ is a file.
    options = _read(given, ("list_models", "as_json", "extensions", "no_extensions", "approved"))
    return options | ({"list_models": ""} if options["list_models"].startswith("@") else {})


def _login(given: Mapping[str, Any]) -> _Values:
    # An editor appends the option to the command line of its agent, whose other options don't count.
    options = _read(given, ("login", "provider", "extensions"))
    return options | {"login": options["login"] or options.get("provider", "")}


def _export(given: Mapping[str, Any], words: Sequence[str]) -> ExportOptions:
    if len(words) > 1:
        raise UsageError("--export takes the session and one file to write")
    wanted, branch = given.get("export_format"), given.get("export_branch")
    if branch == "all" and wanted not in {None, "html"}:
        raise UsageError(f"--export-branch all is not supported with --format {wanted}, which has one branch")
    return ExportOptions(given["export"], words[0] if words else None, branch == "active", wanted)


def _check_terminal(given: Mapping[str, Any], words: Sequence[str]) -> None:
    """Refuse what the terminal client can't pass on to its agent."""
    if any(word.startswith("@") for word in words):
        raise CommandError("@file arguments are for -p; in the terminal client type @ in the editor")
    if "api_key_fd" in given:
        raise UsageError("--api-key-fd is not supported in the terminal client: use --api-key-file")


def _agent_flags(arguments: Sequence[str], places: Collection[int]) -> tuple[str, ...]:
    """Return the command line without messages and what the terminal client takes for itself."""
    messages = frozenset(places)
    return tuple(
        word for place, word in enumerate(arguments) if place not in messages and word not in {"--resume", "-r", "--"}
    )


def _check_messages(words: Sequence[str], mode: Mode) -> None:
    if not words:
        return
    if any(word.startswith("@") for word in words):
        raise CommandError(f"@file arguments are not supported in mode {mode}")
    raise CommandError(f"messages on the command line are not supported in mode {mode}: send a prompt on stdin")


def _check_sessions_are_the_clients(given: Mapping[str, Any]) -> None:
    """Refuse options that choose one session, or that can be used once: in mode acp there are any number."""
    for field, name in (*_OPENING.items(), ("fork", "--fork"), ("session_id", "--session-id"), ("name", "--name")):
        if given.get(field):
            raise UsageError(f"{name} is not supported in mode acp: the client opens sessions")
    for field, name in (("result_file", "--result-file"), ("has_detailed_exit_codes", "--exit-codes")):
        if field in given:
            raise UsageError(f"{name} is not supported in mode acp: a process has any number of sessions")
    if "on_eof" in given:
        raise UsageError("--on-eof is not supported in mode acp: the end of stdin ends every session")
    if "api_key_fd" in given:
        raise UsageError("--api-key-fd is not supported in mode acp, since it can be read once: use --api-key-file")


def _check_key(given: Mapping[str, Any]) -> None:
    ways = [f"--{name.replace('_', '-')}" for name in ("api_key", "api_key_file", "api_key_fd") if name in given]
    if len(ways) > 1:
        raise UsageError(f"{ways[0]} and {ways[1]} are two ways to give one key: use one of them")


def _check_session(given: Mapping[str, Any], *, is_interactive: bool) -> None:
    opening = [name for field, name in _OPENING.items() if given.get(field)]
    is_in_memory = "is_persistent" in given
    if "fork" in given and (opening or is_in_memory):
        raise CommandError(f"--fork cannot be combined with {opening[0] if opening else '--no-session'}")
    if "session_id" in given and opening and "hosted" not in given:  # a host names a session and its file
        raise CommandError(f"--session-id cannot be combined with {opening[0]}")
    # As in pi, --no-session and --session take precedence over it.
    if "resume" in given and not is_interactive and not is_in_memory and "session" not in given:
        from pinnace_rpc.options.unsupported import RESUME, UnsupportedFeatureError

        raise UnsupportedFeatureError(RESUME)


def _messages(words: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return messages and files: words that begin with `@`, without it."""
    each = tuple(words)
    messages = tuple(encodable(word) for word in each if not word.startswith("@"))
    return messages, tuple(word[1:] for word in each if word.startswith("@"))


def _taken_words(found: ParsedArguments) -> Iterable[tuple[int, int]]:
    """Return the place, among the messages or the files, of each word that an unknown option took."""
    for option, place in found.taken.items():
        is_file = (found.unknown[option][1] or "").startswith("@")
        yield option, sum(word.startswith("@") is is_file for word in found.words[:place])


def with_given_back(options: Options, places: Sequence[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the messages and the files, with the words that follow options which take no value.

    Args:
        options: The options before extensions were loaded.
        places: Those options, by their place among the options of extensions.
    """
    messages, files = list(options.messages), list(options.files)
    where = dict(options.taken_words)
    for option in reversed(places):  # in reverse, so that earlier places stay valid
        word = options.extension_flags[option][1] or ""
        if word.startswith("@"):
            files.insert(where[option], word[1:])
        else:
            messages.insert(where[option], encodable(word))
    return tuple(messages), tuple(files)


def refuse_misspelt_subcommand(words: Sequence[str]) -> None:
    """Refuse a command line of bare words whose first one resembles a subcommand: as a prompt it would cost money.

    Words with a space are prose, and `-p`, `--mode` or `--` mark a prompt. Names of pi's unsupported subcommands are
    compared as well. A word that stands alone is also compared with the commands of subcommands, such as `status`;
    with further words it may be prose that is not quoted.

    Raises:
        UsageError: The first word resembles a subcommand.
    """
    first = words[0] if words else ""
    is_meant = any(word.partition("=")[0] in _PROMPTING for word in words)
    if is_meant or not first or first[0] in "-@" or any(len(word.split()) != 1 for word in words):
        return
    from pinnace_rpc.options.unsupported import FOREIGN_COMMANDS, OTHER_NAMES
    from pinnace_spec.nearest import nearest

    near = OTHER_NAMES.get(first.lower()) or nearest(first, SUBCOMMANDS, _NEAR)
    near = near or nearest(first, FOREIGN_COMMANDS, _VERY_NEAR)
    if near is None and all(word.startswith("-") for word in words[1:]):
        commands = {name: f"{group} {name}" for group in reversed(_GROUPS) for name in SUBCOMMANDS[group][1]}
        del commands["test"]  # which an agent may well be asked to do
        near = commands.get(nearest(first, commands, _VERY_NEAR if len(first) < _SHORT else _NEAR) or "")
    if near is not None:
        raise UsageError(f"unknown subcommand {first}; did you mean {near}? To ask a model: pinnace -p {first}")
