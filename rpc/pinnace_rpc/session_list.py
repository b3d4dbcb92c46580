"""`pinnace sessions`: the sessions there are, one JSON object a line, the last one that something happened in first.

For programs that offer a choice, and for people with jq. Reads files and changes none.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pinnace_agent.resources.configuration import load_configuration
from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.session.folders import SessionFolder, choose_folder, sessions_root
from pinnace_agent.session.listing import SessionInfo, list_sessions
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
    for info in sorted(_infos(folder, str(cwd), is_all=is_all), key=lambda info: info.modified_ms, reverse=True):
        sys.stdout.buffer.write(encode_record(_record(info)))
    sys.stdout.buffer.flush()
    return 0


def _infos(folder: SessionFolder, cwd: str, *, is_all: bool) -> Iterator[SessionInfo]:
    if not is_all:
        yield from list_sessions(folder, cwd)
        return
    folders = [folder]
    if not folder.is_flat:
        root = sessions_root(agent_dir(os.environ))
        folders = [SessionFolder(path, is_flat=False) for path in root.iterdir()] if root.is_dir() else []
    for each in folders:
        yield from list_sessions(each, None)


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
