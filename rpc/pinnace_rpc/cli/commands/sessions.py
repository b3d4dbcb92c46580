"""`pinnace sessions`: the existing sessions, the most recently used one first.

A table for people at a terminal. With `--json`, and wherever stdout is not a terminal, one JSON object a line: for
programs that offer a choice of sessions, and for use with jq. Reads files and changes none.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.session.folders import choose_folder, sessions_root
from pinnace_agent.session.listing import NO_MESSAGES, SessionInfo, list_all_sessions, list_sessions
from pinnace_rpc.options.parser import Option, Subcommand, parse
from pinnace_rpc.options.shown.tables import JSON, age, in_one_line, lay_out
from pinnace_rpc.options.streams import echo
from pinnace_spec.wire.json_text import encode_record

COMMAND: Final = Subcommand(
    "pinnace sessions",
    "List the sessions of this folder, newest first: a table, or JSON lines where stdout is not a terminal.",
    [
        Option(("--all",), "is_all", "List the sessions of all folders."),
        Option(("--session-dir",), "session_dir", "The folder of session files.", "FOLDER"),
        JSON,
    ],
)
# An id is cut to these; to more where the same characters begin several.
_LEAST_ID_CHARS: Final = 8


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

    found = list_all_sessions(root, folder, report) if is_all else list_sessions(folder, str(cwd), report)
    if not given["as_json"] and sys.stdout.isatty():
        echo(table(list(found), shutil.get_terminal_size().columns, has_folders=is_all))
        return 0
    for info in found:
        sys.stdout.buffer.write(encode_record(info.record()))
    sys.stdout.buffer.flush()
    return 0


def table(sessions: Sequence[SessionInfo], width: int, *, has_folders: bool = False) -> str:
    """Lay sessions out for people: each line is at most `width` characters wide."""
    if not sessions:
        return "no sessions" if has_folders else "no sessions of this folder; --all lists those of all folders"
    length = _id_chars([info.id for info in sessions])
    columns: Mapping[str, Callable[[SessionInfo], str]] = {
        "LAST USED": lambda info: age(info.modified_ms),
        "MESSAGES": lambda info: str(info.message_count),
        "ID": lambda info: info.id[:length],
        "FOLDER": lambda info: in_one_line(info.cwd) if has_folders else "",
        "NAME OR FIRST MESSAGE": _title,
    }
    shown = lay_out(sessions, columns, width)
    return f"{shown}\npinnace --session ID continues one, pinnace --continue the newest of this folder"


def _title(info: SessionInfo) -> str:
    title = info.name or (info.first_message if info.first_message != NO_MESSAGES else "")
    return in_one_line(title[:1000])


def _id_chars(ids: Sequence[str]) -> int:
    """Return how many characters of each id are enough to name its session among these."""
    most = max(map(len, ids))
    return next((n for n in range(_LEAST_ID_CHARS, most) if len({each[:n] for each in ids}) == len(set(ids))), most)
