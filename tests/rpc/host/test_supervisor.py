"""The life of an agent in a host: every cell of its statechart, delays on a virtual clock, real processes."""

import os
import signal
import sys
from collections.abc import Callable
from itertools import product
from typing import Final

import pytest
import trio
from tests.rpc.host.conftest import LIMIT_S, Talk
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_rpc.host.agents.fresh import FreshStarter
from pinnace_rpc.host.agents.lifecycle import CLIENTS, EVENTS, LIVES, POSSIBLE, TRANSITIONS, undecided
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStarter, AgentStartError, EpochReason, HostedProcess
from pinnace_rpc.host.agents.supervisor import STOP_S, RestartRefused, Supervisor, outcome

START: Final = AgentLaunch((), "/", {"KEY": "first"}, 0o022)
OTHER: Final = START._replace(environment={"KEY": "other"})


class Pipe(trio.abc.SendStream, trio.abc.ReceiveStream):
    """An end of a pipe that records that it was closed."""

    def __init__(self) -> None:
        self.closed = trio.Event()

    async def aclose(self) -> None:
        self.closed.set()

    async def send_all(self, data: object) -> None:
        raise NotImplementedError

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        raise NotImplementedError


class Process:
    """A process that the test ends; without children, since its id is never used."""

    pid = 2**22 + 1

    def __init__(self, start: AgentLaunch) -> None:
        self.start = start
        self.stdin = Pipe()
        self.stdout = Pipe()
        self.kills = 0
        self._exited = trio.Event()
        self._status: int | None = None

    def exit(self, status: int | None) -> None:
        self._status = status
        self._exited.set()

    def has_programs(self) -> bool:
        return False

    def send_now(self, data: bytes) -> int:
        raise NotImplementedError

    def stderr_tail(self) -> str:
        return "why\n"

    async def wait(self) -> int | None:
        await self._exited.wait()
        return self._status

    def kill(self) -> None:
        self.kills += 1
        self.exit(-signal.SIGKILL)


class Host:
    """The starter and the observer of one agent, with a log."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.processes: list[Process] = []
        self._begun, self.began = trio.open_memory_channel[HostedProcess](100)
        self.replacements = 0
        self.is_persistent = True
        self.is_loading = False
        self.quiet = True
        self.agrees = True
        self.questions = 0
        self.can_start = True
        self.rest_is_read = trio.Event()
        self.rest_is_read.set()

    async def start(self, start: AgentLaunch) -> HostedProcess:
        await trio.lowlevel.checkpoint()
        if not self.can_start:
            raise AgentStartError("no such folder")
        self.processes.append(Process(start))
        return self.processes[-1]

    def prepare(self, start: AgentLaunch, reason: EpochReason) -> AgentLaunch:
        return start

    def process_began(self, process: HostedProcess, reason: EpochReason) -> None:
        self.log.append(reason)
        self._begun.send_nowait(process)

    async def process_ended(self, status: int | None, stderr: str) -> None:
        await self.rest_is_read.wait()
        self.log.append(f"ended {status}")

    def will_be_replaced(self) -> None:
        self.replacements += 1

    def fell_asleep(self, error: str | None) -> None:
        self.log.append("asleep" if error is None else f"asleep: {error}")

    def failed(self, error: str) -> None:
        self.log.append(f"failed: {error}")

    def is_quiet(self) -> bool:
        return self.quiet

    async def may_sleep(self) -> bool:
        await trio.lowlevel.checkpoint()
        self.questions += 1
        return self.agrees


class Life:
    """A supervised agent and what its test does with it."""

    def __init__(self, nursery: trio.Nursery, starter: AgentStarter | None = None) -> None:
        self.host = Host()
        self.supervisor = Supervisor(nursery, starter or self.host, self.host, idle_s=1800)

    @property
    def process(self) -> Process:
        return self.host.processes[-1]

    async def settle(self) -> str:
        """Let everything happen that waits for no clock, and return the state."""
        await wait_all_tasks_blocked()
        return self.supervisor.life

    async def run(self) -> None:
        """Attach, and let the process answer."""
        self.supervisor.attach(START)
        await self.settle()
        self.supervisor.answered()

    async def exit(self, status: int | None) -> str:
        self.process.exit(status)
        return await self.settle()


@pytest.fixture
async def life(nursery: trio.Nursery) -> Life:
    return Life(nursery)


def test_every_cell_is_decided() -> None:
    assert [] == undecided()
    assert set(POSSIBLE) == set(EVENTS)
    assert {row.life for row in TRANSITIONS} == {row.target for row in TRANSITIONS if row.target} == set(LIVES)


def test_a_process_is_begun_where_it_starts_and_ended_where_it_stops() -> None:
    """Each row into `starting` begins one, each into `stopping` ends it or follows its end; no other row does."""
    for row in TRANSITIONS:
        assert ("begin" in row.actions) == (row.target == "starting"), row
        assert ("end_process" in row.actions) == (row.target == "stopping" and row.event != "ended"), row
        assert ("delay" in row.actions) == (row.target == "backing_off"), row
        has_process = row.life in ("running", "stopping") and row.event not in ("attach", "restart")
        assert ("replace" in row.actions) == (row.target == "backing_off" or (row.target == "starting" and has_process))
        assert ("rest" in row.actions) == (row.target == "asleep"), row
        assert ("fail" in row.actions) == (row.target == "failed"), row


def test_nothing_enters_a_process_that_ends() -> None:
    """No event but the end of the process leaves `stopping`."""
    leaving = {row.event for row in TRANSITIONS if row.life == "stopping" and row.target}

    assert {"closed", "not_started"} == leaving


@pytest.mark.parametrize(("clients", "event"), list(product(CLIENTS, ("steady", "idle", "answered"))))
def test_late_events_of_a_process_that_ends_change_nothing(clients: str, event: str) -> None:
    assert [(None, ())] == [(row.target, row.actions) for row in TRANSITIONS if row[:3] == ("stopping", clients, event)]


@pytest.mark.parametrize(
    ("status", "is_new", "meaning"),
    [
        (0, False, "ended"),
        (0, True, "ended"),
        (143, False, "ended"),
        (-signal.SIGTERM, True, "ended"),
        (130, False, "ended"),
        (2, True, "refused"),
        (1, True, "refused"),
        (1, False, "crashed"),
        (2, False, "refused"),
        (70, False, "crashed"),
        (-signal.SIGKILL, True, "crashed"),
        (None, False, "crashed"),
    ],
)
def test_the_meaning_of_a_status(status: int | None, is_new: bool, meaning: str) -> None:
    assert meaning == outcome(status, is_new=is_new)


async def test_a_crashed_agent_starts_again_after_growing_delays_and_then_fails(
    life: Life, autojump_clock: MockClock
) -> None:
    await life.run()
    for delay_s in (0.2, 1.0, 5.0):
        assert "backing_off" == await life.exit(-signal.SIGKILL)
        await trio.sleep(delay_s - 0.01)
        assert "backing_off" == await life.settle()
        await trio.sleep(0.02)
        assert "starting" == await life.settle()
        life.supervisor.answered()
    assert "failed" == await life.exit(-signal.SIGKILL)

    assert 3 == life.host.replacements
    text = "failed: the agent's process ended with signal 9: why"
    assert ["host", "ended -9", *["crash", "ended -9"] * 3, text] == life.host.log
    life.supervisor.attach(OTHER)
    assert "starting" == await life.settle()
    assert OTHER == life.process.start
    assert "crash" == life.host.log[-1]
    await life.exit(0)


async def test_crashes_are_forgotten_after_a_minute_of_work(life: Life, autojump_clock: MockClock) -> None:
    await life.run()
    for _ in range(5):
        await trio.sleep(61)
        assert "backing_off" == await life.exit(70)
        await trio.sleep(0.25)
        assert "starting" == await life.settle()
        life.supervisor.answered()
    await life.exit(0)


async def test_an_agent_without_a_session_file_is_not_restarted(life: Life) -> None:
    life.host.is_persistent = False
    await life.run()

    assert "failed" == await life.exit(-signal.SIGSEGV)


async def test_a_refused_start_is_not_tried_again(life: Life) -> None:
    life.supervisor.attach(START)
    await life.settle()

    assert "failed" == await life.exit(2)
    assert life.supervisor.error == "the agent's process ended with status 2: why"


@pytest.mark.parametrize(("is_loading", "state"), [(True, "failed"), (False, "backing_off")])
async def test_a_start_is_refused_however_long_its_extensions_load(
    life: Life, autojump_clock: MockClock, is_loading: bool, state: str
) -> None:
    """It answers reads before: no time says whether one that ends has started."""
    await life.run()
    life.host.is_loading = is_loading
    await trio.sleep(3600 if is_loading else 0)

    assert state == await life.exit(1)


async def test_a_start_that_is_not_possible_fails_with_its_reason(life: Life) -> None:
    life.host.can_start = False
    life.supervisor.attach(START)

    assert "failed" == await life.settle()
    assert ["failed: no such folder"] == life.host.log


async def test_an_agent_that_ends_by_itself_sleeps(life: Life) -> None:
    await life.run()

    assert "asleep" == await life.exit(0)


async def test_a_client_that_attaches_to_a_stopping_agent_gets_the_next_process(life: Life) -> None:
    """With its own environment, when the rest of the former one is read."""
    await life.run()
    life.supervisor.detach({})
    life.supervisor.stop()
    life.host.rest_is_read = trio.Event()
    assert "stopping" == await life.settle()
    assert life.process.stdin.closed.is_set()
    life.process.exit(0)

    life.supervisor.attach(OTHER)

    assert "stopping" == await life.settle()
    life.host.rest_is_read.set()
    assert "starting" == await life.settle()
    assert OTHER == life.process.start
    assert ["host", "ended 0", "sleep"] == life.host.log
    await life.exit(0)


async def test_a_client_that_attaches_while_the_rest_is_read_gets_the_next_process(life: Life) -> None:
    """Also when the process has ended by itself."""
    await life.run()
    life.host.rest_is_read = trio.Event()
    assert "stopping" == await life.exit(0)

    life.supervisor.attach(OTHER)
    life.host.rest_is_read.set()

    assert "starting" == await life.settle()
    await life.exit(0)


async def test_a_client_that_attaches_to_a_running_agent_changes_nothing(life: Life) -> None:
    await life.run()
    life.supervisor.attach(OTHER)

    assert "backing_off" == await life.exit(-signal.SIGKILL)
    life.supervisor.restart()
    assert "starting" == await life.settle()
    assert START == life.process.start
    await life.exit(0)


async def test_a_restart_ends_the_process_and_starts_the_next(life: Life) -> None:
    await life.run()
    life.supervisor.restart()
    assert "stopping" == await life.settle()

    assert "starting" == await life.exit(0)
    assert ["host", "ended 0", "upgrade"] == life.host.log
    await life.exit(0)


async def test_a_stop_takes_back_a_restart(life: Life) -> None:
    await life.run()
    life.supervisor.restart()
    life.supervisor.stop()
    await life.settle()

    assert "asleep" == await life.exit(0)


async def test_a_sleeping_agent_needs_the_environment_of_a_client(life: Life) -> None:
    with pytest.raises(RestartRefused, match="environment"):
        life.supervisor.restart()


async def test_an_agent_that_does_not_end_is_killed(life: Life, autojump_clock: MockClock) -> None:
    await life.run()
    life.supervisor.stop()
    await trio.sleep(STOP_S - 1)
    assert 0 == life.process.kills

    with trio.fail_after(2):
        await life.supervisor.wait_over()

    assert 1 == life.process.kills
    assert "asleep" == await life.settle()


async def test_a_stop_before_the_process_began_ends_the_start(life: Life) -> None:
    """A start may wait for its turn among many."""
    life.supervisor.attach(START)
    life.supervisor.stop()

    assert "asleep" == await life.settle()
    assert [] == life.host.processes
    life.supervisor.attach(START)
    life.supervisor.restart()
    await life.settle()
    assert 1 == len(life.host.processes)
    await life.exit(0)


async def test_a_client_that_ends_its_agent_learns_that_it_cannot_start(life: Life) -> None:
    """The start is not given up, and its error is not lost."""
    life.host.can_start = False
    life.supervisor.attach(START)
    life.supervisor.stop(is_urgent=False)

    assert "asleep" == await life.settle()
    assert ["asleep: no such folder"] == life.host.log
    assert life.supervisor.error is None


async def test_a_stop_ends_a_delay(life: Life, autojump_clock: MockClock) -> None:
    await life.run()
    await life.exit(-signal.SIGKILL)
    life.supervisor.stop()
    await trio.sleep(10)

    assert "asleep" == await life.settle()
    assert 1 == len(life.host.processes)


async def test_an_idle_agent_is_put_to_sleep_and_woken(life: Life, autojump_clock: MockClock) -> None:
    await life.run()
    await trio.sleep(4000)
    assert "running" == await life.settle()  # it has a client
    life.supervisor.detach({})
    await trio.sleep(1700)
    assert "running" == await life.settle()
    with trio.fail_after(300):
        await life.process.stdin.closed.wait()
    assert "stopping" == await life.settle()

    assert "asleep" == await life.exit(0)
    life.supervisor.attach(OTHER)
    await life.settle()
    assert ["host", "ended 0", "asleep", "sleep"] == life.host.log
    await life.exit(0)


def _busy(host: Host) -> None:
    host.quiet = False


def _at_work(host: Host) -> None:
    host.agrees = False


def _without_file(host: Host) -> None:
    host.is_persistent = False


@pytest.mark.parametrize("change", [_busy, _at_work, _without_file])
async def test_an_agent_in_use_stays_awake(
    change: Callable[[Host], None], life: Life, autojump_clock: MockClock
) -> None:
    change(life.host)
    await life.run()
    life.supervisor.detach({})
    await trio.sleep(10000)

    assert "running" == await life.settle()
    assert (5 if change is _at_work else 0) == life.host.questions
    await life.exit(0)


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
async def test_an_agent_with_a_child_of_a_tool_stays_awake_and_one_that_is_killed_continues(
    nursery: trio.Nursery, start: AgentLaunch
) -> None:
    """Real processes."""
    arguments = tuple(each for each in start.arguments if each != "--no-session")
    life = Life(nursery, FreshStarter(nursery))
    life.supervisor.attach(start._replace(arguments=arguments))
    talk = Talk(await began(life))
    await talk.ask(id="1", type="get_state")
    life.supervisor.answered()

    os.kill(talk.process.pid, signal.SIGKILL)

    second = Talk(await began(life))
    assert second.process.pid != talk.process.pid
    await second.ask(id="1", type="get_state")
    life.supervisor.answered()
    life.supervisor.detach({})
    assert life.supervisor.is_unused()
    child = (await second.shell("sleep 1000 > /dev/null 2>&1 & echo $!")).strip()
    assert not life.supervisor.is_unused()
    os.kill(int(child), signal.SIGKILL)
    life.supervisor.stop()
    with trio.fail_after(LIMIT_S):
        await life.supervisor.wait_over()
    assert ["host", "ended -9", "crash", "ended 0", "asleep"] == life.host.log
    for each in (talk, second):
        await each.ended()


async def began(life: Life) -> HostedProcess:
    """Wait for the next process."""
    with trio.fail_after(LIMIT_S):
        return await life.host.began.receive()


@pytest.mark.parametrize("is_other", [False, True])
async def test_what_a_client_wants_while_it_is_there_ends_with_it(life: Life, is_other: bool) -> None:
    """An editor's MCP servers: a later process has them while that editor is attached, and not behind it."""
    brought = START._replace(environment={"KEY": "first", "PINNACE_MCP_SERVERS": "{}"})
    life.supervisor.attach(brought)
    await life.settle()
    life.supervisor.answered()
    life.supervisor.attach(OTHER)
    life.supervisor.detach(OTHER.environment if is_other else brought.environment)
    life.supervisor.restart()
    await life.settle()
    life.process.exit(0)
    await life.settle()
    assert life.process.start == (brought if is_other else START)
    await life.exit(0)
