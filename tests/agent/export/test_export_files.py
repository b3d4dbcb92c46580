"""The file that an export writes, and the session that it only reads."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.export.exporting import export_lines, export_page, write_target
from pinnace_agent.export.source import read_source
from pinnace_spec.rules import errors
from pinnace_spec.session_format import validate_session


@pytest.fixture
def session(writer: Any) -> Path:
    root = writer.user(None, "root")
    left = writer.user(root, "left behind")
    writer.add(left, "label", targetId=root, label="begin")
    writer.user(root, "in force")
    path: Path = writer.save()
    return path


def export(session: Path, wanted: str | None, **options: Any) -> str:
    env = {"HOME": str(session.parent)}
    return export_page(read_source(str(session), "/"), wanted, cwd=str(session.parent), env=env, **options)


def state(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return path.read_bytes(), status.st_mtime_ns, status.st_ino, status.st_mode


def test_the_name_is_made_from_the_session(session: Path) -> None:
    assert "pi-session-session.html" == export(session, None)
    assert (session.parent / "pi-session-session.html").read_text().startswith("<!DOCTYPE html>")


def test_a_home_folder_is_expanded_in_the_path_that_is_returned(session: Path) -> None:
    assert str(session.parent / "page.html") == export(session, "~/page.html")


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_its_owner_can_read_it(session: Path, umask: int) -> None:
    former = os.umask(umask)
    try:
        export(session, "page.html")
    finally:
        os.umask(former)
    assert 0o600 == stat.S_IMODE((session.parent / "page.html").stat().st_mode)


def test_a_page_that_is_there_is_replaced_through_its_link(session: Path) -> None:
    target = session.parent / "real.html"
    target.write_text("old")
    target.chmod(0o644)
    (session.parent / "link.html").symlink_to("real.html")
    assert "link.html" == export(session, "link.html")
    assert (session.parent / "link.html").is_symlink()
    assert target.read_text().startswith("<!DOCTYPE")
    assert 0o600 == stat.S_IMODE(target.stat().st_mode)


def test_the_session_and_its_folder_stay_as_they_are(session: Path, tmp_path: Path) -> None:
    with session.open("ab") as file:
        file.write(b'{"torn')
    session.chmod(0o400)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    before, names = state(session), sorted(os.listdir(tmp_path))
    export_page(read_source(str(session), "/"), str(folder / "a.html"), cwd="/", env={})
    export_lines(read_source(str(session), "/"), str(folder / "a.jsonl"), cwd="/", env={})
    assert (before, names) == (state(session), sorted(os.listdir(tmp_path)))


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("missing/page.html", "missing does not exist"),
        ("session.jsonl", "it is the session itself"),
        ("link.jsonl", "it is the session itself"),
        (".", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("out.html", "it is a link to another folder"),
        ("a\0b", "null"),
        ("x" * 300, "name too long"),
    ],
)
def test_what_can_t_be_written_is_named_and_nothing_is_left(session: Path, wanted: str, reason: str) -> None:
    folder = session.parent
    os.mkfifo(folder / "fifo")
    (folder / "link.jsonl").symlink_to("session.jsonl")
    (folder / "sub").mkdir()
    (folder / "out.html").symlink_to("sub/.bashrc")
    before, names = state(session), sorted(os.listdir(folder))
    with pytest.raises(errors.ClientError) as refused:
        export(session, wanted)
    assert reason.lower() in refused.value.text.lower()
    assert wanted in refused.value.text
    assert errors.ErrorCode.IO_ERROR is refused.value.code
    assert (before, names) == (state(session), sorted(os.listdir(folder)))
    assert [] == os.listdir(folder / "sub")


def test_work_that_is_cut_short_leaves_the_former_page(session: Path) -> None:
    target = session.parent / "page.html"
    target.write_text("former")

    def chunks() -> Iterator[str]:
        yield "begun"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_target("page.html", session, chunks(), str(session.parent))
    assert "former" == target.read_text()
    assert ["page.html", "session.jsonl"] == sorted(os.listdir(session.parent))


def test_the_active_branch_can_be_a_session_of_its_own(session: Path) -> None:
    export_lines(read_source(str(session), "/"), "copy.jsonl", cwd=str(session.parent), env={})
    data = (session.parent / "copy.jsonl").read_bytes()
    assert validate_session(data) == []
    assert b"left behind" not in data
    copied = read_source(str(session.parent / "copy.jsonl"), "/")
    assert copied.header["id"] == read_source(str(session), "/").header["id"]
    assert ["message", "message", "label"] == [entry["type"] for entry in copied.entries]


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", errors.EXPORT_NOTHING), (b"hello\n", "Not a session file"), (b'{"a": 1}\n', "Not a session file")],
)
def test_what_is_no_session_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(errors.ClientError, match=text):
        read_source(str(path), "/")


def test_a_session_without_its_first_line_is_shown(session: Path) -> None:
    lines = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(b"\0" * 40 + b"\n" + b"".join(lines[1:]))
    export(session, "page.html")
    assert "in force" in (session.parent / "page.html").read_text()
