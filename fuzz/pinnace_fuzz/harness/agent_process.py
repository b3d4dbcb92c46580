"""The process of an agent under test: its pipes, signals, memory, end, and everything that it started.

Independent of records. The agent gets a session and process group of its own and a mark in its environment,
by which its descendants are found wherever they are.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pinnace_fuzz.harness.pump import Pump
from pinnace_fuzz.process_tree import ORPHANS, RUN_VARIABLE, await_end, kill_all, memory_kib, processes_of

# Far above what any step takes, also where ten processes share each core; only a hang waits so long.
DEFAULT_TIMEOUT_S = 60.0
# A pipe may be held open by a grandchild after the agent's exit; its last bytes are in it already, and only the
# threads that read them need their turn.
DRAIN_TIMEOUT_S = 5.0


class DriverTimeout(AssertionError):
    """What was waited for did not come. The text has the transcript's tail and the process' state."""


class AgentGone(AssertionError):
    """The agent, or the test, has closed the agent's stdin."""


class AgentProcess:
    """One run of a binary, from construction until `close`."""

    def __init__(
        self,
        argv: Sequence[str],
        take_stdout: Callable[[bytes, float], None],
        take_stderr: Callable[[bytes, float], None],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            argv: The command.
            take_stdout: Gets what is read, and when, in a thread; no bytes at the end.
            take_stderr: The same for stderr.
            cwd: Its folder.
            env: Its whole environment (None: ours), to which the mark of this run is added.
            stdin: A file to be its stdin instead of a pipe.
        """
        self.argv = tuple(argv)
        self._run_id = uuid.uuid4().hex
        self._write_lock = threading.Lock()
        self._has_exited = threading.Event()
        self._stdin: int | None = None
        environment = {**(os.environ if env is None else env), RUN_VARIABLE: self._run_id}
        self.started_s = time.monotonic()
        ORPHANS.begin(self._run_id)
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as stack:
            # A run that is counted for ever would make every later orphan of uncertain origin.
            on_failure.callback(ORPHANS.end, self._run_id)
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=environment,
                stdin=subprocess.PIPE if stdin is None else stack.enter_context(stdin.open("rb")),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            on_failure.pop_all()
        self.pid = self._process.pid
        ORPHANS.started(self._run_id, self.pid)
        self.exited_s: float | None = None
        """When it exited, by the monotonic clock."""
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        # Copies, so that each descriptor has exactly one owner here.
        descriptors = [os.dup(pipe.fileno()) if pipe is not None else -1 for pipe in pipes]
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        if stdin is None:
            self._stdin = descriptors[0]
            os.set_blocking(self._stdin, False)
        self._stdout = Pump(descriptors[1], take_stdout, "agent-stdout")
        self._stderr = Pump(descriptors[2], take_stderr, "agent-stderr")
        self._watcher = threading.Thread(target=self._watch, name="agent-exit", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        self._process.wait()
        self.exited_s = time.monotonic()
        self._has_exited.set()

    @property
    def alive(self) -> bool:
        """The process has not exited."""
        return not self._has_exited.is_set()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, minus the signal that ended it, or None while it runs."""
        return self._process.returncode if self._has_exited.is_set() else None

    def describe(self) -> str:
        """Name the command and its state, in one line."""
        state = "alive" if self.alive else f"exited with {self.exit_code}"
        return f"{' '.join(self.argv)} (pid {self.pid}, {state})"

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write to stdin, in one system call if the pipe has room for it.

        Raises:
            AgentGone: Stdin is closed, at either end.
            DriverTimeout: The agent has not read enough of it in time; a part may have been written.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._write_lock:
            left = memoryview(data)
            while left:
                if self._stdin is None:
                    raise AgentGone(f"stdin is closed: {self.describe()}")
                try:
                    left = left[os.write(self._stdin, left) :]
                except BrokenPipeError:
                    raise AgentGone(f"stdin is not read any more: {self.describe()}") from None
                except BlockingIOError:
                    self._wait_writable(deadline_s, len(left))

    def _wait_writable(self, deadline_s: float, size: int) -> None:
        assert self._stdin is not None
        poller = select.poll()
        poller.register(self._stdin, select.POLLOUT)
        if not poller.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            raise DriverTimeout(f"{size} bytes not taken from stdin in time: {self.describe()}")

    def wait_drained(self, timeout_s: float) -> None:
        """Wait until the agent has read everything from the pipe of its stdin.

        Raises:
            DriverTimeout: It has not in time, or it has exited.
        """
        deadline_s = time.monotonic() + timeout_s
        while unread := self._unread_bytes():
            if time.monotonic() > deadline_s or not self.alive:
                raise DriverTimeout(f"{unread} bytes left unread in stdin: {self.describe()}")
            time.sleep(0.001)  # a pipe does not report when it has been emptied

    def _unread_bytes(self) -> int:
        if self._stdin is None:
            return 0
        answer = fcntl.ioctl(self._stdin, termios.FIONREAD, bytes(4))
        return int(struct.unpack("i", answer)[0])

    def close_stdin(self) -> None:
        """Close stdin; the agent reads its end after what was written. May be called more than once."""
        with self._write_lock:
            if self._stdin is not None:
                os.close(self._stdin)
                self._stdin = None

    def close_stdout(self) -> None:
        """Close the read end of stdout: the agent's next write finds no reader."""
        self._stdout.close()

    def pause_reading(self) -> None:
        """Leave what the agent writes from now on in the pipe of its stdout."""
        self._stdout.pause()

    def resume_reading(self) -> None:
        """Read stdout again."""
        self._stdout.resume()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, not to its group; none if it has exited."""
        self._process.send_signal(number)

    def take_stderr(self) -> None:
        """Wait, for a moment, until what is in the pipe of stderr by now was handed on."""
        self._stderr.wait_taken(DRAIN_TIMEOUT_S)

    def drain(self) -> None:
        """After the exit: wait, for a moment, for the ends of stdout and stderr."""
        self._stdout.join(DRAIN_TIMEOUT_S)
        self._stderr.join(DRAIN_TIMEOUT_S)

    def await_exit(self, timeout_s: float) -> bool:
        """Wait for the exit; return whether it came."""
        return self._has_exited.wait(timeout_s)

    def descendants(self) -> list[int]:
        """Find the living processes that the agent started, directly or not, in any process group."""
        return [each for each in processes_of(self._run_id) if each != self.pid]

    def left_behind(self, timeout_s: float) -> list[int]:
        """After the exit: give killed processes a moment to end; return those that still run."""
        return await_end(self._run_id, timeout_s)

    def memory_kib(self, field: str = "VmRSS") -> int:
        """Read the process' own memory; `VmHWM` is the most that it ever used."""
        return memory_kib(self.pid, field)

    def kill(self) -> None:
        """Kill the process, its group and every descendant, and reap it. May be called more than once."""
        found: list[int] = []
        if self.alive:
            # Found first: one that dropped its environment can't be recognised after its parent has exited.
            found = self.descendants()
            with contextlib.suppress(ProcessLookupError):  # exited, and not yet noticed
                os.killpg(self.pid, signal.SIGKILL)
        left = kill_all(self._run_id, found)
        self._watcher.join(DEFAULT_TIMEOUT_S)
        ORPHANS.end(self._run_id)
        assert not left, f"could not kill {left}"

    def close(self) -> None:
        """Kill what is left, read what it wrote, close every descriptor, end every thread."""
        try:
            self.kill()
        finally:
            self.close_stdin()
            self.drain()
            self._stdout.close()
            self._stderr.close()
