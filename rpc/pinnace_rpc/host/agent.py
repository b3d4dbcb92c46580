"""One agent of a host: its process, its journal, and the connections that are attached to it.

Reads what the process writes, line by line, into the journal, from which every connection takes its records: so no
connection can delay the agent, and each sees them in one order. Implements the observer of the process. Must not know
sockets and frames.
"""

import errno
import json
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypedDict, Unpack

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.agents.lifecycle import Life
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentObserver, EpochReason, HostedProcess, OnCrash
from pinnace_rpc.host.agents.supervisor import Supervisor, outcome
from pinnace_rpc.host.followers import Followers
from pinnace_rpc.host.journal import RETAINED_BYTES, Journal, addressed
from pinnace_rpc.host.locations import FILE_MODE, flush_names
from pinnace_rpc.host.offers import Offers, are_folders
from pinnace_rpc.host.protocol import EXIT_FAILED, EXIT_LOST, Cursor, Ended
from pinnace_rpc.host.routing import OpenCommand, RoutedCommand, RoutedResponse, Router, own_id
from pinnace_rpc.host.summary import FOLLOWED, MODEL_COMMANDS, AgentSummary
from pinnace_rpc.host.surroundings import OF_PROCESS, HostSurroundings
from pinnace_rpc.host.table import CommandTable, lasting_id
from pinnace_rpc.options.table import OPTIONS
from pinnace_spec.records.messages import ASKED_BY, DIALOG_METHODS
from pinnace_spec.wire.json_text import JsonValue

if TYPE_CHECKING:  # for annotations alone: the host loads nothing of the agent before it needs it
    from pinnace_agent.core.ports.system import System

_log = logging.getLogger("pinnace.host")

_READ_BYTES: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 1024 * 1024
"""A longer line of the agent goes to the disk while it is read."""
_REST_S: Final = 1.0
"""How long the rest of stdout is read after the exit: a child of a tool may hold it open."""
_MAX_DIALOGS: Final = 1000
_HOST: Final = (0,)
"""The connection of the host's own commands, in the place of one that there is."""
_MAX_READS: Final = 32
"""In the process at once; an agent answers them in two milliseconds."""
_MAX_READ_WAIT_S: Final = 0.1
_DETAILS_NAME: Final = "agent.json"
"""Brought to the disk before the agent takes commands: without it the next host would begin another session."""
_RUN_NAME: Final = "run.json"
"""What changes with each process and each run; it is not flushed."""
_NAMING_NAME: Final = "session.json"
"""Written by the process of the agent: the session that has replaced another one, before anything is accepted in it."""
_SHUTTING_DOWN: Final = b'"errorCode":"shutting_down"'
_NOT_SAVED: Final = b'"errorCode":"session_not_saved"'
_RUN_TEXT: Final = "the agent's process ended before it answered; whether the command took effect is unknown"


class AgentDetails(NamedTuple):
    """What is kept about an agent while it has no process."""

    cwd: str
    profile: str
    session_id: str | None = None
    session_file: str | None = None
    is_named: bool = True
    has_process: bool = False
    """Whether records of the last process may be missing: it has not ended in order, as far as a host has seen."""
    has_run: bool = False
    """Whether it was in a run, as far as its records have shown, and no later epoch has reported that."""
    ended_epoch: int | None = None
    """The epoch whose process has ended in order, with its records on the disk; None: none, or of a former release."""


class _OfRun(TypedDict):
    has_process: bool
    has_run: bool
    ended_epoch: int | None


class _Changed(TypedDict, total=False):
    session_id: str | None
    session_file: str | None
    has_process: bool
    has_run: bool
    ended_epoch: int | None


class Dialog(NamedTuple):
    """An open question of an extension to the user."""

    line: bytes
    place: int
    call: str | None
    """The call of a tool that it is about."""
    child: str
    """The id of the sub-agent that has asked it; empty: the agent has."""


class NamedClient:
    """A run of a client program that has given its name, and with it keeps its commands across connections."""

    def __init__(self, table: CommandTable, connection: int) -> None:
        """Begin with a connection."""
        self.table = table
        self.connection = connection
        """The newest one; it may have ended."""
        self.waiting: dict[str, int] = {}
        """The connections that get the responses to commands that are kept and not answered, by the ids as JSON: each
        time the one that has sent the command last."""


class _Kept(NamedTuple):
    """An open command that is in the table of its client."""

    client: NamedClient
    identity: JsonValue


class AgentConnection(Protocol):
    """A connection as its agent sees it."""

    number: int
    has_cursors: bool
    client: NamedClient | None
    last_read: float
    """When the client last took something, in seconds since the epoch."""

    def finish(self, place: int, ended: Ended) -> None:
        """Write everything up to a place of the journal, and then the end. The first call counts."""
        ...

    def answered(self, place: int) -> None:
        """Take notice of a response to this connection that ends at a place."""
        ...


class ReadSlots:
    """Which reads the process has at once, those of all clients together.

    A client that sends thousands in one go would have all others wait behind them in the pipe. With slots it has one
    more command that waits, as each of the others, and they take turns.
    """

    def __init__(self) -> None:
        """All are free."""
        self._free = trio.Semaphore(_MAX_READS)
        self._held: set[int] = set()

    async def take(self) -> bool:
        """Wait for a slot; return whether there was one in time.

        A read may be deferred by the agent until a client has sent something, which may be behind this command.
        """
        try:
            self._free.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(_MAX_READ_WAIT_S):
                await self._free.acquire()
                return True
            return False
        return True

    def hold(self, number: int | None) -> None:
        """Keep the slot until the command of this number is answered."""
        if number is None:
            self.give_back()
        else:
            self._held.add(number)

    def answered(self, number: int | None) -> None:
        """Free the slot of a command."""
        if number in self._held:
            self._held.remove(number)
            self.give_back()

    def give_back(self) -> None:
        """Free a slot that is not held."""
        self._free.release()

    def give_up(self) -> None:
        """Free all slots that are held: the process has ended."""
        while self._held:
            self._held.pop()
            self.give_back()


class HostedAgent:
    """One agent, with or without a process."""

    def __init__(  # noqa: PLR0913, PLR0915 - a line for each part
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
        self._surroundings = surroundings
        self.followers = Followers(nursery, surroundings.elapsed_s)
        self.details = details or _read_details(folder)
        self.journal = Journal(
            folder,
            retained_bytes=journal_bytes,
            published=self.followers.publish,
            shows_resolved=self.details.profile not in _WITHOUT_RESOLVED,
            surroundings=surroundings,
        )
        self.flags: tuple[str, ...] = ()
        """Those of the attach that started it, as they were given: an attach that comes again brings them, too."""
        self.connections: dict[int, AgentConnection] = {}
        self.dialogs: dict[str, Dialog] = {}
        self.summary = AgentSummary()
        self.is_running_turns = False
        self.last_activity = surroundings.wall_time_s()
        self.abandoned_at: float | None = None
        """Since when an agent without a name has had no client, on trio's clock."""
        self._nursery = nursery
        self._on_crash = on_crash
        self._router = Router()
        self._clients: dict[str, NamedClient] = {}
        self._kept: dict[int, _Kept] = {}
        """The open commands that are in tables, by the host's number."""
        self._left: list[tuple[OpenCommand, _Kept | None]] = []
        """Commands that a process has not answered, which has ended."""
        self._asked_again: set[int] = set()
        """Those of them that the current process has been asked, by the host's number."""
        self._takes_commands = False
        self._process: HostedProcess | None = None
        self._process_changed = trio.lowlevel.ParkingLot()
        self._input = trio.Lock()
        self._reads = ReadSlots()
        self._work = trio.CancelScope()
        self._has_read_all = trio.Event()
        self._is_known = False
        """Whether the session of the process is."""
        self._state_number: int | None = None
        self._probe: int | None = None
        """The host's own command that the process answers when it has started."""
        self._has_started = False
        """Whether it has answered that."""
        self._asked: dict[int, Callable[[Mapping[str, JsonValue]], None]] = {}
        """What takes the responses to the host's own commands, by the host's number."""
        self._offers = Offers()
        self._held: list[bytes] | None = None
        """What a process that is not the first one has written before the host knows its state."""
        self._long: RoutedResponse | None = None
        """The response that a line is which is too long for the memory."""
        self._long_to: Collection[int] | None = None
        """The connections that the event gets which such a line is; None: all."""
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
        is_new = details is not None or not os.path.exists(os.path.join(folder, _DETAILS_NAME))
        self._unsaved = {_DETAILS_NAME, _RUN_NAME} if is_new else set[str]()
        """The files of the details that are missing or older, and not on their way to the disk."""
        self._is_kept = not is_new
        """Whether there are details on the disk."""
        self._unsaved_text = ""
        """Why there are none, or older ones."""
        self._flushing = trio.Lock()
        self._supervisor = supervise(self)

    # Life.

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
        return None if self._process is None else self._process.pid

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
        for client in self._clients.values():
            if self._is_gone(client):
                client.table.close()

    async def wait_over(self) -> None:
        """Wait until there is no process and none will be started."""
        await self._supervisor.wait_over()

    async def wait_while_stopping(self) -> None:
        """Wait while the process ends, which a client must not meet any more."""
        while self.state == "stopping":
            await self._process_changed.park()

    async def wait_known(self) -> None:
        """Wait until the session of the process is known, or there is no process."""
        while not self.is_known:
            await self._process_changed.park()

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
        return not self._has_started

    def prepare(self, start: AgentLaunch, reason: EpochReason) -> AgentLaunch:
        """Return what the next process is started with: it continues the session.

        What is queued is continued by an option of the process, so that it is decided before the first command is
        read: an `abort` of the host would come between those of clients, and end what runs.
        """
        self._stopped_with = None
        self._status = None
        self._is_known = False
        # The process that has ended may have replaced its session since it was asked.
        named = _with_named(self.folder, self.details)
        self._keep_details(session_id=named.session_id, session_file=named.session_file)
        arguments = (*resumed(start.arguments, self.details), "--hosted", os.path.join(self.folder, _NAMING_NAME))
        if reason == "crash" and self._on_crash == "continue":
            arguments = (*_CONTINUES_QUEUE, *arguments)
        return start._replace(arguments=arguments)

    def process_began(self, process: HostedProcess, reason: EpochReason) -> None:
        """Take over the pipes of a new process."""
        self._process = process
        self._probe, self._has_started = None, False
        self._reason = reason
        self._is_known = False
        self._work = trio.CancelScope()
        self._has_read_all = trio.Event()
        self._keep_details(has_process=True, has_run=self._was_interrupted)
        self._nursery.start_soon(self._attend, process, name=f"agent {self.name}")
        self._process_changed.unpark_all()

    async def process_ended(self, status: int | None, stderr: str) -> None:
        """Read the rest of its output, for at most a second, and close its pipes."""
        with trio.move_on_after(_REST_S):
            await self._has_read_all.wait()
        self._work.cancel()
        await self._has_read_all.wait()
        process, self._process = self._process, None
        self._takes_commands = False
        self._status, self._stderr = status, stderr.strip()
        self._release_held()
        # One that was killed instead has not written everything.
        self._is_complete = self.state == "stopping" and outcome(status, is_new=False) == "ended"
        if self.state != "stopping":
            _log.warning("agent %s: its process ended with %s: %s", self.name, status, self._stderr)
        self._was_interrupted, self.is_running_turns = self.is_running_turns, False
        # What the next epoch has to report: this host may not live to begin it.
        is_kept = self._is_complete and await trio.to_thread.run_sync(self.journal.flush)
        self._keep_details(
            has_process=not is_kept,
            has_run=self._was_interrupted,
            ended_epoch=self.journal.epoch if is_kept else self.details.ended_epoch,
        )
        self.dialogs.clear()
        self._offers.forget()
        self.summary.forget_children()
        self._asked.clear()
        self._process_changed.unpark_all()
        self._reads.give_up()
        for number, command in self._router.give_up():
            self._left.append((command, None if number is None else self._kept.pop(number, None)))
        if process is not None:
            await trio.aclose_forcefully(process.stdin)
            await trio.aclose_forcefully(process.stdout)

    def will_be_replaced(self) -> None:
        """Keep what the next process can be asked again, and send clients away that do not know what an epoch is."""
        left, self._left = self._left, []
        for command, kept in left:
            if command.line is None:
                self._give_up(command, kept, is_last=False)
            elif kept is not None or command.connection in self.connections:  # else no client waits for the answer
                self._left.append((command, kept))
        for connection in tuple(self.connections.values()):
            if not connection.has_cursors:
                ended = Ended(EXIT_LOST, "the agent's process was replaced; attach again")
                connection.finish(self.journal.end, ended)

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
        return not (self._router.open or self._left or self.is_running_turns or self.needs_input)

    async def wait_started(self) -> None:
        """Wait until the process has loaded its extensions, without which it may not start, or there is no process.

        It answers reads before. The host sends it a command that waits for them and has no effect: a switch to a file
        that does not exist, as soon as it has answered at all.
        """
        while not self._takes_commands and not self._is_over:
            await self._process_changed.park()
        number = self._probe
        if number is None and self._takes_commands:
            number = self._probe = self._router.reserve(OpenCommand(0, "switch_session", None))
            command = {"type": "switch_session", "sessionPath": os.path.join(self.folder, "none"), "id": own_id(number)}
            await self._send(json.dumps(command).encode("ascii") + b"\n")
        while number is not None and number == self._probe and not (self._has_started or self._is_over):
            await self._process_changed.park()

    async def may_sleep(self) -> bool:
        """Ask whether an extension has a background task. An agent that does not answer does not sleep."""
        answered = trio.Event()
        state: dict[str, JsonValue] = {}

        def take(data: Mapping[str, JsonValue]) -> None:
            state.update(data)
            answered.set()

        await self._send_own("get_state", self._reserve("get_state", take))
        await answered.wait()  # cancelled when the process ends
        return not state.get("extensionsAtWork")

    def _end_connections(self, ended: Ended) -> None:
        left, self._left = self._left, []
        for command, kept in left:
            self._give_up(command, kept, is_last=True)
        for connection in tuple(self.connections.values()):
            connection.finish(self.journal.end, self._stopped_with or ended)
        self._process_changed.unpark_all()

    def _give_up(self, command: OpenCommand, kept: "_Kept | None", *, is_last: bool) -> None:
        """Answer a command whose process has ended."""
        if is_last:
            answer = routing.failure(command, _RUN_TEXT, "agent_restarted", outcome="unknown")
        else:
            answer = routing.failure(command, _RUN_TEXT, "outcome_unknown")
        if kept is not None:
            if self._is_decided_by_session(command.name):
                kept.client.table.interrupt(kept.identity)  # a repetition is decided by the session
            else:
                kept.client.table.answer(kept.identity, answer)
        self._append_response(command.connection, answer)

    async def _attend(self, process: HostedProcess) -> None:
        """Serve a process until everything that it has written is read, or for as long as that matters."""
        is_first = self.journal.epoch == 0
        has_read_all = self._has_read_all
        try:
            with self._work:
                if not await self.journal.begin_epoch():
                    lost = Ended(EXIT_LOST, "the disk does not take the journal of the agent; attach again")
                    for connection in [each for each in self.connections.values() if each.has_cursors]:
                        connection.finish(self.journal.end, lost)
                self._held = None if is_first else []
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._begin_taking)
                    await self._read(process)
                    nursery.cancel_scope.cancel()
        finally:
            has_read_all.set()

    async def _begin_taking(self) -> None:
        """Ask a new process what the former one has not answered, then let it take commands.

        It ends instead if the next host would not know the session (R-HST-10).
        """
        self._asked_again.clear()
        await self._ask_state()
        if not self._is_kept:  # of a new agent; later ones have their session named before it is used
            await self.wait_known()
            if not await self._flush_details() and self.is_persistent and self.state == "running":
                self.stop(Ended(EXIT_FAILED, self._unsaved_text))
                return
        while self._left:  # what is not reached before this process ends, too, is left for the next one
            command, kept = self._left.pop(0)
            assert command.line is not None
            number = self._router.reserve(command)
            self._asked_again.add(number)
            if kept is not None:
                self._kept[number] = kept
            before, members = self._offered(command.connection, routing.read_command(command.line))
            await self._send(before + routing.with_members(command.line, {**members, "id": routing.own_id(number)}))
        self._takes_commands = True
        self._process_changed.unpark_all()

    # Commands.

    async def send(self, attached: AgentConnection, command: RoutedCommand, line: bytes) -> None:
        """Give a command to the process; wait while there is none yet, or the pipe is full."""
        if command.name == "extension_ui_response":
            await self._answer_dialog(command, line)
            return
        if command.name == "client_response":
            if attached.number == self._offers.serves_files:  # the others have offered nothing
                await self._send(line + b"\n")
            return
        members: dict[str, object] = {}
        if command.name == "hello" and (profile := command.fields.get("protocol")) is not None:
            if profile != self.details.profile:
                text = f"the protocol of this agent is {self.details.profile}, fixed at its start"
                self.refuse(attached.number, command, text, "profile_fixed")
                return
            # It is no longer the process's first command.
            members["protocol"] = None
        client = attached.client if command.is_object and command.identity is not None else None
        # A key is not pressed again, so it need not be kept.
        if client is None or command.name in routing.SAFE or command.name == "ui_surface_input":
            if command.name == "clear_queue" and command.fields.get("by") is None:
                # Not the host's id, which will be used again.
                members["by"] = lasting_id(self._surroundings.system.urandom(16).hex(), None)
            await self._give(attached.number, None, command, line, members)
            return
        # What is kept as begun is executed, whatever becomes of the connection: a repetition counts on that.
        with trio.CancelScope(shield=True):  # until the process takes commands, or there is none
            if await self._keep(attached.number, client, command):
                name = "messageId" if command.name in routing.MESSAGES else "by"
                if command.name in routing.REPEATABLE and command.fields.get(name) is None:
                    members[name] = lasting_id(client.table.client, command.identity)
                await self._give(attached.number, client, command, line, members)

    async def _give(
        self,
        connection: int,
        client: NamedClient | None,
        command: RoutedCommand,
        line: bytes,
        members: Mapping[str, object],
    ) -> None:
        """Give a command to the process as soon as that takes commands; with a client, it is in the client's table."""
        is_taken = command.name != "hello" or await are_folders(command.fields.get("directories"))
        has_slot = command.name in routing.SAFE and command.name != routing.WAIT and await self._reads.take()
        try:
            while not self._takes_commands and not self._is_over:
                await self._process_changed.park()
        except trio.Cancelled:
            if has_slot:
                self._reads.give_back()
            raise
        if client is not None:  # another connection may have repeated it meanwhile
            connection = client.waiting.pop(json.dumps(command.identity), connection)
        if not self._takes_commands:
            if has_slot:
                self._reads.give_back()
            answer = routing.failure(_open(connection, command), "the agent has ended", "shutting_down")
            if client is not None:
                client.table.answer(command.identity, answer)
            self._append_response(connection, answer)
            return
        is_repeatable = command.name in routing.SAFE or (
            client is not None and self._is_decided_by_session(command.name)
        )
        before, changed = self._offered(connection, command, is_taken=is_taken)
        number, sent = self._router.add(connection, command, line, {**members, **changed}, is_repeatable=is_repeatable)
        if client is not None and number is not None:
            self._kept[number] = _Kept(client, command.identity)
        if has_slot:
            self._reads.hold(number)
        await self._send(before + sent)

    def _offered(
        self, connection: int, command: RoutedCommand, *, is_taken: bool = True
    ) -> tuple[bytes, Mapping[str, object]]:
        """Take what a command that is about to be sent offers.

        Returns what is sent before it, and members that replace its own.
        """
        is_hello = command.name == "hello" and command.is_object
        if not (is_hello and is_taken) or connection not in self.connections:
            return b"", {}
        before, changed = self._offers.take(connection, command.fields)
        return self._own_hello(before) if before else b"", changed

    def _own_hello(self, fields: Mapping[str, object]) -> bytes:
        """Return the line of a `hello` of the host's own."""
        number = self._reserve("hello", lambda _data: None)
        return json.dumps({"type": "hello", "id": own_id(number), **fields}).encode("ascii") + b"\n"

    async def _keep(self, connection: int, client: NamedClient, command: RoutedCommand) -> bool:
        """Note a command of a named client before it is executed; return whether it is to be executed."""
        table, identity = client.table, command.identity
        is_decided = self._is_decided_by_session(command.name)
        is_lasting = command.name in routing.REPEATABLE or command.name in routing.SAFE
        match table.look_up(identity, command.fields, is_lasting=is_lasting):
            case "answered":
                try:
                    answer = table.response(identity)
                except OSError as error:
                    text = f"the response can't be read any more: {error.strerror}"
                    answer = routing.failure(_open(connection, command), text, "outcome_unknown")
                self._append_response(connection, answer)
                return False
            case "in progress":
                self._await_response(client, identity, connection)
                return False
            case "reused":
                self.refuse(connection, command, "another command of this client had this id", "id_reused")
                return False
            case "begun":
                if is_decided:
                    table.reopen(identity)
                    client.waiting[json.dumps(identity)] = connection
                    return True
                answer = routing.failure(_open(connection, command), _RUN_TEXT, "outcome_unknown")
                table.answer(identity, answer)
                self._append_response(connection, answer)
                return False
            case "new":
                client.waiting[json.dumps(identity)] = connection  # first: a repetition may come while this waits
                try:
                    await table.begin(identity, command.fields, is_synced=not is_decided)
                except OSError as error:
                    connection = client.waiting.pop(json.dumps(identity), connection)
                    if is_decided:
                        return True  # the agent recognises it
                    text = f"the command can't be kept, and so is not executed: {error.strerror}"
                    self.refuse(connection, command, text, "io_error")
                    return False
                return True

    def _await_response(self, client: NamedClient, identity: JsonValue, connection: int) -> None:
        """Let a connection get the response to a command in progress, which it has repeated: it, and no other one."""
        kept = _Kept(client, identity)
        for number, each in self._kept.items():
            if each == kept:
                if (long := self._long) is not None and long.number == number:  # it is being read
                    self._long = long._replace(command=long.command._replace(connection=connection))
                else:
                    self._router.give_to(number, connection)
                return
        for place, (command, each_left) in enumerate(self._left):
            if each_left == kept:
                self._left[place] = command._replace(connection=connection), each_left
                return
        client.waiting[json.dumps(identity)] = connection  # it waits for the agent to take commands

    def _is_decided_by_session(self, name: str) -> bool:
        """Return whether the agent recognises a command of this name that is sent to its next process again."""
        return name in routing.REPEATABLE and self.details.profile not in _WITHOUT_NAMES

    def join(self, name: str, connection: int) -> NamedClient:
        """Let a connection be that of a named client; a former one ends. Blocking.

        A command of the former one that is not answered yet is answered to a connection that repeats it: each gets one
        response to each command that it has sent, and no other.

        Raises:
            LocationError, OSError: The table of the client's commands can't be used.
        """
        for each in [each for each, client in self._clients.items() if self._is_gone(client)]:
            self._clients.pop(each).table.close()
        around, client = self._surroundings, self._clients.get(name)
        if client is None:
            client = self._clients[name] = NamedClient(
                CommandTable(self.folder, name, around.system, around.boot()), connection
            )
            return client
        client.table.is_known = True
        former, client.connection = client.connection, connection
        if (attached := self.connections.get(former)) is not None:
            attached.finish(self.journal.end, Ended(EXIT_LOST, "another connection of this client has replaced this"))
        return client

    def has_connected(self, name: str) -> bool:
        """Return whether a named client has a connection, which another one of it would replace."""
        client = self._clients.get(name)
        return client is not None and client.connection in self.connections

    def _is_gone(self, client: NamedClient) -> bool:
        return client.connection not in self.connections and not client.table.has_open()

    def refuse(self, connection: int, command: RoutedCommand, text: str, code: str) -> None:
        """Answer a command without the agent."""
        self._append_response(connection, routing.failure(_open(connection, command), text, code))

    def open_commands(self, connection: int) -> int:
        """Return how many commands of a connection are not answered."""
        return self._router.count(connection)

    async def _send(self, line: bytes) -> None:
        """Write a line to the process, all of it: the connection that it came from may end meanwhile.

        It ends with the process at the latest. Does not wait where the pipe takes the line: two turns of the event loop
        cost more than the write.
        """
        if self._process is not None and not self._input.locked():
            line = line[self._process.send_now(line) :]
        if line:
            with trio.CancelScope(shield=True):
                await self._write(line)

    async def _write(self, line: bytes) -> None:
        async with self._input:
            if self._process is not None:
                # Of a process that has ended, all open commands are answered.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._process.stdin.send_all(line)

    async def _answer_dialog(self, command: RoutedCommand, line: bytes) -> None:
        """Forward the first answer; later ones are ignored."""
        identity = command.fields.get("id")
        if isinstance(identity, str) and self.dialogs.pop(identity, None) is not None:
            await self._send(line + b"\n")
            fields = {"type": "extension_ui_resolved", "id": identity, "reason": "answered"}
            record = json.dumps(fields, separators=(",", ":"))
            self.journal.append(self.journal.next_event() + record.encode("ascii")[1:] + b"\n", 1)

    def left(self, connection: int) -> None:
        """Take notice that a connection has ended: with it ends what its client has offered."""
        self._offers.leave(connection)
        self._nursery.start_soon(self._withdraw)

    async def _withdraw(self) -> None:
        """Withdraw what no client offers any more; one may have offered it meanwhile."""
        if self._process is not None and (fields := self._offers.withdrawal()):
            await self._send(self._own_hello(fields))

    async def _ask_state(self) -> None:
        self._state_number = self._reserve("get_state", self._take_state)
        await self._send_own("get_state", self._state_number)

    async def _ask_totals(self) -> None:
        number = self._reserve("get_session_stats", self.summary.take_totals)
        await self._send_own("get_session_stats", number)

    def _reserve(self, name: str, take: Callable[[Mapping[str, JsonValue]], None]) -> int:
        """Return a number for a read of the host's own; `take` gets the data of its response."""
        number = self._router.reserve(OpenCommand(0, name, None))
        self._asked[number] = lambda record: take(routing.member(record, "data"))
        return number

    async def _send_own(self, name: str, number: int) -> None:
        await self._send(json.dumps({"type": name, "id": routing.own_id(number)}).encode("ascii") + b"\n")

    # Records.

    async def _read(self, process: HostedProcess) -> None:
        """Read what the process writes, until the end."""
        rest = bytearray()
        is_long = False
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := bytes(await process.stdout.receive_some(_READ_BYTES)):
                end = data.rfind(b"\n") + 1
                if is_long:
                    first = data.find(b"\n") + 1
                    self.journal.spool(data[: first or len(data)])
                    if not first:
                        continue
                    self._end_long()
                    is_long = False
                    self._take_lines(data[first:end])
                    rest += data[end:]
                    continue
                if end:
                    self._take_lines(bytes(rest) + data[:end] if rest else data[:end])
                    rest.clear()
                    data = data[end:]
                rest += data
                if len(rest) > _MAX_LINE_BYTES:
                    self._begin_long(bytes(rest))
                    rest.clear()
                    is_long = True
        if is_long:
            self.journal.drop_spool()

    def _take_lines(self, data: bytes) -> None:
        """Take whole lines."""
        if (held := self._held) is not None:
            self._hold(held, data)
            return
        pieces: list[bytes] = []
        events = 0
        size = 0
        to: set[int] = set()
        responses: list[tuple[RoutedResponse, int]] = []
        for line in data.splitlines(keepends=True) if b"\r" not in data else _lines(data):
            response = self._router.take(line)
            if response is not None and response.number in self._asked_again:
                response = self._decided(response)
            if response is not None and response.number in self._kept:
                kept = self._kept.pop(response.number)
                kept.client.table.answer(kept.identity, response.line)
            piece, addressees = b"", self._offers.audience(line) if response is None else None
            if response is not None:
                if response.command.connection in self.connections:
                    addressees, line = (response.command.connection,), response.line
            elif addressees is None and (piece := self._event(line, self.journal.end + size)):
                events += 1
            if addressees is not None and response is None:
                self.summary.follow_shown(line)
            if addressees:
                to.update(addressees)
                piece = addressed(addressees, len(line)) + line
            pieces.append(piece)
            size += len(piece)
            if response is not None:
                responses.append((response, self.journal.end + size))
        if self.details.has_run and not self.is_running_turns:
            self._keep_details(has_run=False)  # before any client sees the end of the run
        if size:  # more than responses to the host
            self.last_activity = self._surroundings.wall_time_s()
            self.journal.append(b"".join(pieces), events, None if events else to)
        for response, place in responses:
            self._answered(response, place)

    def _decided(self, response: RoutedResponse) -> RoutedResponse:
        """Return what the client is answered to a command that a former process was asked, too.

        A message that this process can't bring to the disk may be in the session: the former one may have taken it.
        """
        assert response.number is not None
        self._asked_again.discard(response.number)
        if _NOT_SAVED not in response.line:
            return response
        if (kept := self._kept.pop(response.number, None)) is not None:
            kept.client.table.interrupt(kept.identity)  # a repetition is decided by the session
        return response._replace(line=routing.failure(response.command, _RUN_TEXT, "outcome_unknown"))

    def _event(self, line: bytes, place: int) -> bytes:
        kind = routing.record_type(line)
        if kind == b"extension_ui_resolved" and not self._take_back(line):
            return b""
        if kind in _NOTED:
            self._note(kind, line, place)
        if kind == b"bash_execution_update":
            line = self._router.event(line)
        return self.journal.next_event() + line[1:]

    def _note(self, kind: bytes, line: bytes, place: int) -> None:
        """Follow what the host has to know of an agent."""
        if kind in FOLLOWED:
            self.summary.follow(kind, line)
        elif kind == b"agent_start":
            self.is_running_turns = True
            self._keep_details(has_run=True)  # before any client sees it
        elif kind in (b"agent_settled", b"agent_end"):
            self.is_running_turns = kind == b"agent_end" and self.details.profile not in _WITHOUT_SETTLED
        elif kind == b"session_changed":
            fields = routing.parse_record(line)
            self._keep_session(fields)  # before any client sees it, or attaches behind it
            if fields.get("by") == "extension":
                self._nursery.start_soon(self._ask_state)  # of a client's command the answer has it asked
        elif kind == b"extension_ui_request":
            fields = routing.parse_record(line)
            identity = fields.get("id")
            if fields.get("method") in DIALOG_METHODS and isinstance(identity, str):
                while len(self.dialogs) >= _MAX_DIALOGS:
                    del self.dialogs[next(iter(self.dialogs))]
                call = fields.get("toolCallId")
                child = str(fields.get("title")).rpartition(ASKED_BY)
                self.dialogs[identity] = Dialog(
                    line, place, call if isinstance(call, str) else None, child[2] if child[1] else ""
                )

    def _take_back(self, line: bytes) -> bool:
        """Follow the end of a dialog; return whether it was open: if not, clients have the answer that has ended it."""
        identity = routing.parse_record(line).get("id")
        return isinstance(identity, str) and self.dialogs.pop(identity, None) is not None

    @property
    def needs_input(self) -> bool:
        """Whether a dialog waits for an answer."""
        return bool(self.dialogs)

    @property
    def children(self) -> Sequence[Mapping[str, JsonValue]]:
        """The sub-agents that work, and whether a question of each waits for an answer."""
        asking = {dialog.child for dialog in self.dialogs.values()}
        return [{**each, "needsInput": each["agentId"] in asking} for each in self.summary.children]

    async def cancel_child(self, agent_id: str) -> str | None:
        """End a sub-agent that works; return why it was not ended. Ends with the process at the latest."""
        answers: list[Mapping[str, JsonValue]] = []

        def take(record: Mapping[str, JsonValue]) -> None:
            answers.append(record)
            self._process_changed.unpark_all()

        number = self._router.reserve(OpenCommand(0, "cancel_agent", None))
        self._asked[number] = take
        command = {"type": "cancel_agent", "agentId": agent_id, "id": own_id(number)}
        await self._send(json.dumps(command).encode("ascii") + b"\n")
        while not answers and number in self._asked:
            await self._process_changed.park()
        if not answers:
            return "the process of its agent has ended"
        return None if answers[0].get("success") is True else str(answers[0].get("error"))

    def _follow_started(self, data: Mapping[str, JsonValue]) -> None:
        """Follow a sub-agent that a client has started: the host waits for it, as a client does."""
        row = routing.member(data, "agent")
        identity = row.get("agentId")
        if not isinstance(identity, str) or row.get("state") != "running" or not self.summary.take_started(row):
            return

        def ended(answer: Mapping[str, JsonValue]) -> None:
            self.summary.started_ended(identity, answer)
            if not self.summary.has_started and (fields := self._offers.follow(is_wanted=False)):
                self._nursery.start_soon(self._send, self._own_hello(fields))

        asked = self._offers.follow(is_wanted=True)
        hello = self._own_hello(asked) if asked else b""
        command = {"type": routing.WAIT, "agentId": identity, "id": own_id(self._reserve(routing.WAIT, ended))}
        self._nursery.start_soon(self._send, hello + json.dumps(command).encode("ascii") + b"\n")

    def open_dialogs(self, place: int) -> list[bytes]:
        """Return the dialogs that were asked before a place of the journal and wait for an answer."""
        return [dialog.line for dialog in self.dialogs.values() if dialog.place < place]

    def _answered(self, response: RoutedResponse, place: int) -> None:
        self._reads.answered(response.number)
        if response.number is not None and response.number == self._probe:
            # One that ends refuses it (R-EOF-03), and may have ended since it can't start: its exit status shows it.
            self._has_started = _SHUTTING_DOWN not in response.line
            self._process_changed.unpark_all()
            return
        take = None if response.number is None else self._asked.pop(response.number, None)
        if take is not None:
            take(routing.parse_record(response.line))
            return
        if (connection := self.connections.get(response.command.connection)) is not None:
            connection.answered(place)
        name = response.command.name
        if name in MODEL_COMMANDS:
            self.summary.take_model_answer(response.line)
        elif name == "start_agent":
            self._follow_started(routing.member(routing.parse_record(response.line), "data"))
        if name in routing.REPLACEMENTS:
            self._nursery.start_soon(self._ask_state)

    def _append_response(self, connection: int, line: bytes) -> None:
        attached = self.connections.get(connection)
        if attached is not None:
            self.journal.append(addressed((connection,), len(line)) + line, to=(connection,))
            attached.answered(self.journal.end)

    # The state of a process that has begun.

    def _take_state(self, data: Mapping[str, JsonValue]) -> None:
        if self.summary.take_state(data):
            self._nursery.start_soon(self._ask_totals)
        self._keep_session(data)
        if not self._is_known:
            self._nursery.start_soon(self.wait_started)
        self._is_known = True
        if self._takes_commands and _DETAILS_NAME in self._unsaved:  # else that is awaited
            self._nursery.start_soon(self._flush_details)
        self._process_changed.unpark_all()
        self._supervisor.answered()

    def _keep_session(self, named: Mapping[str, JsonValue]) -> None:
        identity, file = named.get("sessionId"), named.get("sessionFile")
        self._keep_details(
            session_id=identity if isinstance(identity, str) else None,
            session_file=file if isinstance(file, str) and file else None,
        )

    def _hold(self, held: list[bytes], data: bytes) -> None:
        """Keep the first lines of a new process until its state is known, which the first record of the epoch holds."""
        state: Mapping[str, JsonValue] | None = None
        for line in _lines(data):
            held.append(line)
            if line.startswith(b'{"id":"%b",' % routing.own_id(self._state_number or 0).encode("ascii")):
                state = routing.member(routing.parse_record(line), "data")
        if state is not None or sum(map(len, held)) > _MAX_LINE_BYTES:
            self._release_held(state)

    def _release_held(self, state: Mapping[str, JsonValue] | None = None) -> None:
        if self._held is None:
            return
        held, self._held = self._held, None
        count = (state or {}).get("pendingMessageCount")
        # Where records are missing, the session shows a run whose beginning no host has read.
        was_interrupted = self._was_interrupted or (not self._is_complete and "interrupted" in (state or {}))
        record = {
            "type": "agent_restarted",
            "epoch": self.journal.epoch,
            "reason": self._reason,
            "complete": self._is_complete,
            "interrupted": was_interrupted,
            "pendingMessageCount": count if isinstance(count, int) else 0,
        }
        self.journal.append(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n")
        if held:
            self._take_lines(b"".join(held))

    # Lines that are too long for the memory.

    def _begin_long(self, head: bytes) -> None:
        self.last_activity = self._surroundings.wall_time_s()
        self._release_held()
        self._long = self._router.take(head)
        self._long_to = self._offers.audience(head) if self._long is None else (self._long.command.connection,)
        if self._long_to is None:
            self.journal.begin_spool(self.journal.next_event() + head[1:], 1)
        else:
            line = head if self._long is None else self._long.line
            self.journal.begin_spool(addressed(self._long_to or _HOST) + line, 0)

    def _end_long(self) -> None:
        response, self._long = self._long, None
        to, self._long_to = self._long_to, None
        length = self.journal.spooled_bytes
        if length is None:
            self._report_lost(response, to)
        elif to is None:
            self.journal.end_spool()
        else:
            if response is not None:
                to = (response.command.connection,)  # another one may have repeated the command
                if response.number in self._kept:
                    kept = self._kept.pop(response.number)
                    kept.client.table.answer(kept.identity, routing.without_data(response))
            to = to or _HOST
            self.journal.end_spool(addressed(to, length - len(addressed(to))), to)
            if response is not None:
                self._answered(response, self.journal.end)

    def _report_lost(self, response: RoutedResponse | None, to: Collection[int] | None) -> None:
        """Report a line that neither the disk nor the memory takes; an event has no number unless it is for all."""
        if response is not None:
            line = routing.failure(response.command, "the response is too long for the host", "outcome_unknown")
            self._append_response(response.command.connection, line)
            return
        if to is None:
            cursor = self.journal.cursor
            self.journal.append(truncated(cursor._replace(seq=cursor.seq - 1), cursor))
        for number, connection in tuple(self.connections.items()):
            if number in to if to is not None else not connection.has_cursors:
                connection.finish(self.journal.end, Ended(EXIT_LOST, "a record is too long for the host"))

    # What is kept.

    def _keep_details(self, **changed: Unpack[_Changed]) -> None:
        """Change what is needed to list the agent, to start it when a client brings its environment, and to report it.

        Every process, new session, and beginning and end of a run changes it, but no other record. What the run has
        changed is written at once, the rest by a task that flushes it.
        """
        former, self.details = self.details, self.details._replace(**changed)
        if _RUN_NAME in self._unsaved or _of_run(former) != _of_run(self.details):
            self._unsaved.add(_RUN_NAME)
            if self._write_file(_RUN_NAME, _of_run(self.details), is_flushed=False) is None:
                self._unsaved.discard(_RUN_NAME)
        if former._replace(**_of_run(self.details)) != self.details or _DETAILS_NAME in self._unsaved:
            self._unsaved.add(_DETAILS_NAME)
            if self.journal.epoch and self._is_known:
                self._nursery.start_soon(self._flush_details)

    async def _flush_details(self) -> bool:
        """Bring to the disk what is known of the agent, if it has changed; return whether it is there.

        A disk that fails is tried again later.
        """
        async with self._flushing:
            while _DETAILS_NAME in self._unsaved:
                self._unsaved.discard(_DETAILS_NAME)
                content = self.details._asdict()
                problem: str | None = "its process has ended"  # where this is cancelled
                try:
                    problem = await trio.to_thread.run_sync(self._write_file, _DETAILS_NAME, content)
                finally:
                    if problem is not None:
                        self._unsaved.add(_DETAILS_NAME)
                        self._unsaved_text = f"the host can't keep which session the agent has: {problem}"
                if problem is not None:
                    return False
                self._is_kept = True
        return True

    def _write_file(self, name: str, content: Mapping[str, object], *, is_flushed: bool = True) -> str | None:
        """Replace a file of the agent; return why the disk does not take it, or None. Blocking."""
        path, system = os.path.join(self.folder, name), self._surroundings.system
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            descriptor = system.open(f"{path}.new", flags, FILE_MODE)
            try:
                data = json.dumps(content).encode("ascii")
                if system.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)  # a full disk takes a part
                if is_flushed:
                    system.fsync(descriptor)
            finally:
                system.close(descriptor)
            system.rename(f"{path}.new", path)
            if is_flushed:
                flush_names(self.folder, system)
        except OSError as error:
            with suppress(OSError):
                system.unlink(f"{path}.new")
            problem = f"{path}: {error.strerror}"
            _log.warning("%s", problem)
            return problem
        return None


def truncated(begin: Cursor, end: Cursor) -> bytes:
    """Return the record that reports that the events between two cursors are gone."""
    record = {"type": "truncated", "from": str(begin), "to": str(end)}
    return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"


def resumed(arguments: Sequence[str], details: AgentDetails) -> tuple[str, ...]:
    """Return an agent's arguments for its next process, which continues the session of the former one. Blocking.

    A session without a message has no file yet: it is begun again under its id, in the same file. The lease of that
    decides between this process and one of a former host, which may still read a message that it was sent.
    """
    if details.session_file is None or details.session_id is None:
        return tuple(arguments)
    kept = [word for name, words in _named_words(arguments) if name not in _CHOOSES_SESSION for word in words]
    kept += ["--session", details.session_file]
    return tuple(kept) if os.path.exists(details.session_file) else (*kept, "--session-id", details.session_id)


def other_options(ones: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the options in which two command lines differ, each by its first name and without its value."""
    one, other = _option_values(ones), _option_values(others)
    return tuple(name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name))


def _option_values(arguments: Sequence[str]) -> dict[str, list[str]]:
    options = {name: option for option in OPTIONS for name in option.names}
    values: dict[str, list[str]] = {}
    latest = ""
    for name, words in _named_words(arguments):
        option = options.get(name)
        if option is None and not name.startswith("-"):  # perhaps the value of an extension's option
            values.setdefault(latest, []).append(words[0])
            continue
        latest = name if option is None else option.names[0]
        value = words[1] if len(words) > 1 else words[0].partition("=")[2]
        former = values.get(latest, []) if option is None or option.repeats else []
        values[latest] = [*former, value]
    return values


def _named_words(arguments: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each option, with its words."""
    takes_value = {name: option.takes_value() for option in OPTIONS for name in option.names}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        yield word.partition("=")[0], [word, rest.pop(0)] if takes_value.get(word) and rest else [word]


def _open(connection: int, command: RoutedCommand) -> OpenCommand:
    identity = json.dumps(command.identity).encode("ascii") if command.has_id and command.is_object else None
    return OpenCommand(connection, command.name, identity)


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def session_of(folder: str) -> str | None:
    """Return the id of the session of the agent that has a folder; None: it had no process, or a file is damaged."""
    return _read_details(folder).session_id


def remove_agent(folder: str, system: "System") -> None:
    """Remove what is kept about an agent that no host has open, as far as that is possible. Blocking.

    What names its session goes last: a removal that is cut by a loss of power leaves an agent that is listed, and can
    be removed again, not one of which nothing is known.
    """
    with suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: (entry.name == _DETAILS_NAME, entry.name)):
            if entry.is_dir(follow_symlinks=False):
                remove_agent(entry.path, system)
            else:
                with suppress(OSError):
                    system.unlink(entry.path)
        system.rmdir(folder)


def _of_run(details: AgentDetails) -> "_OfRun":
    return {"has_process": details.has_process, "has_run": details.has_run, "ended_epoch": details.ended_epoch}


def _read_details(folder: str) -> AgentDetails:
    try:
        value = json.loads(Path(folder, _DETAILS_NAME).read_bytes())
        details = AgentDetails(**value)
    except (OSError, ValueError, TypeError):
        details = AgentDetails(cwd="/", profile="pi")
    return _with_named(folder, _with_run(folder, details))


def _with_run(folder: str, details: AgentDetails) -> AgentDetails:
    """Return what is known of an agent with what its last process was doing; if that is lost, records may be, too."""
    try:
        match json.loads(Path(folder, _RUN_NAME).read_bytes()):
            case {"has_process": bool(has_process), "has_run": bool(has_run), **others}:
                ended = others.get("ended_epoch")
                epoch = ended if isinstance(ended, int) else None
                return details._replace(has_process=has_process, has_run=has_run, ended_epoch=epoch)
            case _:
                pass
    except FileNotFoundError:  # of a former release, or nothing has been written
        return details
    except (OSError, ValueError):
        pass
    return details._replace(has_process=True)


def _with_named(folder: str, details: AgentDetails) -> AgentDetails:
    """Return what is known of an agent with the session that its process has named."""
    try:
        value = json.loads(Path(folder, _NAMING_NAME).read_bytes())
    except (OSError, ValueError):
        return details
    match value:
        case {"sessionId": str(session_id), "sessionFile": str(file)}:
            return details._replace(session_id=session_id, session_file=file)
        case _:
            return details


_WITHOUT_SETTLED: Final = frozenset({"seed", "0.5x", "0.18"})
"""Profiles in which `agent_end` is the last record of a run."""
_WITHOUT_NAMES: Final = _WITHOUT_SETTLED
"""Profiles whose commands have neither `messageId` nor `by`, so that no process recognises a repeated one."""
_WITHOUT_RESOLVED: Final = _WITHOUT_SETTLED
"""Profiles without `extension_ui_resolved`, which only clients with cursors get."""
_FIRST_SIGNAL_STATUS: Final = 126
"""Higher exit codes are those of a shell, or name a signal."""
_CONTINUES_QUEUE: Final = ("--on-restore", "continue")
_CHOOSES_SESSION: Final = frozenset({"--continue", "-c", "--session", "--fork", "--session-id"})
_NOTED: Final = frozenset(
    {b"agent_start", b"agent_end", b"agent_settled", b"extension_ui_request", b"session_changed", *FOLLOWED}
)
