"""The private folder of commands is made whatever another process, or another user, has left in its place."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_agent.sandbox.private_folder import PrivateFolder


def deep(folder: Path) -> None:
    for _ in range(40):
        folder = folder / "z"
    folder.mkdir(parents=True)
    while folder.name == "z":
        folder.chmod(0)
        folder = folder.parent


def shut(folder: Path) -> None:
    (folder / "z/y").mkdir(parents=True)
    (folder / "z/y/file").touch()
    (folder / "z/y").chmod(0)
    (folder / "z").chmod(0)


LEFT: dict[str, Callable[[Path], object]] = {
    "a folder that can't be entered": shut,
    "many of them": deep,
    "a folder that is itself shut": lambda folder: folder.chmod(0),
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "a link": lambda folder: (folder / "link").symlink_to("/"),
    "a name that is no text": lambda folder: os.mkdir(os.fsencode(folder) + b"/\xff"),
    "a socket path that is too long": lambda folder: (folder / ("n" * 200) / ("m" * 200)).mkdir(parents=True),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_commands_have_left_is_removed_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    base = tmp_path / f"pinnace-{os.geteuid()}-sandbox"
    base.mkdir(0o700)
    left = base / "private-left"
    left.mkdir()
    LEFT[name](left)
    (base / "private-file").touch()
    made = PrivateFolder("/project")
    made.close()

    assert not os.path.lexists(left)
    assert os.path.isdir("/usr"), "no link was followed"


@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_where_another_one_has_its_name_another_folder_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    base = tmp_path / f"pinnace-{os.geteuid()}-sandbox"
    target = tmp_path / "keys"
    target.mkdir(0o755)
    if kind == "file":
        base.touch()
    else:
        base.symlink_to(target if kind == "link" else tmp_path / "missing")
    made = PrivateFolder("/project")

    assert os.path.dirname(made.path) != str(base)
    assert [] == list(target.iterdir())
    assert 0o755 == stat.S_IMODE(target.stat().st_mode)
    made.close()
