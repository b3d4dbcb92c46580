"""A machine on which a sandbox can't be set up, for real: nothing is run, and nothing is left open. R-SBX-01."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.sandbox.conftest import Confined
from tests.source_tree import PYTHONPATH

from pinnace_agent.core.ports.confinement import ProgramStart
from pinnace_agent.sandbox.launcher import Bubblewrap, BubblewrapConfinement
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.probe import Unavailable, probe
from pinnace_agent.shell.process import ShellUnavailable

# Prints why there is no sandbox; or that a command has run in it.
SET_UP = """
import os, sys
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.probe import Unavailable
from pinnace_agent.sandbox.sandbox import places_of, set_up
folder = sys.argv[1]
policy = SandboxPolicy("workspace-write", readable=(os.path.dirname(folder),))
try: set_up(policy, places_of(os.environ, folder), os.environ)
except Unavailable as error: print(error)
else: print("a sandbox works")
"""
WHOLE = ["bwrap", "--dev-bind", "/", "/", "--unshare-user"]
SURROUNDINGS = {
    "nothing is wrong": ([], "a sandbox works"),
    "a covered /proc": (
        ["--unshare-pid", "--proc", "/proc", "--ro-bind", "/dev/null", "/proc/version"],
        "Can't mount proc on /newroot/proc: Operation not permitted: /proc is partly covered",
    ),
    "no further namespaces": (["--disable-userns"], "this is inside another sandbox that forbids further ones"),
    "a disk that is read-only": (
        ["--ro-bind", "/", "/", "--dev", "/dev"],
        "the private folder of commands can't be made: [Errno 2] No usable temporary directory found",
    ),
    "a disk that is full": (
        # A file system whose only page is taken, where everything else is read-only.
        [
            *("--ro-bind", "/", "/", "--dev", "/dev"),
            *("--size", "4096", "--tmpfs", "{temporary}", "--file", "0", "{temporary}/filling"),
        ],
        "the private folder of commands can't be made: [Errno 2] No usable temporary directory found",
    ),
    "a working folder that is read-only": (
        ["--ro-bind", "{folder}", "{folder}"],
        "bwrap: Can't mkdir {folder}/.pi: Read-only file system",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "home" / "project"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_where_it_cannot_be_set_up_nothing_runs(
    name: str, folder: Path, tmp_path: Path, ordinary_children: None
) -> None:
    del ordinary_children
    if shutil.which("bwrap") is None or subprocess.run([*WHOLE, "true"], check=False).returncode:
        pytest.skip("needs bubblewrap (bwrap), and user namespaces")
    temporary = tmp_path.resolve() / "temporary"
    temporary.mkdir()
    words, expected = SURROUNDINGS[name]
    names = {"temporary": str(temporary), "folder": str(folder)}
    env = {**os.environ, "HOME": str(folder.parent), "TMPDIR": str(temporary), "PYTHONPATH": PYTHONPATH}
    env.pop("PI_CODING_AGENT_DIR", None)
    done = subprocess.run(
        [*WHOLE, *(each.format(**names) for each in words), sys.executable, "-c", SET_UP, str(folder)],
        env=env,
        input=b"x" * 4096,
        capture_output=True,
        check=False,
    )

    assert expected.format(**names) in done.stdout.decode(), done


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Restores the limit of descriptors."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_without_descriptors_no_start_is_prepared_and_none_is_lost(
    confined: Confined, private: PrivateFolder, few_descriptors: None
) -> None:
    del few_descriptors
    private.gates.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = sorted(os.listdir("/proc/self/fd"))
    unused = [each for each in range(4096) if not os.path.exists(f"/proc/self/fd/{each}")]
    prepared = 0
    for limit in unused[:10]:  # so many are left
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        try:
            start = confined.confinement.confine(ProgramStart(["true"], {}, "/"))
        except OSError:
            pass
        else:
            prepared += 1
            assert len(start.start.pass_fds) == 2
            start.started()
            start.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        private.gates.close()  # one that was not used is kept for the next program
        assert before == sorted(os.listdir("/proc/self/fd"))

    assert 0 < prepared < 10


async def test_in_a_folder_that_was_removed_nothing_runs(confined: Confined, tmp_path: Path) -> None:
    confined.folder.rename(tmp_path / "moved")

    with pytest.raises(ShellUnavailable):
        await confined.run("touch ~/here")
    with pytest.raises(Unavailable, match="/project is not there any more"):
        probe(confined.confinement, os.environ, "/")
    assert not (confined.home / "here").exists()


def test_an_older_bubblewrap_refuses_namespaces_by_the_filter(
    confined: Confined, private: PrivateFolder, bubblewrap: Bubblewrap
) -> None:
    """0.5 to 0.7 have no `--disable-userns`: a newer one is used without it."""
    older = bubblewrap._replace(version="0.5.0", disables_namespaces=False)
    policy, places = confined.confinement.policy, confined.confinement.places
    confinement = BubblewrapConfinement(policy, places, older, private)
    words = [
        "/bin/sh",
        "-c",
        "unshare -U true && echo made; unshare -Ur true && echo made; unshare -n true && echo made",
    ]
    program = confinement.confine(ProgramStart(words, dict(os.environ), str(confined.folder)))
    start = program.start
    with subprocess.Popen(
        list(start.arguments),
        cwd=start.cwd,
        env=dict(start.env),
        pass_fds=start.pass_fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        program.started()
        program.release(process.pid)
        output, errors = process.communicate()

    assert "--disable-userns" not in start.arguments
    assert ("", None) == (output.decode(), program.failure(process.returncode))
    assert errors.count(b"Operation not permitted") == 3
    program.close()
