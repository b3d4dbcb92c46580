"""One agent process of a chaos run: its client, its blockers, and its judge.

Waits for records, not for times. Independent of other faults.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pinnace_campaigns.chaos.accounting import Accepted, Witness
from pinnace_campaigns.chaos.moves import HANGING
from pinnace_fuzz.harness.agent_process import DriverTimeout
from pinnace_fuzz.harness.journal import id_key
from pinnace_fuzz.process_tree import PROC
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import HomedAgent
from pinnace_spec.observers import End
from pinnace_spec.observers.verdicts import Ending
from pinnace_spec.profiles.profiles import Profile

PROBE_S: Final = 60.0
"""A `get_state` is answered in this time; ours takes a millisecond, the rest is for the machine."""
REST_S: Final = 60.0
EXIT_S: Final = 60.0
LEFT_BEHIND_S: Final = 60.0
# Ends by itself only after the run.
_LONG_DELAY_MS: Final = 5000
# A gate of the model server is reached without a record.
_LOOK_S: Final = 0.02
# A probe as often as that even if nothing comes.
_PATIENCE_S: Final = 0.5
_NEWS: Final = frozenset(
    {
        "response",
        "agent_settled",
        "agent_end",
        "tool_execution_start",
        "auto_retry_start",
        "compaction_end",
        "queue_update",
    }
)
Waiting = Callable[[], object]
"""Says whether an answer of the model waits at its gate."""
MAX_DESCRIPTORS: Final = 24
"""Of an idle agent: ten when it has started, a session file and its lease, connections kept for the next request."""
_SHOWN: Final = 240
_SHOWN_LINES: Final = 40
# The prefix of the driver's own ids.
_PROBE: Final = re.compile(rb'^.{0,4}"id":"driver-')


class Broken(AssertionError):
    """An invariant does not hold."""


class Seen(NamedTuple):
    """The state that a client read before the end of an idle process."""

    path: str | None
    messages: list[Record]


class Run:
    """From the start of a process until `finish`."""

    def __init__(self, agent: HomedAgent, profile: Profile, texts: Mapping[str, str], *, is_fresh: bool) -> None:
        """Begin with the process; `texts` grows (see `Accepted`)."""
        self.agent = agent
        self.probes_s: list[float] = []
        self.state: Record = {}
        self.hanging_shells: set[str] = set()
        """Ids of commands that end only when they are killed."""
        self._witness = Witness(agent.recording, profile, is_fresh=is_fresh)
        self._accepted = Accepted(agent.recording, texts)
        self.troubled: set[str] = set()
        """Session files that the agent has reported as unsaved, and that were not saved since."""
        self._hanging_calls: set[str] = set()
        self._is_delayed = False
        self._scanned = 0
        self._owed: set[str] = set()
        """Ids of commands without an answer when the state was asked for, which may be older than their effect."""

    @property
    def armed(self) -> Mapping[str, int]:
        """Invariant -> how often it was armed."""
        return self._witness.armed

    @property
    def is_idle(self) -> bool:
        """Whether it was idle when it was last asked."""
        state = self.state
        is_working = state["isStreaming"] or state["isCompacting"] or state["isBashRunning"]
        return bool(not is_working and not self._owed)

    def probe(self) -> Record:
        """Ask for its state.

        Raises:
            Broken: It does not answer in time.
        """
        begun_s = time.monotonic()
        self._owed = set(self.agent.journal.unanswered())
        try:
            response = self.agent.request({"type": "get_state"}, PROBE_S)
        except DriverTimeout as error:
            raise Broken(f"get_state is not answered in {PROBE_S} s\n{self.evidence()}") from error
        self.probes_s.append(time.monotonic() - begun_s)
        self.state = response["data"]
        return self.state

    def read(self, name: str) -> Record:
        """Ask for something that is never refused.

        Raises:
            Broken: It is.
        """
        response = self.agent.request({"type": name})
        if not response["success"]:
            self.blame([f"{name} was refused: {response}"])
        data: Record = response["data"]
        return data

    def seen(self) -> Seen | None:
        """Read what has to be there after the end, if nothing is at work and everything is saved."""
        state = self.probe()
        if not self.is_idle or not state["sessionStatus"]["saved"]:
            return None
        return Seen(state.get("sessionFile"), self.read("get_messages")["messages"])

    def rest(self, waiting_gates: Waiting) -> None:
        """Wait until it is idle, or held up by a gate, a command that hangs or a long delay; then judge what was seen.

        Raises:
            Broken: It does not come to rest, or an invariant does not hold.
        """
        deadline_s = time.monotonic() + REST_S
        while True:
            self.probe()
            self._scan()
            if waiting_gates() or self._hanging_calls or self._is_delayed or self._is_done():
                break
            if time.monotonic() > deadline_s:
                raise Broken(f"not idle: unanswered {self._owed}, state {self.state}\n{self.evidence()}")
            self._await_news(waiting_gates)
        self.look()

    def _await_news(self, waiting_gates: Waiting) -> None:
        """Wait until a record arrives that may end the work, or a gate is reached."""
        journal = self.agent.journal
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s and not journal.has_ended and not waiting_gates():
            seen = self._scanned
            if any(each.record["type"] in _NEWS for each in journal.records[seen:]):
                return
            self._scan()
            journal.wait_until(lambda: len(journal.records) > self._scanned or journal.has_ended, _LOOK_S)

    def _is_done(self) -> bool:
        state = self.state
        is_shell_done = not state["isBashRunning"] or bool(self.hanging_shells)
        has_open = self._owed - {id_key(each) for each in self.hanging_shells}
        return not (state["isStreaming"] or state["isCompacting"]) and is_shell_done and not has_open

    def _scan(self) -> None:
        records = self.agent.journal.records
        for each in records[self._scanned :]:
            self._notice(each.record)
        self._scanned = len(records)
        answered = self.agent.journal.responses
        self.hanging_shells = {each for each in self.hanging_shells if id_key(each) not in answered}

    def _notice(self, record: Record) -> None:
        match record:
            case {"type": "tool_execution_start", "toolCallId": call, "args": {"command": str(command)}}:
                if HANGING in command:
                    self._hanging_calls.add(call)
            case {"type": "tool_execution_end", "toolCallId": call}:
                self._hanging_calls.discard(call)
            case {"type": "auto_retry_start", "delayMs": delay_ms}:
                self._is_delayed = delay_ms > _LONG_DELAY_MS
            case {"type": "auto_retry_end" | "turn_start"}:
                self._is_delayed = False
            case {"type": "extension_error", "event": "session_save", "extensionPath": str(path)}:
                self.troubled.add(path)
            case {"type": "agent_settled"}:
                self._is_delayed = False
                self._hanging_calls.clear()
            case _:
                pass

    @property
    def is_saved(self) -> bool:
        """Whether everything is on the disk, as far as is known; former sessions do not count."""
        if self.state["sessionStatus"]["saved"]:
            self.troubled.discard(str(self.state.get("sessionFile")))
        return bool(self.state["sessionStatus"]["saved"]) and not self.troubled

    def look(self) -> None:
        """Judge the records since the last call."""
        faults = self._witness.look()
        waiting: int | None = self.state["pendingMessageCount"] if self.state and self.is_idle else None
        faults += self._accepted.faults(waiting=waiting)
        self.blame(faults)

    def blame(self, faults: list[str]) -> None:
        """Fail if there are faults.

        Raises:
            Broken: There are.
        """
        if faults:
            raise Broken("\n".join([*faults, self.evidence()]))

    def evidence(self) -> str:
        """Return the end of the trace as text."""
        agent, recording = self.agent, self.agent.recording
        lines = [
            f"{each.time_s - recording.begun_s:9.4f} {each.direction:3} {each.data[:_SHOWN].decode(errors='replace')}"
            for each in [line for line in recording.lines if not _PROBE.search(line.data)][-_SHOWN_LINES:]
        ]
        return "\n".join([agent.process.describe(), *lines, f"stderr: {agent.journal.stderr_text[-2000:]}"])

    def check_descriptors(self) -> None:
        """An idle agent has few open files, and none that was deleted."""
        folder = PROC / str(self.agent.process.pid) / "fd"
        found = [os.readlink(each) for each in folder.iterdir() if each.is_symlink()]
        deleted = [each for each in found if each.startswith("/") and each.endswith("(deleted)")]
        if len(found) > MAX_DESCRIPTORS or deleted:
            self.blame([f"an idle agent has {len(found)} files open: {sorted(found)}"])

    def finish(self, how: Ending, *, codes: frozenset[int]) -> None:
        """Wait for the exit and judge the whole trace.

        Args:
            how: As observers know it; `killed` also if the client has stopped reading: more was written than was read.
            codes: Of the exit.
        """
        try:
            code = self.agent.wait_exit(EXIT_S)
        except DriverTimeout as error:
            raise Broken(f"no exit\n{self.evidence()}") from error
        self._scan()
        faults = [] if code in codes else [f"exit code {code} instead of {sorted(codes)}"]
        journal = self.agent.journal
        rest = journal.unterminated.decode(errors="replace")
        faults += self._witness.finish(End(how, code, self.agent.stderr_text, rest=rest))
        faults += self._accepted.faults(waiting=None)
        if how == "exit":
            faults += [f"rest {rest!r}"] if rest else []
            faults += [f"unanswered: {found}"] if (found := journal.unanswered()) else []
        if code >= 0 and (left := self.agent.process.left_behind(LEFT_BEHIND_S)):
            faults.append(f"processes left behind: {left}")
        self.agent.kill()
        self.blame(faults)
