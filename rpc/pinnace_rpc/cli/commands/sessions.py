"""`pinnace sessions`: the existing sessions, one JSON object a line, the most recently changed one first.

For programs that offer a choice of sessions, and for use with jq. Reads files and changes none.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.session.folders import choose_folder, sessions_root
from pinnace_agent.session.listing import list_all_sessions, list_sessions
from pinnace_rpc.cli.parser import Command, Option, parse
from pinnace_spec.wire.json_text import encode_record

COMMAND: Final = Command(
    "pinnace sessions",
    "List the sessions of this folder, newest first, as JSON lines.",
    [
        Option(("--all",), "is_all", "List the sessions of all folders."),
        Option(("--session-dir",), "session_dir", "The folder of session files.", "FOLDER"),
    ],
)


def main(words: Sequence[str]) -> int:
    """Run `pinnace sessions` with these words and return the exit code."""
    given = parse(COMMAND, words)
    is_all: bool = given["is_all"]
    session_dir: str | None = given["session_dir"]
    cwd = Path.cwd()
    configuration = load_configuration(os.environ, cwd)
    folder = choose_folder(agent_dir(os.environ), str(cwd), session_dir, os.environ, configuration.settings.session_dir)
    root = sessions_root(agent_dir(os.environ))

    def report(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    for info in list_all_sessions(root, folder, report) if is_all else list_sessions(folder, str(cwd), report):
        sys.stdout.buffer.write(encode_record(info.record()))
    sys.stdout.buffer.flush()
    return 0
