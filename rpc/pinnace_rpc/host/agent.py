"""One agent of a host: its process, its journal, and the connections that are attached to it.

Reads what the process writes, line by line, into the journal, from which every connection takes its records: so no
connection can delay the agent, and each sees them in one order. Implements the observer of the process. Must not know
sockets and frames.
"""

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.agents.lifecycle import Life
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentObserver, EpochReason, HostedProcess, OnCrash
from pinnace_rpc.host.agents.supervisor import Supervisor, outcome
from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.command_lines import resumed
from pinnace_rpc.host.details import AgentDetails, DetailsStore
from pinnace_rpc.host.dialogs import OpenDialogs
from pinnace_rpc.host.followers import Followers
from pinnace_rpc.host.journal import RETAINED_BYTES, Journal, addressed, truncated
from pinnace_rpc.host.named_clients import NamedClient, NamedClients
from pinnace_rpc.host.offers import Offers
from pinnace_rpc.host.open_commands import OpenCommands
from pinnace_rpc.host.profiles import WITHOUT_RESOLVED, WITHOUT_SETTLED
from pinnace_rpc.host.protocol import EXIT_FAILED, EXIT_LOST, Ended
from pinnace_rpc.host.read_slots import ReadSlots
from pinnace_rpc.host.routing import OpenCommand, RoutedCommand, RoutedResponse, Router, own_id
from pinnace_rpc.host.summary import FOLLOWED, MODEL_COMMANDS, AgentSummary
from pinnace_rpc.host.surroundings import OF_PROCESS, HostSurroundings
from pinnace_rpc.host.table import lasting_id
from pinnace_spec.wire.json_text import JsonValue

_log = logging.getLogger("pinnace.host")

_READ_BYTES: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 1024 * 1024
"""A longer line of the agent goes to the disk while it is read."""
_REST_S: Final = 1.0
"""How long the rest of stdout is read after the exit: a child of a tool may hold it open."""
_HOST: Final = (0,)
"""The connection of the host's own commands, in the place of one that there is."""
_SHUTTING_DOWN: Final = b'"errorCode":"shutting_down"'


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
        self._surroundings = surroundings
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
        self.dialogs = OpenDialogs(self.journal)
        self.summary = AgentSummary()
        self.is_running_turns = False
        self.last_activity = surroundings.wall_time_s()
        self.abandoned_at: float | None = None
        """Since when an agent without a name has had no client, on trio's clock."""
        self._nursery = nursery
        self._on_crash = on_crash
        self.router = Router()
        self.open_commands = OpenCommands(self.router, self.connections, self.details.profile)
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
        self.clients.close()

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
        self._details.take_named()
        arguments = (*resumed(start.arguments, self.details), "--hosted", self._details.naming_path)
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
        self._details.change(has_process=True, has_run=self._was_interrupted)
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
        self._details.change(
            has_process=not is_kept,
            has_run=self._was_interrupted,
            ended_epoch=self.journal.epoch if is_kept else self.details.ended_epoch,
        )
        self.dialogs.forget()
        self._offers.forget()
        self.summary.forget_children()
        self._asked.clear()
        self._process_changed.unpark_all()
        self._reads.give_up()
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
        return not (self.open_commands or self.is_running_turns or self.dialogs)

    async def wait_started(self) -> None:
        """Wait until the process has loaded its extensions, without which it may not start, or there is no process.

        It answers reads before. The host sends it a command that waits for them and has no effect: a switch to a file
        that does not exist, as soon as it has answered at all.
        """
        while not self._takes_commands and not self._is_over:
            await self._process_changed.park()
        number = self._probe
        if number is None and self._takes_commands:
            number = self._probe = self.router.reserve(OpenCommand(0, "switch_session", None))
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
        self.open_commands.give_up()
        self.connections.finish(self._stopped_with or ended)
        self._process_changed.unpark_all()

    async def _attend(self, process: HostedProcess) -> None:
        """Serve a process until everything that it has written is read, or for as long as that matters."""
        is_first = self.journal.epoch == 0
        has_read_all = self._has_read_all
        try:
            with self._work:
                if not await self.journal.begin_epoch():
                    lost = Ended(EXIT_LOST, "the disk does not take the journal of the agent; attach again")
                    self.connections.finish(lost, has_cursors=True)
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
        self.open_commands.process_began()
        await self._ask_state()
        if not self._details.is_kept:  # of a new agent; later ones have their session named before it is used
            await self.wait_known()
            if not await self._details.flush() and self.is_persistent and self.state == "running":
                self.stop(Ended(EXIT_FAILED, self._details.problem))
                return
        while (left := self.open_commands.ask_again()) is not None:
            number, command = left
            assert command.line is not None
            before, members = self._offered(command.connection, command.name, command.line)
            await self._send(before + routing.with_members(command.line, {**members, "id": routing.own_id(number)}))
        self._takes_commands = True
        self._process_changed.unpark_all()

    # Commands.

    async def send(self, connection: int, named: NamedClient | None, command: RoutedCommand, line: bytes) -> None:
        """Give a command of a connection to the process; wait while there is none yet, or the pipe is full.

        Args:
            connection: Where it comes from.
            named: The client, if it has given its name.
            command: As it was read.
            line: As it came, without its LF.
        """
        if command.name == "extension_ui_response":
            await self._answer_dialog(command, line)
            return
        if command.name == "client_response":
            if connection == self._offers.serves_files:  # the others have offered nothing
                await self._send(line + b"\n")
            return
        members: dict[str, object] = {}
        if command.name == "hello" and (profile := command.fields.get("protocol")) is not None:
            if profile != self.details.profile:
                text = f"the protocol of this agent is {self.details.profile}, fixed at its start"
                self.open_commands.refuse(connection, command, text, "profile_fixed")
                return
            # It is no longer the process's first command.
            members["protocol"] = None
        client = named if command.is_object and command.identity is not None else None
        # A key is not pressed again, so it need not be kept.
        if client is None or command.name in routing.SAFE or command.name == "ui_surface_input":
            if command.name == "clear_queue" and command.fields.get("by") is None:
                # Not the host's id, which will be used again.
                members["by"] = lasting_id(self._surroundings.system.urandom(16).hex(), None)
            await self._give(connection, None, command, line, members)
            return
        # What is kept as begun is executed, whatever becomes of the connection: a repetition counts on that.
        with trio.CancelScope(shield=True):  # until the process takes commands, or there is none
            if await self.open_commands.begin(connection, client, command):
                name = "messageId" if command.name in routing.MESSAGES else "by"
                if command.name in routing.REPEATABLE and command.fields.get(name) is None:
                    members[name] = lasting_id(client.table.client, command.identity)
                await self._give(connection, client, command, line, members)

    async def _give(
        self,
        connection: int,
        client: NamedClient | None,
        command: RoutedCommand,
        line: bytes,
        members: Mapping[str, object],
    ) -> None:
        """Give a command to the process as soon as that takes commands; with a client, it is in the client's table."""
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
            self.open_commands.refuse(connection, command, "the agent has ended", "shutting_down", client)
            return
        is_repeatable = command.name in routing.SAFE or (
            client is not None and self.open_commands.is_decided_by_session(command.name)
        )
        before, changed = self._offered(connection, command.name, line)
        number, sent = self.router.add(connection, command, line, {**members, **changed}, is_repeatable=is_repeatable)
        if client is not None and number is not None:
            self.open_commands.given(number, client, command.identity)
        if has_slot:
            self._reads.hold(number)
        await self._send(before + sent)

    def _offered(self, connection: int, name: str, line: bytes) -> tuple[bytes, Mapping[str, object]]:
        """Take what a command that is about to be sent offers.

        Returns what is sent before it, and members that replace its own.
        """
        if name != "hello" or connection not in self.connections:
            return b"", {}
        before, changed = self._offers.take(connection, routing.read_command(line).fields)
        return self._own_hello(before) if before else b"", changed

    def _own_hello(self, fields: Mapping[str, object]) -> bytes:
        """Return the line of a `hello` of the host's own."""
        number = self._reserve("hello", lambda _data: None)
        return json.dumps({"type": "hello", "id": own_id(number), **fields}).encode("ascii") + b"\n"

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
        if self.dialogs.close(identity):
            await self._send(line + b"\n")
            self.dialogs.report_answered(identity)

    def left(self, connection: int) -> None:
        """Take notice that a connection has ended: with it ends what its client has offered."""
        self.connections.remove(connection)
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
        number = self.router.reserve(OpenCommand(0, name, None))
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
            response = self.open_commands.take(line)
            piece, addressees = b"", self._offers.audience(line) if response is None else None
            if response is not None:
                if response.command.connection in self.connections:
                    addressees, line = (response.command.connection,), response.line
            elif addressees is None and (piece := self._event(line, self.journal.end + size)):
                events += 1
            if addressees:
                to.update(addressees)
                piece = addressed(addressees, len(line)) + line
            pieces.append(piece)
            size += len(piece)
            if response is not None:
                responses.append((response, self.journal.end + size))
        if self.details.has_run and not self.is_running_turns:
            self._details.change(has_run=False)  # before any client sees the end of the run
        if size:  # more than responses to the host
            self.last_activity = self._surroundings.wall_time_s()
            self.journal.append(b"".join(pieces), events, None if events else to)
        for response, place in responses:
            self._answered(response, place)

    def _event(self, line: bytes, place: int) -> bytes:
        kind = routing.record_type(line)
        if kind == b"extension_ui_resolved" and not self.dialogs.take_back(line):
            return b""
        if kind in _NOTED:
            self._note(kind, line, place)
        if kind == b"bash_execution_update":
            line = self.router.event(line)
        return self.journal.next_event() + line[1:]

    def _note(self, kind: bytes, line: bytes, place: int) -> None:
        """Follow what the host has to know of an agent."""
        if kind in FOLLOWED:
            self.summary.follow(kind, line)
        elif kind == b"agent_start":
            self.is_running_turns = True
            self._details.change(has_run=True)  # before any client sees it
        elif kind in (b"agent_settled", b"agent_end"):
            self.is_running_turns = kind == b"agent_end" and self.details.profile not in WITHOUT_SETTLED
        elif kind == b"session_changed":
            fields = routing.parse_record(line)
            self._details.take_session(fields)  # before any client sees it, or attaches behind it
            if fields.get("by") == "extension":
                self._nursery.start_soon(self._ask_state)  # of a client's command the answer has it asked
        elif kind == b"extension_ui_request":
            self.dialogs.note(line, place)

    @property
    def children(self) -> Sequence[Mapping[str, JsonValue]]:
        """The sub-agents that work, and whether a question of each waits for an answer."""
        asking = self.dialogs.asking
        return [{**each, "needsInput": each["agentId"] in asking} for each in self.summary.children]

    async def cancel_child(self, agent_id: str) -> str | None:
        """End a sub-agent that works; return why it was not ended. Ends with the process at the latest."""
        answers: list[Mapping[str, JsonValue]] = []

        def take(record: Mapping[str, JsonValue]) -> None:
            answers.append(record)
            self._process_changed.unpark_all()

        number = self.router.reserve(OpenCommand(0, "cancel_agent", None))
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
        number = self._reserve(routing.WAIT, lambda answer: self.summary.started_ended(identity, answer))
        command = {"type": routing.WAIT, "agentId": identity, "id": routing.own_id(number)}
        self._nursery.start_soon(self._send, json.dumps(command).encode("ascii") + b"\n")

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

    # The state of a process that has begun.

    def _take_state(self, data: Mapping[str, JsonValue]) -> None:
        if self.summary.take_state(data):
            self._nursery.start_soon(self._ask_totals)
        self._details.take_session(data)
        if not self._is_known:
            self._nursery.start_soon(self.wait_started)
        self._is_known = True
        if self._takes_commands and self._details.is_unsaved:  # else that is awaited
            self._nursery.start_soon(self._details.flush)
        self._process_changed.unpark_all()
        self._supervisor.answered()

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
        response = self.open_commands.begin_long(head)
        self._long_to = self._offers.audience(head) if response is None else (response.command.connection,)
        if self._long_to is None:
            self.journal.begin_spool(self.journal.next_event() + head[1:], 1)
        else:
            line = head if response is None else response.line
            self.journal.begin_spool(addressed(self._long_to or _HOST) + line, 0)

    def _end_long(self) -> None:
        response = self.open_commands.end_long()
        to, self._long_to = self._long_to, None
        length = self.journal.spooled_bytes
        if length is None:
            self._report_lost(response, to)
        elif to is None:
            self.journal.end_spool()
        else:
            if response is not None:
                to = (response.command.connection,)  # another one may have repeated the command
                self.open_commands.keep_without_data(response)
            to = to or _HOST
            self.journal.end_spool(addressed(to, length - len(addressed(to))), to)
            if response is not None:
                self._answered(response, self.journal.end)

    def _report_lost(self, response: RoutedResponse | None, to: Collection[int] | None) -> None:
        """Report a line that neither the disk nor the memory takes; an event has no number unless it is for all."""
        if response is not None:
            line = routing.failure(response.command, "the response is too long for the host", "outcome_unknown")
            self.connections.answer(response.command.connection, line)
            return
        if to is None:
            cursor = self.journal.cursor
            self.journal.append(truncated(cursor._replace(seq=cursor.seq - 1), cursor))
        for connection in self.connections:
            if connection.number in to if to is not None else not connection.has_cursors:
                connection.finish(self.journal.end, Ended(EXIT_LOST, "a record is too long for the host"))


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


_FIRST_SIGNAL_STATUS: Final = 126
"""Higher exit codes are those of a shell, or name a signal."""
_CONTINUES_QUEUE: Final = ("--on-restore", "continue")
_NOTED: Final = frozenset(
    {b"agent_start", b"agent_end", b"agent_settled", b"extension_ui_request", b"session_changed", *FOLLOWED}
)
