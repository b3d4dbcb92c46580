"""A file that is replaced is the old or the new one, whatever happens meanwhile, and stays the file that it was."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.files.atomic_file import create_file, overwrite_file, replace_file
from pinnace_agent.files.text_file import encode_text
from pinnace_agent.tools.paths import os_error_text

NOBODY = 65534
# Only a process that is stuck takes so long.
TIMEOUT_S = 300.0


# Private files that are on the disk: sessions, exports, configuration.


def test_a_file_is_created_for_the_user_alone(tmp_path: Path) -> None:
    create_file(tmp_path / "new", [b"one ", b"two"])

    assert ["new"] == os.listdir(tmp_path)
    assert b"one two" == (tmp_path / "new").read_bytes()
    assert 0o600 == stat.S_IMODE(os.stat(tmp_path / "new").st_mode)


@pytest.mark.parametrize("target", ["file", "missing"])
def test_nothing_that_exists_is_overwritten_by_creating_a_file(tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(target)
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            create_file(tmp_path / name, [b"new"])

    assert ["file", "link"] == sorted(os.listdir(tmp_path))
    assert b"old" == (tmp_path / "file").read_bytes()


def test_a_file_is_replaced_with_the_mode_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as former:
        replace_file(path, [b"new"], mode=0o640)

        assert b"old" == former.read(), "a reader keeps the former file"
    assert (b"new", 0o640) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))


def test_what_the_last_check_raises_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def refuse() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(path, [b"new"], before_rename=refuse)

    assert ["file"] == os.listdir(tmp_path)
    assert b"old" == path.read_bytes()


@pytest.mark.parametrize("name", ["x" * 255, "\u00e4" * 127, "\U0001f6a3" * 63, "\udcff" * 255])
def test_a_file_with_the_longest_name_is_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    replace_file(path, [b"old"])
    before = inode(path)
    overwrite_file(str(path), b"new")

    assert before != inode(path), "it was renamed, not written in place"
    assert ([name], b"new") == (os.listdir(tmp_path), path.read_bytes())


# Files of the user, which keep everything but their content.


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    overwrite_file(str(tmp_path / "new"), b"x")
    (tmp_path / "other").touch()

    assert (tmp_path / "new").read_bytes() == b"x"
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "other").st_mode
    assert sorted(os.listdir(tmp_path)) == ["new", "other"]


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("old")
    (tmp_path / "script").chmod(0o751)
    overwrite_file(str(tmp_path / "script"), b"new")

    assert stat.S_IMODE(os.stat(tmp_path / "script").st_mode) == 0o751


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    overwrite_file(str(tmp_path / "link"), b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_dangling_link_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    overwrite_file(str(tmp_path / "link"), b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_hard_links_stay_one_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a long old content")
    os.link(tmp_path / "one", tmp_path / "two")
    overwrite_file(str(tmp_path / "one"), b"new")

    assert (tmp_path / "two").read_bytes() == b"new"


def test_a_file_is_renamed_into_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with open(tmp_path / "file", "rb") as before:
        overwrite_file(str(tmp_path / "file"), b"new")

        assert before.read() == b"old", "a reader keeps the old file whole"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {b"a" * 200_000, b"b" * 300_000}
    path.write_bytes(b"a" * 200_000)
    seen: set[bytes] = set()
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        for content in sorted(contents):
            overwrite_file(str(path), content)
    is_done.set()
    reader.join()

    assert seen <= contents


def test_a_device_is_written_to_not_replaced() -> None:
    overwrite_file("/dev/null", b"gone")

    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_failure_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError):
        overwrite_file(str(tmp_path / "folder"), b"x")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    ("text", "data"),
    [("é", b"\xc3\xa9"), ("a\ud800b", b"a\xef\xbf\xbdb"), ("\ud83d\ude00", "😀".encode())],
)
def test_half_a_character_is_replaced_and_two_halves_are_one(text: str, data: bytes) -> None:
    assert encode_text(text) == data


def inode(path: Path) -> int:
    return os.stat(path).st_ino


@pytest.mark.parametrize("length", [1, 3])
def test_links_to_links_are_followed_to_the_end(length: int, tmp_path: Path) -> None:
    (tmp_path / "0").write_text("old")
    for number in range(length):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    overwrite_file(str(tmp_path / str(length)), b"new")

    assert (tmp_path / "0").read_bytes() == b"new"
    assert [link for link in os.listdir(tmp_path) if not (tmp_path / link).is_symlink()] == ["0"]


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(OSError, match="symbolic links"):
        overwrite_file(str(tmp_path / "loop"), b"new")


@pytest.mark.parametrize("new", [b"", b"new", b"n" * 3_000_000], ids=["nothing", "less", "more"])
def test_a_file_with_two_names_is_written_in_place_and_its_copy_goes(new: bytes, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old" * 400_000)
    os.link(tmp_path / "one", tmp_path / "two")
    before = inode(tmp_path / "one")
    overwrite_file(str(tmp_path / "one"), new)

    assert [new, new] == [(tmp_path / name).read_bytes() for name in ("one", "two")]
    assert before == inode(tmp_path / "one")
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    try:
        os.setxattr(path, "user.kept", b"value")
    except (AttributeError, OSError) as error:
        pytest.skip(f"no extended attributes here: {error}")
    before = inode(path)
    overwrite_file(str(path), b"new")

    assert before != inode(path), "it was renamed, not written in place"
    assert os.getxattr(path, "user.kept") == b"value"


def test_a_pipe_without_a_reader_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError) as caught:
        overwrite_file(str(tmp_path / "pipe"), b"x")
    assert os_error_text(caught.value, "open") == (
        "ENXIO: no such device or address, open. It is a pipe without a reader, or a socket"
    )


def test_a_pipe_that_is_full_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(BlockingIOError):
            overwrite_file(str(tmp_path / "pipe"), b"x" * 4_000_000)
    finally:
        os.close(reader)


# As a user who is not root: whose files and folders are respected.


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may look into."""
    folder = Path(tempfile.mkdtemp(prefix="pinnace-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def replace_as_user(path: Path, data: bytes, temp_dir: Path) -> str:
    """Replace a file as a user with no rights of its own; return what went wrong."""
    code = (
        "import os, sys\n"
        "from pinnace_agent.files.atomic_file import overwrite_file\n"
        f"if os.geteuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "try: overwrite_file(sys.argv[1], os.fsencode(sys.argv[2]))\n"
        "except OSError as error: print(type(error).__name__, end='')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), os.fsdecode(data)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(temp_dir)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")


def test_a_read_only_file_is_not_replaced(open_folder: Path) -> None:
    path = open_folder / "file"
    path.write_text("old")
    path.chmod(0o444)
    open_folder.chmod(0o777)

    assert replace_as_user(path, b"new", open_folder) == "PermissionError"
    assert path.read_bytes() == b"old"
    assert os.listdir(open_folder) == ["file"]


def test_a_file_in_a_folder_that_can_be_passed_but_not_listed_is_replaced(open_folder: Path) -> None:
    passed = open_folder / "passed"
    (passed / "inside").mkdir(parents=True)
    path = passed / "inside" / "file"
    path.write_text("old")
    path.chmod(0o666)
    path.parent.chmod(0o777)
    passed.chmod(0o711)
    before = inode(path)

    assert replace_as_user(path, b"new", open_folder) == ""
    assert path.read_bytes() == b"new"
    assert before == inode(path) or os.geteuid() != 0, "the file of another user is written in place"


def test_a_file_in_a_folder_that_takes_no_other_is_written_in_place(open_folder: Path, tmp_path: Path) -> None:
    closed, temp = open_folder / "closed", open_folder / "temp"
    for folder in (closed, temp):
        folder.mkdir()
    path = closed / "file"
    path.write_text("a long old content")
    path.chmod(0o666)
    closed.chmod(0o555)
    temp.chmod(0o1777)
    before = inode(path)
    try:
        assert replace_as_user(path, b"new", temp) == ""
    finally:
        closed.chmod(0o755)

    assert path.read_bytes() == b"new"
    assert before == inode(path)
    assert [[], ["file"]] == [os.listdir(temp), os.listdir(closed)], "the copy has gone"


def test_without_room_for_a_copy_nothing_is_written_in_place(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir()
    path = closed / "file"
    path.write_text("old")
    path.chmod(0o666)
    closed.chmod(0o555)
    code = (
        "import os, sys, tempfile\n"
        "from pinnace_agent.files.atomic_file import overwrite_file\n"
        f"if os.geteuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "tempfile.tempdir = os.path.dirname(sys.argv[1])\n"
        "try: overwrite_file(sys.argv[1], b'new')\n"
        "except PermissionError: print('refused', end='')\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            stdout=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=True,
        )
    finally:
        closed.chmod(0o755)

    assert done.stdout == b"refused"
    assert path.read_bytes() == b"old"


@needs_root
def test_a_file_of_another_user_stays_theirs_by_writing_in_place(open_folder: Path) -> None:
    path = open_folder / "file"
    path.write_text("a long old content")
    path.chmod(0o666)
    open_folder.chmod(0o777)

    assert replace_as_user(path, b"new", open_folder) == ""
    assert (b"new", 0) == (path.read_bytes(), os.stat(path).st_uid)
    assert os.listdir(open_folder) == ["file"]


@needs_root
def test_root_gives_a_file_back_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o4750)
    before = inode(path)
    overwrite_file(str(path), b"new")

    status = os.stat(path)
    assert (NOBODY, NOBODY, 0o4750) == (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))
    assert before != status.st_ino


# Real mounts, where mounting is allowed.


def mount(*arguments: str) -> None:
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")


@pytest.fixture
def mounted_file(tmp_path: Path) -> Iterator[Path]:
    """A single file that another one is mounted on, as container runtimes do."""
    for name in ("inside", "outside"):
        (tmp_path / name).write_text("old")
    mount("--bind", str(tmp_path / "outside"), str(tmp_path / "inside"))
    yield tmp_path / "inside"
    subprocess.run(["umount", "--lazy", str(tmp_path / "inside")], check=True)


def test_a_mounted_file_is_written_in_place(mounted_file: Path) -> None:
    overwrite_file(str(mounted_file), b"new")

    assert (mounted_file.parent / "outside").read_bytes() == b"new"
    assert sorted(os.listdir(mounted_file.parent)) == ["inside", "outside"]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk with a file, a file with two names, and one that is mostly a hole; there is no room left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(disk))
    try:
        (disk / "file").write_bytes(b"old")
        (disk / "one").write_bytes(b"old" * 10_000)
        os.link(disk / "one", disk / "two")
        with (disk / "hole").open("wb") as file:
            file.write(b"start")
            file.truncate(100_000)
        os.link(disk / "hole", disk / "hole-2")
        with (disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_leaves_the_old_file(full_disk: Path) -> None:
    before = sorted(os.listdir(full_disk))
    with pytest.raises(OSError, match="No space"):
        overwrite_file(str(full_disk / "file"), b"n" * 100_000)

    assert (full_disk / "file").read_bytes() == b"old"
    assert before == sorted(os.listdir(full_disk))


def test_a_write_in_place_on_a_full_disk_is_taken_back(full_disk: Path) -> None:
    before = sorted(os.listdir(full_disk))
    with pytest.raises(OSError, match="No space") as caught:
        overwrite_file(str(full_disk / "one"), b"n" * 100_000)

    assert (full_disk / "two").read_bytes() == b"old" * 10_000
    assert before == sorted(os.listdir(full_disk))
    assert "backup" not in os_error_text(caught.value, "open")


def test_what_can_not_be_taken_back_is_kept_and_named(full_disk: Path) -> None:
    """Writing into a hole needs room that is not there, so the old content can't be restored either."""
    old = (full_disk / "hole").read_bytes()
    with pytest.raises(OSError, match="No space") as caught:
        overwrite_file(str(full_disk / "hole"), b"n" * 100_000)
    text = os_error_text(caught.value, "open", str(full_disk / "hole"))
    copy = Path(text.rpartition(" is in ")[2])
    try:
        assert text.startswith(f"ENOSPC: no space left on device, open '{full_disk}/hole'. The content of ")
        assert copy.read_bytes() == old
        assert (0o600, 0o700) == tuple(stat.S_IMODE(os.stat(path).st_mode) for path in (copy, copy.parent))
    finally:
        shutil.rmtree(copy.parent)


@pytest.mark.parametrize("mode", ["steps", "moments"])
@pytest.mark.parametrize("names", [1, 2])
def test_a_writer_that_is_killed_leaves_the_old_or_the_new_content(mode: str, names: int, tmp_path: Path) -> None:
    """In place the content may be half written: then the old one is beside it."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_writer.py")), str(tmp_path), mode, str(names)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    found = dict(line.split(": ") for line in done.stdout.splitlines())
    assert done.returncode == 0, found
    assert int(found["killed"]) >= (4 if mode == "steps" else 20)
    assert found["lost"] == "0"
    if names == 1:
        assert found["half written"] == "0"
