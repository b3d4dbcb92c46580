"""Operations of the agent, each with a size that can be chosen and what it costs at that size.

Each measurement has a process of its own that has done before what is done only once. Must not judge.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import long_session
from side_by_side import OURS, MeasuredAgent, Program

from pinnace_fuzz.harness.adapters import pi_models, prepare_pi_home

# So large that no session here is compacted unasked.
WINDOW: Final = 100_000_000
MIB: Final = 1 << 20
STARTS: Final = 5
SETTLED: Final = b'"agent_settled"'
ENDED: Final = b'{"type":"agent_end"'
UPDATE: Final = b'{"type":"message_update"'


class Cost(NamedTuple):
    """What one measurement gave."""

    size: float
    cpu_ms: float
    copies: float = 0.0
    """Bytes on stdout divided by those of the two copies of the message; 0 where there are none."""


class Bench:
    """Starts agents; keeps the session files that several operations read."""

    def __init__(self, root: Path, address: str) -> None:
        """Lay out a home whose model has a window without an end."""
        models: Any = pi_models(address)
        for model in models["providers"]["fake"]["models"]:
            model["contextWindow"] = WINDOW
        home = prepare_pi_home(root, address, models=models, has_session=True)
        self.program = Program("pinnace", [str(OURS[0])], home)
        self._start_ms = 0.0

    @contextmanager
    def agent(self, *flags: str, profile: str = "1.5", answers: int = 1) -> Iterator[MeasuredAgent]:
        """Start an agent that has answered before: what is loaded once is loaded."""
        with MeasuredAgent(self.program, "--protocol", profile, *flags) as agent:
            agent.state()
            for _ in range(answers):
                agent.prompt("hello")
                agent.until(ENDED)
            agent.state()
            yield agent

    def start_ms(self) -> float:
        """Return the CPU time of a start with a session of nearly nothing."""
        if not self._start_ms:
            found: list[float] = []
            for _ in range(STARTS):
                with self.long(4) as agent:
                    found.append(agent.own_cpu_ms())
            self._start_ms = min(found)
        return self._start_ms

    @contextmanager
    def long(self, messages: int, *, is_fresh: bool = False) -> Iterator[MeasuredAgent]:
        """Start an agent with a session of a length; a fresh one may be appended to."""
        path = long_session.session_of(self.program, messages)
        if is_fresh:
            path = path.with_name("fresh.jsonl")
            path.unlink(missing_ok=True)
            path.write_bytes(long_session.session_of(self.program, messages).read_bytes())
        with MeasuredAgent(self.program, "--protocol", "1.5", "--session", str(path)) as agent:
            agent.state()
            yield agent


Measure = Callable[[Bench, int], Cost]


class Operation(NamedTuple):
    """What is done, at which sizes."""

    key: str
    name: str
    sizes: Sequence[int]
    measure: Measure
    demanded: str = ""
    """Why the protocol demands more than linear growth, if it does."""


def answer(kind: str) -> Measure:
    """Return what streams an answer of so many deltas."""

    def measure(bench: Bench, size: int) -> Cost:
        with bench.agent("--no-session") as agent:
            begun_ms = agent.own_cpu_ms()
            agent.prompt(kind, size)
            agent.until(SETTLED)
            return Cost(size, agent.own_cpu_ms() - begun_ms)

    return measure


def cumulative(profile: str) -> Measure:
    """Return what streams an answer whose every update holds the message twice; its size is in bytes of stdout."""

    def measure(bench: Bench, size: int) -> Cost:
        with bench.agent("--no-session", profile=profile) as agent:
            kept: list[bytes] = []
            agent.kept = kept
            begun_ms = agent.own_cpu_ms()
            # As fast as a model, not as a socket: what waits for a slow reader is merged.
            agent.prompt("paced", size)
            agent.until(ENDED)
            cpu_ms = agent.own_cpu_ms() - begun_ms
        updates = [line for line in b"".join(kept).split(b"\n") if line.startswith(UPDATE)]
        total = sum(len(line) + 1 for line in updates)
        return Cost(total, cpu_ms, total / sum(map(two_copies, updates)))

    return measure


def two_copies(line: bytes) -> int:
    """Return the bytes of the message in an update, twice."""
    message = json.loads(line)["message"]
    return 2 * len(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode())


def commands(count: int, **fields: object) -> list[dict[str, object]]:
    """Make commands with their numbers as ids; `#` in a text becomes the number."""
    made: list[dict[str, object]] = []
    for turn in range(count):
        numbered = {name: value.replace("#", str(turn)) for name, value in fields.items() if isinstance(value, str)}
        made.append({"id": f"n{turn}", **numbered})
    return made


def all_of(agent: MeasuredAgent, sent: Sequence[dict[str, object]]) -> float:
    """Send commands in one go and wait for the last answer; return the CPU time."""
    begun_ms = agent.own_cpu_ms()
    agent.send(*sent)
    agent.until(b'"id":"n%d"' % (len(sent) - 1))
    return agent.own_cpu_ms() - begun_ms


def appends(bench: Bench, size: int) -> Cost:
    """Append entries to a session."""
    with bench.agent() as agent:
        return Cost(size, all_of(agent, commands(size, type="set_session_name", name="name #")))


def appends_to_long(bench: Bench, size: int) -> Cost:
    """Append a hundred entries to a session that has so many."""
    with bench.long(size, is_fresh=True) as agent:
        all_of(agent, commands(1, type="set_session_name", name="first"))
        return Cost(size, all_of(agent, commands(100, type="set_session_name", name="name #")))


def opening(bench: Bench, size: int) -> Cost:
    """Open a session; a start without one does not count."""
    with bench.long(size) as agent:
        return Cost(size, agent.own_cpu_ms() - bench.start_ms())


def asked(kind: str, times: int) -> Measure:
    """Return what asks a long session so many times, after it was asked once."""

    def measure(bench: Bench, size: int) -> Cost:
        with bench.long(size) as agent:
            all_of(agent, commands(1, type=kind))
            return Cost(size, all_of(agent, commands(times, type=kind)))

    return measure


def queue(kind: str) -> Measure:
    """Return what queues texts behind an answer that hangs."""

    def measure(bench: Bench, size: int) -> Cost:
        with bench.agent("--no-session") as agent:
            agent.prompt("hang")
            agent.until(b'"text_delta"')
            cpu_ms = all_of(agent, commands(size, type=kind, message="text number #"))
            agent.send({"id": "a", "type": "abort"})
            agent.until(b'"command":"abort"')
            return Cost(size, cpu_ms)

    return measure


PRINT: Final = "yes 'a line of some sixty characters, as a build or a test prints it' | head -c {}"


def client_shell(bench: Bench, size: int) -> Cost:
    """Run a command of the client's that prints so many MiB."""
    with bench.agent("--no-session") as agent:
        for count in (1, size * MIB):
            begun_ms = agent.own_cpu_ms()
            agent.send({"type": "bash", "command": PRINT.format(count)})
            agent.until(b'"command":"bash"')
            cpu_ms = agent.own_cpu_ms() - begun_ms
        return Cost(size, cpu_ms)


def tool_output(bench: Bench, size: int) -> Cost:
    """Run a command of the model's that prints so many MiB."""
    with bench.agent("--no-session") as agent:
        for count in (1, size * MIB):
            begun_ms = agent.own_cpu_ms()
            agent.send({"type": "prompt", "message": f"bench:shell:0 {PRINT.format(count)}"})
            agent.until(b'"tool_execution_end"')
            cpu_ms = agent.own_cpu_ms() - begun_ms
            agent.until(ENDED)
            agent.state()
        return Cost(size, cpu_ms)


def export(bench: Bench, size: int) -> Cost:
    """Make a page of a session, in a process that has made one."""
    target = str(bench.program.home.work / "page.html")
    with bench.long(size) as agent:
        agent.send({"id": "warm", "type": "export_html", "outputPath": target})
        agent.until(b'"id":"warm"')
        before_ms = agent.cpu_ms()
        agent.send({"id": "n0", "type": "export_html", "outputPath": target})
        agent.until(b'"id":"n0"')
        return Cost(size, agent.cpu_ms() - before_ms)


def compaction(bench: Bench, size: int) -> Cost:
    """Compact a session of so many messages."""
    with bench.long(size, is_fresh=True) as agent:
        begun_ms = agent.own_cpu_ms()
        agent.send({"id": "n0", "type": "compact", "customInstructions": "bench:hello:0"})
        agent.until(b'"id":"n0"')
        return Cost(size, agent.own_cpu_ms() - begun_ms)


def long_line(bench: Bench, size: int) -> Cost:
    """Read a line of so many MiB, a prompt that is refused for its streamingBehavior."""
    with bench.agent("--no-session") as agent:
        refused = b'{"id":"n0","type":"prompt","streamingBehavior":"x","message":"%b"}\n'
        for line in (refused % b"x", refused % (b"x" * size * MIB)):
            begun_ms = agent.own_cpu_ms()
            agent.send_bytes(line)
            agent.until(b'"id":"n0"')
            cpu_ms = agent.own_cpu_ms() - begun_ms
        return Cost(size, cpu_ms)


def pipelined(bench: Bench, size: int) -> Cost:
    """Ask for the state so many times in one write."""
    with bench.agent("--no-session") as agent:
        return Cost(size, all_of(agent, commands(size, type="get_state")))


ALL_TEXTS: Final = "each `queue_update` lists all texts"
MESSAGES: Final = (4_000, 8_000, 16_000, 32_000)
OPERATIONS: Final = (
    Operation("deltas", "deltas of a text, 1.5", (4_000, 8_000, 16_000, 32_000), answer("framed")),
    Operation("thoughts", "deltas of thoughts, 1.5", (4_000, 8_000, 16_000, 32_000), answer("thoughts")),
    Operation("call", "deltas of a call's arguments, 1.5", (4_000, 8_000, 16_000, 32_000), answer("call")),
    Operation("seed", "bytes of deltas, seed", (500, 1_000, 2_000, 3_000), cumulative("seed")),
    Operation("pi", "bytes of deltas, pi", (500, 1_000, 2_000, 3_000), cumulative("pi")),
    Operation("appends", "appends", (500, 1_000, 2_000, 4_000), appends),
    Operation("append", "100 appends, by entries before", MESSAGES, appends_to_long),
    Operation("opening", "opening, by messages", MESSAGES, opening),
    Operation("messages", "get_messages, by messages", MESSAGES, asked("get_messages", 1)),
    Operation("state", "100 get_state, by messages", MESSAGES, asked("get_state", 100)),
    Operation("stats", "10 get_session_stats, by messages", MESSAGES, asked("get_session_stats", 10)),
    Operation("queue", "texts that are queued, steer", (100, 200, 400, 800), queue("steer"), ALL_TEXTS),
    Operation("queue", "texts that are queued, follow_up", (100, 200, 400, 800), queue("follow_up"), ALL_TEXTS),
    Operation("shell", "MiB of a command of the client's", (8, 16, 32, 64), client_shell),
    Operation("tool", "MiB of a tool's output", (8, 16, 32, 64), tool_output),
    Operation("export", "export, by messages", (500, 1_000, 2_000, 4_000), export),
    Operation("compaction", "compaction, by messages", (1_000, 2_000, 4_000, 8_000), compaction),
    Operation("line", "MiB of a line on stdin", (2, 4, 8, 16), long_line),
    Operation("pipelined", "commands in one write", (1_000, 2_000, 4_000, 8_000), pipelined),
)
