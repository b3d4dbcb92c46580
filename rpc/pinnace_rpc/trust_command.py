"""`pinnace trust` and `pinnace untrust`: decide on a project where nobody can be asked.

The decision holds for the folder and all in it, for pi too. Exit codes: 0 done, 1 it can't be done, 2 the command line
makes no sense.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from pinnace_agent.resources.file_lock import LockHeld
from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.resources.relaxed_json import ConfigurationFileError
from pinnace_agent.resources.trust import read_decisions, trust_file
from pinnace_agent.resources.trust_digest import keep_decision
from pinnace_agent.visible_text import visible_line


def main(words: Sequence[str], *, decision: bool) -> int:
    """Run `pinnace trust`, or `pinnace untrust`, with these words and return the exit code."""
    name = "pinnace trust" if decision else "pinnace untrust"
    purpose = "Let a project's own files (.pi) configure the agent" if decision else "Never read a project's own files"
    command = click.Command(
        name,
        params=[
            click.Argument(["folder"], required=False, metavar="[FOLDER]"),
            click.Option(["--list", "lists"], is_flag=True, help="List what has been decided."),
        ],
        context_settings={"help_option_names": ["-h", "--help"]},
        help=f"{purpose}: of the folder, by default this one, and of those in it.",
    )
    with command.make_context(name, list(words)) as context:
        folder: str | None = context.params["folder"]
        lists: bool = context.params["lists"]
    if lists and folder is not None:
        raise click.UsageError("--list takes no folder")
    path = trust_file(agent_dir(os.environ))
    try:
        if lists:
            _list(path)
        else:
            _decide(path, Path(folder or "."), decision=decision)
    except ConfigurationFileError as error:
        raise click.ClickException(f"{path}: {error} (it is left as it is)") from None
    except LockHeld as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or path}: {error.strerror or error}") from None
    return 0


def _list(path: Path) -> None:
    for folder, decision in sorted(read_decisions(path).items()):
        if decision is not None:
            click.echo(f"{'trusted' if decision else 'not trusted':<11}  {visible_line(folder)}")


def _decide(path: Path, folder: Path, *, decision: bool) -> None:
    # What is not there may be a slip of the pen; a decision against it can do no harm.
    if decision and not folder.is_dir():
        raise click.ClickException(f"{visible_line(str(folder))}: there is no such folder")
    is_new = keep_decision(path, folder, os.environ, decision=decision)
    shown = visible_line(os.path.realpath(folder))
    click.echo(f"{shown}: {'' if is_new else 'already '}{'trusted' if decision else 'not trusted'}")
