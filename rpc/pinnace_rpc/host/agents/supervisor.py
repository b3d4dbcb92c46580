"""Supervises one agent: performs what the statechart of its life decides, and reports its events.

A step is taken without a checkpoint. A process starts when the observer has read the rest of the former one. Must not
know records, clients or journals.
"""

import logging
import signal
from collections.abc import Mapping
from typing import Final, Literal

import trio

from pinnace_rpc.host.agents.lifecycle import TRANSITIONS, Action, Clients, Event, Guard, Life, Transition
from pinnace_rpc.host.agents.ports import (
    AgentLaunch,
    AgentObserver,
    AgentStarter,
    AgentStartError,
    EpochReason,
    HostedProcess,
)

_log = logging.getLogger("pinnace.host")

RESTART_DELAYS_S: Final = (0.2, 1.0, 5.0)
STEADY_S: Final = 60.0
"""After so much work a crash counts as the first one."""
STOP_S: Final = 10.0
"""Twice what an agent takes at most to end after its stdin; then it is killed."""
IDLE_S: Final = 30 * 60.0
_LONGEST_LOOK_S: Final = 60.0
_SHORTEST_LOOK_S: Final = 0.05
"""Between two looks at whether an agent is idle: a tenth of the time that it may be, within these."""

_REQUESTED: Final = frozenset(
    status for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM) for status in (-number, 128 + number)
)
"""Ends by a signal that requests one: its sender does not want a restart (as systemd's `on-failure`)."""
_USAGE: Final = 2
_REFUSED: Final = 1
"""Exit codes of a start that is refused, with the reason on stderr. 1 is also that of an uncaught exception."""


class RestartRefused(Exception):
    """There is no environment to start the agent with: a client has to bring it."""


class Supervisor:
    """One agent, with or without a process. Use it in the event loop."""

    def __init__(
        self, nursery: trio.Nursery, starter: AgentStarter, observer: AgentObserver, *, idle_s: float = IDLE_S
    ) -> None:
        """Start nothing yet.

        Args:
            nursery: Gets the task of each process. Cancelled, it ends no process: the end of stdin does.
            starter: Starts processes.
            observer: Reads and writes their pipes.
            idle_s: An agent that has been without clients and use for so many seconds is put to sleep.
        """
        self._nursery = nursery
        self._starter = starter
        self._observer = observer
        self._idle_s = idle_s
        self.life: Life = "asleep"
        self.error: str | None = None
        """Why it has failed; None: it has not."""
        self._clients = 0
        self.start: AgentLaunch | None = None
        """What its processes are started with; None: only a client can start it."""
        self._reason: EpochReason = "host"
        self._crashes = 0
        self._is_wanted = False
        self._ending = trio.Event()
        self._answered = trio.Event()
        self._starting = trio.CancelScope()
        """Of a start that waits for its turn."""
        self._delay = trio.CancelScope()
        self._over = trio.Event()
        self._over.set()
        self._process: HostedProcess | None = None

    # What others request and report.

    def attach(self, start: AgentLaunch) -> None:
        """Count a client, and wake the agent if it has no process or is losing it.

        Args:
            start: What a process is started with if this client starts or wakes it; ignored otherwise.
        """
        self._clients += 1
        self._step("attach", start)

    def detach(self, environment: Mapping[str, str]) -> None:
        """Count a client that has left.

        Args:
            environment: The one that it has brought. If the agent was started with it, later processes get what of it
                outlives the client.
        """
        if self.start is not None and self.start.environment is environment:
            self.start = self.start.without_client()
        self._clients -= 1
        if self._clients == 0:
            self._step("detach")

    def restart(self) -> None:
        """End the process, if there is one, and start another with the environment of the last one.

        Raises:
            RestartRefused: No environment is known.
        """
        former, self._reason = self._reason, "upgrade"
        try:
            self._step("restart")
        except RestartRefused:
            self._reason = former
            raise

    def stop(self, *, is_urgent: bool = True) -> None:
        """End the process by the end of its stdin, after some time by SIGKILL, and start no other.

        Args:
            is_urgent: Whether a start that waits for its turn is given up. Else it is known afterwards whether the
                agent can start.
        """
        if is_urgent:
            self._starting.cancel()
        self._step("stop")

    def answered(self) -> None:
        """Take notice that the process has answered, for the first time or again."""
        if self.life == "starting":
            self._answered.set()
            self._step("answered")

    async def wait_over(self) -> None:
        """Wait until there is no process and none is about to be started."""
        await self._over.wait()

    # The statechart.

    @property
    def _region(self) -> Clients:
        return "attached" if self._clients else "none"

    def _step(self, event: Event, start: AgentLaunch | None = None) -> None:
        for row in _ROWS.get((self.life, self._region, event), ()):
            if self._holds(row.guard):
                break
        else:
            raise AssertionError(f"{event} is impossible while {self.life}")
        if row.target is not None:
            self.life = row.target
        for action in row.actions:
            self._perform(action, start)
        if self.life in ("asleep", "failed"):
            self._over.set()
        elif self._over.is_set():
            self._over = trio.Event()

    def _holds(self, guard: Guard) -> bool:
        match guard:
            case "":
                return True
            case "has_start":
                return self.start is not None
            case "is_wanted":
                return self._is_wanted
            case "is_restartable":
                return self._observer.is_persistent and self._crashes < len(RESTART_DELAYS_S)
            case "is_unused":
                return self.is_unused()

    def _perform(self, action: Action, start: AgentLaunch | None) -> None:
        match action:
            case "keep_start":
                self.start = start
            case "begin":
                self._begin()
            case "end_process":
                self._ending.set()
            case "want" | "unwant":
                self._is_wanted = action == "want"
            case "delay":
                self._delay = trio.CancelScope()
                self._nursery.start_soon(self._wait_and_begin, RESTART_DELAYS_S[self._crashes], self._delay)
                self._crashes += 1
            case "cancel_delay":
                self._delay.cancel()
            case "forget_crashes":
                self._crashes = 0
            case "replace":
                self._observer.will_be_replaced()
            case "rest":
                error, self.error = self.error, None
                self._observer.fell_asleep(error)
            case "fail":
                assert self.error is not None
                self._observer.failed(self.error)
            case "refuse":
                raise RestartRefused("the agent sleeps, and no client has brought an environment to start it with")

    # The process.

    def _begin(self) -> None:
        assert self.start is not None
        self.error = None
        self._ending = trio.Event()
        self._answered = trio.Event()
        self._starting = trio.CancelScope()
        reason, self._reason = self._reason, "sleep"
        self._nursery.start_soon(self._live, self._observer.prepare(self.start, reason), reason, name="agent")

    async def _wait_and_begin(self, delay_s: float, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(delay_s)
            self._step("delay_over")

    async def _live(self, start: AgentLaunch, reason: EpochReason) -> None:
        """Have one process, from its start to its end."""
        ending, answered = self._ending, self._answered
        process: HostedProcess | None = None
        try:
            with self._starting:
                process = await self._starter.start(start)
        except AgentStartError as error:
            self.error = str(error)
        if process is None:
            self._step("not_started")
            return
        self._process = process
        self._observer.process_began(process, reason)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end, process, ending)
            nursery.start_soon(self._watch_work, answered)
            nursery.start_soon(self._watch_idleness, answered)
            status = await process.wait()
            nursery.cancel_scope.cancel()
        self._process = None
        is_new = not answered.is_set() or self._observer.is_loading
        event = outcome(status, is_new=is_new)
        if self.life != "stopping" and event == "ended":
            self._step(event)
        stderr = process.stderr_tail()
        await self._observer.process_ended(status, stderr)
        if self.life == "stopping":
            self._step("closed")
            return
        self._reason = "crash"
        is_lost = event == "crashed" and not self._observer.is_persistent
        session = " and has no session to continue" if is_lost else ""
        end = stderr.strip().removeprefix("pinnace: ") or "it wrote nothing to stderr"
        self.error = f"the agent's process ended with {_wording(status)}{session}: {end}"
        self._step(event)

    async def _end(self, process: HostedProcess, ending: trio.Event) -> None:
        """End the process when that is decided."""
        await ending.wait()
        await trio.aclose_forcefully(process.stdin)
        await trio.sleep(STOP_S)
        _log.warning("agent process %d does not end: it is killed", process.pid)
        process.kill()

    async def _watch_work(self, answered: trio.Event) -> None:
        await answered.wait()
        await trio.sleep(STEADY_S)
        self._step("steady")

    async def _watch_idleness(self, answered: trio.Event) -> None:
        """Report when it has been unused for long enough. An agent without use costs a look a minute.

        The agent itself is asked only then; background tasks of an extension count as use.
        """
        await answered.wait()
        unused_since = trio.current_time()
        while True:
            await trio.sleep(max(_SHORTEST_LOOK_S, min(_LONGEST_LOOK_S, self._idle_s / 10)))
            now = trio.current_time()
            if not self.is_unused():
                unused_since = now
            elif now - unused_since >= self._idle_s:
                if await self._observer.may_sleep():
                    self._step("idle")  # unless something has begun while it was asked
                unused_since = trio.current_time()

    def is_unused(self) -> bool:
        """Return whether it may sleep: it can be continued, has no client or work, and no program of a tool lives."""
        process = self._process
        if self._clients or process is None or not self._observer.is_persistent or not self._observer.is_quiet():
            return False
        return not process.has_programs()


def outcome(status: int | None, *, is_new: bool) -> Literal["ended", "refused", "crashed"]:
    """Return what the end of a process means that was not requested.

    Args:
        status: As of `HostedProcess.wait`.
        is_new: Whether it has not answered, or still loads its extensions.
    """
    if status == 0 or status in _REQUESTED:
        return "ended"
    is_refused = status == _USAGE or (status == _REFUSED and is_new)
    return "refused" if is_refused else "crashed"


def _wording(status: int | None) -> str:
    if status is None:
        return "an unknown status"
    return f"signal {-status}" if status < 0 else f"status {status}"


_ROWS: Final[dict[tuple[Life, Clients, Event], list[Transition]]] = {}
for _row in TRANSITIONS:
    _ROWS.setdefault(_row[:3], []).append(_row)
