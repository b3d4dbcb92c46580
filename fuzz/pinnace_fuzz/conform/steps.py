"""Carries out the steps of a client's script, one after the other, on the agent that is on stage.

A step that can't be carried out raises; a step that asks for something and finds it untrue notes a fault and goes on.
"""

import contextlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from pinnace_fuzz.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.conform import scenario as s
from pinnace_fuzz.conform.adapter import Prepared, place, write_files
from pinnace_fuzz.conform.body import Body
from pinnace_fuzz.conform.classes import MISSING, Record, field
from pinnace_fuzz.conform.expression import read_class
from pinnace_fuzz.conform.holes import Holes
from pinnace_fuzz.conform.kit import Kit
from pinnace_fuzz.conform.likeness import differences, short
from pinnace_fuzz.conform.recording import KIT_ID, is_of_kit
from pinnace_fuzz.conform.shapes import as_list, as_object
from pinnace_fuzz.conform.surroundings import children_faults, file_faults
from pinnace_fuzz.fake_llm import FakeLlm
from pinnace_fuzz.journal import Journal, id_key
from pinnace_fuzz.records import encode_records

WAIT_S = 10.0
# Programs under node need a second or two to start, more on a busy machine.
START_S = 30.0
QUIET_S = 15.0
# How often the kit asks whether an agent is done, if no record tells.
ASK_EVERY_S = 0.15
CHILDREN_S = 2.0
TRY_S = 1.5
# Answers to the agent's own requests get no response.
UNANSWERED = "extension_ui_response"
_UNKNOWN = re.compile(r"unknown command", re.IGNORECASE)


class StepFailed(AssertionError):
    """A step could not be carried out, and that is the agent's doing."""


class UnknownCommand(StepFailed):
    """The agent does not know a command of the script."""


class Persisted(NamedTuple):
    """A session file, and what the agent shows of it."""

    lines: tuple[str, ...]
    entries: tuple[Any, ...]
    is_resumed: bool
    """The lines were left by a process that was killed, and the entries are another's."""
    step: int
    """The response with the entries."""
    process: int


class Stage:
    """The agent, the model and the files of one scenario while it is played."""

    def __init__(
        self,
        scenario: s.Scenario,
        kit: Kit,
        llm: FakeLlm,
        prepared: Prepared,
        start: Callable[[Sequence[str], bool], Body],
        case: str = "",
    ) -> None:
        """Prepare.

        Args:
            scenario: What is played.
            kit: Against what.
            llm: The model.
            prepared: The home.
            start: Starts a process there.
            case: In a process that plays several cases one after the other: what tells the gates and ids of this one.
        """
        self.body: Body | None = None
        self.ended: list[Body] = []
        """Processes that were replaced by another, not yet collected."""
        self.faults: list[str] = []
        self.persisted: list[Persisted] = []
        self._left_lines: tuple[str, ...] | None = None
        self._processes = 0
        self._scenario = scenario
        self._kit = kit
        self._llm = llm
        self._prepared = prepared
        self._start = start
        self._case = case
        self.holes = Holes(prepared.folders, case)
        # A model that serves several cases has been asked before.
        self._requests_before, self._gone_before = len(llm.requests), len(llm.disconnects)
        self._sent: Counter[str] = Counter()
        self._asked = 0
        self.is_warm = False
        self._is_over = False

    @property
    def has_ended_input(self) -> bool:
        """The script has closed stdin, or sent a signal."""
        return self.body is not None and self.body.asked_to_end_s is not None

    def begin(self) -> None:
        """Start the agent."""
        self.body = self._start(self._prepared.command, True)

    # Steps.

    def perform(self, step: s.Step) -> None:  # noqa: PLR0912 # an arm for each kind of step
        """Carry out one step.

        Raises:
            StepFailed, DriverTimeout, LlmTimeout, AgentGone: It can't be.
        """
        body = self._body()
        match step:
            case s.Send(records):
                named = self.holes.named(records)
                self._count(named)
                self._send(encode_records(named))
            case s.Bytes(data, cuts):
                self._send_cut(data, cuts)
            case s.Wait(wanted, keep):
                self._wait(wanted, keep)
            case s.Try(wanted):
                with contextlib.suppress(DriverTimeout):
                    body.wait(self._pattern(wanted), TRY_S)
            case s.Answered(ids):
                self._answered(ids)
            case s.Reached(gate):
                self._reached(gate)
            case s.Open(gates):
                self._open(gates)
            case s.Requests(count):
                self._llm.wait_requests(self._requests_before + count, self._limit_s())
            case s.Gone(count):
                self._llm.wait_disconnects(self._gone_before + count, self._limit_s())
            case s.Close(what):
                body.close_stdin() if what == "stdin" else body.close_stdout()
            case s.Reading(is_on):
                body.resume_reading() if is_on else body.pause_reading()
            case s.Signal(name):
                body.signal(getattr(signal, f"SIG{name}"))
            case s.Exit(code, within_s):
                self._exit(code, within_s)
            case s.Restart(has_session):
                self._restart(has_session)
            case s.Quiet():
                self.quiet()
            case s.State(fields):
                self._state(fields, "get_state")
            case s.Ask(record, gives, keep):
                self._ask(record, gives, keep)
            case s.Mark(name):
                body.recording.mark(name)
            case s.Files(checks):
                for check in checks:
                    path = place(self._prepared.folders, str(self.holes.filled(check.path)))
                    self.faults += file_faults(path, check)
            case s.Write(files):
                write_files(self._prepared.folders, self.holes.filled(dict(files)))
            case s.Children(count):
                limit_s = CHILDREN_S * self._kit.patience
                self.faults += children_faults(body.descendants, count, limit_s)
            case _:
                assert_never(step)

    def settle(self) -> None:
        """Behind the last step: open every gate, let the agent become quiet, look at its state."""
        body = self._body()
        if self.has_ended_input or not body.alive:
            body.recording.end_script()
            return
        self._llm.release(*(self.holes.gate(gate) for gate in self._scenario.gates))
        self._is_over = True
        self.quiet()
        body.recording.end_script()
        if self._scenario.session == "new" and not self._case:
            self._look_at_session()
        if self._scenario.state:
            self._state(self._scenario.state, "get_state at the end")

    def _look_at_session(self) -> None:
        """Keep what the session file says and what the agent shows of it, now that nothing changes."""
        if not self._kit.generation.has_entries:
            return
        state = as_object(self._own({"type": "get_state"}, self._limit_s()).get("data")) or {}
        entries = as_object(self._own({"type": "get_entries"}, self._limit_s()).get("data")) or {}
        path = Path(str(state.get("sessionFile") or ""))
        shown = as_list(entries.get("entries"))
        if shown is None or not path.is_file():
            return
        step, process = len(self._body().recording.lines), self._processes
        self.persisted.append(Persisted(_lines_of(path), tuple(shown), False, step, process))
        if self._left_lines is not None:
            self.persisted.append(Persisted(self._left_lines, tuple(shown), True, step, process))

    def is_alive(self, limit_s: float) -> bool:
        """Say whether the agent still answers."""
        try:
            self._own({"type": "get_state"}, limit_s)
        except (DriverTimeout, AgentGone):
            return False
        return True

    def _body(self) -> Body:
        assert self.body is not None, "not begun"
        return self.body

    def _limit_s(self) -> float:
        limit_s = WAIT_S if self.is_warm else START_S
        return limit_s * self._kit.patience

    def _send(self, data: bytes) -> None:
        self._body().send_bytes(data, self._limit_s())

    def _send_cut(self, data: bytes, cuts: Sequence[int]) -> None:
        places = range(1, len(data)) if tuple(cuts) == (-1,) else cuts
        if cuts:
            self._body().split_write(data, places, self._limit_s())
        else:
            self._send(data)

    def _wait(self, wanted: Sequence[str | Mapping[str, Any]], keep: Mapping[str, str]) -> None:
        body = self._body()
        if list(wanted) == ["settled"] and not self._kit.generation.has_settled:
            self.quiet()
            return
        first = body.cursor
        last = first
        kept: Record = {}
        for each in wanted:
            body.cursor = first
            found = body.wait(self._pattern(each), self._limit_s())
            kept = kept or found
            last = max(last, body.cursor)
        body.cursor = last
        self.is_warm = True
        self._keep(keep, kept)

    def _pattern(self, wanted: str | Mapping[str, Any]) -> Callable[[dict[str, Any]], bool]:
        if isinstance(wanted, str):
            test = read_class(str(self.holes.filled(wanted))).test
            return lambda record: not is_of_kit(record) and test(record)
        part = self.holes.filled(wanted)
        return lambda record: not is_of_kit(record) and not differences(record, part)

    def _keep(self, keep: Mapping[str, str], record: Record) -> None:
        for name, path in keep.items():
            value = field(record, path)
            if value is MISSING:
                raise StepFailed(f"{path} is missing in {short(record)}")
            self.holes.keep(name, value)

    def _answered(self, ids: Sequence[str | int]) -> None:
        body = self._body()
        if ids:
            for each in ids:
                response = body.wait_response(each, self._limit_s())
                self._note_unknown(response)
            self.is_warm = True
        else:
            self._all_answered(self._limit_s())

    def _all_answered(self, limit_s: float) -> None:
        journal = self._body().journal
        if not journal.wait_until(lambda: journal.has_ended or not self._outstanding(), limit_s):
            raise DriverTimeout(f"no response within {limit_s:g} s to {', '.join(self._outstanding())}")
        if self._outstanding():
            raise DriverTimeout(f"stdout ended without a response to {', '.join(self._outstanding())}")

    def _outstanding(self) -> list[str]:
        """Find ids that have fewer responses than commands."""
        responses = self._body().journal.responses
        return [each for each, sent in self._sent.items() if len(responses.get(id_key(each), ())) < sent]

    def _count(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Note what must be answered. An id that is no text may be refused; raw bytes may be anything."""
        ids = [each["id"] for each in records if isinstance(each.get("id"), str) and each.get("type") != UNANSWERED]
        self._sent.update(ids)

    def _note_unknown(self, response: Record) -> None:
        command = response.get("command")
        error = response.get("error")
        if response.get("success") is False and isinstance(error, str) and _UNKNOWN.search(error):
            sent = {record.get("type") for step in self._scenario.client for record in _records(step)}
            if isinstance(command, str) and command in sent and command in self._kit.generation.commands:
                raise UnknownCommand(f"{command}: {error}")

    def _reached(self, gate: str) -> None:
        if gate in self.holes.shell_gates:
            self.holes.shell_gates[gate].wait_reached(self._limit_s())
        else:
            self._llm.wait_reached(self.holes.gate(gate), self._limit_s())

    def _open(self, gates: Sequence[str]) -> None:
        for gate in gates:
            if gate in self.holes.shell_gates:
                self.holes.shell_gates[gate].release(timeout_s=self._limit_s())
                del self.holes.shell_gates[gate]
            else:
                self._llm.release(self.holes.gate(gate))

    def _exit(self, code: int | None, within_s: float) -> None:
        body = self._body()
        found = body.wait_exit(within_s * max(1.0, self._kit.patience))
        if code is not None and found != code:
            self.faults.append(f"the agent exited with {found}, not {code}")

    def _restart(self, has_session: bool) -> None:
        body = self._body()
        if body.alive:
            body.kill()
        body.close()
        body.recording.end_script()
        self.ended.append(body)
        command = self._prepared.command
        if has_session:
            files = sorted(self._prepared.folders["sessions"].rglob("*.jsonl"), key=os.path.getmtime)
            if not files:
                raise StepFailed("no session file was written")
            command = self._kit.adapter.resume(self._prepared, files[-1])
            self._left_lines = _lines_of(files[-1])
        self.is_warm = False
        self._sent.clear()
        self._processes += 1
        self.body = self._start(command, False)

    # Asking.

    def _own(self, record: Mapping[str, Any], limit_s: float) -> Record:
        self._asked += 1
        own = f"{KIT_ID}{self._case}{self._asked}"
        body = self._body()
        self._sent[own] += 1
        body.send({"id": own, **record})
        return body.wait_response(own, limit_s)

    def _state(self, fields: Mapping[str, Any], what: str) -> None:
        response = self._own({"type": "get_state"}, self._limit_s())
        found = differences(response.get("data", {}), self.holes.filled(dict(fields)))
        self.faults += [f"{what}: {each}" for each in found]

    def _ask(self, record: Mapping[str, Any], gives: Mapping[str, Any], keep: Mapping[str, str]) -> None:
        filled = self.holes.filled(dict(record))
        body = self._body()
        if "id" in filled:
            self._count([filled])
            body.send(filled)
            response: Record = body.wait_response(filled["id"], self._limit_s())
        else:
            response = self._own(filled, self._limit_s())
        self.is_warm = True
        self._note_unknown(response)
        self.faults += [
            f"{filled.get('type')}: {each}" for each in differences(response, self.holes.filled(dict(gives)))
        ]
        self._keep(keep, response)

    def quiet(self, limit_s: float = QUIET_S) -> None:
        """Wait until everything is answered and nothing more happens by itself.

        Raises:
            DriverTimeout: That does not come.
        """
        limit_s = limit_s * self._kit.patience + (0 if self.is_warm else START_S)
        deadline_s = time.monotonic() + limit_s
        journal = self._body().journal
        while True:
            self._release_shell_gates()
            left_s = max(0.01, deadline_s - time.monotonic())
            with contextlib.suppress(DriverTimeout):
                self._all_answered(min(left_s, ASK_EVERY_S * 4))
                mark = len(journal.records)
                state = as_object(self._own({"type": "get_state"}, left_s).get("data")) or {}
                self.is_warm = True
                if not (state.get("isStreaming") or state.get("isCompacting") or state.get("isBashRunning")):
                    return
                if time.monotonic() < deadline_s:
                    journal.wait_until(partial(_has_ended_work, journal, mark), ASK_EVERY_S)
            if journal.has_ended:
                raise DriverTimeout("stdout has ended")
            if time.monotonic() >= deadline_s:
                self._all_answered(0)
                raise DriverTimeout(f"the agent is still busy after {limit_s:g} s")

    def _release_shell_gates(self) -> None:
        if not self._is_over:
            return
        for gate in self.holes.shell_gates.values():
            # Nobody waits there; or who did was killed this moment.
            with contextlib.suppress(DriverTimeout, BrokenPipeError):
                gate.release(timeout_s=0)


def _lines_of(path: Path) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    return tuple(line for line in lines if line)


def _has_ended_work(journal: Journal, mark: int) -> bool:
    ends = {"agent_settled", "agent_end", "compaction_end", "auto_compaction_end", "auto_retry_end"}
    return journal.has_ended or any(each.record.get("type") in ends for each in journal.records[mark:])


def _records(step: s.Step) -> Sequence[Mapping[str, Any]]:
    match step:
        case s.Send(records):
            return records
        case s.Ask(record, _, _):
            return (record,)
        case _:
            return ()


__all__ = ["Stage", "StepFailed", "UnknownCommand"]
