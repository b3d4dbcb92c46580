"""The agent's side of the supervisor of commands under Landlock (`landlock_program`): starts it, and gives it orders.

Imports the standard library alone, as that program does. Blocking, for any thread.
"""

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from pinnace_agent.sandbox.landlock_program import REPLY, Descriptors

ANSWER_S: Final = 10.0
"""How long a supervisor may take to fork, on a machine that is short of everything; some 0.5 ms are usual."""


UNKNOWN_STATUS: Final = 255
"""The status of a keeper that other code of this process has reaped."""


class SupervisorLost(OSError):
    """The supervisor has ended before it has run the command; it does not run."""


class Supervisor:
    """The supervisor of one agent: started with the first order, and again when it has ended.

    An order is given once: one that a supervisor may have got is not repeated. What runs is independent of it.
    """

    def __init__(self, python: str = sys.executable) -> None:
        """Start nothing yet; `python` is the interpreter that it runs in."""
        self._python = python
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._owner = os.getpid()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process number of the supervisor, if there is one; it is never that of a command."""
        process = self._process
        return () if process is None else (process.pid,)

    def run(self, given: Descriptors) -> int:
        """Have a command run, and return the number of its keeper: a child of this process, leader of a session.

        Raises:
            SupervisorLost: The supervisor has ended, or does not answer.
            OSError: Nothing can be started.
        """
        with self._lock:
            channel = self._ready()
            try:
                socket.send_fds(channel, [b"x"], given)
            except (BrokenPipeError, ConnectionResetError):  # it has ended, and has not got the order
                self._end()
                channel = self._ready()
                socket.send_fds(channel, [b"x"], given)
            try:
                answer = channel.recv(REPLY.size)
            except OSError:
                answer = b""
            if len(answer) != REPLY.size:
                self._end()
                raise SupervisorLost(errno.EAGAIN, "the supervisor of commands has ended; the command was not run")
        (pid,) = REPLY.unpack(answer)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return int(pid)

    def close(self) -> None:
        """End it. Commands that run are independent of it."""
        with self._lock:
            self._end()

    def _ready(self) -> socket.socket:
        if self._owner != os.getpid():  # forked: it is another process' child
            self._owner = os.getpid()
            self._process = None
            if self._channel is not None:
                self._channel.close()
                self._channel = None
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                # In our session: that distinguishes what it forks from an orphan of a command.
                self._process = subprocess.Popen(
                    [*_command(self._python), str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={},
                    cwd="/",
                )
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()
            ours.settimeout(ANSWER_S)
            self._channel = ours
        return self._channel

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            if self._owner == os.getpid():
                self._process.kill()
                self._process.wait()
            self._process = None


class Keeper:
    """The keeper of a command, which exits as the command does: a `LaunchedProgram`."""

    def __init__(self, pid: int, ends: tuple[int | None, int | None, int | None]) -> None:
        self.pid = pid
        self.ends = ends
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, if it has exited."""
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self._status = UNKNOWN_STATUS
            else:
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


def launch(supervisor: Supervisor, order: int, report: int, cwd: str, streams: tuple[int, int, int]) -> Keeper:
    """Have the command of an order run.

    Args:
        supervisor: Of this process.
        order: The descriptor of the order.
        report: The descriptor of its report.
        cwd: The folder to run in.
        streams: stdin, stdout and stderr: descriptors, or constants of `subprocess`.

    Raises:
        OSError: It was not started.
    """
    ours: list[int | None] = []
    theirs: list[int] = []
    opened: list[int] = []
    try:
        folder = os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.append(folder)
        for number, each in enumerate(streams):
            end: int | None = None
            descriptor = each
            if each == subprocess.PIPE:
                reading, writing = os.pipe()
                descriptor, end = (reading, writing) if number == 0 else (writing, reading)
                opened.append(descriptor)
            elif each == subprocess.DEVNULL:
                descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                opened.append(descriptor)
            elif each == subprocess.STDOUT:
                descriptor = theirs[1]
            ours.append(end)
            theirs.append(descriptor)
        pid = supervisor.run(Descriptors(order, report, folder, *theirs))
    except BaseException:
        opened += [each for each in ours if each is not None]
        raise
    finally:
        for each in opened:
            os.close(each)
    return Keeper(pid, (ours[0], ours[1], ours[2]))


def _command(python: str) -> list[str]:
    run = "import sys; sys.path.append(sys.argv[1]); from pinnace_agent.sandbox.landlock_program import main; main()"
    place = str(Path(__file__).absolute().parents[2])
    return [python, "-I", "-S", "-B", "-X", "utf8", "-c", run, place]
