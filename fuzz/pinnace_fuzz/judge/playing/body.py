"""One process under judgement: the driver's agent with a recorded trace, and the way it ends."""

import re
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.harness.agent_process import AgentGone
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.judge.adapter import Prepared, Quit
from pinnace_fuzz.judge.playing.recording import Recording
from pinnace_fuzz.process_tree import kill_each
from pinnace_spec.observers.verdicts import End, Ending, stretched

# What an agent has killed needs a moment to be gone.
LEFT_BEHIND_S = 1.0
# Clients kill an agent some seconds behind the end of its stdin.
KILLED_AFTER_S = 8.0
# From the end of stdin or stdout to the exit, which a busy machine is late with.
EXIT_SEEN_S = 5.0
# How long one that has written too much has for its end.
EXCESS_END_S = 0.5
# A judged agent may write anything. A line of a conversation with all of its pictures is shorter, and so is everything
# that the cases of one process bring about; both, read, fit into the memory of a small machine.
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
MAX_STDOUT_BYTES: Final = 192 * 1024 * 1024
# A bundled program shows its whole source line.
MAX_WORDS = 300
_ERROR = re.compile(r"(Uncaught )?\w*(Error|Exception|panic)\w*\b.*:")


class ProcessTrace(NamedTuple):
    """What is known of one process when it is over."""

    recording: Recording
    end: End
    is_fresh: bool
    left_behind: int
    """Processes that outlived it."""
    is_reading: bool
    """The client read all the time."""


class Body(Agent):
    """One process. `close` must be called; it leaves nothing behind."""

    def __init__(
        self, command: Sequence[str], prepared: Prepared, is_fresh: bool, elsewhere: Callable[[], Sequence[int]]
    ) -> None:
        """Start it.

        Args:
            command: What to start.
            prepared: The home.
            is_fresh: No process has worked in the home before.
            elsewhere: Finds the processes of the agent that this one only leads to; they are killed with it.
        """
        self.recording = Recording(max_line_bytes=MAX_LINE_BYTES, max_bytes=MAX_STDOUT_BYTES)
        super().__init__(command, cwd=prepared.folders["work"], env=prepared.env, journal=self.recording)
        self.is_fresh = is_fresh
        self.left_behind = 0
        self.asked_to_end_s: float | None = None
        self.signals: list[signal.Signals] = []
        self._elsewhere = elsewhere
        self._how: Ending | None = None
        self._has_paused = False

    def close_stdin(self) -> None:
        """Close the agent's stdin; bytes after the last LF are a line."""
        self.recording.end_input()
        self.asked_to_end_s = self.asked_to_end_s or time.monotonic()
        super().close_stdin()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the agent, not to its group."""
        self.asked_to_end_s = self.asked_to_end_s or time.monotonic()
        self.signals.append(number)
        if number == signal.SIGKILL and self.alive:
            self._how = "killed"
            kill_each(self._elsewhere())
        super().signal(number)

    def descendants(self) -> list[int]:
        """Find the living processes that the agent started, wherever it is itself."""
        found = super().descendants()
        return [each for each in found if each not in self._elsewhere()] if found else found

    @property
    def was_killed(self) -> bool:
        """It did not end by itself: the script or the tester has killed it."""
        return self._how == "killed"

    @property
    def was_ended_by_signal(self) -> bool:
        """A signal has ended it, its own or another's."""
        return (self.process.exit_code or 0) < 0

    def has_ended(self, error: Exception) -> bool:
        """Return whether an agent that a step failed on has ended, or is about to.

        One that does not read its stdin any more is mostly ending: its exit is waited for, a moment.

        Args:
            error: Why the step failed.
        """
        if isinstance(error, AgentGone):
            self.process.await_exit(EXIT_SEEN_S)
        return self.journal.has_ended or not self.alive

    def ending(self) -> str:
        """Say how the process ended, for people; waits a moment for the exit, and for what was said until then."""
        if self.process.await_exit(EXIT_SEEN_S):
            self.process.take_stderr()
        code = self.process.exit_code
        if code is None:
            return "stdout ended but the process still runs"
        lines = [line.strip() for line in self.stderr_text.splitlines() if line.strip() and len(line) < MAX_WORDS]
        words = next((line for line in lines if _ERROR.match(line)), lines[-1] if lines else "")
        return f"the process ended with {code}" + (f": {words}" if words else "")

    def end(self, quit: Quit, patience: float) -> None:
        """Ask it to end, wait, and note what it leaves behind; killed if it does not end at all.

        One that has written more than is kept is killed: while it is waited for it may write on, and keep a processor.

        Args:
            quit: How it is asked.
            patience: Above 1 multiplies the time after which it is killed, and what it has started must be gone.
        """
        if self.alive:
            self.resume_reading()
            self.close_stdin()
            if quit == "signal" and not self.signals:
                self.signal(signal.SIGTERM)
            if self.journal.excess and not self.process.await_exit(EXCESS_END_S):
                self.kill()
                return
            begun = self.asked_to_end_s or time.monotonic()
            if not self.process.await_exit(max(0.5, begun + stretched(KILLED_AFTER_S, patience) - time.monotonic())):
                self._how = "hang"
                return
        self.process.drain()
        self.left_behind = len(self.process.left_behind(stretched(LEFT_BEHIND_S, patience)))

    def kill(self) -> None:
        """Kill it as a power cut would."""
        if self.alive:
            self._how = "killed"
        kill_each(self._elsewhere())
        super().kill()
        self.process.drain()

    def close(self) -> None:
        """Kill what is left, read what it wrote, close every descriptor."""
        if self.alive and self._how is None:
            self._how = "open"
        self.process.close()

    def pause_reading(self) -> None:
        """Play a client that reads no stdout from now on."""
        self._has_paused = True
        super().pause_reading()

    def trace(self) -> ProcessTrace:
        """Return the end of the trace; call it after `close`."""
        return ProcessTrace(
            self.recording,
            self._end(),
            self.is_fresh,
            self.left_behind,
            not (self._has_paused or self.has_closed_stdout),
        )

    def _end(self) -> End:
        code = self.process.exit_code
        how: Ending = self._how or "exit"
        seconds = 0.0
        if self.asked_to_end_s is not None and self.process.exited_s is not None:
            seconds = max(0.0, self.process.exited_s - self.asked_to_end_s)
        rest = self.journal.unterminated.decode("utf-8", "surrogateescape")
        return End(how, code, self.stderr_text[-4000:], seconds, rest)
