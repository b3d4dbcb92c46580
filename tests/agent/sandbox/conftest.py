"""A sandbox around real commands. Skipped where bubblewrap is missing or not allowed."""

import ctypes
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from pinnace_agent.core.ports.confinement import Confinement
from pinnace_agent.sandbox.landlock import LandlockConfinement
from pinnace_agent.sandbox.landlock_supervisor import Supervisor
from pinnace_agent.sandbox.launcher import Bubblewrap, BubblewrapConfinement
from pinnace_agent.sandbox.layout import SandboxPlaces
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.probe import Unavailable, find_bubblewrap, probe
from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.process import ShellStatus, run_shell


class Text:
    """The output of a command."""

    def __init__(self) -> None:
        self.text = ""

    def feed(self, data: bytes) -> str:
        self.text += data.decode()
        return self.text

    def finish(self) -> str:
        return ""


Mechanism = TypeVar("Mechanism", BubblewrapConfinement, LandlockConfinement)


@dataclass
class _Commands(Generic[Mechanism]):
    """A working folder in a sandbox, and commands in it."""

    folder: Path
    home: Path
    confinement: Mechanism
    problems: list[str] = field(default_factory=list[str])
    children: ChildProcesses = field(default_factory=ChildProcesses)

    async def run(self, command: str, *, timeout_s: float | None = None) -> tuple[ShellStatus, str]:
        """Run a command, and return its end and its output."""
        output = Text()
        env = {**os.environ, "HOME": str(self.home)}
        status = await run_shell(
            command, cwd=str(self.folder), output=output, env=env, timeout_s=timeout_s, children=self.children
        )
        return status, output.text


class Confined(_Commands[BubblewrapConfinement]):
    """In a sandbox of bubblewrap."""


class UnderLandlock(_Commands[LandlockConfinement]):
    """Under Landlock."""


@pytest.fixture(scope="session")
def bubblewrap() -> Bubblewrap:
    try:
        return find_bubblewrap(os.environ)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateFolder]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = PrivateFolder(str(tmp_path / "home" / "project"))
    yield folder
    folder.close()


# Of linux/prctl.h and linux/capability.h.
_AMBIENT, _IS_SET, _RAISE, _CLEAR_ALL, _DAC_READ_SEARCH = 47, 1, 2, 4, 2


@pytest.fixture
def ordinary_children() -> Iterator[None]:
    """Lets children of an ordinary user have no capability: .ci/as-user passes one on, and bubblewrap refuses that."""
    prctl = ctypes.CDLL(None).prctl
    has_one = prctl(_AMBIENT, _IS_SET, _DAC_READ_SEARCH, 0, 0) == 1
    prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    yield
    if has_one:
        prctl(_AMBIENT, _RAISE, _DAC_READ_SEARCH, 0, 0)


@pytest.fixture
def confined(tmp_path: Path, bubblewrap: Bubblewrap, private: PrivateFolder, ordinary_children: None) -> Confined:
    """A folder that commands may write."""
    del ordinary_children
    home = tmp_path.resolve() / "home"
    project = home / "project"
    project.mkdir(parents=True)
    places = SandboxPlaces(str(project), str(home), str(home / ".pi" / "agent"))
    # Shown, since the folders of tests are below one that the sandbox replaces.
    policy = SandboxPolicy("workspace-write", readable=(str(home),))
    found = Confined(project, home, BubblewrapConfinement(policy, places, bubblewrap, private))
    found.confinement.report = found.problems.append
    try:
        probe(found.confinement, os.environ, str(project))
    except Unavailable as reason:
        pytest.skip(str(reason))
    confinement: Confinement = found.confinement
    found.children.confinement = confinement
    return found


@pytest.fixture
def under_landlock(tmp_path: Path, private: PrivateFolder) -> Generator[UnderLandlock, None, None]:
    """A folder whose entries commands may write: here its folder `sub`."""
    home = tmp_path.resolve() / "home"
    project = home / "project"
    (project / "sub").mkdir(parents=True)
    places = SandboxPlaces(str(project), str(home), str(home / ".pi" / "agent"))
    confinement = LandlockConfinement(
        SandboxPolicy("workspace-write", readable=(str(home),)), places, private, Supervisor()
    )
    found = UnderLandlock(project, home, confinement)
    found.children.confinement = confinement
    yield found
    confinement.close()
