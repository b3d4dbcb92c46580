"""Values that name a variable or a command."""

import os
import select
import sys
import traceback
from pathlib import Path
from shlex import quote

import pytest
import trio

from pinnace_agent.config.values import (
    UnresolvedValue,
    is_configured,
    legacy_variable,
    resolve,
)
from pinnace_agent.redaction.policy import Secret

ENV = {"KEY": "secret", "EMPTY": "", "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sk-literal", "sk-literal"),
        ("KEY", "KEY"),
        ("$KEY", "secret"),
        ("${KEY}", "secret"),
        ("Bearer ${KEY}!", "Bearer secret!"),
        ("$$KEY", "$KEY"),
        ("$!echo", "!echo"),
        ("5$ and $ 6", "5$ and $ 6"),
        ("${KEY", "${KEY"),
        ("!echo from-a-command", "from-a-command"),
        ("!echo $KEY", "secret"),
        ("!printf '  trimmed \\n\\n'", "trimmed"),
        ("!echo said; echo this >&2", "said"),
    ],
)
async def test_a_value_becomes_its_text(text: str, value: str) -> None:
    assert value == await resolve(Secret(text), ENV)


@pytest.mark.parametrize("text", ["$MISSING", "${MISSING}", "a $EMPTY b", "$KEY $MISSING"])
async def test_a_variable_that_is_not_set_leaves_the_value_unresolved(text: str) -> None:
    with pytest.raises(UnresolvedValue, match=r"the variable (MISSING|EMPTY) is not set"):
        await resolve(Secret(text), ENV)
    assert not is_configured(Secret(text), ENV)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "failed with status 3"),
        ("true", "is empty"),
        ("echo; echo", "is empty"),
        ("no-such-program", "failed with status 127"),
        ("echo one; echo two", "a header can't carry"),
        ("printf '\\377'", "not UTF-8"),
        ("printf 'caf\\303\\251'", "a header can't carry"),
        ("kill -9 $$", "failed with status -9"),
    ],
)
async def test_a_command_that_gives_no_value_is_reported(command: str, why: str) -> None:
    with pytest.raises(UnresolvedValue, match=why):
        await resolve(Secret(f"!{command}"), ENV)


async def test_a_command_that_says_too_much_is_stopped() -> None:
    with trio.fail_after(30), pytest.raises(UnresolvedValue, match="more than 65536 bytes"):
        await resolve(Secret("!yes"), ENV)


async def test_a_command_reads_nothing_from_the_protocol() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"stolen\n")
    os.close(writer)
    stdin = os.dup(0)
    os.dup2(reader, 0)
    try:
        with pytest.raises(UnresolvedValue, match="is empty"):
            await resolve(Secret("!cat"), ENV)
        assert b"stolen\n" == os.read(0, 100)
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
        os.close(reader)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which everything that a command may look for is something else."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "json").mkdir()
    for name in ("json/__init__.py", "getpass.py", "sitecustomize.py"):
        (folder / name).write_text("print('hostile')")
    (folder / "startup").write_text("echo hostile")
    (folder / "secret-tool").write_text("#!/bin/sh\necho hostile")
    (folder / "secret-tool").chmod(0o755)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("path", ["", ".", "{project}", "{project}:", ":/nowhere"])
@pytest.mark.parametrize(
    "how", ["-m json.tool --help >/dev/null && echo own", "-c 'import json, getpass; print(\"own\")'"]
)
async def test_a_command_loads_no_modules_of_the_working_folder(
    how: str, path: str, hostile: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": path.format(project=hostile)}
    assert "own" == await resolve(Secret(f"!{quote(sys.executable)} {how}"), env)


async def test_a_command_loads_no_modules_of_the_agent_folder_either(tmp_path: Path) -> None:
    """Where a project was checked out into it, or a model has written there."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "json.py").write_text("print('hostile')")
    env = {**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    assert "own" == await resolve(Secret(f"!{quote(sys.executable)} -c 'import json; print(\"own\")'"), env)


@pytest.mark.parametrize("path", ["", ".", "project:.", "{path}:"])
async def test_a_command_finds_no_programs_of_the_working_folder(path: str, hostile: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": path.format(path=os.environ["PATH"])}
    with pytest.raises(UnresolvedValue, match="status 127"):
        await resolve(Secret("!secret-tool"), env)


async def test_a_command_runs_no_startup_file_that_variables_name(hostile: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "ENV": "./startup", "BASH_ENV": str(hostile / "startup")}
    assert "own" == await resolve(Secret("!bash -c 'echo own'"), env)


async def test_a_command_runs_in_the_agent_folder(hostile: Path, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    env = {"PATH": os.environ["PATH"], "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    assert str(tmp_path / "agent") == await resolve(Secret("!pwd -P"), env)
    assert "/" == await resolve(Secret("!pwd -P"), {**env, "PI_CODING_AGENT_DIR": str(tmp_path / "nothing")})


async def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(UnresolvedValue, match=r"longer than 0\.5 s"):
            await resolve(Secret(f"!exec 9>'{fifo}'; sleep 600 & sleep 600; wait"), ENV, timeout_s=0.5)
        # Whoever has the other end keeps it open: its end says that all are gone.
        assert [reader] == select.select([reader], [], [], 30)[0]
        assert b"" == os.read(reader, 1)
    finally:
        os.close(reader)


async def test_cancelling_kills_the_command(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    with trio.move_on_after(30) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(resolve, Secret(f"!exec 9>'{fifo}'; echo up >&9; sleep 600"), ENV)
            reader = await trio.to_thread.run_sync(os.open, fifo, os.O_RDONLY)
            assert b"up\n" == await trio.to_thread.run_sync(os.read, reader, 3)
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught
    assert b"" == os.read(reader, 1)
    os.close(reader)


def test_whether_a_command_works_is_not_tried(tmp_path: Path) -> None:
    assert is_configured(Secret(f"!touch {tmp_path}/ran; false"), ENV)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "meant"), [("KEY", "$KEY"), ("EMPTY", "EMPTY"), ("OTHER", "OTHER"), ("key", "key"), ("!KEY", "!KEY")]
)
def test_a_key_that_is_only_the_name_of_a_set_variable_means_that_variable(text: str, meant: str) -> None:
    assert meant == legacy_variable(Secret(text), ENV).reveal()


def test_a_secret_is_shown_by_nothing() -> None:
    secret = Secret("sk-marker")
    try:
        raise ValueError(secret)
    except ValueError:
        shown = traceback.format_exc() + f"{secret} {secret!r} {[secret]} {sys.exc_info()}"
    assert "sk-marker" not in shown
