"""The faults of a chaos run: one home, one model server, one disk, one clock, and one agent after the other.

Each method that a move names causes or removes one fault, or acts as the client. Steps wait for records, never for
times: after each the agent is idle, or blocked by a gate or fault of the run. Independent of how moves are chosen.
"""

import contextlib
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pinnace_campaigns.chaos import moves
from pinnace_campaigns.chaos.accounting import Archive, left_behind, never_ran, request_faults
from pinnace_campaigns.chaos.faults import Clock, Disk, limit_files
from pinnace_campaigns.chaos.moves import FINE, answer, made_command
from pinnace_campaigns.chaos.run import Broken, Run, Seen
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.trials.workbench import HomedAgent
from pinnace_spec.profiles.profiles import Profile

# A crash is this late at most when there are too few records for its moment.
_MOMENT_S: Final = 0.1
# How long a slow read waits for output; an idle agent writes none.
_SIP_S: Final = 0.2
SETTINGS: Final = {"retry": {"baseDelayMs": 5}, "compaction": {"keepRecentTokens": 100}}
_KILLED: Final = frozenset({-signal.SIGKILL})
_VANISHED: Final = frozenset({1})

Drawn = Sequence[Sequence[object]]
"""Commands, each as the name of its family and a number in it."""


class World:
    """From construction until `close`; a move raises `Broken` when an invariant does not hold."""

    def __init__(self, root: Path, command: Sequence[str], env: Mapping[str, str], protocol: Profile) -> None:
        """Make everything and start the first agent.

        Args:
            root: A folder of its own.
            command: Starts the agent, without arguments of the protocol.
            env: More variables for it.
            protocol: Its `--protocol`.
        """
        self.armed: Counter[str] = Counter()
        self.probes_s: list[float] = []
        self.starts = 0
        self.is_paused = self.is_frozen = False
        self.disk_fault: str | None = None
        self.unseen = 0
        """Commands, or other moves, since the client last read anything."""
        self._texts: dict[str, str] = {}
        self._count = 0
        self._asked = 0
        self._scripted: tuple[int, Sequence[str]] = 0, ()
        """How many requests there were before the answers that were set last, and these."""
        self._has_killed = False
        self._unsafe_from: int | None = None
        """The first record of the process that may be in no file, since the disk was full when it came."""
        self._safe = 0
        self._had_fault = self._has_switched = False
        """Whether the disk of this process was ever full; whether it has opened a session for a second time."""
        self._command = tuple(command)
        self._protocol: Profile = protocol
        self._archive = Archive()
        with contextlib.ExitStack() as stack:
            root.mkdir(parents=True, exist_ok=True)
            self.clock = Clock(root / "clock")
            self.llm = stack.enter_context(FakeLlm([FINE]))
            self.home = prepare_pi_home(
                root / "home", self.llm.base_url, has_session=True, settings=SETTINGS, env={**env, **self.clock.env}
            )
            self.disk = Disk(self.home.sessions)
            stack.callback(self.disk.close)
            self._start()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the last agent in order, judge it, and clean up."""
        try:
            self.make_room()
            if self.is_frozen:
                self.thaw()
            self._leave()
        finally:
            self.discard()

    def discard(self) -> None:
        """Clean up without judging, after a failure."""
        try:
            self.agent.process.close()
        finally:
            self._stack.close()

    @property
    def agent(self) -> HomedAgent:
        """The running agent."""
        return self.run.agent

    @property
    def can_break(self) -> Mapping[str, bool]:
        """Kinds of fault that depend on the machine -> whether they are possible here."""
        return {"disk": self.disk.is_own, "clock": self.clock.is_there}

    @property
    def is_seeing(self) -> bool:
        """Whether the client can wait for anything."""
        return not (self.is_paused or self.is_frozen)

    # The client.

    def ask(self, kind: int, answers: Sequence[str]) -> None:
        """Send a message, and set the model's answer."""
        self._script(answers)
        self._send(["ask", kind])

    def command(self, family: str, pick: int) -> None:
        """Send one command."""
        self._send([family, pick])

    def burst(self, commands: Drawn, answers: Sequence[str]) -> None:
        """Send commands in one write."""
        self._script(answers)
        self._send(*commands)

    def compact(self, answers: Sequence[str]) -> None:
        """Ask for a summary."""
        self._script(answers)
        self._send(["compact", 0])

    def replace(self, kind: int, pick: int) -> None:
        """Replace the session: a new one, a part or a copy of this one, or one of the others."""
        command: dict[str, object] = {"type": moves.SESSIONS[kind]}
        match command["type"]:
            case "fork":
                found = self.run.read("get_fork_messages")["messages"]
                command["entryId"] = found[pick % len(found)]["entryId"] if found else "none"
            case "switch_session":
                self._has_switched = True
                paths = sorted(self.home.sessions.glob("*.jsonl"))
                command["sessionPath"] = str(paths[pick % len(paths)]) if paths else "/nowhere"
            case _:
                pass
        self._write([command])

    def line(self, pick: int) -> None:
        """Write a line that is not a command."""
        self.agent.send_bytes(moves.ODD_LINES[pick].encode() + b"\n")
        self._go_on(1)

    def release(self) -> None:
        """Open the gates of waiting answers."""
        self.llm.release(*self.llm.waiting)
        self._go_on(0)

    # The reader, and the process.

    def pause(self) -> None:
        """Stop reading."""
        self.agent.pause_reading()
        self.is_paused = True

    def read_on(self) -> None:
        """Read again."""
        self.agent.resume_reading()
        self.is_paused = False
        self._go_on(0)

    def sip(self, count: int, answers: Sequence[str]) -> None:
        """Ask for something, and read slowly: a few records, then nothing for a while."""
        journal = self.agent.journal
        self.agent.pause_reading()
        self._script([*answers, "long"])
        self._write_only([made_command("ask", 0)])
        for _ in range(count):
            seen = len(journal.records)
            self.agent.resume_reading()
            journal.wait_until(partial(self._has_more, seen), _SIP_S)
            self.agent.pause_reading()
        self.agent.resume_reading()
        self._go_on(0)

    def _has_more(self, seen: int) -> bool:
        return len(self.agent.journal.records) > seen

    def freeze(self) -> None:
        """Stop the process."""
        self.agent.signal(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """Continue the process."""
        self.agent.signal(signal.SIGCONT)
        self.is_frozen = False
        self._go_on(0)

    def crash(self, commands: Drawn, answers: Sequence[str], records: int, again: str) -> None:
        """Send commands, kill -9 so many records later, and start again."""
        before = None
        if commands:
            journal = self.agent.journal
            seen = len(journal.records)
            self._script(answers)
            self._write_only([made_command(str(each[0]), int(str(each[1]))) for each in commands])
            wanted = seen + records
            journal.wait_until(lambda: len(journal.records) >= wanted, _MOMENT_S if self.is_seeing else 0)
        else:
            before = self._seen()
        self.agent.signal(signal.SIGKILL)
        self.agent.resume_reading()
        self._has_killed = True
        self._finish("killed", _KILLED)
        self._restart(again, before)

    def vanish(self, again: str) -> None:
        """Close the read end of stdout: the agent detects that no reader is left, and exits."""
        if self.is_frozen:
            self.agent.signal(signal.SIGCONT)
        self.agent.close_stdout()
        with contextlib.suppress(AssertionError):  # it may have detected that already
            self.agent.send({"type": "get_state"})
        self._finish("killed", _VANISHED)
        self._restart(again, None)

    def leave(self, again: str) -> None:
        """Close stdin: the agent ends its work and exits with 0."""
        before = self._seen()
        self._leave()
        self._restart(again, before)

    def _leave(self) -> None:
        self.agent.resume_reading()
        self.agent.close_stdin()
        self._finish("exit", frozenset({0}))

    def terminate(self, again: str) -> None:
        """Send SIGTERM."""
        before = self._seen()
        self.agent.resume_reading()
        self.agent.signal(signal.SIGTERM)
        self._finish("exit", frozenset({143}))
        self._restart(again, before)

    # Model server, disk and clock.

    def server_away(self) -> None:
        """Stop the model server."""
        self.llm.go_away()
        self._go_on(0)

    def server_back(self) -> None:
        """Start the model server again, at the same port."""
        self.llm.come_back()
        self._go_on(0)

    def fill(self, kind: str, room: int) -> None:
        """Make the disk full: a real one, or a limit a little above the session file's size."""
        self.disk_fault, self._had_fault = kind, True
        if kind == "disk":
            self.disk.fill()
        else:
            path = self._path()
            limit_files(self.agent.process.pid, room + (path.stat().st_size if path and path.is_file() else 0))
        self._go_on(0)

    def make_room(self) -> None:
        """Remove the limits of the disk."""
        self.disk.empty()
        limit_files(self.agent.process.pid, None)
        self.disk_fault = None
        self._go_on(0)

    def jump(self, offset_s: int) -> None:
        """Set the time of day."""
        self.clock.jump(offset_s)
        self._go_on(0)

    # The parts of moves.

    def _script(self, answers: Sequence[str]) -> None:
        self.llm.forget()
        self._scripted = len(self.llm.requests), answers
        for name in answers:
            self._count += 1
            self.llm.add(answer(name, self._count))
        self.llm.add(FINE)

    def _send(self, *commands: Sequence[object]) -> None:
        made: list[dict[str, object]] = []
        for family, pick in commands:
            self._count += 1
            made.append(made_command(str(family), int(str(pick))))
        self._write(made)

    def _write(self, commands: Sequence[dict[str, object]]) -> None:
        self._write_only(commands)
        self._go_on(len(commands))

    def _write_only(self, commands: Sequence[dict[str, object]]) -> None:
        for command in commands:
            self._count += 1
            command["id"] = f"c{self._count}"
            if "message" in command:
                command["message"] = self._texts[str(command["id"])] = f"say {self._count}"
            if "command" in command:  # distinguished, as the texts are
                command["command"] = f"{command['command']} # {command['id']}"
            if moves.HANGING in str(command.get("command")):
                self.run.hanging_shells.add(str(command["id"]))
        self.agent.send_many(commands)

    def _go_on(self, sent: int) -> None:
        """Wait until the agent is idle and judge its records; without a reader only count the commands."""
        if not self.is_seeing:
            self.unseen += max(sent, 1)
            return
        self.unseen = 0
        run = self.run
        run.rest(lambda: self.llm.waiting or self._is_summary_delayed())
        run.blame(request_faults([each.body for each in self.llm.requests[self._asked :]]))
        self._asked = len(self.llm.requests)
        if not (run.state["sessionStatus"]["saved"] or self._had_fault):
            run.blame([f"not saved, though the disk has room: {run.state['sessionStatus']}"])
        if run.is_saved and run.is_idle:
            # Everything up to here is on the disk, whatever comes.
            self._unsafe_from = len(self.agent.journal.records) if self.disk_fault else None
        elif self.disk_fault and self._unsafe_from is None:
            self._unsafe_from = self._safe
        if not self.disk_fault:
            self._safe = len(self.agent.journal.records)
        if run.is_idle:
            run.check_descriptors()

    def _is_summary_delayed(self) -> bool:
        """Whether the server has asked a compaction for a long delay, of which no record tells."""
        before, answers = self._scripted
        last = len(self.llm.requests) - before - 1
        return bool(self.run.state.get("isCompacting")) and 0 <= last < len(answers) and answers[last] == "later"

    def _path(self) -> Path | None:
        path = self.run.state.get("sessionFile")
        return Path(path) if path else None

    def _seen(self) -> Seen | None:
        """Read what has to be there after the end, if nothing is at work."""
        return None if self.disk_fault or not self.is_seeing else self.run.seen()

    # From one process to the next.

    def _start(self, *flags: str) -> None:
        self.starts += 1
        command = [*self._command, *self.home.arguments, "--protocol", self._protocol, *flags]
        agent = HomedAgent(command, self.home, self.llm, profile=self._protocol)
        self.run = Run(agent, self._protocol, self._texts, is_fresh=not flags)
        self._had_fault = self.disk_fault is not None
        self._has_switched = False
        self._unsafe_from = 0 if self.disk_fault else None
        self._safe = 0
        self.is_paused = self.is_frozen = False
        self.unseen = 0
        self._go_on(0)

    def _finish(self, how: str, codes: frozenset[int]) -> None:
        run, agent = self.run, self.agent
        path = self._path()
        is_orderly = how == "exit"
        try:
            run.finish("exit" if is_orderly else "killed", codes=codes)
        finally:
            agent.process.close()
        self.probes_s += run.probes_s
        self.armed.update(run.armed)
        # A former session is closed with its last shell; entries that it could not save are lost, and reported.
        is_all_saved = not run.troubled - {str(path)}
        if is_orderly and not self.disk_fault and is_all_saved:
            self._unsafe_from = None
        files = {each.name: each.read_bytes() for each in sorted(self.home.sessions.glob("*.jsonl"))}
        records = [each.record for each in agent.records[: self._unsafe_from] if not never_ran(each.record)]
        is_cut = not is_orderly or self.disk_fault is not None
        run.blame(
            self._archive.close_process(records, self._texts, files, was_killed=is_cut, has_switched=self._has_switched)
        )
        is_done_with = path if is_orderly else None
        run.blame(left_behind(self.home, is_done_with, has_killed=self._has_killed))

    def _restart(self, how: str, before: Seen | None) -> None:
        if self.disk_fault == "limit":
            self.disk_fault = None
        path = self._path()
        has_file = path is not None and path.is_file()
        match how:
            case "session" if has_file:
                self._start("--session", str(path))
            case "fresh":
                self._start()
            case _:
                self._start("--continue")
        if (continued := self.run.state.get("sessionFile")) is not None:
            waiting = self.run.state["pendingMessageCount"]
            self.run.blame(self._archive.restored(Path(continued).name, waiting))
        if before is not None and has_file and self.run.state.get("sessionFile") == before.path:
            now = self.run.read("get_messages")["messages"]
            if now != before.messages:
                raise Broken(f"the session was {before.messages}, and after the restart it is {now}")
