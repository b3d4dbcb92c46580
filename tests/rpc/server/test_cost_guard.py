"""What the program costs, in counts that are the same on every machine: a guard against becoming slow unnoticed.

Counted are calls of functions, modules that are loaded, bytes and blocks that are allocated; no time is judged. A start
and a round trip are counted in a real process, a delta and an append in this one. Each bound stands beside what was
counted when it was set, on CPython 3.11; it is a few percent more, since versions differ.

    .venv/bin/python -m pytest tests/rpc/server/test_cost_guard.py -s                           prints the counts
    RENEW=1 .venv/bin/python -m pytest tests/rpc/server/test_cost_guard.py -k modules_of_a_start writes the list

A bound may fall at any time. Where one rises, or a module is added to the list, the commit says why.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import trio
from tests.agent.samples import prices, served_model
from tests.call_count import CallCount
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_agent.engine.run_job import MessageSink
from pinnace_agent.engine.run_recorder import RunRecorder, user_message
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.stream import ChunkReader
from pinnace_agent.llm.transport.sse import SseReader
from pinnace_agent.redaction.secrets import Secrets
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.folders import SessionFolder
from pinnace_agent.session.library import Library
from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_fuzz.process_tree import state_of
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection
from pinnace_spec.profiles.profiles import Profile
from pinnace_spec.records.messages import Model

COUNTED_START: Final = Path(__file__).with_name("counted_start.py")
MODULE_LIST: Final = REPOSITORY / "tests" / "data" / "startup-modules.txt"
# Only a process that is stuck takes so long; it is killed then.
TIMEOUT_S: Final = 60.0

# Start to the first answer. Calls: 229,364; those of a start of trio alone: 126,213. Of them 12,600 load the modules of
# TLS and of names of hosts that trio imports, and read the command line by the table of options. 800 more are for what
# belongs to an agent where a process has several, and for packages. 239,018 with what follows below,
# and 700 for the rows of the two commands that start a sub-agent and wait for one. The order of tasks, which trio
# draws, makes 60 of difference, and how many folders are searched before those of our sources 2,000: up to 239,914.
MOST_START_CALLS: Final = 242_000
MOST_STARTS_OF_TRIO: Final = 1.88
# Modules that trio alone does not load: 178. Four of them are for child processes, and against them; four redact what
# is written: no writer goes without.
MOST_MODULES_BEYOND_TRIO: Final = 186
# Sources of our own modules among them, in bytes: 1,042,247. Of those, 70,000 are for sessions that stay lines, threads
# of extensions, refusals at start, failures that name their model, and ends that are held up; 50,000 for redaction,
# child processes and files that others name; 8,000 for limits with their reasons; 36,000 for the durable queue, the
# identity of messages, and commands about sessions and tools; 26,000 for moves in the tree, lists of the queue, queues
# that a host continues, and the approval of tools at any time; 9,000 for reloads, whose reading is loaded later;
# 5,000 for the offer of files, whose requests are loaded with the first one. The two before reloads may be loaded
# later. 1,000 for additional folders, whose 3,000 the history of the queue has mostly paid: it is loaded later now.
# 9,000 for the port of the sandbox and its settings; what runs shell commands, 30,000, is loaded later now. 3,000 for
# messages behind a session command and answers that do not end; what copies branches, 5,000, is loaded later now.
# 7,000 for warnings that clients see, which each start may have. 7,000 for names that are nearly right. 12,000 for
# sessions that are opened beside the process that has them, and for those that a host's agent names. 4,000 for the
# announcement of another conversation, and the host's of dialogs that are over. 5,000 for what belongs to an agent
# where a process has several. 4,000 for the completions of arguments and the text of the client's editor. 3,000 for
# where sub-agents reach the agent that starts them, and their settings. 1,000 for the declaration of messages to them.
# 3,000 for answers that lack what they claim to hold, unknown stop reasons, and the choice of who refreshes a login;
# their words and the refresh are loaded later. 3,500 for the variables by which a cloud gives credentials to programs,
# those of a provider's entry, which requests carry, and Google's credentials as a source of a key; what reads and uses
# them is loaded with the API. 800 for variables in the addresses of providers, 500 for what a login says of its server
# and its models, and 3,500 for the declaration of the commands about logins with their errors, and what a login changes
# in the sources of keys; what carries them out is loaded with the first one. 800 for commands behind the end.
# 2,300 for the setting that keeps a cache alive, and where a request is noticed for it; the rest is loaded with one.
# 2,700 for the system by which an agent keeps its session files, and for folders whose names are flushed. 1,400 for
# answers whose messages a flush has made safe already, and for the one entry that refuses a prompt and its id. 400 for
# the declaration of logins in a browser, by extensions and with settings; what carries them out is loaded with one.
# 1,300 for refusals that wait until a prompt is left out on the disk, and commands of extensions that wait for answers.
# 5,000 for commands of extensions that are executed once, and for leases that are free when a session is left.
# 4,300 for the declaration of sub-agents that clients start and wait for; the rest is loaded with the first one.
# 1,300 for waits in tasks: for a process that leaves a session, and for the disk where it refuses a mark.
# 1,400 for warnings of variables that are used later, and of guards of commands.
# 600 for ends of commands that wait for all that was killed.
# 2,400 for marks of flushes that have failed, which the next process reads.
MOST_OWN_BYTES: Final = 1_098_100
HEAVY: Final = frozenset(
    {"pydantic", "pydantic_core", "httpx", "httpcore", "h11", "anyio", "asyncio", "jiter", "click"}
)

# Modules that an extension in TypeScript which handles prompts loads beyond those of a start: 100.
MOST_MODULES_OF_AN_EXTENSION: Final = 104

# get_state to its answer, in calls of the main thread of a process that waits: 215.
MOST_ROUND_TRIP_CALLS: Final = 225
ROUND_TRIPS: Final = 40

# One delta, from a server-sent event to a line that waits to be written, in calls: 46, 56, 58.
MOST_DELTA_CALLS: Final[dict[Profile, int]] = {"1.5": 48, "pi": 59, "seed": 61}
# What a delta leaves behind, in blocks of memory: 1.001, its text.
MOST_DELTA_BLOCKS: Final = 1.2
# What a delta allocates at one time may differ by so many bytes however long the answer is.
MOST_DELTA_BYTES_MORE: Final = 1_024
# In the profiles whose updates hold the message twice, so many times the line's length: 9.83. orjson takes most of it,
# for a moment, in case that every character has to be escaped.
MOST_CUMULATIVE_BYTES: Final = 10.2
SHORT, LONG = 200, 4_000
SAMPLES: Final = 21
PIECE: Final = "abcdefg "

# One append to a session file, in calls: 108. Of them, eight reach the system and the clock of the agent.
MOST_APPEND_CALLS: Final = 110
FEW, MANY = 20, 2_000

MODEL: Final[Model] = served_model(
    provider="fake",
    baseUrl="http://127.0.0.1:9/v1",
    cost=prices(1, 2),
    contextWindow=1_000_000,
    maxTokens=100_000,
)


class Started(NamedTuple):
    """What was counted in a process."""

    at_writes: Sequence[int]
    """Calls up to each write."""
    modules: frozenset[str]
    """Before the first."""

    @property
    def calls(self) -> int:
        return self.at_writes[0]

    @property
    def round_trip_calls(self) -> int:
        """The least: what is loaded meanwhile, once, is no part of it."""
        return min(after - before for before, after in zip(self.at_writes, self.at_writes[1:], strict=False))


class Counts(NamedTuple):
    """What one operation costs."""

    calls: int
    """The median of some."""
    bytes: int
    """Allocated at one time, beyond what was there; likewise."""


class Starts(NamedTuple):
    """The agent's, and that of trio alone."""

    agent: Started
    trio: Started


def counted_home(folder: Path, **env: str) -> PreparedHome:
    """Lay out a home for programs that count."""
    return prepare_pi_home(folder, "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH, **env})


def counted(home: PreparedHome, kind: str, arguments: Sequence[str], asked: int) -> Started:
    """Start a program, ask it for its state some times, and return what it has counted."""
    file = home.work / f"{kind}.json"
    with subprocess.Popen(
        [sys.executable, COUNTED_START, file, kind, *arguments],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(TIMEOUT_S, process.kill)
        deadline.start()
        for _ in range(asked):
            # Else the calls depend on whether the next command is there before the program waits for it.
            while (state := state_of(process.pid)) != "S":
                assert state not in ("Z", "X")
            process.stdin.write(b'{"type":"get_state"}\n')
            process.stdin.flush()
            assert process.stdout.readline()
        process.stdin.close()
        process.stdout.read()
        deadline.cancel()
    found = json.loads(file.read_text())
    return Started(found["at_writes"], frozenset(found["modules"]))


@pytest.fixture(scope="module")
def starts() -> Iterator[Starts]:
    """Start both; twice, since a module's first loading compiles it. The deeper their folder is, the more they call."""
    folder = make_short_folder("pc")
    home = counted_home(folder)
    agents = [counted(home, "agent", home.arguments, asked) for asked in (1, ROUND_TRIPS)]
    found = Starts(agents[-1], [counted(home, "trio", (), 0) for _ in range(2)][-1])
    more = beyond_trio(found)
    print(f"\nstart: {found.agent.calls:,} calls, trio alone {found.trio.calls:,}")
    print(f"modules beyond trio: {len(more)}, sources of our own {own_bytes(more):,} bytes")
    print(f"round trip: {found.agent.round_trip_calls} calls")
    yield found
    shutil.rmtree(folder)


def beyond_trio(starts: Starts) -> frozenset[str]:
    """Return the modules that trio alone does not load, without the program that counts."""
    return starts.agent.modules - starts.trio.modules - {"__main__"}


def own_bytes(modules: frozenset[str]) -> int:
    """Return the size of the sources of our own modules."""
    total = 0
    for name in modules:
        if name.startswith("pinnace_"):
            path = name.replace(".", "/")
            places = (
                Path(root, f"{path}{end}.py") for root in PYTHONPATH.split(os.pathsep) for end in ("", "/__init__")
            )
            (file,) = filter(Path.exists, places)
            total += file.stat().st_size
    return total


def count(operation: Callable[[], object]) -> int:
    """Count the calls of an operation."""
    with CallCount() as counted:
        operation()
    return counted.calls


def allocated(operation: Callable[[], object]) -> int:
    """Return the bytes that an operation allocates at one time, beyond what was there. While memory is traced."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    operation()
    return tracemalloc.get_traced_memory()[1] - before


class Stream:
    """An answer that grows by an event at a time, and a writer whose reader takes everything at once."""

    def __init__(self, profile: Profile) -> None:
        self.outbox = Outbox(make_projection(profile))
        self.written = 0
        log = RunRecorder(Session("/nonexistent"), self.outbox)
        self.builder = log.builder = MessageBuilder(MODEL, MessageSink(log, self.outbox), 0)
        self._reader = ChunkReader(self.builder, compat_of(MODEL), FailureTexts(Secrets("sk-fake")))
        self._sse = SseReader()
        choice = {"index": 0, "delta": {"content": PIECE}, "finish_reason": None}
        self._event = b"data: " + json.dumps({"id": "c", "model": "m1", "choices": [choice]}).encode() + b"\n\n"

    async def send_all(self, data: bytes) -> None:
        self.written = len(data)
        await trio.lowlevel.checkpoint()

    def add(self) -> None:
        """Take one delta from the network."""
        for event in self._sse.feed(self._event):
            self._reader.read(event)

    async def grow(self, deltas: int) -> None:
        for _ in range(deltas):
            self.add()
            await trio.testing.wait_all_tasks_blocked()

    async def counts(self) -> Counts:
        """Count some deltas one by one: the writer's part comes afterwards."""
        calls: list[int] = []
        sizes: list[int] = []
        for _ in range(SAMPLES):
            calls.append(count(self.add))
            await trio.testing.wait_all_tasks_blocked()
        tracemalloc.start()
        try:
            for _ in range(SAMPLES):
                sizes.append(allocated(self.add))
                await trio.testing.wait_all_tasks_blocked()
        finally:
            tracemalloc.stop()
        return Counts(int(statistics.median(calls)), int(statistics.median(sizes)))


class Grown(NamedTuple):
    """A delta in a short and in a long answer."""

    short: Counts
    long: Counts
    line: int
    """Bytes of the last update."""
    blocks: float
    """What a delta leaves behind."""


async def grown(profile: Profile) -> Grown:
    """Count deltas in a short and in a long answer."""
    stream = Stream(profile)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.outbox.pump, stream)
        stream.builder.start()
        await stream.grow(SHORT)
        short = await stream.counts()
        before = sys.getallocatedblocks()
        await stream.grow(LONG - SHORT)
        blocks = (sys.getallocatedblocks() - before) / (LONG - SHORT)
        result = Grown(short, await stream.counts(), stream.written, blocks)
        nursery.cancel_scope.cancel()
    return result


@pytest.fixture(scope="module")
def deltas() -> dict[Profile, Grown]:
    """Count deltas in each profile."""
    profiles: tuple[Profile, ...] = ("1.5", "pi", "seed")
    found: dict[Profile, Grown] = {profile: trio.run(grown, profile) for profile in profiles}
    for profile, each in found.items():
        print(f"delta, {profile}: {each}, {each.long.bytes / each.line:.2f} of a line")
    return found


@pytest.fixture(scope="module")
def appends(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counts, Counts]:
    """Count appends to a session with few entries and with many."""
    folder = tmp_path_factory.mktemp("appended")
    session = Library(SessionFolder(folder, is_flat=True)).new(str(folder))

    def append() -> None:
        session.keep(user_message(PIECE, [], 0))

    def counts(size: int) -> Counts:
        while len(session.messages) < size:
            append()
        calls = [count(append) for _ in range(SAMPLES)]
        tracemalloc.start()
        try:
            sizes = [allocated(append) for _ in range(SAMPLES)]
        finally:
            tracemalloc.stop()
        return Counts(int(statistics.median(calls)), int(statistics.median(sizes)))

    found = counts(FEW), counts(MANY)
    assert session.file is not None
    session.file.abandon()
    print(f"append: {found}")
    return found


def test_the_modules_of_a_start_are_those_of_the_list(starts: Starts) -> None:
    loaded = {name for name in beyond_trio(starts) if name.partition(".")[0] not in sys.stdlib_module_names}
    if os.environ.get("RENEW"):
        MODULE_LIST.write_text("".join(f"{name}\n" for name in sorted(loaded)))

    assert [] == sorted(loaded - set(MODULE_LIST.read_text().split()))


def test_a_start_loads_few_modules_beyond_those_of_trio(starts: Starts) -> None:
    assert len(beyond_trio(starts)) <= MOST_MODULES_BEYOND_TRIO


def test_a_start_loads_few_sources(starts: Starts) -> None:
    assert own_bytes(beyond_trio(starts)) <= MOST_OWN_BYTES


def test_nothing_heavy_is_loaded_before_the_first_answer_unless_trio_does(starts: Starts) -> None:
    assert set() == {name.partition(".")[0] for name in beyond_trio(starts)} & HEAVY


def test_an_extension_in_typescript_loads_few_modules(starts: Starts, tmp_path: Path, node_program: str) -> None:
    """Beyond those of a start: the rest is loaded where an extension uses it."""
    (tmp_path / "handles.ts").write_text('export default (pi) => void pi.on("input", () => ({ action: "handled" }));')
    home = counted_home(tmp_path / "home", PINNACE_NODE=node_program)
    arguments = [*home.arguments, "-e", str(tmp_path / "handles.ts")]
    extended = counted(home, "agent", arguments, 1)
    more = extended.modules - starts.agent.modules
    print(f"an extension in TypeScript: {len(more)} modules more")
    assert "pinnace_agent.node_extensions.process" in more
    assert len(more) <= MOST_MODULES_OF_AN_EXTENSION


def test_a_start_takes_few_calls(starts: Starts) -> None:
    assert starts.agent.calls <= MOST_START_CALLS


def test_a_start_takes_few_times_the_calls_of_trios(starts: Starts) -> None:
    assert starts.agent.calls / starts.trio.calls <= MOST_STARTS_OF_TRIO


def test_a_round_trip_takes_few_calls(starts: Starts) -> None:
    assert starts.agent.round_trip_calls <= MOST_ROUND_TRIP_CALLS


@pytest.mark.parametrize("profile", MOST_DELTA_CALLS)
def test_a_delta_takes_few_calls(profile: Profile, deltas: dict[Profile, Grown]) -> None:
    assert deltas[profile].short.calls <= MOST_DELTA_CALLS[profile]


@pytest.mark.parametrize("profile", MOST_DELTA_CALLS)
def test_a_delta_takes_as_many_calls_however_long_the_answer_is(profile: Profile, deltas: dict[Profile, Grown]) -> None:
    assert deltas[profile].long.calls == deltas[profile].short.calls


def test_a_delta_allocates_as_much_however_long_the_answer_is(deltas: dict[Profile, Grown]) -> None:
    """R-FRM-09: no copy of what was there."""
    assert deltas["1.5"].long.bytes - deltas["1.5"].short.bytes <= MOST_DELTA_BYTES_MORE


@pytest.mark.parametrize("profile", ["pi", "seed"])
def test_an_update_with_the_message_is_made_with_few_copies(profile: Profile, deltas: dict[Profile, Grown]) -> None:
    """The line itself holds two."""
    assert deltas[profile].long.bytes / deltas[profile].line <= MOST_CUMULATIVE_BYTES


def test_a_delta_leaves_little_behind(deltas: dict[Profile, Grown]) -> None:
    assert deltas["1.5"].blocks <= MOST_DELTA_BLOCKS


def test_an_append_takes_few_calls(appends: tuple[Counts, Counts]) -> None:
    assert appends[0].calls <= MOST_APPEND_CALLS


def test_an_append_costs_the_same_however_long_the_session_is(appends: tuple[Counts, Counts]) -> None:
    few, many = appends

    assert many.calls == few.calls
    assert many.bytes - few.bytes <= MOST_DELTA_BYTES_MORE
