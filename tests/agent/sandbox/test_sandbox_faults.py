"""A sandbox that does not work is refused, with a text that helps; never is something run without it. R-SBX-01."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.agent.sandbox.conftest import Confined

from pinnace_agent.core.ports.confinement import HasSession
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.extensions.services import programs
from pinnace_agent.sandbox import probe as probes
from pinnace_agent.sandbox.landlock import landlock_refusal
from pinnace_agent.sandbox.launcher import Bubblewrap, reports_exit
from pinnace_agent.sandbox.layout import SandboxPlaces
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.probe import Unavailable, find_bubblewrap, remedy
from pinnace_agent.sandbox.repositories import Unprotectable
from pinnace_agent.sandbox.sandbox import set_up
from pinnace_agent.shell.process import ShellUnavailable

NEW = '[ "$1" = --version ] && echo "bubblewrap 0.8.0" && exit; '


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Makes an environment whose bubblewrap is a script."""

    def make(script: str) -> dict[str, str]:
        program = tmp_path / "bin" / "bwrap"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}

    return make


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxPlaces:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = tmp_path.resolve() / "home"
    (home / "project").mkdir(parents=True)
    return SandboxPlaces(str(home / "project"), str(home), str(home / ".pi" / "agent"))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("exit 0", "shows no version"),
        (f"{NEW} exit 0", "without a word"),
        (f"{NEW} exit 23", "without a word"),
        ('[ "$1" = --version ] && echo "bubblewrap 0.4.1"', "install 0.5.0 or newer"),
        (f"{NEW} echo 'bwrap: Unknown option --perms' >&2; exit 1", "too old"),
        (f"{NEW} echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "seccomp profile"),
        (f"{NEW} echo 'bwrap: setting up uid map: Operation not permitted' >&2; exit 1", "ordinary user"),
        (f'{NEW} echo "bwrap: Can\'t mount proc on /newroot/proc" >&2; exit 1', "partly covered"),
        (
            f"{NEW} echo 'bwrap: nesting depth or /proc/sys/user/max_user_namespaces exceeded' >&2; exit 1",
            "another sandbox",
        ),
        (f"{NEW} echo 'bwrap: something new' >&2; exit 1", "something new. Nothing was run"),
    ],
)
def test_a_bubblewrap_that_does_not_work_is_refused(
    fake: Callable[[str], dict[str, str]], places: SandboxPlaces, script: str, text: str
) -> None:
    with pytest.raises(Unavailable, match=text):
        set_up(SandboxPolicy("workspace-write"), places, fake(script))

    assert [] == list(Path(places.folder).iterdir())


def test_the_remedy_says_what_bubblewrap_said() -> None:
    assert remedy("bwrap: No permissions to create new namespace", 1).startswith("bwrap: No permissions")


def test_a_missing_bubblewrap_is_refused_and_one_of_a_project_is_not_used(
    fake: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(f"{NEW} exit 0")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Unavailable, match="apt install bubblewrap"):
        find_bubblewrap({"PATH": "bin:"})


@pytest.mark.parametrize("way", ["in the folder", "by a link", "in a writable folder"])
def test_a_bubblewrap_that_commands_can_write_is_not_used(
    fake: Callable[[str], dict[str, str]], places: SandboxPlaces, way: str
) -> None:
    """As in an environment of the project that is activated, where a command of an earlier session has put it."""
    made = Path(fake(f"{NEW} exit 0")["PATH"].partition(":")[0])
    there = Path(places.home if way == "in a writable folder" else places.folder, "more/bin")
    there.parent.mkdir()
    made.rename(there)
    made.symlink_to(there)
    path = str(made if way == "by a link" else there)
    writable = (f"{places.home}/more",) if way == "in a writable folder" else ()
    policy = SandboxPolicy("read-only", mechanism="bubblewrap", writable=writable)

    with pytest.raises(Unavailable, match=r"bwrap is not used, since commands can write there.*apt install"):
        set_up(policy, places, {"PATH": path})
    if usual := shutil.which("bwrap"):
        folders = os.pathsep.join((path, os.path.dirname(usual)))
        assert usual == find_bubblewrap({"PATH": folders}, (places.folder, f"{places.home}/more")).program


def test_unix_sockets_are_refused_under_landlock(places: SandboxPlaces) -> None:
    if reason := landlock_refusal():
        pytest.skip(reason)

    with pytest.raises(Unavailable, match="unixSockets needs bubblewrap"):
        set_up(SandboxPolicy("read-only", mechanism="landlock", unix_sockets=True), places, os.environ)


def test_links_of_the_settings_are_followed_once(
    places: SandboxPlaces, bubblewrap: Bubblewrap, ordinary_children: None
) -> None:
    """Later a command may have replaced one."""
    del bubblewrap, ordinary_children
    home = Path(places.home)
    (home / "more").mkdir()
    (home / "link").symlink_to("more")
    (home / "project" / "secret").symlink_to("/nonexistent/secret")
    link, hidden = str(home / "link"), f"{places.folder}/secret"
    made = set_up(
        SandboxPolicy("workspace-write", writable=(link,), readable=(link,), hide=(hidden,)), places, os.environ
    )
    made.close()

    more = str(home / "more")
    assert ((more,), (more,)) == (made.policy.writable, made.policy.readable)
    assert (hidden, "/nonexistent/secret") == made.policy.hide


def test_extensions_that_were_loaded_since_the_start_are_protected(
    places: SandboxPlaces, bubblewrap: Bubblewrap, ordinary_children: None
) -> None:
    """Those of another session's folder, and while a reload has none loaded."""
    del bubblewrap, ordinary_children
    code = Path(places.folder, "code")
    code.mkdir()
    agent = SimpleNamespace(extensions=SimpleNamespace(files=[str(code)]), session=SimpleNamespace(path=None, cwd="/"))
    made = set_up(SandboxPolicy("workspace-write", readable=(places.home,)), places, os.environ)
    try:
        assert str(code) not in made.confinement.layout().protected
        made.follow(cast(HasSession, agent), cast(Emitter, None))
        assert str(code) in made.confinement.layout().protected
        agent.extensions.files = []
        assert str(code) in made.confinement.layout().protected
        agent.extensions.files = [places.home]
        with pytest.raises(Unprotectable, match="pinnace itself runs from"):
            made.confinement.layout()
    finally:
        made.close()


def test_a_machine_without_a_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MACHINES", {})

    with pytest.raises(Unavailable, match="no filter"):
        find_bubblewrap(os.environ)


def test_temporary_files_that_cannot_be_written_are_refused(
    fake: Callable[[str], dict[str, str]], places: SandboxPlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc")

    with pytest.raises(Unavailable, match="private folder"):
        set_up(SandboxPolicy("read-only"), places, fake(f"{NEW} exit 0"))


def test_a_mechanism_that_does_not_exist_here_is_refused(places: SandboxPlaces) -> None:
    with pytest.raises(Unavailable, match="seatbelt"):
        set_up(SandboxPolicy("workspace-write", mechanism="seatbelt"), places, os.environ)


@pytest.mark.parametrize(
    ("version", "text"),
    [(0, "the kernel has no Landlock"), (5, "the kernel's Landlock has version 5, and 6 is required")],
)
def test_an_old_landlock_is_refused_and_never_replaced_by_no_sandbox(
    places: SandboxPlaces, monkeypatch: pytest.MonkeyPatch, version: int, text: str
) -> None:
    monkeypatch.setattr("pinnace_agent.sandbox.landlock.landlock_abi", lambda: version)

    with pytest.raises(Unavailable, match=f"^{text}"):
        set_up(SandboxPolicy("read-only", mechanism="landlock"), places, os.environ)
    # By itself: both reasons are named.
    with pytest.raises(Unavailable, match=f"bwrap.* was not found.* Landlock in its place: {text}"):
        set_up(SandboxPolicy("read-only"), places, {"PATH": "/nowhere"})


def test_workspace_write_does_not_choose_landlock_by_itself(places: SandboxPlaces) -> None:
    with pytest.raises(Unavailable, match="was not found: install the package bubblewrap"):
        set_up(SandboxPolicy("workspace-write"), places, {"PATH": "/nowhere"})


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "echo '{\"child-pid\": 1}'; exit 0"])
async def test_a_bubblewrap_that_runs_nothing_is_a_failure_of_the_command(
    confined: Confined, fake: Callable[[str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    program = fake(script)["PATH"].partition(":")[0]
    confined.confinement.bubblewrap = Bubblewrap(f"{program}/bwrap", "0.8.0", disables_namespaces=True)

    with pytest.raises(ShellUnavailable, match="The command was not run: the sandbox could not be set up"):
        await confined.run("touch here")
    monkeypatch.setattr(programs, "children", lambda: confined.children)
    done = await programs.run_program(["touch", "here"], cwd=str(confined.folder))
    assert programs.START_FAILED == done.code
    assert "The command was not run" in done.stderr
    assert not (confined.folder / "here").exists()


async def test_a_folder_that_is_gone_is_named(confined: Confined) -> None:
    places = confined.confinement.places
    confined.confinement.places = places._replace(folder=f"{places.folder}/gone")

    with pytest.raises(ShellUnavailable, match=r"not run.*/gone is not there any more"):
        await confined.run("touch here")
    assert not (confined.folder / "here").exists()


async def test_what_bubblewrap_said_is_in_the_text(confined: Confined, fake: Callable[[str], dict[str, str]]) -> None:
    program = fake("echo 'bwrap: it is Monday' >&2; exit 1")["PATH"].partition(":")[0]
    confined.confinement.bubblewrap = Bubblewrap(f"{program}/bwrap", "0.8.0", disables_namespaces=True)

    with pytest.raises(ShellUnavailable, match=r"not run.*\nbwrap: it is Monday"):
        await confined.run("touch here")
    assert not (confined.folder / "here").exists()


async def test_what_cannot_be_protected_any_more_stops_the_command(confined: Confined) -> None:
    (confined.folder / ".pi").rmdir()
    (confined.folder / ".pi").symlink_to(confined.home)

    with pytest.raises(ShellUnavailable, match="is a link"):
        await confined.run("touch here")
    assert not (confined.folder / "here").exists()


@pytest.mark.parametrize(
    ("report", "has_run"),
    [
        (b"", False),
        (b'{"child-pid": 7}\n', False),
        (b'{"child-pid": 7}\n{"exit-code": 0}\n', True),
        (b'"exit-code"\n', False),
        (b"exit-code", False),
    ],
)
def test_a_program_has_run_if_bubblewrap_reports_its_exit(report: bytes, *, has_run: bool) -> None:
    assert has_run == reports_exit(report)
