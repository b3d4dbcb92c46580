"""The options that the command line has: names, help texts, nothing else.

Every option that a client of pi passes is here. What a word means is decided in `arguments`. Must not import anything
slow, since `--help` and `--version` load it.
"""

from collections.abc import Callable
from typing import Final

import click

from pinnace_rpc.options import PROFILE_NAMES
from pinnace_spec.messages import THINKING_LEVELS

PROFILE_VARIABLE: Final = "PINNACE_PROTOCOL"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pinnace")
    except PackageNotFoundError:  # run from its sources, not installed
        return "0+unknown"


def _print_version(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        click.echo(_version())
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


# Without a help text: accepted for clients of pi, not shown.
_PARAMETERS: Final[list[click.Parameter]] = [
    _value("--mode", help="rpc: JSON lines on stdin and stdout.", metavar="MODE"),
    _value("--provider", help="The model's provider; offline needs no network and no key.", metavar="ID"),
    _value("--model", help="The model: an id, provider/id, or a part of it; :LEVEL may follow.", metavar="MODEL"),
    _value("--models", help="The models to cycle between: a comma list of such names; * and ? too.", metavar="LIST"),
    _value("--api-key", help="The key for the model's provider; kept by no one.", metavar="KEY"),
    _value("--thinking", help=f"How much the model thinks: {', '.join(THINKING_LEVELS)}.", metavar="LEVEL"),
    _value("--system-prompt", help="Stands in for the built-in prompt; a text or a file.", metavar="TEXT|FILE"),
    _value("--append-system-prompt", help="Follows the prompt; can be repeated.", metavar="TEXT|FILE", repeat=True),
    _value("--tools", "-t", help="The active tools: a comma list; or changes, +name and -name.", metavar="LIST"),
    _value("--exclude-tools", "-xt", help="Tools to leave out: a comma list.", metavar="LIST"),
    _flag("--no-tools", "-nt", help="No tools but those of --tools."),
    _flag("--no-builtin-tools", "-nbt", help="No built-in tools but those of --tools."),
    _value(
        "--protocol",
        help=f"What stdout speaks: {', '.join(PROFILE_NAMES)}. Default: {PROFILE_VARIABLE}, or pi.",
        metavar="NAME",
    ),
    _value(
        "--on-eof",
        help="When stdin ends: abort what runs (default), or drain: finish it first.",
        metavar="abort|drain",
        default="abort",
    ),
    _flag("--no-session", help="Keep the conversation in memory only."),
    _value("--name", "-n", help="The name of the session.", metavar="NAME"),
    _value("--session-id", help="The id of the session.", metavar="ID"),
    _flag("--verbose", help="Say more on stderr."),
    _flag("--version", "-v", help="Print the version and leave.", callback=_print_version),
    _flag("--print", "-p"),
    _flag("--continue", "-c"),
    _flag("--resume", "-r"),
    _value("--session"),
    _value("--session-dir"),
    _value("--fork"),
    _value("--extension", "-e", repeat=True),
    _value("--skill", repeat=True),
    _value("--prompt-template", repeat=True),
    _value("--theme", repeat=True),
    _value("--use-theme"),
    _value("--tui-mode"),
    _value("--export"),
    _flag("--list-models"),
    _flag("--no-extensions", "-ne"),
    _flag("--no-skills", "-ns"),
    _flag("--no-prompt-templates", "-np"),
    _flag("--no-context-files", "-nc"),
    _flag("--no-themes"),
    _flag("--no-mcp"),
    _flag("--offline"),
    _flag("--approve", "--trust", "-a"),
    _flag("--no-approve", "-na"),
    click.Argument(["messages"], nargs=-1, metavar=""),
]

COMMAND: Final = click.Command(
    "pinnace",
    params=_PARAMETERS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="A headless coding agent: commands come in and records go out as JSON lines.",
    epilog="\b\n"
    "pinnace demo         hold a short conversation without a network, and show it\n"
    "pinnace shim DIR     write `pi` and `cli.js` that start pinnace, for clients that look for them\n"
    "\b\n"
    "Models are described in models.json, keys in auth.json or the environment, settings in settings.json,\n"
    "all in ~/.pi/agent (PI_CODING_AGENT_DIR changes that). Other options of pi are accepted.",
)
