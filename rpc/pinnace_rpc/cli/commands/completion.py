"""Shell completion: the scripts for bash, zsh and fish, and the completions that they request.

Flags come from the table of options; the user's models and providers are read from the files that `--list-models`
reads. Starts no agent and runs no command. Must not be loaded by a start that completes nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pinnace_rpc.options.parser import Argument, Option, Scanner, Subcommand, parse
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.table import OPTIONS, SUBCOMMANDS, attach_command

if TYPE_CHECKING:
    from pinnace_agent.config.models.catalog import Catalog
    from pinnace_agent.config.models.models import ModelRegistry

# By name, since the tools themselves load the agent; a test compares them.
TOOL_NAMES: Final = ("read", "bash", "edit", "write", "grep", "find", "ls")

# Each calls the program with variables, and reads an output whose lines `_line` writes. Based on those of click
# (BSD-3-Clause), which they stay compatible with: users keep them in start-up files.
_BASH: Final = """\
_pinnace_completion() {
    local IFS=$'\\n'
    local response

    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _PINNACE_COMPLETE=bash_complete $1)

    for completion in $response; do
        IFS=',' read type value <<< "$completion"

        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=($value)
        fi
    done

    return 0
}

_pinnace_completion_setup() {
    complete -o nosort -F _pinnace_completion pinnace
}

_pinnace_completion_setup;
"""
_ZSH: Final = """\
#compdef pinnace

_pinnace_completion() {
    local -a completions
    local -a completions_with_descriptions
    local -a response
    (( ! $+commands[pinnace] )) && return 1

    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) _PINNACE_COMPLETE=zsh_complete pinnace)}")

    for type key descr in ${response}; do
        if [[ "$type" == "plain" ]]; then
            if [[ "$descr" == "_" ]]; then
                completions+=("$key")
            else
                completions_with_descriptions+=("$key":"$descr")
            fi
        elif [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        fi
    done

    if [ -n "$completions_with_descriptions" ]; then
        _describe -V unsorted completions_with_descriptions -U
    fi

    if [ -n "$completions" ]; then
        compadd -U -V unsorted -a completions
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    # autoload from fpath, call function directly
    _pinnace_completion "$@"
else
    # eval/source/. command, register function for later
    compdef _pinnace_completion pinnace
fi
"""
_FISH: Final = """\
function _pinnace_completion;
    set -lx _PINNACE_COMPLETE fish_complete;
    set -l response (env COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) pinnace);

    for completion in $response;
        set -l metadata (string split "," $completion);

        if test $metadata[1] = "dir";
            __fish_complete_directories $metadata[2];
        else if test $metadata[1] = "file";
            __fish_complete_path $metadata[2];
        else if test $metadata[1] = "plain";
            echo $metadata[2];
        end;
    end;
end;

complete --no-files --command pinnace --arguments "(_pinnace_completion)";
"""
_SCRIPTS: Final[Mapping[str, str]] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
SHELLS: Final = tuple(_SCRIPTS)
COMMAND: Final = Subcommand(
    "pinnace completion",
    "Print the completion script for SHELL, for its start-up file.",
    arguments=[Argument("shell", f"{{{'|'.join(SHELLS)}}}", choices=SHELLS)],
)


class CompletionItem(NamedTuple):
    """A completion of an incomplete word."""

    value: str
    help: str | None = None
    kind: str = "plain"
    """Or `file` or `dir`: the shell itself completes the value."""


class PrecedingWords(NamedTuple):
    """A command line before the word that is being completed."""

    values: Mapping[str, Any]  # Any: the table names the type
    words: Sequence[str]


Completer = Callable[[PrecedingWords, str], Iterable[CompletionItem | str]]


def main(words: Sequence[str]) -> int:
    """Run `pinnace completion` with these words and return the exit code."""
    shell: str = parse(COMMAND, words)["shell"]
    echo(_SCRIPTS[shell].removesuffix("\n"))
    return 0


def answer(instruction: str) -> int:
    """Answer the request that a script passes in the environment, and return the exit code."""
    shell, _, asked = instruction.partition("_")
    if shell not in SHELLS or asked not in {"source", "complete"}:
        return 1
    if asked == "source":
        echo(_SCRIPTS[shell].removesuffix("\n"))
    else:
        before, incomplete = _asked(shell, os.environ)
        echo("\n".join(_line(shell, item) for item in complete(before, incomplete)))
    return 0


def complete(before: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return the completions of an incomplete word. After any error there are none.

    Args:
        before: The words in front of it, without the program's name.
        incomplete: The beginning of the word.
    """
    words = list(before)
    if incomplete == "=":  # bash splits the word there
        incomplete = ""
    elif incomplete.startswith("-") and "=" in incomplete:
        name, _, incomplete = incomplete.partition("=")
        words.append(name)
    options = (*attach_command().options, *OPTIONS) if words[:1] == ["attach"] else OPTIONS
    found = Scanner(options, keeps_unknown=True, is_lenient=True).scan(words)
    line = PrecedingWords(found.values, found.words)
    if "--" not in words and incomplete.startswith("-"):
        return [item for item in _option_names(options, line) if item.value.startswith(incomplete)]
    completed: str | Sequence[str] = "words"
    if words and words[-1].startswith("-"):
        named = [option for option in options if option.takes_value() and words[-1] in option.names]
        completed = named[0].completed if named else completed
    values = _COMPLETERS[completed](line, incomplete) if isinstance(completed, str) else completed
    items = [item if isinstance(item, CompletionItem) else CompletionItem(item) for item in values]
    return [item for item in items if item.kind != "plain" or item.value.startswith(incomplete)]


def _option_names(options: Iterable[Option], line: PrecedingWords) -> Iterable[CompletionItem]:
    """Return the names of all options but those that have been given and count once."""
    for option in options:
        if option.help is not None and (option.repeats or option.field not in line.values):
            for name in option.names:
                yield CompletionItem(name, option.help)


def _asked(shell: str, env: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the words in front of the one that is being completed, and its beginning."""
    words = _split(env["COMP_WORDS"])
    if shell == "fish":
        before, incomplete = words[1:], "".join(_split(env["COMP_CWORD"])[:1])
        if incomplete and before[-1:] == [incomplete]:  # fish has it among the words, too
            before.pop()
        return before, incomplete
    place = int(env["COMP_CWORD"])
    return words[1:place], words[place] if place < len(words) else ""


def _split(line: str) -> list[str]:
    """Split a command line as a shell does; a quote that is still open ends with the line."""
    from shlex import shlex

    lexer = shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _line(shell: str, item: CompletionItem) -> str:
    match shell:
        case "bash":
            return f"{item.kind},{item.value}"
        case "zsh":
            # Its script splits a value with a description at the first colon.
            value = item.value.replace(":", r"\:") if item.help else item.value
            return f"{item.kind}\n{value}\n{item.help or '_'}"
        case _:
            return f"{item.kind},{item.value}\t{item.help}" if item.help else f"{item.kind},{item.value}"


def _words(line: PrecedingWords, incomplete: str) -> Iterable[CompletionItem | str]:
    """Complete a message: a subcommand if it is the first word, or its form, or a file."""
    given = line.words
    if incomplete.startswith("@"):
        return _files(incomplete)
    if not given:
        return [CompletionItem(name, text) for name, (text, _) in SUBCOMMANDS.items()]
    return SUBCOMMANDS[given[0]][1] if len(given) == 1 and given[0] in SUBCOMMANDS else ()


def _files(incomplete: str) -> list[str]:
    folder, name = os.path.split(incomplete[1:])
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as found:
            entries = [(entry.name, entry.is_dir()) for entry in found]
    except OSError:
        return []
    shown = (entry for entry in entries if name.startswith(".") or not entry[0].startswith("."))
    return sorted(f"@{os.path.join(folder, each)}{'/' if is_folder else ''}" for each, is_folder in shown)


def _catalog() -> "tuple[Catalog, ModelRegistry]":
    from pinnace_agent.config.credentials.credentials import read_auth
    from pinnace_agent.config.models.catalog import read_catalog
    from pinnace_agent.config.models.models import ModelRegistry
    from pinnace_agent.files.paths import agent_dir

    folder = agent_dir(os.environ)
    catalog = read_catalog(folder / "models.json")
    return catalog, ModelRegistry(catalog, read_auth(folder / "auth.json"), os.environ)


def _providers(_line: PrecedingWords, _incomplete: str) -> Iterable[str]:
    return sorted(_catalog()[0].providers())


def _models(line: PrecedingWords, _incomplete: str) -> Iterable[str]:
    """Complete a model: those of the provider that is named, or else of all that have a key."""
    catalog, registry = _catalog()
    if provider := line.values.get("provider"):
        return [model["id"] for model in catalog.models_of(provider)]
    return [f"{model['provider']}/{model['id']}" for model in registry.available()]


def _list_of(items: Completer) -> Completer:
    """Complete the last item of a comma list."""

    def last(line: PrecedingWords, incomplete: str) -> Iterable[CompletionItem | str]:
        done, comma, rest = incomplete.rpartition(",")
        return [f"{done}{comma}{item}" for item in items(line, rest)]

    return last


def _file(_line: PrecedingWords, incomplete: str) -> Iterable[CompletionItem]:
    return [CompletionItem(incomplete, kind="file")]


def _folder(_line: PrecedingWords, incomplete: str) -> Iterable[CompletionItem]:
    return [CompletionItem(incomplete, kind="dir")]


_COMPLETERS: Final[Mapping[str, Completer]] = {
    "file": _file,
    "folder": _folder,
    "model": _models,
    "models": _list_of(_models),
    "provider": _providers,
    "tools": _list_of(lambda _line_before, _incomplete: TOOL_NAMES),
    "words": _words,
}
