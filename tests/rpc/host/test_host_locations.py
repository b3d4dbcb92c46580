"""Where a host is found, and what is refused on the way: folders of others, links, long paths, a second host."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pinnace_rpc.attach.finding import _connected
from pinnace_rpc.host import locations
from pinnace_rpc.host.locations import Holder, HostLock, HostRuns, LocationError

HOLD = (
    "import sys, time; from pinnace_rpc.host.locations import HostLock\n"
    "lock = HostLock.take(sys.argv[1], '/s/host.sock', '9.9'); print('held', flush=True); sys.stdin.read()"
)


def test_the_socket_is_in_the_runtime_folder_else_in_one_of_the_user() -> None:
    assert locations.default_socket({"XDG_RUNTIME_DIR": "/run/user/7"}) == "/run/user/7/pinnace/host.sock"
    assert locations.default_socket({"TMPDIR": "/t", "XDG_RUNTIME_DIR": "x"}) == f"/t/pinnace-{os.getuid()}/host.sock"


def test_a_path_too_long_for_a_socket_is_an_error() -> None:
    locations.check_socket_path("/" + "a" * 100)
    with pytest.raises(LocationError, match="--socket"):
        locations.check_socket_path("/" + "a" * 200)


def test_a_folder_that_a_host_makes_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its lock, and so its name, before it has the folder of its socket."""
    look = os.lstat

    def make_behind(path: str) -> os.stat_result:
        try:
            return look(path)
        except FileNotFoundError:
            os.mkdir(path, 0o700)
            raise

    monkeypatch.setattr(os, "lstat", make_behind)
    holder = Holder(os.getpid(), socket.gethostname(), str(tmp_path / "new" / "host.sock"), "9.9")

    assert _connected(holder) is None
    assert (tmp_path / "new").is_dir()


def test_a_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    locations.make_folder(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700
    locations.make_folder(str(folder))


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o701])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(LocationError, match="mode"):
        locations.make_folder(str(folder))


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir(0o700)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(LocationError, match="link"):
        locations.make_folder(str(tmp_path / "link"))


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(LocationError, match="no folder"):
        locations.make_folder(str(tmp_path / "x"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir(0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(LocationError, match="12345"):
        locations.make_folder(str(folder))


def test_the_peer_of_a_socket_is_this_user() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert locations.peer_uid(ours) == os.getuid()
        locations.check_peer(ours)


def test_a_second_host_is_refused_and_names_the_first(tmp_path: Path) -> None:
    """The lock ends with its process."""
    assert locations.running_host(str(tmp_path)) is None
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        holder = locations.running_host(str(tmp_path))
        assert holder is not None
        assert (holder.pid, holder.machine) == (first.pid, socket.gethostname())
        assert (holder.socket, holder.release) == ("/s/host.sock", "9.9")
        with pytest.raises(HostRuns, match=f"process {first.pid} on {socket.gethostname()}"):
            HostLock.take(str(tmp_path), "/other", "1")
        first.kill()
    assert locations.running_host(str(tmp_path)) is None
    lock = HostLock.take(str(tmp_path), "/other", "1")
    assert (tmp_path / "host" / "host.lock").stat().st_mode & 0o777 == 0o600
    lock.release()


def test_a_host_that_has_the_lock_and_is_not_yet_named_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks between the two is not told that none runs."""
    lock = HostLock.take(str(tmp_path), "/s/host.sock", "9.9")
    path = tmp_path / "host" / "host.lock"
    named = path.read_bytes()
    path.write_bytes(b"")

    def name_it(_seconds: float) -> None:
        path.write_bytes(named)

    monkeypatch.setattr(time, "sleep", name_it)
    holder = locations.running_host(str(tmp_path))
    assert holder is not None
    assert holder.socket == "/s/host.sock"
    lock.release()


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir(0o700)
    (tmp_path / "host" / "host.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocationError):
        HostLock.take(str(tmp_path), "/s", "1")
    assert not (tmp_path / "elsewhere").exists()
