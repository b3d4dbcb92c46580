"""What the process does to the descriptors that it shares with its parent."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))
COMMAND = [sys.executable, "-m", "pinnace_rpc", "--mode", "rpc", "--no-session"]


def test_the_pipes_are_blocking_again_when_the_process_has_left(tmp_path: Path) -> None:
    """The blocking mode is the open file's, which a parent may share: a shell must find its terminal as it was."""
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    environment = {**os.environ, "PYTHONPATH": SOURCES, "HOME": str(tmp_path)}
    with subprocess.Popen(COMMAND, stdin=stdin, stdout=stdout, env=environment) as agent:
        os.write(to_agent, b'{"type":"get_state"}\n')
        os.read(from_agent, 65536)
        during = (os.get_blocking(stdin), os.get_blocking(stdout))
        os.close(to_agent)
        agent.wait(10)

    assert (False, False) == during
    assert (True, True) == (os.get_blocking(stdin), os.get_blocking(stdout))
    for descriptor in (stdin, from_agent, stdout):
        os.close(descriptor)


def test_a_stray_write_to_descriptor_1_is_no_part_of_the_protocol(tmp_path: Path) -> None:
    """A child that inherits descriptor 1, or a print inside the process, lands on stderr."""
    script = (
        "import os, sys\n"
        "from pinnace_rpc import dispatch\n"
        "receive = dispatch.Dispatcher.receive\n"
        "def noisy(self, line):\n"
        "    print('stray', flush=True)\n"
        "    os.system('echo child')\n"
        "    receive(self, line)\n"
        "dispatch.Dispatcher.receive = noisy\n"
        "from pinnace_rpc.cli import main\n"
        "sys.exit(main(['--mode', 'rpc', '--no-session']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=b'{"id":"a","type":"get_state"}\n',
        capture_output=True,
        env=environment,
        timeout=60,
        check=True,
    )

    assert b"stray\n" in done.stderr
    assert b"child\n" in done.stderr
    assert done.stdout.startswith(b'{"id":"a"')
    assert 1 == done.stdout.count(b"\n")
