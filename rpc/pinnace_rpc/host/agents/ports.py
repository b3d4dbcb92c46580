"""What the host and the processes of its agents know of each other.

Protocols and values only: a starter starts processes, a supervisor decides when, the host reads, writes and observes.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import trio

EpochReason = Literal["host", "crash", "sleep", "upgrade"]
"""Why an agent gets a process: its first one of this host; after a crash; after it has ended in order; on request."""

OnCrash = Literal["pause", "continue"]
"""What the process after a crash does with queued messages: wait for the next accepted message, or deliver them."""


class AgentLaunch(NamedTuple):
    """All that a process of an agent is started with. Nothing of the host's own environment is added."""

    arguments: tuple[str, ...]
    """The command line behind `pinnace --mode rpc`."""
    cwd: str
    environment: Mapping[str, str]
    """Complete. Names and values may have surrogate escapes (`os.fsdecode`)."""
    umask: int

    def without_client(self) -> "AgentLaunch":
        """Return what a later process is started with, when the client that has brought this is gone."""
        # With the first client that leaves: the host loads nothing of the agent before.
        from pinnace_agent.core.surroundings import CLIENT_ROUTES, CLIENT_SERVERS

        kept = {name: value for name, value in self.environment.items() if name not in (CLIENT_ROUTES, CLIENT_SERVERS)}
        return self if len(kept) == len(self.environment) else self._replace(environment=kept)


class AgentStartError(Exception):
    """No process could be started; the text is for people and names what is missing."""


class AgentPipes(Protocol):
    """What an agent is spoken to through: three pipes and an end."""

    @property
    def stdin(self) -> trio.abc.SendStream:
        """Commands. Closing it ends the agent in order; the host closes it."""
        ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream:
        """Records. May stay open after the exit while a child of a tool holds it; the host closes it."""
        ...

    def stderr_tail(self) -> str:
        """Return the end of what it has written to stderr, without what was written after its exit."""
        ...

    async def wait(self) -> int | None:
        """Wait for the end and return the status of the process, negative: a signal; None: unknown.

        Does not wait for the end of a pipe. Any number of tasks may wait, also after the exit; cancelling one changes
        nothing.
        """
        ...

    def kill(self) -> None:
        """End it at once: SIGKILL to the process alone. Does nothing after its end. Its watchdog ends its commands."""
        ...


class HostedProcess(AgentPipes, Protocol):
    """A process of an agent: the leader of a session and process group of its own."""

    @property
    def pid(self) -> int:
        """The id of the process, by which it is signalled."""
        ...

    def has_programs(self) -> bool:
        """Return whether a program that it has started lives; also if that can't be found out."""
        ...

    def send_now(self, data: bytes) -> int:
        """Write to stdin what it takes without waiting, and return how many bytes: 0 also if it is closed or broken.

        Only while no other task sends there. The rest goes the way of `stdin`, which reports what is wrong with it.
        """
        ...


class AgentStarter(Protocol):
    """Starts processes of agents."""

    async def start(self, start: AgentLaunch) -> HostedProcess:
        """Start `pinnace --mode rpc` with these arguments.

        A cancelled start leaves no process behind.

        Raises:
            AgentStartError: It could not be started.
        """
        ...


class AgentObserver(Protocol):
    """Observes the processes of one agent. The supervisor calls these in order, one at a time."""

    @property
    def is_persistent(self) -> bool:
        """Whether another process can continue the session: there is a session file."""
        ...

    @property
    def is_loading(self) -> bool:
        """Whether the process has not answered yet what waits for its extensions: without one it may not start."""
        ...

    def prepare(self, start: AgentLaunch, reason: EpochReason) -> AgentLaunch:
        """Return what the next process is started with: it continues the session of the former one, if there is one."""
        ...

    def process_began(self, process: HostedProcess, reason: EpochReason) -> None:
        """Take over the pipes of a new process. Before the first call of `process_ended` for it."""
        ...

    async def process_ended(self, status: int | None, stderr: str) -> None:
        """Read the rest of stdout, for at most a second, and report the end. No other process starts before it returns.

        Args:
            status: As of `HostedProcess.wait`.
            stderr: The end of its stderr.
        """
        ...

    def will_be_replaced(self) -> None:
        """Report that the process has ended and another one follows, after a delay perhaps."""
        ...

    def fell_asleep(self, error: str | None) -> None:
        """Report that the agent has no process and gets none by itself, on request or since its process has ended.

        Args:
            error: Why it could not be started; None: it was, or that was not tried.
        """
        ...

    def failed(self, error: str) -> None:
        """Report that the agent has no process and gets none by itself, since it can't have one that works."""
        ...

    def is_quiet(self) -> bool:
        """Return whether nothing is in progress that the host sees: no command, no run, no dialog.

        The supervisor itself knows the clients and looks for child processes.
        """
        ...

    async def may_sleep(self) -> bool:
        """Ask a quiet process whether it may be ended unnoticed: no extension has a background task that runs."""
        ...
