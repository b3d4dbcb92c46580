"""Measures the durable host beside the original agent and beside pipes: starts, memory, records, hostile clients.

    .venv/bin/python tests/benchmarks/host.py [--runs 5] [--only start,fleet,...] [--out FILE.md]

What a bar compares is measured in turns in one run: an attach with a start of pi 1.5.2, and records through the host
with those of the same agent on pipes. The host is warm, its zygote serves, but for the group `burst`. Clients that
measure speak to the socket, or run `pinnace attach` where the table says so; clients that only read are processes of
their own. Each row is a median with its range, its bar and whether the median meets it. Judges nothing: times belong to
a machine.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import trio
from side_by_side import (
    AS_ORIGINAL,
    ORIGINAL,
    OURS,
    READ_BYTES,
    TIMEOUT_S,
    MeasuredAgent,
    Program,
    cell,
    install_product,
    memory_of,
    model_server,
    percentile,
)

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_rpc.host.journal import Journal
from pinnace_rpc.host.protocol import (
    Attach,
    FrameDecoder,
    ListAgents,
    Request,
    encode_data,
    encode_request,
    parse_cursor,
)

FLEET: Final = 50
FLEET_SETTLE_S: Final = 3.0
IDLE_S: Final = 10.0
READS: Final = 1000
READS_UNDER_LOAD: Final = 200
READ_PAUSE_S: Final = 0.01
DELTAS: Final = 20_000
RECORDS: Final = 100_000
CLIENTS: Final = 200
REPLAYED: Final = "replayed"
BUSY: Final = "busy"
SLOW_READS_A_SECOND: Final = 1
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_STATE: Final = b'{"id":"s","type":"get_state"}\n'
_ANSWER: Final = b'"command":"get_state"'

SOURCES: Final = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
"""A source tree other than the one that is installed."""

Figures = Mapping[str, float]


class Bar(NamedTuple):
    """What a figure must come to."""

    limit: float
    is_least: bool = False
    """Whether more is better."""

    def verdict(self, value: float) -> str:
        """Say whether a figure meets it."""
        return "met" if (value >= self.limit if self.is_least else value <= self.limit) else "**not met**"

    def __str__(self) -> str:
        """Write it for the table."""
        return f"at {'least' if self.is_least else 'most'} {self.limit:,g}"


BARS: Final[Mapping[str, Bar]] = {
    "attach to the first answer, of pi's start": Bar(0.15),
    "the same with the process of the attach": Bar(0.25),
    "50 agents: all have answered, s": Bar(3.0),
    "50 agents of a host that has just begun: new interpreters": Bar(2),
    "50 agents, idle: private memory of one, MiB": Bar(12.0),
    "50 agents, idle: processor of all and the host, % of one core": Bar(0.5),
    "a record: more than through a pipe, ms": Bar(0.2),
    "20,000 deltas: rate, of that through a pipe": Bar(0.5, is_least=True),
    "replay of 100,000 records, a second": Bar(100_000, is_least=True),
}
READ_BAR: Final = Bar(20.0)
GROWTH_BAR: Final = Bar(16.0)


class Client:
    """A client of the host's socket that reads bytes and parses nothing but frames."""

    def __init__(self, path: str, request: Request) -> None:
        """Connect and ask; `begun_s` is just before."""
        self.begun_s = time.monotonic()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.connect(path)
        self._socket.sendall(encode_request(request))
        self._decoder = FrameDecoder()
        self._rest = b""
        self.controls: list[bytes] = []
        self.records = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, data: bytes) -> float:
        """Send lines; return the time just before."""
        begun_s = time.monotonic()
        for frame in encode_data(data):
            self._socket.sendall(frame)
        return begun_s

    def prompt(self, kind: str, count: int = 0) -> None:
        """Ask the model server for an answer."""
        self.send(json.dumps({"id": "p", "type": "prompt", "message": f"bench:{kind}:{count}"}).encode() + b"\n")

    def receive(self) -> bytes:
        """Receive once and return the data."""
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise EOFError(f"the host has ended the connection: {self.controls[-1:]}")
        frames = self._decoder.receive_data(data)
        self.controls += [frame.payload for frame in frames if frame.kind == "j"]
        found = b"".join(frame.payload for frame in frames if frame.kind == "d")
        self.records += found.count(b"\n")
        return found

    def until(self, text: bytes) -> float:
        """Read to the end of the record that holds a text; return when it was there."""
        waiting, behind = self._rest, 0
        while True:
            found = waiting.find(text, behind)
            if found >= 0 and (end := waiting.find(b"\n", found)) >= 0:
                self._rest = waiting[end + 1 :]
                return time.monotonic()
            behind = 0
            if found < 0:
                waiting = waiting[-len(text) :]
            waiting += self.receive()

    def state(self) -> float:
        """Ask for the state and return when the answer was there."""
        self.send(_STATE)
        return self.until(_ANSWER)

    def answer(self) -> Mapping[str, object]:
        """Return the answer to a request that attaches nothing."""
        while not self.controls:
            self.receive()
        record: dict[str, object] = json.loads(self.controls.pop(0))
        return record


class Host:
    """A host of a home, with its zygote."""

    def __init__(self, home: PreparedHome, folder: Path, *, is_warm: bool = True) -> None:
        """Start it and wait until it forks, or only until it answers."""
        self.home = home
        self.environment = {**home.env, "XDG_RUNTIME_DIR": str(folder)}
        self.path = str(folder / "pinnace" / "host.sock")
        self._numbers = iter(range(1_000_000))
        self._process = subprocess.Popen([*map(str, OURS), "host"], env=self.environment, stderr=subprocess.DEVNULL)
        self.pid = self._process.pid
        deadline = time.monotonic() + TIMEOUT_S
        while not (self._forks() if is_warm else self._answers()):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("the host forks no agents")
            time.sleep(0.05 if is_warm else 0.005)

    def _answers(self) -> bool:
        try:
            return not self.agents()
        except (ConnectionRefusedError, FileNotFoundError):
            return False

    def _forks(self) -> bool:
        """Return whether an agent is a child of the zygote, not of the host."""
        try:
            with self.attach() as client:
                client.state()
                row = next(row for row in self.agents() if row["pid"] is not None)
                parent = _parent_of(int(str(row["pid"])))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        self.run("agents", "remove", str(row["name"]))
        return parent != self.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)

    def request(self, agent: str | None, since: str | None = None, *, starts: bool = True) -> Attach:
        """Return the request of a client."""
        return Attach(
            versions=(1,),
            release="bench",
            is_new=False,
            agent=agent,
            session=None,
            since=None if since is None else parse_cursor(since),
            has_cursors=since is not None,
            client=None,
            on_eof="detach",
            start=(*self.home.arguments, *AS_ORIGINAL) if starts else (),
            cwd=str(self.home.work),
            environment=self.environment,
            umask=0o022,
            profile=None,
        )

    def name(self) -> str:
        """Return a name that no agent has."""
        return f"a{next(self._numbers)}"

    def attach(self, agent: str | None = None, *, starts: bool = True) -> Client:
        """Attach to an agent, a new one without a name."""
        return Client(self.path, self.request(agent or self.name(), starts=starts))

    def agents(self) -> list[Mapping[str, object]]:
        """Return what the host says of its agents."""
        with Client(self.path, ListAgents(watches=False)) as client:
            rows: list[Mapping[str, object]] = client.answer()["agents"]  # type: ignore[assignment]
        return rows

    def run(self, *words: str) -> None:
        """Run a command of the program."""
        subprocess.run([*map(str, OURS), *words], env=self.environment, check=True, capture_output=True)

    def remove_all(self) -> None:
        """End and forget every agent."""
        for row in self.agents():
            self.run("agents", "remove", str(row["name"]))

    def attached_process(self, agent: str) -> MeasuredAgent:
        """Start `pinnace attach`."""
        home = self.home._replace(env=self.environment)
        return MeasuredAgent(Program("attach", [*map(str, OURS), "attach", agent], home), *AS_ORIGINAL)

    def resident_mib(self) -> float:
        """Return what the host holds now."""
        return memory_of(self.pid)["resident"]

    def ticks(self, pids: Sequence[int]) -> float:
        """Return the processor's seconds of processes."""
        total = 0
        for pid in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:13]))
        return total / _TICKS_A_SECOND


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Bench(NamedTuple):
    """What is measured, and with what it is compared."""

    host: Host
    ours: Program
    original: Program


def start(bench: Bench) -> Figures:
    """Bring pi to its first answer, and a client of the host."""
    with MeasuredAgent(bench.original) as agent:
        pi_s = agent.state() - agent.begun_s
    with bench.host.attach() as client:
        attach_s = client.state() - client.begun_s
    with bench.host.attached_process(bench.host.name()) as process:
        process_s = process.state() - process.begun_s
    bench.host.remove_all()
    return {
        "pi 1.5.2, start to the first answer, ms": pi_s * 1000,
        "attach to the first answer, ms": attach_s * 1000,
        "attach to the first answer, of pi's start": attach_s / pi_s,
        "the same with the process of the attach, ms": process_s * 1000,
        "the same with the process of the attach": process_s / pi_s,
    }


def fleet(bench: Bench) -> Figures:
    """Start fifty agents at once; then let them be idle."""
    host = bench.host
    begun_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(host.attach()) for _ in range(FLEET)]
        for client in clients:
            client.send(_STATE)
        for client in clients:
            client.until(_ANSWER)
        all_s = time.monotonic() - begun_s
        time.sleep(FLEET_SETTLE_S)
        pids = [int(str(row["pid"])) for row in host.agents()]
        memories = [memory_of(pid) for pid in pids]
        before_s = host.ticks([host.pid, *pids])
        time.sleep(IDLE_S)
        used_s = host.ticks([host.pid, *pids]) - before_s
        resident = host.resident_mib()
    host.remove_all()
    return {
        "50 agents: all have answered, s": all_s,
        "50 agents, idle: private memory of one, MiB": statistics.median(each["private"] for each in memories),
        "50 agents, idle: private memory of the largest, MiB": max(each["private"] for each in memories),
        "50 agents, idle: proportional share of one, MiB": statistics.median(each["proportional"] for each in memories),
        "50 agents, idle: the host, resident, MiB": resident,
        "50 agents, idle: processor of all and the host, % of one core": 100 * used_s / IDLE_S,
    }


def burst(bench: Bench) -> Figures:
    """Start fifty agents at once when the host has just begun, and its zygote loads."""
    host = bench.host
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(host.attach()) for _ in range(FLEET)]
        for client in clients:
            client.send(_STATE)
        times = [client.until(_ANSWER) - clients[0].begun_s for client in clients]
        pids = [int(str(row["pid"])) for row in host.agents()]
        memories = [memory_of(pid)["private"] for pid in pids]
        fresh = sum(_parent_of(pid) == host.pid for pid in pids)
    host.remove_all()
    return {
        "50 agents of a host that has just begun: the first has answered, s": min(times),
        "50 agents of a host that has just begun: all have answered, s": max(times),
        "50 agents of a host that has just begun: new interpreters": fresh,
        "50 agents of a host that has just begun: private memory of all, MiB": sum(memories),
    }


def records(bench: Bench) -> Figures:
    """Ask an agent on pipes, and one of the host; a command and its record go through the host once each."""
    host = bench.host
    found: dict[str, float] = {}
    with (
        MeasuredAgent(bench.ours) as piped,
        host.attach("latency") as client,
        host.attached_process("latency2") as process,
    ):
        askers: Mapping[str, Callable[[], float]] = {
            "pipe": piped.state,
            "host": client.state,
            "host and attach": process.state,
        }
        times: dict[str, list[float]] = {name: [] for name in askers}
        for state in askers.values():
            state()
        for _ in range(READS):
            for name, state in askers.items():
                begun_s = time.monotonic()
                times[name].append((state() - begun_s) * 1000)
        for name, values in times.items():
            found[f"get_state through {name}: p50, ms"] = statistics.median(values)
            found[f"get_state through {name}: p99, ms"] = percentile(values, 0.99)
    # There and back; each of both is a line through the host.
    found["a record: more than through a pipe, ms"] = (
        statistics.median(times["host and attach"]) - statistics.median(times["pipe"])
    ) / 2
    host.remove_all()
    return found


def deltas(bench: Bench) -> Figures:
    """Stream an answer from an agent on pipes, and from one behind the host and an attach."""
    host = bench.host
    rates: dict[str, float] = {}
    with MeasuredAgent(bench.ours) as piped, host.attached_process("deltas") as process:
        for name, agent in (("a pipe", piped), ("host and attach", process)):
            agent.state()
            sent_s = agent.prompt("hello")
            agent.until(b'{"type":"agent_end"')
            sent_s = agent.prompt("framed", DELTAS)
            rates[name] = DELTAS / (agent.until(b'{"type":"agent_end"') - sent_s)
            agent.check_text(DELTAS)
    host.remove_all()
    return {
        **{f"20,000 deltas through {name}, a second": rate for name, rate in rates.items()},
        "20,000 deltas: rate, of that through a pipe": rates["host and attach"] / rates["a pipe"],
    }


async def _fill_journal(folder: str) -> None:
    """Write the journal of an agent that sleeps, as a host does: events of the size of deltas."""
    Path(folder).parent.parent.mkdir(mode=0o700, exist_ok=True)
    journal = Journal(folder)
    await journal.begin_epoch()
    body = b'"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"%s"}}\n'
    for _ in range(RECORDS // 100):
        journal.append(b"".join(journal.next_event() + body % (b"x" * 8) for _ in range(100)), 100)
    journal.close()


def before_replay(home: PreparedHome) -> None:
    """Let the host find the agent when it starts."""
    folder = home.env["PI_CODING_AGENT_DIR"] + f"/host/agents/{REPLAYED}"
    shutil.rmtree(folder, ignore_errors=True)
    trio.run(_fill_journal, folder)


def replay(bench: Bench) -> Figures:
    """Read what is in the journal, from the first record that comes on: before, the agent is started."""
    host = bench.host
    folder = Path(host.environment["PI_CODING_AGENT_DIR"], "host", "agents", REPLAYED)
    since = f"{json.loads((folder / 'journal.json').read_bytes())['journal']}.1:0"
    with Client(host.path, host.request(REPLAYED, since)) as client:
        client.until(b'"type":"attached"')
        begun_s = time.monotonic()
        while client.records <= RECORDS:
            client.receive()
        seconds = time.monotonic() - begun_s
    host.remove_all()
    return {"replay of 100,000 records, a second": RECORDS / seconds}


class Readers:
    """Clients in a process of their own."""

    def __init__(self, host: Host, kind: str, count: int) -> None:
        """Start them and wait until they are attached."""
        request = encode_request(host.request(BUSY, starts=False)).hex()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--readers", kind, str(count), host.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("the readers have ended")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _be_readers(kind: str, count: int, path: str) -> None:
    """Be clients: that read all (`read`), that also ask now and then (`ask`), that never stop asking (`flood`)."""
    request = bytes.fromhex(sys.stdin.readline())
    sockets: dict[int, socket.socket] = {}
    poll = select.poll()
    for _ in range(count):
        each = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        each.connect(path)
        each.sendall(request)
        each.recv(1)
        each.setblocking(False)
        sockets[each.fileno()] = each
        poll.register(each, select.POLLIN | (select.POLLOUT if kind == "flood" else 0))
    print("attached", flush=True)
    frames = next(encode_data(_STATE * 1000)) if kind == "flood" else next(encode_data(_STATE))
    rest = dict.fromkeys(sockets, b"")
    order = list(sockets)
    ask_at = time.monotonic()
    while True:
        if kind == "ask" and time.monotonic() >= ask_at:
            number = order.pop(0)
            order.append(number)
            sockets[number].send(frames)
            ask_at += 1 / (SLOW_READS_A_SECOND * count)
        for number, events in poll.poll(2 if kind == "ask" else None):
            if events & select.POLLIN and not sockets[number].recv(READ_BYTES):
                return
            if events & select.POLLOUT:
                data = rest[number] or frames
                with contextlib.suppress(BlockingIOError):
                    rest[number] = data[sockets[number].send(data) :]


def _others(bench: Bench, agent: str | None = None) -> tuple[list[float], float]:
    """Ask as another client, of the same agent or of another one; return the times and how much the host has grown."""
    host = bench.host
    before = host.resident_mib()
    times: list[float] = []
    grown = 0.0
    with host.attach(agent, starts=agent is None) as client:
        client.state()
        for _ in range(READS_UNDER_LOAD):
            begun_s = time.monotonic()
            times.append((client.state() - begun_s) * 1000)
            # What comes meanwhile is read: a client that does not is another situation.
            pause_until = time.monotonic() + READ_PAUSE_S
            while (left := pause_until - time.monotonic()) > 0:
                if select.select([client], [], [], left)[0]:
                    client.receive()
            if not len(times) % 20:
                grown = max(grown, host.resident_mib() - before)
    return times, grown


class Item(NamedTuple):
    """A part of the work."""

    group: str
    measure: Callable[[Bench], Figures]
    before: Callable[[PreparedHome], object] = lambda _home: None
    """What is done before the host starts."""
    is_warm: bool = True
    """Whether its zygote serves when the work begins."""


Load = Callable[[Bench], contextlib.AbstractContextManager[object]]


def _begun(bench: Bench, kind: str) -> None:
    """Let the busy agent stream an answer without an end, for nobody in particular."""
    with bench.host.attach(BUSY, starts=False) as client:
        client.prompt(kind, 1_000_000)
        client.until(b'"text_delta"')


@contextlib.contextmanager
def _lazy_client(bench: Bench) -> Generator[None]:
    with bench.host.attach(BUSY, starts=False):
        _begun(bench, "flood")
        yield


@contextlib.contextmanager
def _flooding_client(bench: Bench) -> Generator[None]:
    with Readers(bench.host, "flood", 1):
        yield


@contextlib.contextmanager
def _flooding_agent(bench: Bench) -> Generator[None]:
    with Readers(bench.host, "read", 1):
        _begun(bench, "flood")
        yield


@contextlib.contextmanager
def _many_clients(bench: Bench) -> Generator[None]:
    with Readers(bench.host, "ask", CLIENTS - 1):
        yield


@contextlib.contextmanager
def _many_clients_of_a_run(bench: Bench) -> Generator[None]:
    with Readers(bench.host, "ask", CLIENTS - 1):
        _begun(bench, "paced")
        yield


def _under(name: str, load: Load) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        found: dict[str, float] = {}
        with bench.host.attach(BUSY) as client:
            client.state()
        with load(bench):
            for whose, agent in (("of the same agent", BUSY), ("of another agent", None)):
                times, grown = _others(bench, agent)
                found[f"{name}: get_state {whose}, p50, ms"] = statistics.median(times)
                found[f"{name}: get_state {whose}, p99, ms"] = percentile(times, 0.99)
                found[f"{name}: the host grows by, MiB"] = max(grown, found.get(f"{name}: the host grows by, MiB", 0.0))
        bench.host.remove_all()
        return found

    return measure


ITEMS: Final = (
    Item("start", start),
    Item("fleet", fleet),
    Item("burst", burst, is_warm=False),
    Item("records", records),
    Item("deltas", deltas),
    Item("replay", replay, before_replay),
    Item("lazy", _under("a client that stops reading", _lazy_client)),
    Item("flood", _under("a client that floods", _flooding_client)),
    Item("noisy", _under("an agent that floods", _flooding_agent)),
    Item("clients", _under("200 clients", _many_clients)),
    Item("run", _under("200 clients of an agent that runs", _many_clients_of_a_run)),
)


def bar_of(figure: str) -> Bar | None:
    """Return what a figure must come to."""
    if figure.endswith(" agent, p99, ms"):
        return READ_BAR
    return GROWTH_BAR if figure.endswith("the host grows by, MiB") else BARS.get(figure)


def table(samples: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Write the lines of a Markdown table."""
    yield "| figure | measured | wanted | |"
    yield "|---|---|---|---|"
    for figure, values in samples.items():
        bar = bar_of(figure)
        end = "| |" if bar is None else f"{bar} | {bar.verdict(statistics.median(values))} |"
        yield f"| {figure} | {cell(values)} | {end}"


def main() -> None:
    """Measure and print a table."""
    if sys.argv[1:2] == ["--readers"]:
        _be_readers(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", help=f"some of: {','.join(item.group for item in ITEMS)}")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    chosen = [item for item in ITEMS if given.only is None or item.group in given.only.split(",")]
    install_product()
    if missing := [str(path) for path in ORIGINAL if not path.exists()]:
        parser.error(f"{', '.join(missing)} not there: scripts/peers installs them")
    load = os.getloadavg()[0]
    samples: dict[str, list[float]] = {}
    root = Path(tempfile.mkdtemp(prefix="ph"))  # short: the path of a socket
    try:
        with model_server() as address:
            ours, theirs = (
                prepare_pi_home(root / name, address, has_session=True, env=SOURCES) for name in ("ours", "theirs")
            )
            programs = (
                Program("pinnace", [*map(str, OURS), *AS_ORIGINAL], ours),
                Program("pi 1.5.2", [*map(str, ORIGINAL)], theirs),
            )
            with MeasuredAgent(programs[1]) as agent:  # it keeps compiled code in its home
                agent.state()
            for item in chosen:
                for _ in range(given.runs):
                    item.before(ours)
                    with Host(ours, root, is_warm=item.is_warm) as host:
                        for figure, value in item.measure(Bench(host, *programs)).items():
                            samples.setdefault(figure, []).append(value)
                sys.stderr.write(f"{item.group}: done\n")
    finally:
        shutil.rmtree(root)
    machine = f"{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    lines = [*table(samples), "", f"{machine}, Python {sys.version.split()[0]}; median (range) of {given.runs} runs."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
