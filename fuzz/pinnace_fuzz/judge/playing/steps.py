"""Carries out the steps of a client's script, one after the other, on the agent that is on stage.

A step that can't be executed raises; a step whose check fails records a fault, and the script continues.
"""

import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from pinnace_fuzz.harness.agent_process import DriverTimeout
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.judge.adapter import Prepared, place, write_files
from pinnace_fuzz.judge.playing.asking import Dialogue, StepFailed, UnknownCommand
from pinnace_fuzz.judge.playing.body import Body
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.recording import is_of_kit, without_warnings_of_sandbox
from pinnace_fuzz.judge.playing.said import counts_messages, is_said, only_said, unsaid
from pinnace_fuzz.judge.playing.surroundings import OtherProgram, children_faults, file_faults
from pinnace_fuzz.judge.scenarios import scenario as s
from pinnace_fuzz.judge.scenarios.classes import MISSING, Record, field
from pinnace_fuzz.judge.scenarios.expression import read_class
from pinnace_fuzz.judge.scenarios.holes import Holes
from pinnace_fuzz.judge.scenarios.likeness import differences, short
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_fuzz.records import encode_records

CHILDREN_S = 2.0
FILES_S = 1.0
TRY_S = 1.5
_UNKNOWN = re.compile(r"unknown command", re.IGNORECASE)


class Persisted(NamedTuple):
    """A session file, and what the agent shows of it."""

    lines: tuple[str, ...]
    entries: tuple[Any, ...]
    is_resumed: bool
    """The lines were left by a process that was killed, and the entries are another's."""
    step: int
    """The response with the entries."""
    process: int
    inherited: tuple[str, ...]
    """The lines that a process before had left."""


class Stage(Dialogue):
    """The agent, the model and the files of one scenario while it is played."""

    def __init__(
        self,
        scenario: s.Scenario,
        kit: AgentUnderTest,
        llm: FakeLlm,
        prepared: Prepared,
        start: Callable[[Sequence[str], bool], Body],
        case: str = "",
    ) -> None:
        """Prepare.

        Args:
            scenario: What is played.
            kit: The agent and its adapter.
            llm: The model.
            prepared: The home.
            start: Starts a process there.
            case: Distinguishes the gates and ids of this case, in a process that plays several one after the other.
        """
        super().__init__(kit, Holes(prepared.folders, case), case)
        self.ended: list[Body] = []
        """Processes that were replaced by another, not yet collected."""
        self.faults: list[str] = []
        self.persisted: list[Persisted] = []
        self._left_lines: tuple[str, ...] | None = None
        self._processes = 0
        self._scenario = scenario
        self._llm = llm
        self._prepared = prepared
        self._start = start
        self._other_program = OtherProgram(prepared.folders)
        # A model that serves several cases has been asked before.
        self._requests_before, self._gone_before = len(llm.requests), len(llm.disconnects)

    def begin(self) -> None:
        """Start the agent."""
        self.body = self._start(self._prepared.command, True)

    def close(self) -> None:
        """Let go of what the script holds beside the agent."""
        self._other_program.close()

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
                    self.is_warm = True
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
                    self.faults += file_faults(path, check, self._file_limit_s())
            case s.Write(files, is_appended):
                filled = self.holes.filled(dict(files))
                self._other_program.append(filled) if is_appended else write_files(self._prepared.folders, filled)
            case s.Remove(paths):
                self._other_program.remove(self.holes.filled(list(paths)))
            case s.Move(paths):
                self._other_program.move(self.holes.filled(dict(paths)))
            case s.Lock(path, is_held):
                self._other_program.lock(str(self.holes.filled(path)), is_held, self._limit_s())
            case s.Children() as wanted:
                self.faults += children_faults(body.descendants, wanted, CHILDREN_S * self._kit.patience)
            case _:
                assert_never(step)

    def settle(self) -> None:
        """After the last step: open every gate, wait until the agent is idle, read its state."""
        body = self._body()
        if self.has_ended_input or not body.alive:
            body.recording.end_script()
            return
        self._llm.release(*(self.holes.gate(gate) for gate in self._scenario.gates))
        self._is_over = True
        self.quiet()
        body.recording.end_script()
        if self._scenario.session == "new" and not self._case and not self._kit.adapter.is_one_prompt:
            self._look_at_session()
        if self._scenario.state:
            self._state(self._scenario.state, "get_state at the end")

    def _look_at_session(self) -> None:
        """Keep the content of the session file and the agent's view of it, while nothing changes."""
        if not self._kit.generation.has_entries:
            return
        state = as_object(self._own({"type": "get_state"}, self._limit_s()).get("data")) or {}
        entries = as_object(self._own({"type": "get_entries"}, self._limit_s()).get("data")) or {}
        path = Path(str(state.get("sessionFile") or ""))
        shown = as_list(entries.get("entries"))
        if shown is None or not path.is_file():
            return
        step, process = len(self._body().recording.lines), self._processes
        left = self._left_lines or ()
        self.persisted.append(Persisted(_lines_of(path), tuple(shown), False, step, process, left))
        if self._left_lines is not None:
            self.persisted.append(Persisted(left, tuple(shown), True, step, process, left))

    def _file_limit_s(self) -> float:
        """Return how long a file may take: only this project's rules require that it exists at once."""
        return 0 if self._kit.binds_ours else FILES_S * self._kit.patience

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
            found = read_class(str(self.holes.filled(wanted)))
            return _Wanted(wanted, lambda record: found.test(self.holes.unnamed(record)))
        part = self.holes.filled(wanted)
        return _Wanted(short(wanted), lambda record: not differences(record, part))

    def _keep(self, keep: Mapping[str, str], record: Record) -> None:
        for name, path in keep.items():
            value = field(record, path)
            if value is MISSING:
                raise StepFailed(f"{path} is missing in {short(record)}")
            self.holes.keep(name, value)

    def _answered(self, ids: Sequence[str | int]) -> None:
        if ids:
            for each in ids:
                self._note_unknown(self._response(each))
            self.is_warm = True
        else:
            self._all_answered(self._limit_s())

    def _response(self, own: str | int) -> Record:
        """Wait for a response. Many agents refuse what they don't know without its id: then none will come."""
        body = self._body()
        try:
            return body.wait_response(own, self._limit_s())
        except DriverTimeout:
            for each in list(body.journal.records):
                if each.record.get("type") == "response" and each.record.get("id") is None:
                    self._note_unknown(each.record)
            raise

    def _note_unknown(self, response: Record) -> None:
        command = response.get("command")
        error = response.get("error")
        if response.get("success") is False and isinstance(error, str) and _UNKNOWN.search(error):
            sent = {str(record.get("type")) for step in self._scenario.client for record in _records(step)}
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
                try:
                    self.holes.shell_gates[gate].release(timeout_s=self._limit_s())
                except BrokenPipeError:
                    raise StepFailed(f"the request at the gate {gate} was closed before it opened") from None
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

    def _said(self, response: Record, wanted: Mapping[str, Any]) -> Record:
        """Leave out of a response what depends on the machine, and what neither user nor model wrote.

        Counts need a look at the messages for that.
        """
        if self._kit.is_sandboxed:
            response = without_warnings_of_sandbox(response)
        if not self._kit.generation.has_system_messages:
            return response
        more = 0
        if counts_messages(wanted):
            shown = as_object(self._own({"type": "get_messages"}, self._limit_s()).get("data")) or {}
            more = unsaid(as_list(shown.get("messages")) or [])
        found: Record = only_said(response, more)
        return found

    def _state(self, fields: Mapping[str, Any], what: str) -> None:
        response = self._said(self._own({"type": "get_state"}, self._limit_s()), fields)
        found = differences(response.get("data", {}), self.holes.filled(dict(fields)))
        self.faults += [f"{what}: {each}" for each in found]

    def _ask(self, record: Mapping[str, Any], gives: Mapping[str, Any], keep: Mapping[str, str]) -> None:
        filled = self.holes.filled(dict(record))
        body = self._body()
        if "id" in filled:
            self._count([filled])
            body.send(filled)
            response = self._response(filled["id"])
        else:
            response = self._own(filled, self._limit_s())
        self.is_warm = True
        self._note_unknown(response)
        response = self._said(response, gives)
        self.faults += [
            f"{filled.get('type')}: {each}" for each in differences(response, self.holes.filled(dict(gives)))
        ]
        self._keep(keep, response)


class _Wanted:
    """The expected record of a wait; shown as it was written."""

    def __init__(self, written: str, test: Callable[[Record], bool]) -> None:
        self._written = written
        self._test = test

    def __call__(self, record: Record) -> bool:
        return not is_of_kit(record) and is_said(record) and self._test(record)

    def __repr__(self) -> str:
        return self._written


def _lines_of(path: Path) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    return tuple(line for line in lines if line)


def _records(step: s.Step) -> Sequence[Mapping[str, Any]]:
    match step:
        case s.Send(records):
            return records
        case s.Ask(record, _, _):
            return (record,)
        case _:
            return ()


__all__ = ["Stage", "StepFailed", "UnknownCommand"]
