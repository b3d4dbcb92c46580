"""Each argument of bubblewrap, dropped alone, lets an attempt succeed.

Not found: `--perms 0500` of a hidden folder, since `--remount-ro` refuses what the mode does, and `--json-status-fd`,
without which each command counts as not run. `--cap-drop` changes nothing for an ordinary user, whose programs have no
capabilities. The words of the list are compared in test_sandbox_arguments. No attempt signals a process that it has not
started.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.agent.sandbox.conftest import Confined

from pinnace_agent.core.ports.confinement import ProgramStart
from pinnace_agent.sandbox.bubblewrap import setup_arguments

# Each line prints its name if it succeeds.
ATTEMPTS = """
(touch ~/outside) && echo write-outside
(echo x > /proc/sys/kernel/core_uses_pid.x || : ; exec 3>> /proc/sys/kernel/core_pattern) && echo core-pattern
(cat ~/.ssh/id) && echo read-secret
(cat ~/.netrc) && echo read-secret-file
(cat ~/.pi/agent/auth.json) && echo read-agent
(touch ~/.ssh/new) && echo write-secret
(chmod 700 ~/.ssh && touch ~/.ssh/newer) && echo change-hidden
grep -q 'CapEff:.0*$' /proc/self/status || echo capabilities
[ "$(readlink /proc/self/ns/cgroup)" = "$OUTSIDE_CGROUP" ] && echo same-cgroup
(echo x >> .git/config) && echo write-config
(mv .git moved && mv moved .git) && echo move-repository
(touch .pi/x) && echo write-project
(mkdir -p .agents; touch .agents/x) && echo write-agents
[ -e "$OUTSIDE_TEMPORARY" ] && echo see-temporary
[ -d /proc/$OUTSIDE_PROCESS ] && echo see-process
[ "$(readlink /proc/self/ns/ipc)" = "$OUTSIDE_IPC" ] && echo same-ipc
[ "$(readlink /proc/self/ns/uts)" = "$OUTSIDE_UTS" ] && echo same-uts
[ "$(readlink /proc/self/ns/net)" = "$OUTSIDE_NET" ] && echo same-net
[ "$(readlink /proc/self/ns/user)" = "$OUTSIDE_USER" ] && echo same-user
[ "$(ls -A /run)" ] && echo see-run
[ -e /dev/kmsg ] || [ -e /dev/vda ] && echo see-devices
unshare -U true && echo namespaces
true
"""
MUTANTS = {
    "--unshare-pid": "see-process",
    "--unshare-ipc": "same-ipc",
    "--unshare-uts": "same-uts",
    "--unshare-net": "same-net",
    "--unshare-cgroup-try": "same-cgroup",
    "--cap-drop ALL": "capabilities",
    "--remount-ro HOME/.ssh": "change-hidden",
    "--disable-userns": "namespaces",
    "--dev /dev": "see-devices",
    "--tmpfs /run": "see-run",
    "--ro-bind /proc/sys /proc/sys": "core-pattern",
    "--bind PRIVATE /tmp": "see-temporary",
    "--ro-bind / /": "",
    "--proc /proc": "",
    "HIDDEN HOME/.ssh": "read-secret",
    "--ro-bind /dev/null HOME/.netrc": "read-secret-file",
    "HIDDEN HOME/.pi/agent": "read-agent",
    "--bind PROJECT/.git PROJECT/.git": "move-repository",
    "--ro-bind PROJECT/.git/config PROJECT/.git/config": "write-config",
    "--ro-bind PROJECT/.pi PROJECT/.pi": "write-project",
    "HIDDEN PROJECT/.agents": "write-agents",
}
"""What is dropped, and the attempt that succeeds then; empty: bubblewrap runs nothing, or nothing can be run."""


def attempt(words: list[str], confined: Confined) -> set[str]:
    """Return the attempts that succeed."""
    outside = {
        f"OUTSIDE_{name.upper()}": os.readlink(f"/proc/self/ns/{name}")
        for name in ("ipc", "uts", "net", "user", "cgroup")
    }
    with tempfile.NamedTemporaryFile(dir="/tmp") as temporary:
        return _attempt(words, confined, {**outside, "OUTSIDE_TEMPORARY": temporary.name})


def _attempt(words: list[str], confined: Confined, outside: Mapping[str, str]) -> set[str]:
    done = subprocess.run(
        [*words, "--chdir", str(confined.folder), "--", "/bin/sh", "-c", ATTEMPTS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            **outside,
            "HOME": str(confined.home),
            "OUTSIDE_PROCESS": str(os.getpid()),
        },
        check=False,
    )
    return set(done.stdout.decode().split()) if done.returncode == 0 else {"nothing ran"}


@pytest.fixture
def words(confined: Confined) -> list[str]:
    """The arguments, for a home folder with something to find."""
    if not confined.confinement.bubblewrap or not confined.confinement.bubblewrap.disables_namespaces:
        pytest.skip("needs bubblewrap 0.8.0: before, the filter refuses namespaces, and these runs have none")
    for each in (".ssh", ".pi/agent"):
        (confined.home / each).mkdir(parents=True)
    for each in (".ssh/id", ".netrc", ".pi/agent/auth.json"):
        (confined.home / each).write_text("secret\n")
    subprocess.run(["git", "init", "-q", "."], cwd=confined.folder, check=True)
    (confined.folder / ".pi").mkdir(exist_ok=True)
    (confined.folder / ".pi/settings.json").write_text("{}")
    shutil.rmtree(confined.folder / ".agents", ignore_errors=True)
    return setup_arguments(confined.confinement.layout())


def without(words: list[str], dropped: str, confined: Confined, private: Path) -> list[str]:
    names = {"HOME": str(confined.home), "PROJECT": str(confined.folder), "PRIVATE": str(private)}
    if dropped.startswith("HIDDEN "):
        path = dropped.removeprefix("HIDDEN ")
        dropped = f"--perms 0500 --tmpfs {path} --remount-ro {path}"
    parts = dropped.split()
    for name, value in names.items():
        parts = [each.replace(name, value) for each in parts]
    found = [i for i in range(len(words)) if words[i : i + len(parts)] == parts]
    assert len(found) == 1, dropped
    return [*words[: found[0]], *words[found[0] + len(parts) :]]


def test_no_attempt_succeeds(words: list[str], confined: Confined) -> None:
    assert set() == attempt(words, confined)


@pytest.mark.parametrize("dropped", MUTANTS)
def test_without_it_an_attempt_succeeds(words: list[str], confined: Confined, dropped: str) -> None:
    if MUTANTS[dropped] in ("core-pattern", "capabilities") and os.geteuid() != 0:
        pytest.skip("an ordinary user has no such rights")
    private = Path(words[words.index("/tmp") - 1])
    found = attempt(without(words, dropped, confined, private), confined)

    assert found
    assert not MUTANTS[dropped] or MUTANTS[dropped] in found


@pytest.mark.parametrize("is_dropped", [False, True])
def test_without_chdir_a_command_begins_elsewhere(confined: Confined, is_dropped: bool) -> None:
    program = confined.confinement.confine(ProgramStart(["/bin/pwd"], dict(os.environ), str(confined.folder)))
    start = program.start
    words = list(start.arguments)
    place = words.index("--chdir")
    if is_dropped:
        del words[place : place + 2]
    with subprocess.Popen(words, cwd=start.cwd, pass_fds=start.pass_fds, stdout=subprocess.PIPE) as process:
        program.started()
        program.release(process.pid)
        output, _ = process.communicate()
    program.close()

    assert ("/" if is_dropped else str(confined.folder)) == output.decode().strip()


def test_without_die_with_parent_a_command_outlives_the_agent(words: list[str], confined: Confined) -> None:
    """With it, it ends: test_confined_commands."""
    words.remove("--die-with-parent")
    for each in ("go", "done"):
        os.mkfifo(confined.folder / each)
    script = "echo ready; read -r word < go; echo $word > done"
    command = [*words, "--chdir", str(confined.folder), "--", "/bin/sh", "-c", script]
    with subprocess.Popen(["/bin/sh", "-c", '"$@"; exit', "sh", *command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        process.kill()
    (confined.folder / "go").write_text("alive\n")

    assert "alive\n" == (confined.folder / "done").read_text()
