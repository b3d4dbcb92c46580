"""The options that the command line has: names, help texts, nothing else.

Every option that a client of pi passes is here. One without a help text is accepted for such clients only. What a word
means is decided in `arguments`. Must not import anything
slow, since `--help` and `--version` load it.
"""

from collections.abc import Callable
from typing import Final

import click

from pinnace_rpc.manual import Group, Manual
from pinnace_rpc.release import program_version
from pinnace_spec.messages import THINKING_LEVELS
from pinnace_spec.profiles import PROFILES

PROFILE_VARIABLE: Final = "PINNACE_PROTOCOL"


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
    hidden = help is None
    return click.Option(
        names, type=click.STRING, help=help, metavar=metavar, default=default, hidden=hidden, multiple=repeat
    )


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


def _print_help(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        click.echo(context.get_help())
        context.exit()


_PROTOCOL = Group(
    "Protocol",
    [
        _value("--mode", help="Commands on stdin, records on stdout; there is no other mode.", metavar="rpc"),
        _value(
            "--protocol",
            help=f"What stdout speaks: {', '.join(PROFILES)}. Default: {PROFILE_VARIABLE}, or pi.",
            metavar="NAME",
        ),
        _value(
            "--on-eof",
            help="When stdin ends: abort what runs (default), or drain: finish it first.",
            metavar="abort|drain",
            default="abort",
        ),
    ],
)
_MODEL = Group(
    "Model",
    [
        _value("--model", help="An id, provider/id, or a part of it; :LEVEL may follow.", metavar="MODEL"),
        _value("--provider", help="The model's provider; `offline` needs no network, key or --model.", metavar="ID"),
        _value("--api-key", help="The key for the model's provider. Kept nowhere.", metavar="KEY"),
        _value("--thinking", help=f"How much it thinks: {', '.join(THINKING_LEVELS)}.", metavar="LEVEL"),
        _value("--models", help="The models to cycle between: a comma list, with * and ?.", metavar="LIST"),
    ],
)
_PROMPT_AND_TOOLS = Group(
    "Prompt and tools",
    [
        _value("--system-prompt", help="Stands in for the built-in prompt: a text or a file.", metavar="TEXT"),
        _value(
            "--append-system-prompt", help="Follows it: a text or a file. Can be repeated.", metavar="TEXT", repeat=True
        ),
        _value(
            "--tools", "-t", help="The active tools: a comma list, with *; or changes: +name, -name.", metavar="LIST"
        ),
        _value("--exclude-tools", "-xt", help="Tools to leave out: a comma list, with *.", metavar="LIST"),
        _flag("--no-tools", "-nt", help="No tools but those of --tools."),
        _flag("--no-builtin-tools", "-nbt", help="The same: all tools are built in."),
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
    ],
)
_OTHER = Group(
    "Other",
    [
        _flag("--verbose", help="Say more on stderr."),
        _flag("--version", "-v", help="Print the version and leave.", callback=_print_version),
        _flag("--help", "-h", help="Print this and leave.", callback=_print_help),
    ],
)
_IGNORED = Group(
    "Accepted for clients of pi, and ignored",
    [
        _flag("--no-extensions", "-ne"),
        _flag("--no-skills", "-ns"),
        _flag("--no-prompt-templates", "-np"),
        _flag("--no-context-files", "-nc"),
        _flag("--no-themes"),
        _flag("--no-mcp"),
        _flag("--offline"),
        _flag("--approve", "--trust", "-a"),
        _flag("--no-approve", "-na"),
        _value("--skill", repeat=True),
        _value("--prompt-template", repeat=True),
        _value("--theme", repeat=True),
        _value("--use-theme"),
        _value("--tui-mode"),
    ],
    is_listed=True,
)
_REFUSED = Group(
    "Not in this release, and refused",
    [
        _flag("--print", "-p"),
        _flag("--resume", "-r"),
        _value("--extension", "-e", repeat=True),
        _value("--export"),
        _flag("--list-models"),
    ],
    is_listed=True,
)

COMMAND: Final = Manual(
    "pinnace",
    [_PROTOCOL, _MODEL, _PROMPT_AND_TOOLS, _SESSION, _OTHER, _IGNORED, _REFUSED],
    [click.Argument(["messages"], nargs=-1, metavar="")],
    summary="A headless coding agent: commands come in and records go out as JSON lines.",
)
