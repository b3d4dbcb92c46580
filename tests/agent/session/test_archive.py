"""Marks of archived sessions: each is made and removed in one step, whatever the id is."""

import subprocess
import sys
from pathlib import Path

import pytest

from pinnace_agent.session.archive import FOLDER, Archive


@pytest.mark.parametrize("session_id", ["01a2-b3", "..", "a/b", "", "x" * 5000, "half a character \udc80", "\0"])
def test_a_session_of_any_id_is_archived_and_taken_out(tmp_path: Path, session_id: str) -> None:
    archive = Archive(tmp_path)
    assert not archive.has(session_id)
    archive.remove(session_id)
    archive.add(session_id)
    archive.add(session_id)

    assert archive.has(session_id)
    assert Archive(tmp_path).has(session_id)
    assert [FOLDER] == [each.name for each in tmp_path.iterdir()]
    archive.remove(session_id)
    assert not archive.has(session_id)
    assert [] == [*(tmp_path / FOLDER).iterdir()]


def test_a_mark_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file in its place")

    with pytest.raises(NotADirectoryError):
        Archive(tmp_path).add("a")


def test_processes_that_archive_at_once_lose_no_mark(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from pinnace_agent.session.archive import Archive
for number in range(20):
    Archive(Path(sys.argv[1])).add(f"{sys.argv[2]}-{number}")
"""
    at_once = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "abc"]

    assert [0, 0, 0] == [each.wait() for each in at_once]
    assert all(Archive(tmp_path).has(f"{name}-{number}") for name in "abc" for number in range(20))
