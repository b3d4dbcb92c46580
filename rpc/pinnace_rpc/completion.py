"""Shell completion: the scripts for bash, zsh and fish, and what their questions are answered with.

Flags come from the command line's own description; what is a list of the user's, models and providers, is read from
the same files as `--list-models` reads. Starts no agent and runs no command. Must not be loaded by a start that
completes nothing.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from pinnace_rpc.cli import COMPLETION_VARIABLE
from pinnace_rpc.command import SUBCOMMANDS

if TYPE_CHECKING:
    from pinnace_agent.resources.catalog import Catalog
    from pinnace_agent.resources.models import ModelRegistry

SHELLS: Final = ("bash", "zsh", "fish")
# By name, since the tools themselves load the agent; a test compares them.
TOOL_NAMES: Final = ("read", "bash", "edit", "write", "grep", "find", "ls")

Completer = Callable[[click.Context, str], Iterable[CompletionItem | str]]


def script(shell: str) -> str:
    """Return what a shell is to read at its start."""
    from pinnace_rpc.command import COMMAND

    found = get_completion_class(shell)
    assert found is not None, shell
    return found(COMMAND, {}, "pinnace", COMPLETION_VARIABLE).source()


def answer(instruction: str) -> int:
    """Answer the question that a script asks by the environment, and return the exit code."""
    from pinnace_rpc.command import COMMAND

    return shell_complete(COMMAND, {}, "pinnace", COMPLETION_VARIABLE, instruction)


def complete(kind: str, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return what may stand for an incomplete value. Whatever goes wrong, there is nothing to say."""
    found = _COMPLETERS[kind](context, incomplete)
    items = [item if isinstance(item, CompletionItem) else CompletionItem(item) for item in found]
    return [item for item in items if item.type != "plain" or str(item.value).startswith(incomplete)]


def _words(context: click.Context, incomplete: str) -> Iterable[CompletionItem | str]:
    """Complete a message: a subcommand if it is the first word, or its form, or a file."""
    given: Sequence[str] = context.params.get("messages") or ()
    if incomplete.startswith("@"):
        return _files(incomplete)
    if not given:
        return [CompletionItem(name, help=text) for name, (text, _) in SUBCOMMANDS.items()]
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
    from pinnace_agent.resources.catalog import read_catalog
    from pinnace_agent.resources.credentials import read_auth
    from pinnace_agent.resources.models import ModelRegistry
    from pinnace_agent.resources.paths import agent_dir

    folder = agent_dir(os.environ)
    catalog = read_catalog(folder / "models.json")
    return catalog, ModelRegistry(catalog, read_auth(folder / "auth.json"), os.environ)


def _providers(_context: click.Context, _incomplete: str) -> Iterable[str]:
    return sorted(_catalog()[0].providers())


def _models(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Complete a model: those of the provider that is named, or else of all that have a key."""
    catalog, registry = _catalog()
    if provider := context.params.get("provider"):
        return [model["id"] for model in catalog.models_of(provider)]
    return [f"{model['provider']}/{model['id']}" for model in registry.available()]


def _list_of(items: Completer) -> Completer:
    """Complete the last item of a comma list."""

    def last(context: click.Context, incomplete: str) -> Iterable[CompletionItem | str]:
        done, comma, rest = incomplete.rpartition(",")
        return [f"{done}{comma}{item}" for item in items(context, rest)]

    return last


def _file(_context: click.Context, incomplete: str) -> Iterable[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def _folder(_context: click.Context, incomplete: str) -> Iterable[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


_COMPLETERS: Final[Mapping[str, Completer]] = {
    "file": _file,
    "folder": _folder,
    "model": _models,
    "models": _list_of(_models),
    "provider": _providers,
    "tools": _list_of(lambda _context, _incomplete: TOOL_NAMES),
    "words": _words,
}
