"""A command that is killed at any moment leaves the old packages or the new ones; the next one cleans up."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND, await_gone
from tests.rpc.packages.conftest import User, skill

from pinnace_agent.packages import staging
from pinnace_fuzz.process_tree import processes_with


def text_in(folder: int, name: str) -> str:
    file = os.open(name, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(file, 9).decode()
    finally:
        os.close(file)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_an_install_that_is_killed_while_npm_works_leaves_the_old_packages(user: User) -> None:
    user.registry.publish("one", "1.0.0", skill("old"))
    user.run("install", "npm:one")
    before = contents(user.agent_dir)
    user.registry.publish("one", "2.0.0", skill("new"))
    user.registry.gate.clear()
    command = subprocess.Popen([*COMMAND, "update"], env=user.env, cwd=user.work, stderr=subprocess.DEVNULL)
    assert user.registry.waiting.wait(120)
    begun = processes_with(os.fsencode(user.home))
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert [] == await_gone(begun)  # npm, too, which writes until then
    user.registry.gate.set()
    kept = {name: content for name, content in contents(user.agent_dir).items() if ".npm.pinnace-" not in name}
    assert before == kept
    assert ["old"] == user.skills()
    # The lock of a killed process is taken over when it is stale.
    for lock in user.agent_dir.glob("*.lock"):
        os.utime(lock, (0, 0))
    user.run("update")
    assert ["new"] == user.skills()
    assert not [path.name for path in user.agent_dir.iterdir() if "pinnace" in path.name or "lock" in path.name]


def test_a_folder_has_its_old_or_its_new_content_at_every_moment(tmp_path: Path) -> None:
    """Another process that reads meanwhile never finds it missing or mixed."""
    root = tmp_path / "npm"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_text("0")
    seen: set[tuple[str, str]] = set()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            folder = os.open(root, os.O_RDONLY)  # both files of one folder, whatever its name is by then
            try:
                seen.add((text_in(folder, "a"), text_in(folder, "b")))
            except FileNotFoundError:  # it was removed after it had been replaced
                pass
            finally:
                os.close(folder)

    reader = threading.Thread(target=read)
    reader.start()
    for count in range(1, 30):
        with staging.changing(root, root, copies=True) as stage:
            for name in ("a", "b"):
                (stage / name).write_text(str(count))
    ended.set()
    reader.join()
    assert {one for one, other in seen if one != other} == set()
    assert ["a", "b"] == sorted(path.name for path in root.iterdir())


@pytest.mark.parametrize("has_exchange", [True, False])
def test_a_failure_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_exchange: bool) -> None:
    root = tmp_path / "npm"
    root.mkdir()
    (root / "a").write_text("old")
    if not has_exchange:
        monkeypatch.setattr("ctypes.CDLL", lambda *_args, **_options: object())

    def change(fails: bool) -> None:
        with staging.changing(root, root, copies=True) as stage:
            (stage / "a").write_text("new")
            if fails:
                raise KeyError

    outcome: Callable[[], list[str]] = lambda: [path.name for path in tmp_path.iterdir()]  # noqa: E731
    with pytest.raises(KeyError):
        change(True)
    assert ("old", ["npm"]) == ((root / "a").read_text(), outcome())
    change(False)
    assert ("new", ["npm"]) == ((root / "a").read_text(), outcome())
