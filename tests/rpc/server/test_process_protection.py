"""An approved command cannot get at the agent that runs it: its pipes, its environment, its memory."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

NOBODY = 65534
ROOT = Path(__file__).parents[3]
# An ordinary user who can read files wherever the interpreter is installed, and has no other right.
AS_NOBODY = [
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]
needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None or sys.platform != "linux",
    reason="needs root and setpriv, to become an ordinary user",
)
SECRET = "sk-of-the-agent-alone"


@pytest.fixture(scope="module")
def users_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the agent as an ordinary user, with a key in its environment."""
    tmp_path = tmp_path_factory.mktemp("user")
    tmp_path.chmod(0o755)
    os.chown(tmp_path, NOBODY, NOBODY)
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "HOME": str(tmp_path), "OPENAI_API_KEY": SECRET}
    command = [*AS_NOBODY, sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "offline"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def answer(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    """Send a command and return the lines up to its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    lines = b""
    for each in process.stdout:
        lines += each
        if b'"type":"response"' in each:
            break
    return lines


@needs_setpriv
def test_a_command_of_an_ordinary_user_cannot_read_the_environment_of_the_agent(
    users_agent: "subprocess.Popen[bytes]",
) -> None:
    read = answer(users_agent, b'{"type":"bash","command":"id -u; cat /proc/$PPID/environ | tr -d \\"\\\\0\\""}')

    assert str(NOBODY).encode() in read
    assert SECRET.encode() not in read
    assert b"Permission denied" in read


@needs_setpriv
def test_a_command_of_an_ordinary_user_cannot_write_into_the_pipes_of_the_agent(
    users_agent: "subprocess.Popen[bytes]",
) -> None:
    """Neither records to the client nor commands to the agent can be forged."""
    forge = r'for f in /proc/$PPID/fd/*; do echo "forged" > $f && echo opened; done 2>/dev/null; echo done'
    written = answer(users_agent, b'{"type":"bash","command":"%s"}' % forge.replace('"', r"\"").encode())

    assert b"done" in written
    assert b"opened" not in written
    assert b'"success":true' in answer(users_agent, b'{"type":"get_state"}')


@needs_setpriv
def test_an_agent_of_an_ordinary_user_owns_its_descriptors_alone(users_agent: "subprocess.Popen[bytes]") -> None:
    """The agent still opens its own pipes anew, by /proc/self/fd, although others may not."""
    assert b'"success":true' in answer(users_agent, b'{"type":"get_state"}')
    assert users_agent.stdin is not None
    assert os.get_blocking(users_agent.stdin.fileno())


@needs_setpriv
def test_the_agent_is_closed_before_its_first_answer(users_agent: "subprocess.Popen[bytes]") -> None:
    answer(users_agent, b'{"type":"get_state"}')
    environ = Path(f"/proc/{users_agent.pid}/environ")

    assert 0 == environ.stat().st_uid  # what a process may not be read of belongs to root


@needs_setpriv
def test_a_command_keeps_its_own_proc_and_may_turn_core_dumps_on(users_agent: "subprocess.Popen[bytes]") -> None:
    command = b"stat -c %u /proc/self/environ; ulimit -Sc; ulimit -Sc unlimited"
    shown = answer(users_agent, b'{"type":"bash","command":"%s"}' % command)

    assert b'"output":"65534\\n0\\n"' in shown


@needs_setpriv
def test_an_agent_of_an_ordinary_user_ends_what_has_left_the_group_of_a_command(
    users_agent: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    """It finds its children although its own /proc belongs to root."""
    tmp_path.chmod(0o777)
    (tmp_path / "go.sh").write_text(
        f"cd {tmp_path}\n"
        "(setsid sh -c 'echo $$ > marked; exec sleep 600' &)\n"
        "(env -i setsid sh -c 'echo $$ > bare; exec sleep 600' &)\n"
        "sleep 600\n"
    )
    files = [tmp_path / "marked", tmp_path / "bare"]
    assert users_agent.stdin is not None
    users_agent.stdin.write(b'{"type":"bash","id":"b","command":"sh %s"}\n' % bytes(tmp_path / "go.sh"))
    users_agent.stdin.flush()
    while not all(each.exists() and each.read_text().strip() for each in files):
        time.sleep(0.005)  # no event tells of it
    pids = [int(each.read_text()) for each in files]
    answer(users_agent, b'{"type":"abort_bash"}')

    deadline_s = time.monotonic() + 60
    while any(Path(f"/proc/{each}").exists() for each in pids) and time.monotonic() < deadline_s:
        time.sleep(0.005)
    assert [] == [each for each in pids if Path(f"/proc/{each}").exists()]


def test_a_process_that_is_protected_dumps_no_core() -> None:
    script = (
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
        "from pinnace_rpc.options.closing import protect\n"
        "assert protect() is None\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, hard)\n"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": PYTHONPATH}, check=True, timeout=60)
