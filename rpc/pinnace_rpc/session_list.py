"""`pinnace sessions`: the sessions there are, one JSON object a line, the last one that something happened in first.

For programs that offer a choice, and for people with jq. Reads files and changes none.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pinnace_agent.resources.configuration import load_configuration
from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.session.folders import choose_folder, sessions_root
from pinnace_agent.session.listing import SessionInfo, list_all_sessions, list_sessions
from pinnace_spec.wire import encode_record


def main(session_dir: str | None, *, is_all: bool) -> int:
    """Write the list.

    Args:
        session_dir: As of `--session-dir`.
        is_all: Of all working folders, not only of the current one.
    """
    cwd = Path.cwd()
    configuration = load_configuration(os.environ, cwd)
    folder = choose_folder(agent_dir(os.environ), str(cwd), session_dir, os.environ, configuration.settings.session_dir)
    root = sessions_root(agent_dir(os.environ))

    def report(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    for info in list_all_sessions(root, folder, report) if is_all else list_sessions(folder, str(cwd), report):
        sys.stdout.buffer.write(encode_record(_record(info)))
    sys.stdout.buffer.flush()
    return 0


def _record(info: SessionInfo) -> Mapping[str, object]:
    record: dict[str, object] = {
        "id": info.id,
        "path": str(info.path),
        "cwd": info.cwd,
        "created": info.created,
        "modified": info.modified_ms,
        "messageCount": info.message_count,
        "firstMessage": info.first_message,
    }
    if info.name is not None:
        record["name"] = info.name
    if info.parent_session is not None:
        record["parentSession"] = info.parent_session
    return record
