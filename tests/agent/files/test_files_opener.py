"""What the opener opens, and what it refuses."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked_agents import open_descriptors

from pinnace_agent.files import opener
from pinnace_agent.files.opener import FileRefused, Reach, open_file, open_folder, read_file, resolve
from pinnace_agent.files.protected import NEVER_IN_PROMPTS, OF_PROCESSES, Places

AGENT = Path(opener.__file__).parents[2]
NOBODY = 65_534
EVERYWHERE = Reach(OF_PROCESSES, Places())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder in which files may be opened, beside one in which none may."""
    (tmp_path / "inside" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "inside"


def within(root: Path) -> Reach:
    return Reach(NEVER_IN_PROMPTS, Places(str(root.parent), str(root.parent / "agent")), (str(root),))


def content(path: Path, reach: Reach, max_bytes: int = 1_000) -> bytes:
    return read_file(str(path), reach, max_bytes)[0]


def refusal(path: Path | str, reach: Reach) -> str:
    with pytest.raises(FileRefused) as caught:
        read_file(str(path), reach, 1_000)
    return caught.value.text


def test_a_file_is_read_up_to_the_limit(root: Path) -> None:
    (root / "a").write_text("words")
    assert b"words" == content(root / "a", within(root))
    assert b"wor" == content(root / "a", within(root), 3)


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "deep" / "a").write_text("words")
    (root / "folder").symlink_to("deep")
    (root / "b").symlink_to(root / "folder" / "a")
    with open_file(str(root / "b"), within(root)) as file:
        assert (str(root / "deep" / "a"), 5) == (file.real_path, file.status.st_size)


@pytest.mark.parametrize("target", ["../outside/secret", "deep/../../outside/secret", "{}/outside/secret"])
def test_a_link_that_leads_outside_is_refused(root: Path, target: str) -> None:
    (root / "a").symlink_to(target.format(root.parent))
    assert f"leads to {root.parent}/outside/secret, which is outside of {root}" == refusal(root / "a", within(root))


def test_a_folder_that_is_a_link_outside_is_refused(root: Path) -> None:
    (root / "folder").symlink_to("../outside")
    assert "outside of" in refusal(root / "folder" / "secret", within(root))


@pytest.mark.parametrize("target", ["/proc/self/environ", "/proc/cpuinfo", "/dev/null", "/dev/stdin"])
def test_what_belongs_to_the_kernel_is_refused_in_every_folder(root: Path, target: str) -> None:
    (root / "a").symlink_to(target)
    assert "which" in refusal(root / "a", within(root)._replace(roots=("/",)))


def test_a_protected_file_inside_is_refused(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("token")
    (root / "a").symlink_to(".git/config")
    assert "belongs to git" in refusal(root / "a", within(root))


@pytest.mark.parametrize("name", ["environ", "cmdline", "mem", "fd/0", "task/{pid}/environ"])
@pytest.mark.parametrize("process", ["self", "{pid}", "thread-self"])
def test_what_shows_a_process_is_opened_nowhere(process: str, name: str) -> None:
    path = f"/proc/{process}/{name}".format(pid=os.getpid())
    with open(os.devnull, "rb") as null, pytest.raises((FileRefused, FileNotFoundError)):
        read_file(path.replace("fd/0", f"fd/{null.fileno()}"), EVERYWHERE, 10)


def test_a_file_that_was_deleted_is_not_reached_by_its_descriptor(tmp_path: Path) -> None:
    (tmp_path / "gone").write_text("secret")
    with open(tmp_path / "gone", "rb") as file:
        (tmp_path / "gone").unlink()
        with pytest.raises(OSError):
            read_file(f"/proc/self/fd/{file.fileno()}", EVERYWHERE, 10)


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/proc/mounts", "/proc/net/route"])
def test_files_of_the_kernel_about_itself_may_be_read_where_nothing_else_is_refused(path: str) -> None:
    if os.path.exists(path):
        assert isinstance(read_file(path, EVERYWHERE, 10)[0], bytes)


def test_a_mounted_copy_of_proc_is_refused(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs to mount")
    script = 'mount --bind /proc "$1" && exec python3 -c "$2" "$1/self/environ"'
    (root / "p").mkdir()
    code = "import sys; print(open(sys.argv[1]).read(0) == '')"
    probe = ["unshare", "-m", "sh", "-c", script, "sh", str(root / "p"), code]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount")
    code = (
        f"import sys; sys.path.insert(0, {str(AGENT)!r})\n"
        "from pinnace_agent.files.opener import *; from pinnace_agent.files.protected import *\n"
        "try: read_file(sys.argv[1], Reach(OF_PROCESSES, Places()), 10)\n"
        "except FileRefused as error: print(error.text)"
    )
    done = subprocess.run([*probe[:-1], code], capture_output=True, check=False, text=True)
    assert "environment" in done.stdout, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_an_ordinary_user_passes_through_folders_that_may_not_be_listed() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "unlisted" / "open").mkdir(parents=True)
        (root / "unlisted" / "open" / "a").write_text("words")
        (root / "unlisted" / "closed").write_text("secret")
        (root / "unlisted" / "closed").chmod(0o600)
        for folder, mode in ((root, 0o711), (root / "unlisted", 0o711), (root / "unlisted" / "open", 0o755)):
            folder.chmod(mode)
        code = (
            f"import os, sys; sys.path.insert(0, {str(AGENT)!r})\n"
            "from pinnace_agent.files.opener import *; from pinnace_agent.files.protected import *\n"
            f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
            f"reach = Reach(NEVER_IN_PROMPTS, Places(), ({str(root)!r},))\n"
            "for reach in (reach, reach._replace(roots=None)):\n"
            f"  print(read_file({str(root)!r} + '/unlisted/open/a', reach, 9)[0])\n"
            f"try: read_file({str(root)!r} + '/unlisted/closed', reach, 9)\n"
            "except PermissionError: print('refused')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
        assert ["b'words'", "b'words'", "refused"] == done.stdout.split(), done.stderr


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [_fifo, _socket])
def test_what_is_no_regular_file_is_refused_at_once(
    root: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    make(root / "a")
    assert "is no regular file" == refusal(root / "a", within(root))


def test_a_folder_is_no_file(root: Path) -> None:
    for path in (root / "deep", root):
        with pytest.raises(IsADirectoryError):
            content(path, within(root))


def test_what_is_not_there_and_loops_are_errors_of_the_system(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    with pytest.raises(FileNotFoundError):
        content(root / "nothing", within(root))
    with pytest.raises(OSError, match="symbolic links"):
        content(root / "loop", within(root))
    assert "is no path of a file" == refusal("a\0b", within(root))


def test_a_link_that_takes_the_place_of_a_folder_after_the_check_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class of races: the check sees one tree and the opening another."""
    (root / "deep" / "secret").write_text("harmless")
    resolved = opener.resolve

    def resolve_then_swap(path: str, reach: Reach) -> str:
        real = resolved(path, reach)
        (root / "deep").rename(root / "former")
        (root / "deep").symlink_to("../outside")
        return real

    monkeypatch.setattr(opener, "resolve", resolve_then_swap)
    with pytest.raises(NotADirectoryError):
        content(root / "deep" / "secret", within(root))


def test_a_link_that_takes_the_place_of_a_file_after_the_check_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("harmless")
    resolved = opener.resolve

    def resolve_then_swap(path: str, reach: Reach) -> str:
        real = resolved(path, reach)
        (root / "a").unlink()
        (root / "a").symlink_to("../outside/secret")
        return real

    monkeypatch.setattr(opener, "resolve", resolve_then_swap)
    with pytest.raises((OSError, FileRefused)):
        content(root / "a", within(root))


def test_a_folder_is_opened_by_its_real_path_only(root: Path) -> None:
    (root / "link").symlink_to("deep")
    folder = open_folder(str(root / "deep"))
    os.close(os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    assert ["new"] == os.listdir(root / "deep")
    with pytest.raises(NotADirectoryError):
        open_folder(str(root / "link"))
    with pytest.raises(NotADirectoryError):
        open_folder(str(root / "link" / "below"), str(root))


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "a").write_text("words")
    (root / "deep" / "link").symlink_to("/")
    before = open_descriptors()  # what an earlier test has left may be closed meanwhile
    for path in ("a", "deep", "nothing", "deep/link/etc/hostname"):
        with pytest.raises((OSError, FileRefused)):
            content(root / path, within(root))
            raise FileNotFoundError
    assert set() == open_descriptors() - before


def test_resolving_returns_the_place_of_a_file_without_opening_it(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "a").symlink_to("fifo")
    assert str(root / "fifo") == resolve(str(root / "a"), within(root))
