"""What a command writes reaches its reader whole, whatever signals come while the pipe is full."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios

import pytest
from tests.source_tree import PYTHONPATH

LENGTH = 1_000_000
PROGRAM = """
import sys
from pinnace_rpc.options.streams import redact_streams
redact_streams()
if {is_text}:
    sys.stdout.write("x" * {length})
else:
    sys.stdout.buffer.write(b"x" * {length})
"""


def waiting(descriptor: int) -> int:
    """Return how many bytes a pipe holds."""
    found = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, found)
    return found[0]


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_write_that_is_stopped_is_continued(unbuffered: str, is_text: bool) -> None:
    """Python without buffers takes the part that was written before the signal for the whole."""
    program = PROGRAM.format(is_text=is_text, length=LENGTH)
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-P", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        full = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
        while waiting(process.stdout.fileno()) < full:
            assert process.poll() is None
        for number in (signal.SIGSTOP, signal.SIGCONT):
            process.send_signal(number)
        assert len(process.stdout.read()) == LENGTH
