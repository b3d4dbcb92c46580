"""An extension that holds the process up when it has to end: it ends all the same, and the session is whole.

Every case is an agent of its own; they end side by side, since each takes the time that a shutdown may take.
"""

import json
import re
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.waiting import wait_until

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

# Five seconds were promised; all that holds a process up lasts for ten minutes, and a busy machine must not decide.
BOUND_S: Final = 60.0
# A process that has a quarter of an hour for its shutdown: only the second signal ends it sooner.
PATIENT: Final = (
    sys.executable,
    "-P",
    "-c",
    "import pinnace_rpc.server.process as process; "
    "process.SHUTDOWN_S = process.LAST_RESORT_S = process.UNWIND_S = 900.0; "
    "from pinnace_rpc.cli.main import main; raise SystemExit(main())",
)

HOLDER: Final = """
import threading
import time
import trio
from pathlib import Path

def extension(pi):
    async def begun(ctx):
        # What was queued is answered before the loop is blocked.
        while not (Path(ctx.cwd) / "answered").exists():
            await trio.sleep(0.01)
        (Path(ctx.cwd) / "held").touch()

    @pi.tool
    async def shielded(ctx) -> str:
        "Sleeps, whatever happens."
        with trio.CancelScope(shield=True):
            await begun(ctx)
            await trio.sleep(600)

    @pi.tool
    async def bare(ctx) -> str:
        "Catches everything."
        await begun(ctx)
        while True:
            try:
                await trio.sleep(600)
            except:
                pass

    @pi.tool
    async def blocking(ctx) -> str:
        "Keeps the loop, in C."
        await begun(ctx)
        time.sleep(600)

    @pi.tool
    async def spinning(ctx) -> str:
        "Keeps the loop, in Python."
        await begun(ctx)
        while True:
            time.sleep(0.001)  # signals are handled between two instructions, and a processor is left to others

    @pi.tool
    async def thread(ctx) -> str:
        "Leaves a thread that the interpreter waits for."
        threading.Thread(target=time.sleep, args=(600,)).start()
        await begun(ctx)
        await trio.sleep_forever()
"""

TERM, HUP, INT = signal.SIGTERM, signal.SIGHUP, signal.SIGINT


class Case(NamedTuple):
    """What holds the process up, what ends it (None: the end of stdin), and the exit code."""

    tool: str
    ends: tuple[signal.Signals | None, ...]
    code: int

    def __str__(self) -> str:
        return "-".join([self.tool, *("EOF" if each is None else each.name for each in self.ends)])


CLOSED = [  # the loop lives: all is answered and closed
    Case("shielded", (None,), 0),
    Case("bare", (HUP,), 129),
    Case("thread", (TERM,), 143),
]
HELD = [  # the loop is blocked: nothing more can be delivered
    Case("blocking", (None,), 0),
    Case("blocking", (TERM,), 143),
    Case("spinning", (TERM,), 143),
]
TWICE = [
    Case("shielded", (TERM, TERM), 143),
    Case("blocking", (None, TERM, TERM), 143),
    Case("spinning", (INT, INT), -INT),
]
CASES = [*CLOSED, *HELD, *TWICE]


class End(NamedTuple):
    """How it ended."""

    code: int
    stderr: str
    records: list[Record]
    entries: list[Record]
    path: Path


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Case, End]]:
    path = tmp_path_factory.mktemp("held") / "holder.py"
    path.write_text(textwrap.dedent(HOLDER), encoding="utf-8")
    with (
        AgentStarter(COMMAND, path.parent, ENVIRONMENT, is_specified=True) as start,
        AgentStarter(PATIENT, path.parent / "patient", ENVIRONMENT, is_specified=True) as start_patient,
    ):
        found: dict[Case, End] = {}
        waiting: dict[Case, HomedAgent] = {}
        for case in [*TWICE, *CLOSED, *HELD]:
            agent = waiting[case] = start_one(start_patient if case in TWICE else start, case, path)
            wait_until((agent.home.work / "held").exists, case)
            end(agent, case)
            if case in TWICE:
                found[case] = look(waiting.pop(case), path)
        yield found | {case: look(agent, path) for case, agent in waiting.items()}


def start_one(start: AgentStarter, case: Case, path: Path) -> HomedAgent:
    script: list[dict[str, object]] = [{"tool_calls": [{"name": case.tool, "args": {}}]}, {"text": "never"}]
    agent = start(script, "-e", str(path), is_checked=False, has_session=True)
    agent.send({"id": "p", "type": "prompt", "message": "the task"})
    agent.wait({"type": "tool_execution_start"})
    agent.send({"id": "s", "type": "steer", "message": "queued"})
    agent.wait_response("s")
    (agent.home.work / "answered").touch()
    return agent


def end(agent: HomedAgent, case: Case) -> None:
    for each in case.ends:
        if each is None:
            agent.close_stdin()
        else:
            agent.signal(each)
            wait_until(lambda number=each: is_taken(agent.process.pid, number), case)  # type: ignore[misc]


def is_taken(pid: int, number: signal.Signals) -> bool:
    """Whether no such signal is pending: two at once are one, to the kernel."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    pending = [int(value, 16) for value in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)$", status, re.MULTILINE)]
    return not any(mask >> (number - 1) & 1 for mask in pending)


def look(agent: HomedAgent, path: Path) -> End:
    code = agent.wait_exit(BOUND_S)
    [session] = agent.home.sessions.rglob("*.jsonl")
    text = session.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return End(code, agent.stderr_text, agent.found({}), [json.loads(line) for line in text.splitlines()], path)


def cases(which: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", which, ids=str)


@cases(CASES)
def test_a_process_that_is_held_up_ends_with_the_code_of_what_ended_it(ends: dict[Case, End], case: Case) -> None:
    """One that is patient ends at the second signal, or not within the time of this test."""
    assert ends[case].code == case.code


@cases(CASES)
def test_the_session_of_a_process_that_was_held_up_has_everything_that_was_accepted(
    ends: dict[Case, End], case: Case
) -> None:
    entries = ends[case].entries
    roles = [entry["message"]["role"] for entry in entries if entry["type"] == "message"]
    assert roles[:2] == ["user", "assistant"]
    queued = [entry["data"] for entry in entries if entry.get("customType") == "pinnace.queue"]
    assert [("add", "queued")] == [(data["op"], data["text"]) for data in queued]


@cases([case for case in CASES if case.tool != "thread" and case not in TWICE])
def test_stderr_names_the_extension_that_holds_the_process_up(ends: dict[Case, End], case: Case) -> None:
    [line] = [line for line in ends[case].stderr.splitlines() if line.startswith("pinnace: error")]
    assert str(ends[case].path) in line
    assert f"tool {case.tool}" in line


def test_stderr_says_that_the_interpreter_waits_for_a_thread(ends: dict[Case, End]) -> None:
    [line] = [line for line in ends[CLOSED[2]].stderr.splitlines() if line.startswith("pinnace: error")]
    assert "threading.py" in line


@cases(CLOSED)
def test_all_is_answered_and_closed_where_only_a_task_does_not_end(ends: dict[Case, End], case: Case) -> None:
    kinds = [record["type"] for record in ends[case].records]
    assert [kinds.count(kind) for kind in ("tool_execution_end", "turn_end", "agent_end", "agent_settled")] == [1] * 4
    last = ends[case].entries
    assert [entry["message"]["role"] for entry in last if entry["type"] == "message"] == [
        "user",
        "assistant",
        "toolResult",
    ]
