"""One process at a time has the lease of a session, and a dead one has none."""

import errno
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import trio
from tests.source_tree import PYTHONPATH

from pinnace_agent.session.store import lease as lease_module
from pinnace_agent.session.store.lease import Lease, LeaseHeld, take_lease, take_waiting

_ENV = {**os.environ, "PYTHONPATH": PYTHONPATH}

_HOLDER = """
import sys
from pathlib import Path
from pinnace_agent.session.store.lease import Lease
lease = Lease.take(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.readline()
lease.release()
print("released", flush=True)
sys.stdin.readline()
"""


@contextmanager
def _holder(session: Path) -> Generator["subprocess.Popen[str]", None, None]:
    command = [sys.executable, "-c", _HOLDER, str(session)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_ENV) as process:
        try:
            assert _said(process) == "taken"
            yield process
        finally:
            process.kill()


def _said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _sidecar(session: Path) -> Path:
    return session.with_name(session.name + ".lease")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def test_l9_the_error_of_a_second_process_names_the_holder_and_what_to_do(session: Path) -> None:
    with _holder(session) as process:
        with pytest.raises(LeaseHeld) as caught:
            Lease.take(session)

        holder = caught.value.holder
        assert holder is not None
        assert holder.pid == process.pid
        assert 0 <= holder.age_s < 60
        for part in (str(session), f"process {process.pid}", "for ", " s,", "--fork"):
            assert part in caught.value.text


def test_l9_the_lease_of_a_killed_process_is_taken_at_once(session: Path) -> None:
    with _holder(session) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert _sidecar(session).exists()

        lease = Lease.take(session)

        assert json.loads(_sidecar(session).read_text())["pid"] == os.getpid()
        lease.release()


def test_l9_of_many_processes_one_at_a_time_has_the_lease(session: Path, tmp_path: Path) -> None:
    contender = """
import os, sys
from pathlib import Path
from pinnace_agent.session.store.lease import Lease, LeaseHeld
session, inside = Path(sys.argv[1]), sys.argv[2]
def take():
    while True:
        try:
            return Lease.take(session)
        except LeaseHeld:
            pass
sys.stdin.readline()
for _ in range(200):
    lease = take()
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if another is inside
    os.unlink(inside)
    lease.release()
"""
    command = [sys.executable, "-c", contender, str(session), str(tmp_path / "inside")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, env=_ENV, text=True) for _ in range(4)]
    for process in processes:
        _tell(process)

    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert not _sidecar(session).exists()


def test_a_second_lease_in_the_same_process_is_refused_too(session: Path) -> None:
    lease = Lease.take(session)
    with pytest.raises(LeaseHeld):
        Lease.take(session)
    lease.release()


def test_releasing_leaves_no_file_and_may_be_done_twice(session: Path) -> None:
    lease = Lease.take(session)
    lease.release()
    assert not _sidecar(session).exists()

    second = Lease.take(session)
    lease.release()

    assert _sidecar(session).exists()
    assert second.is_in_place()
    second.release()


def test_releasing_does_not_take_the_file_of_another_holder_away(session: Path) -> None:
    first = Lease.take(session)
    _sidecar(session).unlink()
    second = Lease.take(session)
    assert not first.is_in_place()

    first.release()

    assert second.is_in_place()
    with pytest.raises(LeaseHeld):
        Lease.take(session)
    second.release()


def test_s1_the_file_is_for_the_user_alone_whatever_the_umask(session: Path) -> None:
    for umask in (0, 0o777):
        former = os.umask(umask)
        try:
            lease = Lease.take(session)
        finally:
            os.umask(former)
        assert stat.S_IMODE(_sidecar(session).stat().st_mode) == 0o600
        lease.release()


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_link_is_never_followed(session: Path, tmp_path: Path, is_dangling: bool) -> None:
    target = tmp_path / "target"
    if not is_dangling:
        target.write_text("precious")
    _sidecar(session).symlink_to(target)

    with pytest.raises(OSError) as caught:
        Lease.take(session)

    assert caught.value.errno == errno.ELOOP
    assert target.exists() != is_dangling
    assert is_dangling or target.read_text() == "precious"


def test_a_file_that_has_the_sidecars_name_as_well_is_never_written(session: Path, tmp_path: Path) -> None:
    """A hard link, which may have been put there to have something else overwritten."""
    target = tmp_path / "target"
    target.write_text("precious")
    os.link(target, _sidecar(session))
    lease = Lease.take(session)
    assert "precious" == target.read_text()
    assert lease.is_in_place()
    with pytest.raises(LeaseHeld):
        Lease.take(session)
    lease.release()
    assert not _sidecar(session).exists()


def test_a_lease_that_is_held_is_kept_although_its_sidecar_has_another_name(session: Path, tmp_path: Path) -> None:
    """A backup by hard links while it is held."""
    lease = Lease.take(session)
    os.link(_sidecar(session), tmp_path / "backup")
    with pytest.raises(LeaseHeld):
        Lease.take(session)
    assert lease.is_in_place()
    lease.release()


def test_a_pipe_in_its_place_is_refused_without_waiting(session: Path) -> None:
    os.mkfifo(_sidecar(session))
    with pytest.raises(OSError, match="not a regular file"):
        Lease.take(session)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Lease.take(tmp_path / "no" / "s.jsonl")


UNNAMED = [b"", b"{", b"[]", b'{"pid":true}', b"\xff\n", b"[" * 4000, "a dead process"]


class Waits:
    """Stands for the pauses of a thread: something may happen in each."""

    def __init__(self, *happenings: Callable[[], object]) -> None:
        self._happenings = iter(happenings)
        self.waited_s = 0.0

    def __call__(self, duration_s: float) -> float:
        self.waited_s += duration_s
        next(self._happenings, lambda: None)()
        return duration_s


@contextmanager
def _locked(session: Path, content: bytes | str) -> Generator[IO[bytes], None, None]:
    """Let this process have the lock, and not yet have written who it is."""
    if isinstance(content, str):
        with _holder(session) as process:
            process.kill()
            process.wait()
    else:
        _sidecar(session).write_bytes(content)
    with _sidecar(session).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.mark.parametrize("content", UNNAMED)
def test_a_holder_that_does_not_write_its_name_is_unknown(
    session: Path, content: bytes | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk."""
    monkeypatch.setattr(lease_module, "_pause", waits := Waits())
    with _locked(session, content), pytest.raises(LeaseHeld, match="another process") as caught:
        Lease.take(session)
    assert caught.value.holder is None
    assert 0 < waits.waited_s < 1


@pytest.mark.parametrize("content", UNNAMED)
def test_a_holder_that_has_just_taken_the_lease_is_named_once_it_has_written_its_name(
    session: Path, content: bytes | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SES-06: the error names the holder."""
    with _locked(session, content) as file:

        def sign() -> None:
            named = {"pid": os.getpid(), "host": socket.gethostname(), "started": "2026-01-01T00:00:00Z"}
            os.pwrite(file.fileno(), json.dumps(named).encode() + b"\n", 0)

        monkeypatch.setattr(lease_module, "_pause", Waits(lambda: None, sign))
        with pytest.raises(LeaseHeld, match=f"process {os.getpid()}"):
            Lease.take(session)


def test_a_lease_whose_holder_ends_before_it_has_written_its_name_is_taken(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _locked(session, b"") as file:
        monkeypatch.setattr(lease_module, "_pause", Waits(lambda: fcntl.flock(file, fcntl.LOCK_UN)))
        Lease.take(session).release()


def test_waiting_ends_when_the_holder_lets_go(session: Path) -> None:
    with _holder(session) as process:
        _tell(process)
        take_waiting(session, 30).release()


def test_waiting_ends_with_the_time(session: Path) -> None:
    with _holder(session), pytest.raises(LeaseHeld):
        take_waiting(session, 0.1)


async def test_a_task_waits_until_the_holder_lets_go(session: Path) -> None:
    with _holder(session) as process:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _take() -> None:
                (await take_lease(session, 30)).release()

            with pytest.raises(LeaseHeld):
                await take_lease(session, 0)
            _tell(process)


async def test_a_task_that_is_cancelled_while_it_waits_leaves_no_lease(session: Path) -> None:
    with _holder(session) as process:
        with trio.move_on_after(0.2) as scope:
            await take_lease(session, 30)
        assert scope.cancelled_caught
        _tell(process)
        assert _said(process) == "released"

        Lease.take(session).release()


async def test_a_task_that_is_cancelled_at_any_moment_leaves_no_lease_that_it_does_not_return(session: Path) -> None:
    for steps in range(12):
        taken: list[Lease] = []
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def _take(taken: list[Lease] = taken) -> None:
                    taken.append(await take_lease(session, 30))

                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        for lease in taken:
            lease.release()
        Lease.take(session).release()


_X86_FLOCK = 73


def test_a_file_system_without_locks_has_leases_marked_as_such(session: Path) -> None:
    """The kernel is made to answer as such a file system does: flock fails with ENOTSUP."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the filter of system calls is written for x86_64")
    program = f"""
import ctypes, errno, struct, sys
from pathlib import Path
from pinnace_agent.session.store.lease import Lease
def rule(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
rules = rule(0x20, 0, 0, 0) + rule(0x15, 0, 1, {_X86_FLOCK})
rules += rule(6, 0, 0, 0x50000 | errno.ENOTSUP) + rule(6, 0, 0, 0x7FFF0000)
class Filter(ctypes.Structure):
    _fields_ = [("size", ctypes.c_ushort), ("rules", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(4, rules)), 0, 0):
    sys.exit(77)
lease = Lease.take(Path(sys.argv[1]))
assert not lease.is_enforced
lease.release()
"""
    status = subprocess.run([sys.executable, "-c", program, str(session)], env=_ENV, check=False).returncode
    if status == 77:
        pytest.skip("filters of system calls are not allowed here")
    assert status == 0
    lease = Lease.take(session)
    assert lease.is_enforced
    lease.release()
