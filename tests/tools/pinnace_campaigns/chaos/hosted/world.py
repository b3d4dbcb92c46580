"""What a run against a host plays in: one agent folder, a model server, disks, clients, and the faults of all of them.

A move sends, kills, stops or fills something, and waits only briefly; `settle` removes every fault, lets all clients
attach with their cursors and send again what was not answered, waits until the agents are idle, and has everything
judged. Speaks to the host by `pinnace attach`, `pinnace agents` and `pinnace host` alone.
"""

import contextlib
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pinnace_campaigns.chaos.faults import Disk, limit_files
from pinnace_campaigns.chaos.hosted.client_log import ClientLog, has_effect
from pinnace_campaigns.chaos.hosted.interrupts import uninterrupted
from pinnace_campaigns.chaos.hosted.moves import CLIENTS, NAMES, READS, SHELL_S
from pinnace_campaigns.chaos.hosted.processes import (
    AttachProcess,
    LivingProcesses,
    descriptors_of,
    find_processes,
    signal_each,
)
from pinnace_campaigns.chaos.hosted.verdict import Agent, find_faults, read_files
from pinnace_campaigns.chaos.moves import FINE, STOPS, TEXTS, answer
from pinnace_campaigns.chaos.run import Broken
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_fuzz.process_tree import kill_each, words_of
from pinnace_fuzz.records import Record

AGENTS: Final = tuple(dict.fromkeys(CLIENTS.values()))
SETTINGS: Final = {"retry": {"baseDelayMs": 5}}
IDLE_MINUTES: Final = "0.01"
"""Of the host that the run starts; one that an attach starts has its default."""
REST_S: Final = 60.0
# Commands are answered within milliseconds, unless something is stopped or was killed.
_BRIEFLY_S: Final = 0.15
_LOOK_S: Final = 0.05
_MOMENT_S: Final = 0.1
_START_S: Final = 60.0
_END_S: Final = 60.0
_SOON_S: Final = 10.0
_ASLEEP_S: Final = 2.0
"""A host with `IDLE_MINUTES` needs half of that."""
_BUSY: Final = ("isStreaming", "isCompacting", "isBashRunning")
_DOUBLE: Final = 2
"""From this `pick` on a death has a second one."""
_MAX_CRASHES: Final = 2
"""In a row; the delay after the third one is five seconds."""
HOST_DESCRIPTORS: Final = {"pipe": 3 * len(AGENTS), "anon_inode:[pidfd]": 1 + len(AGENTS), "socket": 6, "/": 11}
"""Of a host without clients, at most: pipes and handles of agents and zygote; lock, log, journals and tables."""
ZYGOTE_DESCRIPTORS: Final = {"pipe": 0, "anon_inode:[pidfd]": len(AGENTS), "socket": 1, "/": 4}
_SHOWN: Final = 160
_SHOWN_LINES: Final = 30


class HostedWorld:
    """From construction until `close`; `settle` and `close` raise `Broken` when a guarantee does not hold."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Make everything, and attach the first client, which starts the host.

        Args:
            command: Starts pinnace, without arguments.
            env: More variables for it.
        """
        self.found: Counter[str] = Counter()
        """What has happened, how often."""
        self.seen: Counter[str] = Counter()
        """What the last verdict has judged."""
        self.disk_fault: str | None = None
        self._command = tuple(command)
        self._count = 0
        self._crashes = 0
        self._had_disk_fault = False
        self._news = threading.Condition()
        self._logs = {name: ClientLog(name) for name in NAMES}
        self._attached: dict[str, AttachProcess] = {}
        self._replaced: list[AttachProcess] = []
        self._frozen: set[int] = set()
        self._killed: set[int] = set()
        """Processes that may still be seen for a moment."""
        self._hosts: list[subprocess.Popen[bytes]] = []
        with uninterrupted(), contextlib.ExitStack() as stack:
            # The path of a socket is short.
            self.root = make_short_folder("ch")
            self._ran = self.root / "ran"
            stack.callback(shutil.rmtree, self.root, ignore_errors=True)
            self.llm = stack.enter_context(FakeLlm([FINE]))
            # A limit of files would cut those that the interpreter writes beside the sources, for all later starts.
            more = {**env, "XDG_RUNTIME_DIR": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
            # The zygote has no variable but those of the interpreter.
            more["PYTHONPATH"] = ":".join(filter(None, [env.get("PYTHONPATH"), str(self.root / "no-modules")]))
            self.home = prepare_pi_home(
                self.root / "h", self.llm.base_url, has_session=True, settings=SETTINGS, env=more
            )
            (self.home.agent_dir / "host").mkdir(mode=0o700)
            self.disks = [Disk(self.home.sessions), Disk(self.home.agent_dir / "host")]
            """Of the sessions, and of the host; where mounting is allowed they are its own."""
            for disk in self.disks:
                stack.callback(disk.close)
            stack.callback(self._kill_all)
            self._stack = stack.pop_all()

    # Moves.

    def send(self, commands: Sequence[Sequence[object]], answers: Sequence[str]) -> None:
        """Send commands, each from a client; wait for their answers, but not for what can't answer."""
        self._script(answers)
        self._ask(commands)
        self._wait(lambda: not any(log.pending for log in self._logs.values()), _BRIEFLY_S)

    def release(self) -> None:
        """Open the gates of waiting answers."""
        self.llm.release(*self.llm.waiting)

    def kill(
        self,
        who: str,
        pick: int,
        commands: Sequence[Sequence[object]],
        answers: Sequence[str],
        records: int,
        later_ms: int,
    ) -> None:
        """Send commands, and kill -9 a process so many records and then so much time later.

        A host may be started again at once. Every other time an agent takes all clients along, whose commands have come
        while it had no process, and a host dies a second time when all clients were back and one has left.
        """
        is_double = pick >= _DOUBLE
        victims = self._victims(who, pick)
        if commands:
            self._script(answers)
            self._ask(commands)
            wanted = self._records() + records
            self._wait(lambda: self._records() >= wanted, _MOMENT_S)
            time.sleep(later_ms / 1000)  # no record shows when a message is in the file and not yet answered
        self._kill(victims)
        self._frozen.difference_update(victims)
        self._crashes += who == "agent" and bool(victims)
        if is_double and who == "agent" and victims and not self._frozen:
            self._lose_clients()
        if is_double and who == "host" and victims and self.disk_fault is None:
            self.settle()
            self._miss_something()
            self._kill(self._victims(who, pick))
        for name in NAMES:
            if who == name and name in self._attached:
                self._end(name)
        self._reap()
        if who == "host":
            self._crashes = 0
            if pick % 2:
                self._start_host()

    def freeze(self, who: str, pick: int) -> None:
        """Stop a process."""
        victims = self._victims(who, pick)
        signal_each(victims, signal.SIGSTOP)
        self._frozen.update(victims)

    def thaw(self) -> None:
        """Continue every process that was stopped."""
        signal_each(tuple(self._frozen), signal.SIGCONT)
        self._frozen.clear()

    def leave(self, name: str) -> None:
        """End the stdin of a client, if nothing is stopped: it detaches, when its commands are answered."""
        if name not in self._attached or self._frozen:
            return
        process = self._attached[name]
        process.leave()
        if self._wait(lambda: process.process.poll() is not None, _BRIEFLY_S):
            self._end(name)

    def attach(self, name: str) -> None:
        """Let a client that is away come back."""
        self._reap()
        if name not in self._attached:
            self._attach(name)

    def take_over(self, name: str) -> None:
        """Let another connection of a client replace the one that it has, which may be half open."""
        self._reap()
        if (former := self._attached.pop(name, None)) is not None:
            with self._news:
                former.is_ignored = True
                self._logs[name].disconnect()
            self._replaced.append(former)
        self._attach(name)

    def fill(self, kind: str, room: int) -> None:
        """Let files of agents or of the host not grow beyond the largest one and so much more; or fill the disks."""
        self.disk_fault, self._had_disk_fault = kind, True
        if kind == "disk":
            for disk in self.disks:
                if disk.is_own:
                    disk.fill()
            return
        found = self.processes()
        if kind in ("agents", "both"):
            self._limit(found.agents, _largest(self.home.sessions) + room)
        if kind in ("host", "both"):
            self._limit(_present(found.host), _largest(self.home.agent_dir / "host") + room)

    def make_room(self) -> None:
        """Remove the limits of the disks."""
        if self.disk_fault is None:
            return
        for disk in self.disks:
            disk.empty()
        found = self.processes()
        # A zygote that a limited host has started has its limit, and hands it on.
        self._limit([*found.agents, *_present(found.host), *_present(found.zygote)], None)
        self.disk_fault = None

    def sleep(self) -> None:
        """Let all clients leave, and wait until the agents sleep; those that do not by themselves are stopped."""
        self.settle()
        for name in NAMES:
            self._leave(name)
        if self._wait(lambda: not self.processes().agents, _ASLEEP_S):
            self.found["slept"] += 1
        else:
            self._stop_agents()

    def restart(self) -> None:
        """Have an agent restarted by the command."""
        host = self.processes().host
        if not self._frozen and host is not None and host not in self._killed:
            self._run("agents", "restart", "main")
            self._crashes = 0

    def settle(self) -> None:
        """Remove all faults, wait until everything is done, and judge.

        Raises:
            Broken: It does not come to rest, or a guarantee does not hold.
        """
        self.thaw()
        self.make_room()
        for former in self._replaced:
            if former.process.poll() is None:
                signal_each([former.pid], signal.SIGKILL)
            former.end()
        self._replaced.clear()
        self._script([])
        if self._crashes > _MAX_CRASHES:
            self.restart()
        states = self._rest()
        self._judge(states)

    def close(self) -> None:
        """Come to rest, judge, end everything in order, and look for what is left; then clean up.

        Raises:
            Broken: A guarantee does not hold.
        """
        try:
            self.settle()
            for name in NAMES:
                self._leave(name)
            self._check_descriptors()
            self._run("host", "stop")
            if not self._wait(lambda: not self.processes().everyone, _END_S):
                left = [_named(pid) for pid in self.processes().everyone]
                raise Broken(f"processes are left: {left}\n{self.evidence()}")
            self._check_files()
        finally:
            self.discard()

    def discard(self) -> None:
        """Clean up without judging; a signal that would interrupt it takes effect behind it."""
        with uninterrupted():
            self._stack.close()

    # Clients.

    def _lose_clients(self) -> None:
        """Let commands wait for the next process of their agent, and kill -9 the clients that have sent them."""
        self._ask([[number, family, 0] for number in range(len(NAMES)) for family in ("text", "stop", "shell")])
        time.sleep(_MOMENT_S / 2)  # nothing shows when a command has come to the host
        for name in tuple(self._attached):
            signal_each([self._attached[name].pid], signal.SIGKILL)
            self._end(name)

    def _miss_something(self) -> None:
        """Kill -9 a client, and let the other one of its agent go on: what it has to read has responses to that one."""
        one, two = NAMES[:2]
        signal_each([self._attached[one].pid], signal.SIGKILL)
        self._end(one)
        self._script(["text"])
        self._ask([[1, "text", 0], [1, "shell", 0]])
        self._wait(lambda: not self._logs[two].pending, _SOON_S)

    def _ask(self, commands: Sequence[Sequence[object]]) -> None:
        self._reap()
        for client, family, pick in commands:
            log = self._logs[NAMES[int(str(client))]]
            command = self._made(log.name, str(family), int(str(pick)))
            with self._news:
                log.ask(command)
        for name in NAMES:
            if name in self._attached:
                self._attached[name].write()

    def _made(self, client: str, family: str, pick: int) -> Record:
        self._count += 1
        identity = f"{client}-{self._count}"
        match family:
            case "text":
                command = {**TEXTS[pick], "message": f"say {self._count}"}
                if self._count % 2:  # else the host makes it
                    command["messageId"] = f"m-{self._count}"
            case "stop":
                command = dict(STOPS[pick])
            case "shell":
                # Lines of their own, and whole: a limit of its agent's files may cut one off.
                command = {"type": "bash", "command": f"echo ' {identity};' >> {self._ran}; sleep {SHELL_S[pick]}"}
            case _:
                command = {"type": READS[pick]}
        return {"id": identity, **command}

    def _attach(self, name: str) -> None:
        log = self._logs[name]
        words = [*self._command, "attach", CLIENTS[name], "--cursors", "--client", name]
        if log.cursor is not None:
            words += ["--since", str(log.cursor)]
        words += self.home.arguments
        self._attached[name] = AttachProcess(words, log, self._news, self.home.env, self.root)

    def _reap(self) -> None:
        """Take notice of attaches that have ended."""
        for name, process in list(self._attached.items()):
            if process.process.poll() is not None:
                self._end(name)

    def _end(self, name: str) -> None:
        process = self._attached.pop(name)
        code = process.end()
        self.found[f"attach ended with {code}"] += 1
        if code not in (0, 1, 75, -9):
            raise Broken(f"the attach of {name} ended with {code}\n{self.evidence()}")

    def _leave(self, name: str) -> None:
        if name not in self._attached:
            return
        process = self._attached[name]
        process.leave()
        if not self._wait(lambda: process.process.poll() is not None, REST_S):
            raise Broken(f"the attach of {name} does not leave\n{self.evidence()}")
        self._end(name)

    def _records(self) -> int:
        return sum(log.records for log in self._logs.values())

    # Rest.

    def _rest(self) -> Mapping[str, Record]:
        """Wait until every command is answered and the agents are idle; return their states."""
        deadline_s = time.monotonic() + REST_S
        asked: dict[str, str] = {}
        while True:
            self._reap()
            self.llm.release(*self.llm.waiting)
            with self._news:
                is_answered = not any(log.pending for log in self._logs.values())
                states = {name: self._logs[name].responses[asked[name]] for name in asked} if is_answered else {}
                if states and all(map(_is_idle, states.values())):
                    unsaved = [name for name in states if not states[name]["data"]["sessionStatus"]["saved"]]
                    if unsaved:
                        asked = {name: self._ask_for_save(self._logs[name]) for name in unsaved}
                    elif self._are_even():
                        return {name: each["data"] for name, each in states.items()}
                    self._news.wait(_LOOK_S)
                elif is_answered:
                    # Of all clients at once, since one's command may have begun a run after another's was answered.
                    self._news.wait(_LOOK_S if states else 0)
                    asked = {name: self._read_state(log) for name, log in self._logs.items()}
            for name in NAMES:
                if name not in self._attached:
                    self._attach(name)
                self._attached[name].write()
            with self._news:
                if not is_answered:
                    self._news.wait(_LOOK_S)
            if time.monotonic() > deadline_s:
                pending = {name: list(log.pending.values()) for name, log in self._logs.items()}
                raise Broken(f"not at rest: unanswered {pending}, states {states}\n{self.evidence()}")

    def _ask_for_save(self, log: ClientLog) -> str:
        """Send a command that is no read: it saves what a full disk has left unsaved."""
        self._count += 1
        identity = f"{log.name}-{self._count}"
        log.ask({"id": identity, "type": "set_session_name", "name": "saved"})
        return identity

    def _read_state(self, log: ClientLog) -> str:
        self._count += 1
        identity = f"{log.name}-{self._count}"
        log.ask({"id": identity, "type": "get_state"})
        return identity

    def _are_even(self) -> bool:
        """Whether the clients of an agent have read equally far.

        A journal whose epoch the disk did not take has another name, which a client learns when it attaches again.
        """
        logs = {agent: [self._logs[name] for name in NAMES if CLIENTS[name] == agent] for agent in AGENTS}
        return all(len({each.cursor and each.cursor[1:] for each in found}) == 1 for found in logs.values())

    def _judge(self, states: Mapping[str, Record]) -> None:
        faults: list[str] = []
        counts = Counter[str]()
        for agent in AGENTS:
            names = [name for name in NAMES if CLIENTS[name] == agent]
            state = states[names[0]]
            path = state.get("sessionFile")
            files = read_files(self.home.agent_dir / "host" / "agents" / agent)
            about = Agent(
                agent,
                [self._logs[name] for name in names],
                Path(path).read_bytes() if path and Path(path).exists() else b"",
                files,
                state["pendingMessageCount"],
                _whole(self._ran.read_text()) if self._ran.exists() else [],
                self._had_disk_fault,
            )
            faults += find_faults(about, counts)
        self.seen = counts
        if faults:
            raise Broken("\n".join([*faults[:10], self.evidence()]))

    # Processes.

    def _victims(self, who: str, pick: int) -> list[int]:
        if who in NAMES:
            return [self._attached[who].pid] if who in self._attached else []
        found = self.processes()
        if who == "agent":
            return [found.agents[pick % len(found.agents)]] if found.agents else []
        return _present(found.host if who == "host" else found.zygote)

    def _kill(self, victims: Sequence[int]) -> None:
        signal_each(victims, signal.SIGKILL)
        self._killed.update(victims)

    def processes(self) -> LivingProcesses:
        """Find the processes of this run."""
        return find_processes(self.root, self.home.agent_dir)

    def _start_host(self) -> None:
        """Start a host as a supervisor of services does, one that lets agents sleep soon."""
        words = [*self._command, "host", "--idle-minutes", IDLE_MINUTES]
        with (self.root / "host.stderr").open("ab") as stderr:
            process = subprocess.Popen[bytes](
                words,
                env=dict(self.home.env),
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd="/",
                start_new_session=True,
            )
        self._hosts.append(process)

        def is_refused() -> bool:
            # Without a block for its lock no client could find it: it reports that, and a later one starts.
            return self.disk_fault == "disk" and process.poll() not in (None, 0)

        if not self._wait(lambda: self.processes().host is not None or is_refused(), _START_S):
            raise Broken(f"the host does not start\n{self.evidence()}")
        if is_refused():
            self.found["host without space"] += 1

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [*self._command, *words], env=dict(self.home.env), capture_output=True, text=True, check=False, cwd="/"
        )
        if done.returncode not in (0, 1):
            raise Broken(f"{words} ended with {done.returncode}: {done.stderr}\n{self.evidence()}")
        return done.stdout

    def _stop_agents(self) -> None:
        for agent in AGENTS:
            self._run("agents", "stop", agent)

    def _limit(self, pids: Sequence[int], size: int | None) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                limit_files(pid, size)

    def _kill_all(self) -> None:
        deadline_s = time.monotonic() + _END_S
        while (left := self.processes().everyone) and time.monotonic() < deadline_s:
            kill_each(left)
        for process in [*self._attached.values(), *self._replaced]:
            process.end()
        for host in self._hosts:
            host.wait()

    # Looks.

    def _wait(self, is_true: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for what records, or ends of processes, bring."""
        deadline_s = time.monotonic() + timeout_s
        while not is_true():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            for name in NAMES:
                if name in self._attached:
                    self._attached[name].write()
            with self._news:
                self._news.wait(min(left_s, _LOOK_S))
        return True

    def _check_descriptors(self) -> None:
        # For a moment a zygote that has just been started has an agent of its own.
        if not self._wait(lambda: not self._too_many_files(), _END_S):
            raise Broken(f"{self._too_many_files()}\n{self.evidence()}")

    def _too_many_files(self) -> str:
        found = self.processes()
        for pid, limits in ((found.host, HOST_DESCRIPTORS), (found.zygote, ZYGOTE_DESCRIPTORS)):
            files = [] if pid is None else descriptors_of(pid)
            deleted = [each for each in files if each.endswith("(deleted)")]
            excess = [kind for kind, most in limits.items() if sum(each.startswith(kind) for each in files) > most]
            if pid is not None and (excess or deleted):
                return f"{_named(pid)} has too many files open ({excess}): {files}"
        return ""

    def _check_files(self) -> None:
        left = [path for path in self.root.rglob("*") if path.name.endswith((".new", ".sock"))]
        if left:
            raise Broken(f"files are left: {left}\n{self.evidence()}")

    def evidence(self) -> str:
        """Return the ends of the clients' histories, and what the processes have reported."""
        lines: list[str] = []
        for name, log in self._logs.items():
            lines.append(f"client {name}: cursor {log.cursor}, gaps {log.gaps}, restarts {[*log.restarts.values()]}")
            events = [f"  {place} {_short(record)}" for place, record in log.events.items()]
            lines += [each for each in events if "'message_update'" not in each][-_SHOWN_LINES:]
            asked = [(command, log.responses.get(identity)) for identity, command in log.sent.items()]
            shown = [f"  {_short(each)} -> {_short(got)}" for each, got in asked if has_effect(each)]
            lines += shown[-_SHOWN_LINES:]
        for path in (*self.root.glob("*.stderr"), self.home.agent_dir / "host" / "host.log"):
            if path.exists() and (text := path.read_text(errors="replace")[-3000:]):
                lines.append(f"{path.name}: {text}")
        return "\n".join(lines)

    # The model.

    def _script(self, answers: Sequence[str]) -> None:
        self.llm.forget()
        for name in answers:
            self._count += 1
            self.llm.add(answer(name, self._count))
        self.llm.add(FINE)


def _largest(folder: Path) -> int:
    return max((path.stat().st_size for path in folder.rglob("*.jsonl")), default=0)


def _whole(text: str) -> list[str]:
    return [word.removesuffix(";") for word in text.split() if word.endswith(";")]


def _is_idle(response: Record) -> bool:
    return response["success"] and "data" in response and not any(map(response["data"].get, _BUSY))


def _short(record: Record | None) -> str:
    text = str(record)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _present(pid: int | None) -> list[int]:
    return [] if pid is None else [pid]


def _named(pid: int) -> str:
    return f"process {pid} ({b' '.join(words_of(pid)).decode(errors='replace')})"
