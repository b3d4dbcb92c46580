"""What holds for commands holds inside a sandbox: real commands in real sandboxes."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from tests.agent.sandbox.conftest import Confined

from pinnace_agent.extensions.services import programs
from pinnace_agent.sandbox.bubblewrap import setup_arguments
from pinnace_agent.sandbox.private_folder import PrivateFolder
from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.shell.process import ShellUnavailable
from pinnace_agent.tools.local import search_program

LEFT = "[The sandbox ended processes that the command left running.]"


async def test_it_writes_the_working_folder_and_temporary_files_alone(confined: Confined) -> None:
    name = f"written-{uuid4().hex}"  # that no other process has
    places = ["here", f"/tmp/{name}", f"/var/tmp/{name}", "../outside", "~/.bashrc", f"/etc/{name}"]
    script = f"for f in {' '.join(places)}; do touch $f && echo wrote $f; done 2>/dev/null"
    _, output = await confined.run(script)

    assert [f"wrote {place}" for place in places[:3]] == output.splitlines()
    assert (confined.folder / "here").exists()
    assert not any(Path(place).exists() for place in places[1:3])


@pytest.mark.parametrize(
    ("command", "code"), [("exit 7", 7), ("kill -SEGV $$", 139), ("kill -TERM $$", 143), ("nosuch", 127)]
)
async def test_exit_codes_and_signals_are_kept(confined: Confined, command: str, code: int) -> None:
    status, output = await confined.run(command)

    assert code == status.exit_code
    assert command == "nosuch" or not output, "the shell around it is not heard"


async def test_streams_and_input_are_as_outside(confined: Confined) -> None:
    _, output = await confined.run("echo 1; echo 2 >&2; wc -c; ls /proc/self/fd | wc -l; echo $0")

    # The descriptors are the usual three and that of the listing.
    assert ["1", "2", "0", "4"] == output.splitlines()[:4]


async def test_output_of_a_process_that_ends_after_the_shell_is_kept(confined: Confined) -> None:
    _, output = await confined.run("echo late > >(sleep 0.03; cat)")

    assert "late\n" == output


async def test_nothing_outlives_its_command_and_the_output_says_so(confined: Confined) -> None:
    os.mkfifo(confined.folder / "life")
    reading = os.open(confined.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
    status, output = await confined.run("exec 3> life; setsid sleep 600 & (sleep 600 &) ; exit 3")

    assert (3, f"{LEFT}\n") == (status.exit_code, output)
    await end_of(reading)


async def end_of(reading: int) -> None:
    """Wait until no process has the other end of a pipe open."""
    os.set_blocking(reading, True)
    with trio.fail_after(30):
        assert b"" == await trio.to_thread.run_sync(os.read, reading, 1)
    os.close(reading)


async def created(path: Path) -> None:
    """Wait until a command has made a file."""
    with trio.fail_after(30):
        while not path.exists():  # noqa: ASYNC110  # another process makes it
            await trio.sleep(0.005)


@pytest.mark.parametrize("way", ["abort", "timeout", "kill all"])
async def test_every_process_ends_with_an_abort(confined: Confined, way: str) -> None:
    os.mkfifo(confined.folder / "life")
    reading = os.open(confined.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
    ready = confined.folder / "ready"
    script = "exec 3> life; trap '' TERM; for i in 1 2 3; do setsid sleep 600 & done; touch ready; wait"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await created(ready)
                if way == "abort":
                    scope.cancel()
                confined.children.kill_all()

            if way != "timeout":
                nursery.start_soon(stop)
            status, _ = await confined.run(script, timeout_s=1 if way == "timeout" else None)
            assert status.timed_out == (way == "timeout")

    await end_of(reading)


async def test_a_command_lives_longer_than_an_idle_thread(confined: Confined) -> None:
    """A sandbox ends with the thread that started it; threads of trio end after ten seconds without work."""
    status, output = await confined.run("sleep 10.5; echo done")

    assert (0, "done\n") == (status.exit_code, output)


async def test_killing_the_agent_ends_its_commands(confined: Confined) -> None:
    """Without the watchdog: it is the sandbox that ends."""
    os.mkfifo(confined.folder / "life")
    reading = os.open(confined.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
    words = [*setup_arguments(confined.confinement.layout()), "--chdir", str(confined.folder), "--"]
    words += ["/bin/sh", "-c", "exec 3> life; echo ready; setsid sleep 600 & wait"]
    with subprocess.Popen(["/bin/sh", "-c", '"$@"; exit', "sh", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        process.kill()

    await end_of(reading)


async def test_programs_of_extensions_are_confined(confined: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "children", lambda: confined.children)
    done = await programs.run_program(
        ["/bin/sh", "-c", "touch ~/x; echo out; exit 5"],
        cwd=str(confined.folder),
        env={"HOME": str(confined.home), "PATH": os.environ["PATH"]},
    )

    assert ("out\n", 5) == (done.stdout, done.code)
    assert "Read-only file system" in done.stderr


async def test_searches_write_nothing(confined: Confined) -> None:
    found = bytearray()

    def take(data: bytes) -> bool:
        found.extend(data)
        return False

    end = await search_program.run_search(
        ["/bin/sh", "-c", "touch here || echo refused"],
        cwd=str(confined.folder),
        env=dict(os.environ),
        take=take,
        children=confined.children,
    )

    assert (b"refused\n", 0) == (bytes(found), end.exit_code)


async def test_addresses_of_services_are_not_in_the_environment(
    confined: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "LISTEN_FDS", "DOCKER_HOST"):
        monkeypatch.setenv(name, "x")
    _, output = await confined.run("env")

    names = {line.partition("=")[0] for line in output.splitlines()}
    assert not names & {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "LISTEN_FDS", "DOCKER_HOST"}
    assert {"PINNACE_SANDBOX=workspace-write", "TMPDIR=/tmp"} <= set(output.splitlines())


async def test_another_configuration_of_git_is_removed_and_reported(confined: Confined) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=confined.folder, check=True)
    await confined.run("echo ../evil > .git/commondir")

    assert not (confined.folder / ".git" / "commondir").exists()
    assert ["commondir" in each for each in confined.problems] == [True]


async def test_a_change_of_something_protected_during_a_command_is_reported(confined: Confined) -> None:
    """A mount ends when a process outside replaces its mount point."""
    subprocess.run(["git", "init", "-q", "."], cwd=confined.folder, check=True)
    confined.confinement.protections = Protections()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(confined.run, "touch ready; while [ ! -e end ]; do sleep 0.01; done")
        await created(confined.folder / "ready")
        subprocess.run(["git", "config", "user.name", "x"], cwd=confined.folder, check=True)
        (confined.folder / "end").touch()

    assert [f"{confined.folder}/.git/config: replaced while a command ran" in each for each in confined.problems] == [
        True
    ]


async def test_folders_above_what_is_protected_or_hidden_cannot_be_renamed(confined: Confined) -> None:
    """Another folder of the name would hold nothing that is protected, and under another name nothing is hidden."""
    folder, places = confined.folder, confined.confinement.places
    module = folder / ".git" / "modules" / "m"
    for each in (module / "objects", folder / ".git" / "objects", folder / "sub"):
        each.mkdir(parents=True)
    for each in (module, module.parents[1]):
        (each / "HEAD").touch()
        (each / "config").touch()
    (folder / ".gitmodules").write_text('[submodule "m"]\n\tpath = sub\n')
    (folder / "sub" / ".git").write_text("gitdir: ../.git/modules/m\n")
    confined.confinement.protections = Protections()
    names = ("tools/code", "kept/hidden", "more/cache", "own/sessions")
    for name in names:
        (folder / name).mkdir(parents=True)
    code, hidden, writable, sessions = (str(folder / name) for name in names)
    confined.confinement.places = places._replace(code=(code,), session_dirs=(sessions,))
    policy = confined.confinement.policy
    confined.confinement.policy = replace(policy, hide=(hidden,), writable=(writable,))
    above = [".git/modules", ".git/modules/m", "sub", *(name.partition("/")[0] for name in names)]
    script = f"for f in {' '.join(above)}; do mv $f $f.moved; done; touch {' '.join(f'{f}/new' for f in above)}"
    _, output = await confined.run(script)

    assert [f"mv: cannot move '{f}' to '{f}.moved': Device or resource busy" for f in above] == output.splitlines()
    assert all((folder / place / "new").exists() for place in above)
    assert [] == confined.problems


async def test_what_is_hidden_within_something_protected_is_hidden(confined: Confined) -> None:
    hidden = [confined.folder / each / "hidden" for each in (".git", ".git/hooks", ".pi")]
    for each in hidden:
        each.mkdir(parents=True)
        (each / "key").write_text("secret")
    policy = confined.confinement.policy
    confined.confinement.policy = replace(policy, hide=tuple(map(str, hidden)))
    _, output = await confined.run("cat .git/hidden/key .git/hooks/hidden/key .pi/hidden/key; ls .git")

    assert "secret" not in output
    assert ["hidden", "hooks"] == output.splitlines()[-2:]


async def test_a_writable_folder_that_has_become_a_link_ends_the_command(confined: Confined) -> None:
    place = confined.home / "more"
    place.symlink_to(confined.home)
    confined.confinement.policy = replace(confined.confinement.policy, writable=(str(place),))

    with pytest.raises(ShellUnavailable, match=f"not run.*{place} has become a link"):
        await confined.run("touch ~/here")
    assert not (confined.home / "here").exists()


async def test_empty_mount_points_are_removed_at_the_end(confined: Confined, private: PrivateFolder) -> None:
    await confined.run("true")
    assert (confined.folder / ".pi").is_dir()
    private.close()

    assert [] == list(confined.folder.iterdir())
