"""Protected paths, at work in the real program."""

from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter

NAME = "protected_paths.py"


@pytest.mark.parametrize(
    "path", [".env", "./sub/../.env", "@.env", "{work}/.env", ".git/config", "harmless", "link/config"]
)
def test_a_protected_file_is_not_written_however_it_is_called(extended: Start, path: str) -> None:
    one = extended(NAME, [])
    (one.work / ".git").mkdir()
    (one.work / "harmless").symlink_to(".env")
    (one.work / "link").symlink_to(".git")
    meant = path.format(work=one.work)
    one.pi.llm.add(call("write", path=meant, content="gone"))
    one.pi.llm.add({"text": "done"})
    one.say("write it")

    assert not (one.work / ".env").exists()
    assert [] == list((one.work / ".git").iterdir())
    [(text, is_error)] = one.ends
    assert is_error
    assert text.startswith(f"{meant} is protected")
    assert "warning" == one.asked("notify")["notifyType"]


def test_edit_is_denied_as_well(extended: Start) -> None:
    edit = call("edit", path=".env", edits=[{"oldText": "KEY=1", "newText": "KEY=2"}])
    one = extended(NAME, [edit, {"text": "done"}])
    (one.work / ".env").write_text("KEY=1\n")
    one.say("edit it")

    assert "KEY=1\n" == (one.work / ".env").read_text()
    assert [True] == [is_error for _, is_error in one.ends]


def test_other_files_are_written_and_protected_ones_read(extended: Start) -> None:
    one = extended(NAME, [call("write", path="a.txt", content="new"), call("read", path=".env"), {"text": "done"}])
    (one.work / ".env").write_text("KEY=1\n")
    one.say("go")

    assert "new" == (one.work / "a.txt").read_text()
    assert [False, False] == [is_error for _, is_error in one.ends]
    assert [] == one.frames()


def test_a_path_that_means_nothing_is_blocked(extended: Start) -> None:
    one = extended(NAME, [call("write", path="a\0b", content="x"), {"text": "done"}])
    one.say("go")

    [(text, is_error)] = one.ends
    assert is_error
    assert "NUL" in text


def test_it_protects_without_a_client_too(print_agent: OneShotStarter) -> None:
    words = ["-p", "go", "-e", str(EXAMPLES / NAME)]
    one_shot = print_agent(words, [call("write", path=".env", content="x"), {"text": "done"}])

    assert (0, "done\n") == one_shot.end()[:2]
    assert not Path(one_shot.home.work / ".env").exists()
