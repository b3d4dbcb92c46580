"""What a path leads to is decided once: a link that comes into its place later stops the command."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agent.sandbox.conftest import Confined, UnderLandlock
from tests.forked_agents import open_descriptors

from pinnace_agent.core.ports.confinement import ProgramStart
from pinnace_agent.sandbox import launcher, opened
from pinnace_agent.sandbox.landlock import LandlockStart, landlock_refusal
from pinnace_agent.sandbox.launcher import ConfinedProgram
from pinnace_agent.sandbox.opened import LinkOnTheWay, look_at
from pinnace_agent.sandbox.verification import ExpectedFile, NotAsMeant, verify
from pinnace_agent.shell.process import ShellUnavailable

# By what the layout makes of it: pinned, protected, hidden, and the working folder itself.
SWAPPED = {
    "project/.git": "pinned",
    "project/.git/info": "pinned, between the folder and what is protected",
    "project/.git/config": "protected",
    "project/.git/hooks": "protected",
    "project/.pi": "protected",
    "project": "the working folder",
    ".ssh": "hidden",
    ".netrc": "a hidden file",
}


@pytest.fixture
def world(confined: Confined) -> Confined:
    """A home folder with keys, and a repository."""
    subprocess.run(["git", "init", "-q", "."], cwd=confined.folder, check=True)
    for each in (".ssh", "project/.pi", "project/.git/info", "project/.git/hooks"):
        (confined.home / each).mkdir(exist_ok=True)
    for each in (".netrc", "project/.git/info/attributes"):
        (confined.home / each).write_text("secret\n")
    return confined


def prepared(confined: Confined, script: str) -> ConfinedProgram:
    return confined.confinement.confine(ProgramStart(["/bin/sh", "-c", script], dict(os.environ), str(confined.folder)))


def put_link(path: Path, to: Path) -> None:
    """Make a relative link: bubblewrap resolves an absolute one in a root that holds nothing yet."""
    path.symlink_to(os.path.relpath(to, path.parent))


def ended(program: ConfinedProgram) -> int:
    process = program.launch(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
    try:
        program.release()
    finally:
        handle = os.pidfd_open(process.pid)
        os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOWAIT)
        os.close(handle)
        status = process.poll()
        assert status is not None
        program.close()
    return status


@pytest.mark.parametrize("name", SWAPPED)
def test_what_is_replaced_by_a_link_before_the_mounts_are_made_stops_the_program(world: Confined, name: str) -> None:
    path = world.home / name
    program = prepared(world, f"touch {world.home}/ran {world.folder}/ran")
    put_link(path, path.rename(world.home / "was"))

    with pytest.raises(NotAsMeant, match=path.name):
        ended(program)
    assert not list(world.home.rglob("ran"))


def test_without_looking_inside_a_command_writes_through_the_link(world: Confined) -> None:
    """That the test above can fail."""
    outside = world.home / "outside"
    outside.mkdir()
    program = prepared(world, "echo x > .git/info/written")
    (world.folder / ".git/info").rename(world.home / "was")
    put_link(world.folder / ".git/info", outside)
    (outside / "attributes").touch()
    program.expected = ()
    ended(program)

    assert (outside / "written").exists()


@pytest.mark.parametrize("name", ["project/.git/info", "project/.git/hooks", "project/.pi"])
async def test_what_is_a_link_already_stops_the_command(world: Confined, name: str) -> None:
    path = world.home / name
    put_link(path, path.rename(world.home / "was"))

    with pytest.raises(ShellUnavailable, match=f"{name} is a link"):
        await world.run("touch ran")
    assert not (world.folder / "ran").exists()


@pytest.mark.parametrize("has_link", [True, False])
async def test_a_rule_of_landlock_is_for_what_was_there(
    under_landlock: UnderLandlock, monkeypatch: pytest.MonkeyPatch, has_link: bool
) -> None:
    """What comes into its place between the decision and the keeper gets no right."""
    if reason := landlock_refusal():
        pytest.skip(reason)
    outside = under_landlock.home / "outside"
    outside.mkdir()
    folder = under_landlock.folder / "sub"

    def replace() -> None:
        folder.rename(under_landlock.home / "was")
        if has_link:
            put_link(folder, outside)
        else:
            outside.rename(folder)

    made = LandlockStart.__init__

    def prepared(self: LandlockStart, *arguments: Any) -> None:
        replace()
        made(self, *arguments)

    monkeypatch.setattr(LandlockStart, "__init__", prepared)
    await under_landlock.run("echo x > sub/written; echo x > ../outside/written")

    assert not list(under_landlock.home.rglob("written"))


def test_all_processes_end_with_the_program(world: Confined) -> None:
    """Whatever has become of bubblewrap itself: the first process of the namespace is ended by its handle."""
    program = prepared(world, "sleep 60")
    process = program.launch(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
    program.release()
    program.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert process.poll() is not None


def test_a_program_does_not_run_if_its_gate_is_closed(world: Confined) -> None:
    """As when the agent ends before it has looked."""
    program = prepared(world, "touch ran")
    process = program.launch(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
    handle = os.pidfd_open(process.pid)
    assert program.gate.is_reached(handle, 10)
    os.close(handle)
    program.gate.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    status = process.poll()
    program.close()

    assert 125 == status
    assert not (world.folder / "ran").exists()


def test_another_view_is_named() -> None:
    here = look_at("/usr").identity
    verify([ExpectedFile("/usr", here, look_at("/usr").is_read_only)], os.getpid())
    for wrong in (
        ExpectedFile("/usr", look_at("/etc").identity, is_read_only=False),
        ExpectedFile("/usr", here, not look_at("/usr").is_read_only),
        ExpectedFile("/usr"),
        ExpectedFile("/usr", is_file=True),
        ExpectedFile("/nowhere"),
    ):
        with pytest.raises(NotAsMeant, match=wrong.path):
            verify([wrong], os.getpid())


@pytest.mark.parametrize("has_it", [True, False])
def test_a_path_is_opened_without_a_link_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_it: bool
) -> None:
    if has_it and not opened.has_openat2():
        pytest.skip("the kernel has no openat2")
    monkeypatch.setattr(opened, "has_openat2", lambda: has_it)
    root = tmp_path.resolve()
    (root / "folder/below").mkdir(parents=True)
    (root / "link").symlink_to("folder")
    (root / "folder/file").touch()
    (root / "folder/link").symlink_to("file")
    status = (root / "folder/below").stat()
    before = open_descriptors()  # what an earlier test has left may be closed meanwhile

    assert (status.st_dev, status.st_ino) == look_at(f"{root}/folder/below").identity
    assert look_at("/dev/null").is_null
    assert look_at("/").identity == (os.stat("/").st_dev, os.stat("/").st_ino)
    for each in ("link", "link/below", "folder/link", "link/missing"):
        with pytest.raises(LinkOnTheWay, match=each):
            look_at(f"{root}/{each}")
    for each in ("missing", "folder/missing", "folder/file/below"):
        with pytest.raises(OSError, match=each):
            look_at(f"{root}/{each}")
    assert set() == open_descriptors() - before


def test_a_gate_is_used_again_once_nothing_can_reach_it(world: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a program has left in it lets no other one pass."""
    monkeypatch.setattr(launcher, "_END_S", 60)  # a busy machine takes longer than a user should wait
    first = prepared(world, "while read -r x; do :; done < /dev/null; echo > /dev/gate/go; echo > /dev/gate/ready")
    ended(first)
    second = prepared(world, "touch ran")

    assert first.gate is second.gate
    process = second.launch(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
    handle = os.pidfd_open(process.pid)
    assert second.gate.is_reached(handle, 10)
    os.close(handle)
    assert not (world.folder / "ran").exists()
    second.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.poll() is not None
    third = prepared(world, "touch ran")
    assert 0 == ended(third)
    assert (world.folder / "ran").exists()
