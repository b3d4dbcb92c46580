"""`pinnace trust` and `pinnace untrust`: decide on a project without a prompt.

The decision holds for the folder and all in it, for pi too. Exit codes: 0 done, 1 it can't be done, 2 usage error.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.config.trust import read_decisions, trust_file
from pinnace_agent.config.trust_digest import keep_decision
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse
from pinnace_rpc.options.shown.tables import JSON, echo_json
from pinnace_rpc.options.streams import echo


def _command(name: str, purpose: str) -> Subcommand:
    return Subcommand(
        name,
        f"{purpose}. Applies to FOLDER (default: this one) and the folders in it.",
        [Option(("--list",), "is_listing", "List the decisions."), JSON],
        [Argument("folder", "[FOLDER]", is_required=False)],
    )


_TRUST: Final = _command("pinnace trust", "Trust a project: let its .pi configure the agent")
_UNTRUST: Final = _command("pinnace untrust", "Stop trusting a project")


def main(words: Sequence[str], *, decision: bool) -> int:
    """Run `pinnace trust`, or `pinnace untrust`, with these words and return the exit code."""
    given = parse(_TRUST if decision else _UNTRUST, words)
    folder: str | None = given["folder"]
    lists: bool = given["is_listing"]
    if lists and folder is not None:
        raise UsageError("--list takes no folder")
    if given["as_json"] and not lists:
        raise UsageError("--json is for --list")
    path = trust_file(agent_dir(os.environ))
    try:
        if lists:
            _list(path, as_json=given["as_json"])
        else:
            _decide(path, Path(folder or "."), decision=decision)
    except ConfigurationFileError as error:
        raise CommandError(f"{path}: {error} (it is left as it is)") from None
    except LockHeld as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror or error}") from None
    return 0


def _list(path: Path, *, as_json: bool) -> None:
    decisions, diagnostics = read_decisions(path)
    for diagnostic in diagnostics:
        echo(f"pinnace: {diagnostic}", is_error=True)
    for folder, decision in sorted(decisions.items()):
        if decision is None:
            continue
        if as_json:
            echo_json({"folder": folder, "trusted": decision})
        else:
            echo(f"{'trusted' if decision else 'not trusted':<11}  {visible_line(folder)}")


def _decide(path: Path, folder: Path, *, decision: bool) -> None:
    # A folder that does not exist may be a typing error; a decision against it is harmless.
    if decision and not folder.is_dir():
        raise CommandError(f"{visible_line(str(folder))}: no such folder")
    if decision:
        from pinnace_agent.mcp.configuration import project_servers

        for line in project_servers(folder):
            echo(f"runs: {visible_line(line)}")
    is_new = keep_decision(path, folder, os.environ, decision=decision)
    shown = visible_line(os.path.realpath(folder))
    echo(f"{shown}: {'' if is_new else 'already '}{'trusted' if decision else 'not trusted'}")
