"""Where long output is kept: in a file that only the user can read, in a folder that only the user can look into."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

OTHER = 65534
FOLDER = f"pinnace-{os.geteuid()}"
CODE = """
import os, sys
from pinnace_agent.shell.output import OutputTail
os.umask(int(sys.argv[1], 8))
for _ in range(2):
    output = OutputTail()
    output.feed(b"x" * 60_000)
    print(output.result().full_output_path)
"""


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """A folder for temporary files, as of a system: all may write to it."""
    folder = tmp_path / "temp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def kept_in(temp: Path, umask: str = "022") -> list[Path]:
    """Let a process write much twice; return where it has kept it. Each is whole and private."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, umask],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(temp)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    paths = [Path(line) for line in done.stdout.splitlines()]
    for path in paths:
        assert path.read_bytes() == b"x" * 60_000
        assert re.fullmatch(r"pi-bash-[0-9a-f]{16}\.log", path.name)
        assert (0o600, 0o700) == tuple(stat.S_IMODE(os.lstat(each).st_mode) for each in (path, path.parent))
        assert temp == path.parent.parent
    return paths


@pytest.mark.parametrize("umask", ["000", "077"])
def test_the_folder_is_one_for_all_processes_of_the_user(umask: str, temp: Path) -> None:
    paths = [*kept_in(temp, umask), *kept_in(temp, umask)]

    assert len(set(paths)) == 4
    assert {temp / FOLDER} == {path.parent for path in paths}
    assert [FOLDER] == os.listdir(temp)


def test_a_folder_that_was_open_to_others_is_closed(temp: Path) -> None:
    (temp / FOLDER).mkdir()
    (temp / FOLDER).chmod(0o777)

    assert temp / FOLDER == kept_in(temp)[0].parent


def test_a_link_in_its_place_is_not_followed(temp: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (temp / FOLDER).symlink_to(elsewhere)

    for path in kept_in(temp):
        assert path.parent.name.startswith(f"{FOLDER}-")
    assert [] == os.listdir(elsewhere)


def test_a_file_in_its_place_is_left_alone(temp: Path) -> None:
    (temp / FOLDER).write_text("of somebody")

    assert kept_in(temp)[0].parent.name.startswith(f"{FOLDER}-")
    assert (temp / FOLDER).read_text() == "of somebody"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of others")
def test_a_folder_of_another_user_is_not_used(temp: Path) -> None:
    (temp / FOLDER).mkdir()
    os.chown(temp / FOLDER, OTHER, OTHER)

    for path in kept_in(temp):
        assert path.parent.name.startswith(f"{FOLDER}-")
    assert [] == os.listdir(temp / FOLDER)
