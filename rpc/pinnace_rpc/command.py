"""The options that the command line has: names, help texts, nothing else.

Every option that a client of pi passes is here. One without a help text is accepted for such clients only. What a word
means is decided in `arguments`. Must not import anything slow, since `--help` and `--version` load it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from pinnace_rpc.manual import Group, Manual
from pinnace_rpc.options import LOG_VARIABLE, MODES, ON_EOF, PROFILE_VARIABLE, TOOL_APPROVALS
from pinnace_rpc.release import program_version
from pinnace_spec.messages import THINKING_LEVELS
from pinnace_spec.profiles import CLIENT_PROFILES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# By name, since printing them loads them; a test compares.
_SPEC: Final = (
    "asyncapi",
    "chart",
    "deviations",
    "drawing",
    "matrix",
    "mermaid",
    "meta",
    "model",
    "reference",
    "rules",
    "schema",
    "typescript",
)
SUBCOMMANDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "auth": ("Keep the key of a provider, forget it, list all.", ("login", "logout", "status")),
    "completion": ("Print what completes command lines in a shell.", ("bash", "fish", "zsh")),
    "demo": ("Hold a short conversation without a network.", ()),
    "explain": ("Say what a rule of the protocol means, or a row.", ()),
    "sessions": ("List the sessions of this folder as JSON lines.", ()),
    "shim": ("Write `pi` and `cli.js` that start pinnace.", ()),
    "spec": ("Print a file of the specification.", _SPEC),
    "trust": ("Let a project's .pi configure the agent.", ()),
    "untrust": ("No more.", ()),
}
"""What the first word may be: what it does, and which words may follow."""

_COMPLETED: Final[Mapping[str, str | tuple[str, ...]]] = {
    "--api-key-file": "file",
    "--append-system-prompt": "file",
    "--exclude-tools": "tools",
    "--export": "file",
    "--export-branch": ("all", "active"),
    "--fork": "file",
    "--log-file": "file",
    "--mode": MODES,
    "--model": "model",
    "--models": "models",
    "--extension": "file",
    "--tool-approval": TOOL_APPROVALS,
    "--on-eof": ON_EOF,
    "--prompt-template": "file",
    "--protocol": CLIENT_PROFILES,
    "--provider": "provider",
    "--session": "file",
    "--session-dir": "folder",
    "--skill": "file",
    "--system-prompt": "file",
    "--thinking": THINKING_LEVELS,
    "--tools": "tools",
    "messages": "words",
}
"""What a shell completes a value with: all there is, or a kind that `completion` knows."""


def _print_version(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        click.echo(program_version())
        context.exit()


def _value(
    *names: str,
    help: str | None = None,
    metavar: str = "TEXT",
    default: str | None = None,
    repeat: bool = False,
) -> click.Option:
    return click.Option(
        names,
        type=click.STRING,
        help=help,
        metavar=metavar,
        default=default,
        hidden=help is None,
        multiple=repeat,
        shell_complete=_complete if names[0] in _COMPLETED else None,
    )


def _complete(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem] | list[str]":
    values = _COMPLETED[parameter.opts[0]]
    if isinstance(values, tuple):
        return [value for value in values if value.startswith(incomplete)]
    from pinnace_rpc import completion

    return completion.complete(values, context, incomplete)


def _flag(
    *names: str,
    help: str | None = None,
    callback: Callable[[click.Context, click.Parameter, bool], None] | None = None,
) -> click.Option:
    return click.Option(
        names,
        is_flag=True,
        help=help,
        hidden=help is None,
        callback=callback,
        is_eager=callback is not None,
        expose_value=callback is None,
    )


def _answer(*names: str, answer: str, help: str) -> click.Option:
    """Make an option that stands for one answer to a question; of several that share a name the last one counts."""
    return click.Option(names, flag_value=answer, help=help)


def _print_help(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        click.echo(context.get_help())
        click.echo(_options_of_extensions(context.obj or ()), nl=False)
        context.exit()


def _options_of_extensions(words: Sequence[str]) -> str:
    """Return what extensions add to the help; nothing is loaded where there are none."""
    from pinnace_rpc.extension_hints import may_find_extensions

    is_named = any(word in {"-e"} or word.startswith("--extension") for word in words)
    if not (is_named or may_find_extensions(os.environ)):
        return ""
    from pinnace_rpc.extension_preview import flag_lines, named_in, preview

    named, is_discovering = named_in(words)
    lines = flag_lines(preview(named, is_discovering=is_discovering).flags)
    return f"{lines}\n" if lines else ""


_MODE = Group(
    "Mode",
    [
        _flag("--print", "-p", help="Ask, print the answer and leave: what stdin, @FILEs and TEXTs say."),
        _value(
            "--mode",
            help="text: as --print. json: its records, one a line. rpc: commands on stdin, records on stdout.",
            metavar="text|json|rpc",
        ),
        _flag("--fail-on-error", help="Exit with 1 in mode json, too, if the model failed."),
        _value(
            "--protocol",
            help=f"What stdout speaks: {', '.join(CLIENT_PROFILES)}. Default: {PROFILE_VARIABLE}, or pi.",
            metavar="NAME",
        ),
        _value(
            "--on-eof",
            help="In mode rpc, when stdin ends: abort what runs (default), or drain: finish it.",
            metavar="abort|drain",
            default="abort",
        ),
    ],
)
_LIMITS = Group(
    "Limits of a run, from its prompt until the agent has settled",
    [
        _value("--max-turns", help="Answers of the model.", metavar="NUMBER"),
        _value("--max-cost", help="By the prices of the models.", metavar="USD"),
        _value("--max-run-seconds", help="What still works then is aborted.", metavar="SECONDS"),
    ],
)
_MODEL = Group(
    "Model",
    [
        _value("--model", help="An id, provider/id, or a part of it; :LEVEL may follow.", metavar="MODEL"),
        _value("--provider", help="The model's provider; `offline` needs no network, key or --model.", metavar="ID"),
        _value("--api-key", help="The key for the model's provider. Kept nowhere, but ps shows it.", metavar="KEY"),
        _value("--api-key-file", help="The first line of FILE is that key; a pipe will do.", metavar="FILE"),
        _value("--api-key-fd", help="It is read from this descriptor, up to a line feed or the end.", metavar="NUMBER"),
        _value("--thinking", help=f"How much it thinks: {', '.join(THINKING_LEVELS)}.", metavar="LEVEL"),
        _value("--models", help="The models to cycle between: a comma list, with * and ?.", metavar="LIST"),
        click.Option(
            ["--list-models"],
            is_flag=False,
            flag_value="",
            metavar="[WORDS]",
            help="Print the models that have a key, or those of them that WORDS mean, and leave.",
        ),
    ],
)
_PROMPT_AND_TOOLS = Group(
    "Prompt and tools",
    [
        _value("--system-prompt", help="Stands in for the built-in prompt: a text or a file.", metavar="TEXT"),
        _value(
            "--append-system-prompt", help="Follows it: a text or a file. Can be repeated.", metavar="TEXT", repeat=True
        ),
        _flag("--no-context-files", "-nc", help="Leave AGENTS.md and its like out of it."),
        _value("--skill", help="One more skill: a file or a folder. Can be repeated.", metavar="PATH", repeat=True),
        _flag("--no-skills", "-ns", help="No skills but those of --skill."),
        _value(
            "--prompt-template",
            help="One more prompt template: a file or a folder. Can be repeated.",
            metavar="PATH",
            repeat=True,
        ),
        _flag("--no-prompt-templates", "-np", help="No prompt templates but those of --prompt-template."),
        _value(
            "--tools", "-t", help="The active tools: a comma list, with *; or changes: +name, -name.", metavar="LIST"
        ),
        _value("--exclude-tools", "-xt", help="Tools to leave out: a comma list, with *.", metavar="LIST"),
        _flag("--no-tools", "-nt", help="No tools but those of --tools."),
        _flag("--no-builtin-tools", "-nbt", help="No tools but those of --tools and of extensions."),
        _value(
            "--tool-approval",
            help="never (default); ask: the client is asked before a tool changes something; read-only.",
            metavar="WHEN",
            default="never",
        ),
    ],
)
_EXTENSIONS = Group(
    "Extensions; they may bring further options",
    [
        _value("--extension", "-e", help="One more: a file or a folder. Can be repeated.", metavar="PATH", repeat=True),
        _flag("--no-extensions", "-ne", help="No extensions but those of --extension."),
        _flag("--keep-going", help="Start without those that fail to load."),
    ],
)
_SESSION = Group(
    "Session",
    [
        _flag("--continue", "-c", help="Go on with the newest session of this folder."),
        _value(
            "--session", help="Go on with a session: its file, or its id or the beginning of it.", metavar="FILE|ID"
        ),
        _value("--fork", help="Go on in a copy of a session of any folder.", metavar="FILE|ID"),
        _value("--session-id", help="Go on with the session of this id, or begin it.", metavar="ID"),
        _value("--session-dir", help="Keep session files here.", metavar="FOLDER"),
        _flag("--no-session", help="Keep the conversation in memory only."),
        _value("--name", "-n", help="The name of the session.", metavar="NAME"),
        _value(
            "--export",
            help="Write a session as an HTML page, or the active branch to a .jsonl, and leave: --export FILE [OUT].",
            metavar="FILE",
        ),
        _value("--export-branch", help="What of it: all branches (default), or active.", metavar="all|active"),
    ],
)
_OTHER = Group(
    "Other",
    [
        _answer(
            "--approve",
            "--trust",
            "-a",
            "approved",
            answer="yes",
            help="Trust this project for this run: read its .pi.",
        ),
        _answer("--no-approve", "-na", "approved", answer="no", help="Don't, whatever was decided before."),
        _flag("--offline", help="Send nothing but requests for answers. Default: PI_OFFLINE=1, or not."),
        _value("--log-file", help=f"Log as JSON lines to FILE. Default: {LOG_VARIABLE}, or nowhere.", metavar="FILE"),
        _flag("--verbose", help="Log to stderr, and tools, queues and reads, too: also in --log-file."),
        _flag("--version", "-v", help="Print the version and leave.", callback=_print_version),
        _flag("--help", "-h", help="Print this and leave.", callback=_print_help),
    ],
)
_IGNORED = Group(
    "Accepted for clients of pi, and ignored",
    [
        _flag("--no-themes"),
        _flag("--no-mcp"),
        _value("--theme", repeat=True),
        _value("--use-theme"),
        _value("--tui-mode"),
    ],
    is_listed=True,
)
_REFUSED = Group(
    "Not here, and refused",
    [
        _flag("--resume", "-r"),
    ],
    is_listed=True,
)

COMMAND: Final = Manual(
    "pinnace",
    [_MODE, _LIMITS, _MODEL, _PROMPT_AND_TOOLS, _EXTENSIONS, _SESSION, _OTHER, _IGNORED, _REFUSED],
    [click.Argument(["messages"], nargs=-1, metavar="", shell_complete=_complete)],
    summary="A headless coding agent: for one question, or for a program that speaks JSON lines.",
)
