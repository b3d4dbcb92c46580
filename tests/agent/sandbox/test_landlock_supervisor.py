"""The supervisor of commands under Landlock: many at once, its death, and orders that it has not carried out."""

import os
import signal
import sys
from pathlib import Path
from shlex import quote

import pytest
import trio
from tests.agent.sandbox.conftest import UnderLandlock

from pinnace_agent.sandbox.landlock import landlock_refusal
from pinnace_agent.sandbox.landlock_supervisor import Supervisor
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.shell.process import ShellUnavailable

pytestmark = pytest.mark.skipif(landlock_refusal() is not None, reason=f"needs Landlock: {landlock_refusal()}")

END_S = 30.0


def supervisor_of(confined: UnderLandlock) -> int:
    (pid,) = confined.confinement.helpers
    return pid


def gate(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return f"read word < {name}"


async def open_gate(path: Path) -> None:
    """Let the command at a gate go on, once it is there."""
    with trio.fail_after(END_S):
        async with await trio.open_file(path, "w") as writer:
            await writer.write("go\n")


async def test_commands_run_at_once_and_end_their_own_processes_alone(under_landlock: UnderLandlock) -> None:
    folder = under_landlock.folder / "sub"
    os.mkfifo(folder / "life")
    life = os.open(folder / "life", os.O_RDONLY | os.O_NONBLOCK)
    gates = [gate(folder, name) for name in ("a", "b")]
    found: dict[str, tuple[int | None, str]] = {}
    ended = {"a": trio.Event(), "b": trio.Event()}

    async def run(name: str, command: str) -> None:
        status, output = await under_landlock.run(f"cd sub; {command}")
        found[name] = (status.exit_code, output)
        ended[name].set()

    try:
        with trio.fail_after(END_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, "a", f"exec 3> life; setsid sleep 600 3>&3 & (sleep 600 &); {gates[0]}; exit 3")
                nursery.start_soon(run, "b", f"setsid sh -c '{gates[1]}; echo from b' & wait; kill -SEGV $$")
                await open_gate(folder / "a")
                # The end of the pipe: all that has it open has ended, and b waits at its gate.
                await trio.lowlevel.wait_readable(life)
                assert b"" == os.read(life, 1)
                await ended["a"].wait()
                await open_gate(folder / "b")
    finally:
        os.close(life)

    assert {"a": (3, ""), "b": (139, "from b\n")} == found


async def test_a_command_outlives_its_supervisor_and_the_next_one_gets_another(under_landlock: UnderLandlock) -> None:
    folder = under_landlock.folder / "sub"
    at_gate = gate(folder, "g")
    await under_landlock.run("true")
    first = supervisor_of(under_landlock)
    statuses: list[int | None] = []

    async def run() -> None:
        status, _ = await under_landlock.run(f"cd sub; {at_gate}; exit 5")
        statuses.append(status.exit_code)

    with trio.fail_after(END_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            async with await trio.open_file(folder / "g", "w") as writer:  # the command is there
                ended = os.pidfd_open(first)
                os.kill(first, signal.SIGKILL)
                await trio.lowlevel.wait_readable(ended)  # a busy machine takes its time to end it
                os.close(ended)
                await writer.write("go\n")
        status, _ = await under_landlock.run("exit 6")

    assert ([5], 6) == (statuses, status.exit_code)
    assert first != supervisor_of(under_landlock)


async def test_a_command_can_signal_neither_supervisor_nor_keeper(under_landlock: UnderLandlock) -> None:
    await under_landlock.run("true")
    first = supervisor_of(under_landlock)
    status, output = await under_landlock.run(f"for p in {first} $PPID; do kill -9 $p 2>&1; done; exit 4")

    assert (4, 2) == (status.exit_code, output.count("not permitted"))
    assert first == supervisor_of(under_landlock)


async def test_a_command_that_the_supervisor_did_not_get_to_is_an_error(
    under_landlock: UnderLandlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes the order and dies: nothing is run, here or outside, and nothing is repeated."""
    program = tmp_path / "python"
    run = "import socket, sys; socket.socket(fileno=int(sys.argv[-2])).recv(1)"
    program.write_text(f"#!/bin/sh\nexec {quote(sys.executable)} -I -S -c '{run}' \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setattr(under_landlock.confinement, "_supervisor", Supervisor(str(program)))

    with pytest.raises(ShellUnavailable, match="the command was not run"):
        await under_landlock.run("touch sub/here")
    assert not (under_landlock.folder / "sub/here").exists()
    assert () == under_landlock.confinement.helpers


def test_an_unusable_supervisor_is_an_error(tmp_path: Path, private: PrivateFolder) -> None:
    del private
    with pytest.raises(OSError, match="No such file"):
        Supervisor(str(tmp_path / "none")).run((0, 0, 0, 0, 0, 0))  # type: ignore[arg-type]
