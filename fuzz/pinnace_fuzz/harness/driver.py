"""Drives any agent over its pipes: send records or bytes, wait for records, play a client that misbehaves.

Plain threads and real time; no module of the agent is imported. No process of the run outlives the context, also after
an error. Every wait that fails raises DriverTimeout with the tail of the transcript.
"""

import itertools
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from pinnace_fuzz.harness import coverage
from pinnace_fuzz.harness.agent_process import DEFAULT_TIMEOUT_S, AgentProcess, DriverTimeout
from pinnace_fuzz.harness.journal import Journal, ReceivedRecord, id_key
from pinnace_fuzz.records import Pattern, Record, encode_record, encode_records, matches

# An agent that has closed its stdout is about to exit, and then its exit code belongs into the failure.
EXIT_NOTICE_S = 0.5


class Agent:
    """One run of an agent binary; starts on construction, use it as a context manager.

    The cursor is where `wait` continues: just after the record that the last `wait` without `since` found.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Path | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Start the agent; see `AgentProcess`. What passes is noted in `journal`, one of its own by default."""
        self.journal = Journal() if journal is None else journal
        self.process = AgentProcess(
            argv, self.journal.take_stdout, self.journal.take_stderr, cwd=cwd, env=env, stdin=stdin
        )
        self.cursor = 0
        self.has_closed_stdout = False
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
        coverage.note_records(each.record for each in self.records)

    # What the client writes.

    def send_bytes(self, data: bytes, timeout_s: float = DEFAULT_TIMEOUT_S) -> float:
        """Write bytes in one go; return the monotonic time just before.

        Raises:
            AgentGone: Stdin is closed, at either end.
            DriverTimeout: The agent does not read its stdin.
        """
        self.journal.take_sent(data)
        begun_s = time.monotonic()
        try:
            self.process.write(data, timeout_s)
        except DriverTimeout as error:
            raise self._failure(str(error)) from None
        return begun_s

    def send(self, record: Mapping[str, object]) -> float:
        """Write one record as a line."""
        return self.send_bytes(encode_record(record))

    def send_many(self, records: Iterable[Mapping[str, object]]) -> float:
        """Write records as lines in one write, so that the agent finds them together."""
        return self.send_bytes(encode_records(records))

    def split_write(self, data: bytes, at: Iterable[int], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Write bytes cut at these positions; the agent has read each part before the next is written."""
        cuts = [0, *at, len(data)]
        for begin, end in itertools.pairwise(cuts):
            self.send_bytes(data[begin:end], timeout_s)
            try:
                self.process.wait_drained(timeout_s)
            except DriverTimeout as error:
                raise self._failure(str(error)) from None

    def request(self, record: Mapping[str, object], timeout_s: float = DEFAULT_TIMEOUT_S) -> Record:
        """Send a command, with an id of ours if it has none, and wait for its response."""
        command = {"id": f"driver-{next(self._ids)}", **record}
        self.send(command)
        return self.wait_response(command["id"], timeout_s)

    def close_stdin(self) -> None:
        """Close the agent's stdin."""
        self.journal.note("stdin closed by the driver")
        self.process.close_stdin()

    # What the client reads.

    @property
    def records(self) -> list[ReceivedRecord]:
        """The records so far, with their times."""
        return list(self.journal.records)

    def found(self, pattern: Pattern, since: int = 0) -> list[Record]:
        """Choose the records so far that match, from number `since` on."""
        return [each.record for each in self.records[since:] if matches(each.record, pattern)]

    def mark(self) -> int:
        """Count the records so far: a `since` that means what comes from now on."""
        return len(self.journal.records)

    def wait(self, pattern: Pattern, timeout_s: float = DEFAULT_TIMEOUT_S, *, since: int | None = None) -> Record:
        """Wait for the next record that matches: after the cursor, which it moves, or from `since` on.

        Raises:
            DriverTimeout: None came in time, or stdout has ended without one.
        """
        received = self.journal.find(pattern, self.cursor if since is None else since, timeout_s)
        if received is None:
            raise self._failure(f"no record like {pattern!r} within {timeout_s} s, or before the end")
        if since is None:
            self.cursor = received.number + 1
        return received.record

    def wait_all(self, patterns: Sequence[Pattern], timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Record]:
        """Wait for a record for each pattern, in any order; the cursor moves past the last of them."""
        begin = self.cursor
        deadline_s = time.monotonic() + timeout_s
        found: list[Record] = []
        last = begin
        for pattern in patterns:
            self.cursor = begin
            found.append(self.wait(pattern, max(0.0, deadline_s - time.monotonic())))
            last = max(last, self.cursor)
        self.cursor = last
        return found

    def response(self, command_id: object) -> Record | None:
        """Return the first response with this id, if it has come."""
        responses = self.journal.responses.get(id_key(command_id))
        return responses[0] if responses else None

    def wait_response(self, command_id: object, timeout_s: float = DEFAULT_TIMEOUT_S) -> Record:
        """Wait for the response with this id, wherever it is; the cursor stays.

        Raises:
            DriverTimeout: It did not come in time, or stdout has ended without it.
        """
        key, journal = id_key(command_id), self.journal
        journal.wait_until(lambda: key in journal.responses or journal.has_ended, timeout_s)
        if (response := self.response(command_id)) is None:
            raise self._failure(f"no response to {command_id!r} within {timeout_s} s, or before the end")
        return response

    def pause_reading(self) -> None:
        """Play a client that reads no stdout from now on."""
        self.journal.note("reading paused")
        self.process.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self.journal.note("reading resumed")
        self.process.resume_reading()

    def close_stdout(self) -> None:
        """Close the client's end of stdout: the agent's next write fails."""
        self.journal.note("stdout closed by the driver")
        self.has_closed_stdout = True
        self.process.close_stdout()

    @property
    def stderr_text(self) -> str:
        """The end of what the agent wrote to stderr: all that it wrote before the last record that was waited for."""
        # Each pipe is read in a thread of its own, so a record may be known before the complaint that came before it.
        self.process.take_stderr()
        return self.journal.stderr_text

    # The process.

    @property
    def alive(self) -> bool:
        """The agent has not exited."""
        return self.process.alive

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the agent, not to its group."""
        self.journal.note(f"signal {number.name}")
        self.process.signal(number)

    def wait_exit(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
        """Wait for the agent's exit and the rest of its output; return the code, minus the signal if by one.

        Raises:
            DriverTimeout: It still runs.
        """
        if not self.process.await_exit(timeout_s):
            raise self._failure(f"no exit within {timeout_s} s")
        self.process.drain()
        code = self.process.exit_code
        assert code is not None
        return code

    def kill(self) -> None:
        """Kill the agent, its group and everything that it started."""
        self.journal.note("killed by the driver")
        self.process.kill()

    def descendants(self) -> list[int]:
        """Find the living processes that the agent started, directly or not, in any process group."""
        return self.process.descendants()

    def rss_kib(self) -> int:
        """Read how much memory the agent's own process has now."""
        return self.process.memory_kib()

    def peak_rss_kib(self) -> int:
        """Read the most memory that the agent's own process ever had."""
        return self.process.memory_kib("VmHWM")

    def _failure(self, what: str) -> DriverTimeout:
        if self.journal.has_ended:
            self.process.await_exit(EXIT_NOTICE_S)
        return DriverTimeout(f"{what}\n{self.process.describe()}\n{self.journal.tail()}")
