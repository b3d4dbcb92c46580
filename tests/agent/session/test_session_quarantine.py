"""Damaged lines are kept beside the session, once, for the user alone."""

import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pinnace_agent.session.store.quarantine import quarantine


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def side(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl.damaged"


def test_nothing_damaged_makes_no_file(session: Path, side: Path) -> None:
    assert quarantine(session, []) is None
    assert not side.exists()


def test_every_byte_of_a_damaged_line_is_kept(session: Path, side: Path) -> None:
    lines = [b"\x00\xff{", b'{"torn":"', b"  \r"]
    assert quarantine(session, lines) == side
    assert side.read_bytes() == b"".join(line + b"\n" for line in lines)


def test_what_is_there_already_is_not_written_again(session: Path, side: Path) -> None:
    quarantine(session, [b"one", b"two", b"one"])
    quarantine(session, [b"two", b"three"])
    assert side.read_bytes() == b"one\ntwo\nthree\n"


def test_a_line_that_was_cut_while_it_was_kept_is_kept_whole(session: Path, side: Path) -> None:
    side.write_bytes(b"one\nthr")
    quarantine(session, [b"one", b"thr", b"three"])
    assert side.read_bytes() == b"one\nthr\nthr\nthree\n"


def test_s1_it_is_for_the_user_alone_whatever_the_umask(session: Path, side: Path) -> None:
    for umask in (0, 0o777):
        former = os.umask(umask)
        try:
            quarantine(session, [b"x"])
        finally:
            os.umask(former)
        assert stat.S_IMODE(side.stat().st_mode) == 0o600
        side.unlink()


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_link_is_never_followed(session: Path, side: Path, tmp_path: Path, is_dangling: bool) -> None:
    target = tmp_path / "target"
    if not is_dangling:
        target.write_text("precious")
    side.symlink_to(target)

    with pytest.raises(OSError) as caught:
        quarantine(session, [b"x"])

    assert caught.value.errno == errno.ELOOP
    assert target.exists() != is_dangling
    assert is_dangling or target.read_text() == "precious"


def test_a_file_that_has_its_name_as_well_is_never_written(session: Path, side: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    os.link(target, side)
    with pytest.raises(OSError, match="has another name"):
        quarantine(session, [b"x"])
    assert "precious" == target.read_text()


def test_a_pipe_in_its_place_is_refused(session: Path, side: Path) -> None:
    os.mkfifo(side)
    with pytest.raises(OSError, match="not a regular file"):
        quarantine(session, [b"x"])


def test_a_disk_that_takes_only_a_part_is_an_error_and_a_later_call_continues(session: Path, side: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from pinnace_agent.session.store.quarantine import quarantine
try:
    quarantine(Path(sys.argv[1]), [b"a" * 100, b"b" * 100])
except OSError:
    sys.exit(3)
"""
    process = subprocess.run(
        [sys.executable, "-c", program, str(session)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150)),
        check=False,
    )
    assert process.returncode == 3
    assert side.stat().st_size == 150

    quarantine(session, [b"a" * 100, b"b" * 100])

    assert side.read_bytes().split(b"\n") == [b"a" * 100, b"b" * 49, b"b" * 100, b""]
