"""A configuration file is changed without losing anything: what others write, what is unknown, all of it in a crash."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.files.file_lock import STALE_S
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject

ENV = {**os.environ, "PYTHONPATH": PYTHONPATH}
FORM = FileForm(pretty)


def edit(path: Path, form: FileForm = FORM, /, **changes: object) -> bool:
    return edit_object(path, lambda content: {**content, **changes}, form).is_changed


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_not_changed_stays_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text('\ufeff{"z": 1.0, "a": {"x": [12345678901234567890123, 1e2]}, "é": "\\ud83d\\ude00", "m": null}')
    edit(file, new=True)

    assert list(json.loads(file.read_text())) == ["z", "a", "é", "m", "new"]
    assert '"z": 1.0' in file.read_text()
    assert "12345678901234567890123" in file.read_text()
    assert '"é": "😀"' in file.read_text()


def test_a_change_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a":1}')

    assert not edit(tmp_path / "f.json", a=1)
    assert '{"a":1}' == (tmp_path / "f.json").read_text()


def test_true_is_another_value_than_one(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a":1}')

    assert edit(tmp_path / "f.json", a=True)
    assert '{\n  "a": true\n}' == (tmp_path / "f.json").read_text()


def test_a_new_file_and_its_folders_are_the_users_alone(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "f.json"
    previous = os.umask(0)
    try:
        edit(file, a=1)
    finally:
        os.umask(previous)

    assert (0o600, 0o700, 0o700) == (mode_of(file), mode_of(file.parent), mode_of(file.parents[1]))


def test_the_mode_of_a_file_is_kept_and_that_of_a_private_one_tightened(tmp_path: Path) -> None:
    for name in ("open", "private"):
        (tmp_path / name).write_text("{}")
        (tmp_path / name).chmod(0o644)
    edit(tmp_path / "open", a=1)
    edited = edit_object(tmp_path / "private", lambda _: {"a": 1}, FileForm(pretty, is_private=True))

    assert edited.is_tightened
    assert (0o644, 0o600) == (mode_of(tmp_path / "open"), mode_of(tmp_path / "private"))


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "real.json").write_text("{}")
    (tmp_path / "f.json").symlink_to(tmp_path / "dotfiles" / "real.json")
    edit(tmp_path / "f.json", a=1)

    assert (tmp_path / "f.json").is_symlink()
    assert {"a": 1} == json.loads((tmp_path / "dotfiles" / "real.json").read_text())


def test_a_file_in_a_folder_that_is_a_link_has_one_lock(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert edit(tmp_path / "link" / "f.json", a=1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}', '{"a": "x", }'])
@pytest.mark.parametrize("has_backup", [False, True])
def test_a_file_that_cant_be_read_is_never_written(text: str, has_backup: bool, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(text)
    form = FORM._replace(has_backup=has_backup)
    with pytest.raises(ConfigurationFileError):
        edit(tmp_path / "f.json", form, a=1)

    assert text == (tmp_path / "f.json").read_text()
    assert ["f.json"] == [path.name for path in tmp_path.iterdir()]


def test_the_backup_has_the_content_after_the_change(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a":1}')
    edit(tmp_path / "f.json", FORM._replace(has_backup=True), a=2)

    assert '{\n  "a": 2\n}' == (tmp_path / "f.json.bak").read_text()


def test_a_failure_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a":1}')

    def change(_: JsonObject) -> JsonObject:
        raise ValueError

    with pytest.raises(ValueError):
        edit_object(tmp_path / "f.json", change, FORM)

    assert ["f.json"] == [path.name for path in tmp_path.iterdir()]


def test_what_a_killed_process_left_is_removed_in_time(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text("{}")
    old, young = tmp_path / ".f.json.0000000000000000.tmp", tmp_path / ".f.json.1111111111111111.tmp"
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    edit(tmp_path / "f.json", a=1)

    assert (False, True) == (old.exists(), young.exists())


def test_a_writer_whose_lock_was_taken_over_begins_anew(tmp_path: Path) -> None:
    """It was stopped for long: what the other has written meanwhile is not lost."""
    file = tmp_path / "f.json"
    file.write_text("{}")
    seen: list[JsonObject] = []

    def change(content: JsonObject) -> JsonObject:
        seen.append(content)
        if len(seen) == 1:
            old_s = time.time() - STALE_S - 1
            os.utime(tmp_path / "f.json.lock", (old_s, old_s))
            edit(file, theirs=1)
        return {**content, "ours": 1}

    edit_object(file, change, FORM)

    assert [{}, {"theirs": 1}] == seen
    assert {"theirs": 1, "ours": 1} == json.loads(file.read_text())


WRITER = """
import sys
from pathlib import Path
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
path, name = Path(sys.argv[1]), sys.argv[2]
for number in range(8):
    edit_object(path, lambda content: {**content, f"{name}{number}": number}, FileForm(pretty, "before"))
"""


def test_writers_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text('{"mine": {"kept": true}}')
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), name], env=ENV) for name in "abc"]

    assert [0, 0, 0] == [writer.wait(60) for writer in writers]
    expected = {"mine": {"kept": True}} | {f"{name}{number}": number for name in "abc" for number in range(8)}
    assert expected == json.loads(file.read_text())


# Kills itself at the n-th thing that Python reports to its auditors: each file that is opened, made, renamed, removed.
KILLED = """
import itertools, os, signal, sys
from pathlib import Path
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
root = Path(sys.argv[1])
for number in itertools.count(1):
    folder = root / str(number)
    folder.mkdir()
    (folder / "f.json").write_text('{"a": "old"}')
    child = os.fork()
    if not child:
        left = number
        def audit(event, args):
            global left
            if event == "open" or event.startswith("os."):
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(audit)
        edit_object(folder / "f.json", lambda content: {"a": "new"}, FileForm(pretty, "before"))
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_kill_9_at_any_moment_leaves_what_was_there_or_what_is_new(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=ENV, check=True, timeout=60)
    states = [
        json.loads((tmp_path / str(number) / "f.json").read_text())["a"] for number in range(1, 1 + count(tmp_path))
    ]

    assert len(states) > 10
    assert sorted(states, reverse=True) == states  # "old" up to some moment, "new" from then on
    assert {"old", "new"} == set(states)


def test_after_kill_9_at_any_moment_the_next_writer_succeeds(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=ENV, check=True, timeout=60)
    for number in range(1, 1 + count(tmp_path)):
        folder = tmp_path / str(number)
        if (folder / "f.json.lock").exists():
            os.utime(folder / "f.json.lock", (0, 0))
        edit(folder / "f.json", b=1)

        assert 1 == json.loads((folder / "f.json").read_text())["b"]
        assert not (folder / "f.json.lock").exists()


def count(root: Path) -> int:
    return sum(1 for _ in root.iterdir())
