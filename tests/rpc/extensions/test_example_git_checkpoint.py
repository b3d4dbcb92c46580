"""Checkpoints in a Git repository, at work in the real program."""

import subprocess
from pathlib import Path

import pytest
from tests.rpc.extensions.conftest import Extended, Start, call

from pinnace_fuzz.script import Scripted

NAME = "git_checkpoint.py"
RESTORE, KEEP, CANCEL = "Restore the files of that time", "Keep the files as they are", "Do not fork"
GIT = {f"GIT_{who}_{what}": "ann" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(work: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=work,
        env={"PATH": "/usr/bin:/bin", "HOME": str(work), **GIT},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def repository(extended: Start, *script: Scripted) -> Extended:
    """An agent in a repository with one file that says `committed`."""
    one = extended(NAME, script, env=GIT, has_session=True)
    git(one.work, "init", "-q")
    (one.work / "a.txt").write_text("committed")
    git(one.work, "add", ".")
    git(one.work, "commit", "-qm", "first")
    return one


def after_two_prompts(extended: Start) -> tuple[Extended, str]:
    """The first prompt finds `drafted` and has `first` written, the second has `second`. Returns its entry, too."""
    one = repository(
        extended,
        call("write", path="a.txt", content="first"),
        {"text": "done"},
        call("write", path="a.txt", content="second"),
        {"text": "done"},
        {"text": "more"},
    )
    (one.work / "a.txt").write_text("drafted")
    one.say("one")
    one.say("two")
    return one, str(one.pi.ask("get_fork_messages")["messages"][1]["entryId"])


def fork(one: Extended, entry: str, answer: str) -> tuple[object, bool]:
    """Fork with this answer; return the text to say anew, and whether it was called off."""
    one.pi.send({"id": "fork", "type": "fork", "entryId": entry})
    one.reply(one.asked("select"), value=answer)
    data = one.pi.wait_response("fork")["data"]
    return data.get("text"), data["cancelled"]


def test_a_fork_takes_the_files_back(extended: Start) -> None:
    one, entry = after_two_prompts(extended)

    assert fork(one, entry, RESTORE) == ("two", False)
    assert "first" == (one.work / "a.txt").read_text()
    assert "before going back" in git(one.work, "stash", "list")
    assert "second" == git(one.work, "show", "stash@{0}:a.txt")


def test_the_user_can_keep_the_files(extended: Start) -> None:
    one, entry = after_two_prompts(extended)

    assert fork(one, entry, KEEP) == ("two", False)
    assert "second" == (one.work / "a.txt").read_text()


def test_the_user_can_call_the_fork_off(extended: Start) -> None:
    one, entry = after_two_prompts(extended)
    session = one.pi.ask("get_state")["sessionId"]

    assert fork(one, entry, CANCEL)[1]
    assert session == one.pi.ask("get_state")["sessionId"]
    assert "second" == (one.work / "a.txt").read_text()


def test_files_as_they_were_committed_are_a_checkpoint_too(extended: Start) -> None:
    one = repository(extended, call("write", path="a.txt", content="changed"), {"text": "done"})
    one.say("one")
    [user] = one.pi.ask("get_fork_messages")["messages"]
    fork(one, user["entryId"], RESTORE)

    assert "committed" == (one.work / "a.txt").read_text()


@pytest.mark.parametrize("position", ["fork", "clone"])
def test_outside_of_a_repository_no_question_is_asked(extended: Start, position: str) -> None:
    one = extended(NAME, [{"text": "done"}], has_session=True)
    one.say("one")
    [user] = one.pi.ask("get_fork_messages")["messages"]

    assert not one.pi.ask(position, **({"entryId": user["entryId"]} if position == "fork" else {}))["cancelled"]
    assert [] == one.frames()
    assert [] == one.errors
