"""One agent of a host: its life, its processes one after the other, and what belongs to it.

Implements the observer of the process. What its clients send goes through `client_commands`, what the process writes
through `process_output` into the journal; what is kept while it has no process is in `details`. Must not know sockets
and frames.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

import trio

from pinnace_rpc.host.activity import AgentActivity
from pinnace_rpc.host.agents.lifecycle import Life
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentObserver, EpochReason, HostedProcess, OnCrash
from pinnace_rpc.host.agents.supervisor import Supervisor, outcome
from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.client_commands import ClientCommands
from pinnace_rpc.host.command_lines import resumed
from pinnace_rpc.host.details import AgentDetails, DetailsStore
from pinnace_rpc.host.dialogs import OpenDialogs
from pinnace_rpc.host.followers import Followers
from pinnace_rpc.host.journal import RETAINED_BYTES, Journal
from pinnace_rpc.host.named_clients import NamedClients
from pinnace_rpc.host.offers import Offers
from pinnace_rpc.host.open_commands import OpenCommands
from pinnace_rpc.host.own_commands import OwnCommands
from pinnace_rpc.host.process_input import ProcessInput
from pinnace_rpc.host.process_output import ProcessOutput, Restart
from pinnace_rpc.host.profiles import WITHOUT_RESOLVED
from pinnace_rpc.host.protocol import EXIT_FAILED, EXIT_LOST, Ended
from pinnace_rpc.host.routing import RoutedResponse, Router
from pinnace_rpc.host.surroundings import OF_PROCESS, HostSurroundings
from pinnace_spec.wire.json_text import JsonValue

_log = logging.getLogger("pinnace.host")

_REST_S: Final = 1.0
"""How long the rest of stdout is read after the exit: a child of a tool may hold it open."""


class HostedAgent:
    """One agent, with or without a process."""

    def __init__(  # noqa: PLR0913 - a line for each part
        self,
        name: str,
        folder: str,
        release: str,
        nursery: trio.Nursery,
        supervise: Callable[[AgentObserver], Supervisor],
        details: AgentDetails | None = None,
        *,
        journal_bytes: int = RETAINED_BYTES,
        on_crash: OnCrash = "pause",
        surroundings: HostSurroundings = OF_PROCESS,
    ) -> None:
        """Open the agent's folder. Blocking.

        Args:
            name: By which clients find it.
            folder: Its journal's.
            release: Of the program that its process runs.
            nursery: Gets the tasks that serve its processes.
            supervise: Returns what decides when it has a process.
            details: What is known of a new agent; None: read from its folder.
            journal_bytes: The most that the files of its journal have.
            on_crash: What the process after a crash does with queued messages.
            surroundings: Keep its files, and name the time.

        Raises:
            LocationError, OSError: The folder can't be used.
        """
        self.name = name
        self.folder = folder
        self.release = release
        """Of the program that its process runs."""
        self.followers = Followers(nursery, surroundings.elapsed_s)
        self._details = DetailsStore(
            folder, surroundings.system, nursery, details, lambda: bool(self.journal.epoch and self._is_known)
        )
        self.journal = Journal(
            folder,
            retained_bytes=journal_bytes,
            published=self.followers.publish,
            shows_resolved=self.details.profile not in WITHOUT_RESOLVED,
            surroundings=surroundings,
        )
        self.flags: tuple[str, ...] = ()
        """Those of the attach that started it, as they were given: an attach that comes again brings them, too."""
        self.connections = AttachedConnections(self.journal)
        self.clients = NamedClients(folder, surroundings, self.connections)
        self.abandoned_at: float | None = None
        """Since when an agent without a name has had no client, on trio's clock."""
        self.router = Router()
        self.dialogs = OpenDialogs(self.journal)
        self._input = ProcessInput(lambda: self._is_over)
        self.own_commands = OwnCommands(folder, nursery, self.router, self._input, self._take_state)
        offers = Offers()
        self.activity = AgentActivity(self._details, self.dialogs, self.own_commands, offers, surroundings.wall_time_s)
        self.open_commands = OpenCommands(self.router, self.connections, self.details.profile)
        self.commands = ClientCommands(
            self.details.profile,
            surroundings.system.urandom,
            connections=self.connections,
            router=self.router,
            open_commands=self.open_commands,
            process=self._input,
            own_commands=self.own_commands,
            dialogs=self.dialogs,
            offers=offers,
        )
        self._output = ProcessOutput(
            self.journal,
            self.connections,
            self.router,
            self.open_commands,
            self.own_commands,
            offers,
            self.activity,
            self._answered,
        )
        self._nursery = nursery
        self._on_crash = on_crash
        self._work = trio.CancelScope()
        self._has_read_all = trio.Event()
        self._is_known = False
        """Whether the session of the process is."""
        self._reason: EpochReason = "host"
        self._was_interrupted = self.details.has_run
        # A loss of power may have taken that another epoch has begun since, but not its number.
        is_latest = self.details.ended_epoch in (None, self.journal.epoch)
        self._is_complete = not self.details.has_process and is_latest
        self._status: int | None = None
        """Of the last process."""
        self._stderr = ""
        """The end of what it has written there."""
        self._stopped_with: Ended | None = None
        self._supervisor = supervise(self)

    # Life.

    @property
    def details(self) -> AgentDetails:
        """What is kept of it."""
        return self._details.current

    @property
    def state(self) -> Life:
        """Whether it has a process."""
        return self._supervisor.life

    @property
    def error(self) -> str | None:
        """Why it has failed; None: it has not."""
        return self._supervisor.error

    @property
    def start(self) -> AgentLaunch | None:
        """What it was started with; None: only a client can start it."""
        return self._supervisor.start

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return None if self._input.process is None else self._input.process.pid

    def attach(self, start: AgentLaunch) -> None:
        """Count a client; the agent is started with `start` unless it has a process."""
        self._supervisor.attach(start)

    def detach(self, environment: Mapping[str, str]) -> None:
        """Count a client that has left; `environment` is the one that it has brought."""
        self._supervisor.detach(environment)

    def restart(self) -> None:
        """Replace the process, or start one.

        Raises:
            RestartRefused: Only a client can start it.
        """
        self._supervisor.restart()

    def stop(self, ended: Ended | None = None) -> None:
        """End the process in order, without waiting for it; clients get `ended`, else the end of the process."""
        self._stopped_with = ended
        self._supervisor.stop()

    def end(self) -> None:
        """End the process for its client, which learns whether it could start."""
        self._stopped_with = None
        self._supervisor.stop(is_urgent=False)

    def close(self) -> None:
        """Close its files; it has no process, and gets none any more."""
        self.journal.close()
        self.clients.close()

    def left(self, connection: int) -> None:
        """Take notice that a connection has ended: with it ends what its client has offered."""
        self.connections.remove(connection)
        self.commands.offers.leave(connection)
        self._nursery.start_soon(self.commands.withdraw)

    async def wait_over(self) -> None:
        """Wait until there is no process and none will be started."""
        await self._supervisor.wait_over()

    async def wait_while_stopping(self) -> None:
        """Wait while the process ends, which a client must not meet any more."""
        while self.state == "stopping":
            await self._input.changed.park()

    async def wait_known(self) -> None:
        """Wait until the session of the process is known, or there is no process."""
        while not self.is_known:
            await self._input.changed.park()

    @property
    def is_known(self) -> bool:
        """Whether the session of the process is known, or there is no process."""
        return self._is_known or self._is_over

    @property
    def _is_over(self) -> bool:
        return self.state in ("asleep", "failed")

    # The observer of the supervisor.

    @property
    def is_persistent(self) -> bool:
        """Whether there is a session file, with which another process continues."""
        return self.details.session_file is not None

    @property
    def is_loading(self) -> bool:
        """Whether the process has not answered yet what waits for its extensions: without one it may not start."""
        return not self.own_commands.has_started

    def prepare(self, start: AgentLaunch, reason: EpochReason) -> AgentLaunch:
        """Return what the next process is started with: it continues the session.

        What is queued is continued by an option of the process, so that it is decided before the first command is
        read: an `abort` of the host would come between those of clients, and end what runs.
        """
        self._stopped_with = None
        self._status = None
        self._is_known = False
        # The process that has ended may have replaced its session since it was asked.
        self._details.take_named()
        arguments = (*resumed(start.arguments, self.details), "--hosted", self._details.naming_path)
        if reason == "crash" and self._on_crash == "continue":
            arguments = (*_CONTINUES_QUEUE, *arguments)
        return start._replace(arguments=arguments)

    def process_began(self, process: HostedProcess, reason: EpochReason) -> None:
        """Take over the pipes of a new process."""
        self._input.process = process
        self.own_commands.process_began()
        self._reason = reason
        self._is_known = False
        self._work = trio.CancelScope()
        self._has_read_all = trio.Event()
        self._details.change(has_process=True, has_run=self._was_interrupted)
        self._nursery.start_soon(self._attend, process, name=f"agent {self.name}")
        self._input.changed.unpark_all()

    async def process_ended(self, status: int | None, stderr: str) -> None:
        """Read the rest of its output, for at most a second, and close its pipes."""
        with trio.move_on_after(_REST_S):
            await self._has_read_all.wait()
        self._work.cancel()
        await self._has_read_all.wait()
        process, self._input.process = self._input.process, None
        self._input.takes_commands = False
        self._status, self._stderr = status, stderr.strip()
        self._output.release()
        # One that was killed instead has not written everything.
        self._is_complete = self.state == "stopping" and outcome(status, is_new=False) == "ended"
        if self.state != "stopping":
            _log.warning("agent %s: its process ended with %s: %s", self.name, status, self._stderr)
        self._was_interrupted, self.activity.is_running_turns = self.activity.is_running_turns, False
        # What the next epoch has to report: this host may not live to begin it.
        is_kept = self._is_complete and await trio.to_thread.run_sync(self.journal.flush)
        self._details.change(
            has_process=not is_kept,
            has_run=self._was_interrupted,
            ended_epoch=self.journal.epoch if is_kept else self.details.ended_epoch,
        )
        self.dialogs.forget()
        self.commands.offers.forget()
        self.activity.summary.forget_children()
        self.own_commands.process_ended()
        self._input.changed.unpark_all()
        self.commands.reads.give_up()
        self.open_commands.process_ended()
        if process is not None:
            await trio.aclose_forcefully(process.stdin)
            await trio.aclose_forcefully(process.stdout)

    def will_be_replaced(self) -> None:
        """Keep what the next process can be asked again, and send clients away that do not know what an epoch is."""
        self.open_commands.will_be_replaced()
        ended = Ended(EXIT_LOST, "the agent's process was replaced; attach again")
        self.connections.finish(ended, has_cursors=False)

    def fell_asleep(self, error: str | None) -> None:
        """End the connections as the process has ended."""
        if error is not None:
            self._end_connections(Ended(EXIT_FAILED, error))
            return
        status = self._status or 0
        error = self._stderr.removeprefix("pinnace: ") if self._has_refused_to_start() else None
        self._end_connections(Ended(status if status >= 0 else 128 - status, error))

    def failed(self, error: str) -> None:
        """End the connections with the error; with the process's own exit code, if it has refused to start."""
        status = self._status if self._has_refused_to_start() else None
        self._end_connections(Ended(status or EXIT_FAILED, error))

    def _has_refused_to_start(self) -> bool:
        return not self._is_known and self._status is not None and 0 < self._status < _FIRST_SIGNAL_STATUS

    def is_quiet(self) -> bool:
        """Return whether nothing is in progress: no command, no run, no dialog."""
        return not (self.open_commands or self.activity.is_running_turns or self.dialogs)

    async def may_sleep(self) -> bool:
        """Ask whether an extension has a background task. An agent that does not answer does not sleep."""
        return await self.own_commands.may_sleep()

    def _end_connections(self, ended: Ended) -> None:
        self.open_commands.give_up()
        self.connections.finish(self._stopped_with or ended)
        self._input.changed.unpark_all()

    async def _attend(self, process: HostedProcess) -> None:
        """Serve a process until everything that it has written is read, or for as long as that matters."""
        is_first = self.journal.epoch == 0
        has_read_all = self._has_read_all
        try:
            with self._work:
                if not await self.journal.begin_epoch():
                    lost = Ended(EXIT_LOST, "the disk does not take the journal of the agent; attach again")
                    self.connections.finish(lost, has_cursors=True)
                if not is_first:
                    self._output.hold(Restart(self._reason, self._is_complete, self._was_interrupted))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._begin_taking)
                    await self._output.read(process.stdout)
                    nursery.cancel_scope.cancel()
        finally:
            has_read_all.set()

    async def _begin_taking(self) -> None:
        """Ask a new process what the former one has not answered, then let it take commands.

        It ends instead if the next host would not know the session (R-HST-10).
        """
        self.open_commands.process_began()
        await self.own_commands.ask_state()
        if not self._details.is_kept:  # of a new agent; later ones have their session named before it is used
            await self.wait_known()
            if not await self._details.flush() and self.is_persistent and self.state == "running":
                self.stop(Ended(EXIT_FAILED, self._details.problem))
                return
        await self.commands.ask_again()
        self._input.takes_commands = True
        self._input.changed.unpark_all()

    # What the process writes.

    def _answered(self, response: RoutedResponse, place: int) -> None:
        """Take a response that is visible, at the end of its line."""
        self.commands.reads.answered(response.number)
        if self.own_commands.take(response):
            return
        if (connection := self.connections.get(response.command.connection)) is not None:
            connection.answered(place)
        self.activity.take_answer(response)

    def _take_state(self, data: Mapping[str, JsonValue]) -> None:
        """Take the state of a process that has begun, or of another session of it."""
        if self.activity.summary.take_state(data):
            self._nursery.start_soon(self.own_commands.ask_totals, self.activity.summary.take_totals)
        self._details.take_session(data)
        if not self._is_known:
            self._nursery.start_soon(self.own_commands.wait_started)
        self._is_known = True
        if self._input.takes_commands and self._details.is_unsaved:  # else that is awaited
            self._nursery.start_soon(self._details.flush)
        self._input.changed.unpark_all()
        self._supervisor.answered()


_FIRST_SIGNAL_STATUS: Final = 126
"""Higher exit codes are those of a shell, or name a signal."""
_CONTINUES_QUEUE: Final = ("--on-restore", "continue")
