"""Writes the pages of a batch's sessions: `sessions/ID.html`, which the summary links to.

    python -P -m pinnace_rpc.batch.pages FOLDER

A program of its own, which the coordinator runs when all tasks have ended: nothing of it is in the way of a task, or in
the memory of the coordinator. A page that is newer than its session stays. Only this module of the batch loads the
agent's: the export.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pinnace_agent.config.credentials.known_keys import learn_users_keys
from pinnace_agent.export.exporting import export_page
from pinnace_agent.export.source import read_source
from pinnace_rpc.options.streams import protect_process
from pinnace_spec.rules import errors


def main(words: Sequence[str]) -> int:
    """Write what is missing in the folder of a batch; return 1 if a page could not be written."""
    protect_process()
    [folder] = words
    learn_users_keys(os.environ)
    is_failed = False
    for session in sorted(_without_page(Path(folder) / "sessions")):
        try:
            page = str(session.with_suffix(".html"))
            export_page(read_source(str(session), folder), page, cwd=folder, env=os.environ)
        except errors.ClientError as error:
            sys.stderr.write(f"pinnace: batch: {session.name}: {error.text}\n")
            is_failed = True
    return int(is_failed)


def _without_page(folder: Path) -> Iterator[Path]:
    for session in folder.glob("*.jsonl"):
        try:
            is_there = session.with_suffix(".html").stat().st_mtime_ns >= session.stat().st_mtime_ns
        except FileNotFoundError:
            is_there = False
        if not is_there:
            yield session


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
