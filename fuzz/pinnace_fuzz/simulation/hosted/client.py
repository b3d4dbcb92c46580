"""A client of a host: it attaches again and again, sends what a seed decides, and repeats what was not answered.

It has a name, and so may repeat a command under its id on another connection: it must be executed once, and each
connection gets one response to each command that it has sent, and no other. What the client knows outlives its
connections: what it has sent, what it has got, and the cursor of the newest event.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from pinnace_fuzz.records import LineSplitter, NotARecord, Record, encode_record, parse_record
from pinnace_fuzz.simulation.client import Deliveries, Ledger, SentMessage, draw_text
from pinnace_fuzz.simulation.hosted.connections import Connect, Connection, Frames, control, data
from pinnace_fuzz.simulation.hosted.dialogs import SharedDialogs
from pinnace_fuzz.simulation.hosted.events import Cursor, EventLog, EventReader
from pinnace_fuzz.simulation.parts import Parts
from pinnace_fuzz.simulation.trace import Trace
from pinnace_spec.observers.edge import as_record

AGENT: Final = "main"
PATIENCE_S: Final = 300.0
"""How long a client waits when nothing happens; then it ends what runs."""
_NEXT_S: Final = (0.01, 0.01, 0.5, 0.5, 2.0, 2.0, 40.0)
"""Between two connections; after the longest an agent may be asleep."""
_ABORTS: Final = 2
_MOST_REFUSED: Final = 10
"""How often a client ends what runs before all is taken for stalled; and again, where a failing disk has refused it."""
_LEAVING_S: Final = 60.0
_NOTICED_S: Final = 20.0
"""So long after a crash a command may be given to what has crashed."""
_ACTIONS: Final = (
    *(("prompt", 5), ("steer", 4), ("follow_up", 4), ("abort", 2), ("get_state", 1), ("get_messages", 1)),
    *(("get_queue", 1), ("clear_queue", 1), ("set_session_name", 2), ("compact", 1), ("abort_retry", 1)),
    *(("new_session", 0.4), ("switch_session", 0.4), ("fork", 0.4)),
)
REPLACING: Final = frozenset({"new_session", "switch_session", "fork"})
_NAMES: Final = [name for name, _ in _ACTIONS]
_WEIGHTS: Final = [weight for _, weight in _ACTIONS]
_DIALOGS: Final = 0.25
"""How often a command opens a dialog, where the agent has the extension for it."""
_LEAVING: Final = frozenset({"abort", *REPLACING})
_CUTS: Final = 0.06
"""How often the client's process ends behind a command, and how often it leaves in order."""
_BURSTS: Final = 0.2
_MOST_TOGETHER: Final = 4
_NAMING: Final = "set_session_name"
_CUTS_BEHIND_BURSTS: Final = 0.3
"""In pointed histories: how often commands come together, at most how many, and how often a connection ends then."""


class Sessions:
    """The sessions of an agent, as its clients know them: which there are, and which is the current one."""

    def __init__(self, ledger: Ledger, report: Callable[[str, str], None]) -> None:
        """Know none."""
        self.paths: dict[str, None] = {}
        self.entries: dict[str, None] = {}
        """Of messages of the user, in whatever session."""
        self.names: list[str] = []
        """Names that were confirmed in this boot of the machine, whenever they were sent."""
        self._ledger = ledger
        self._report = report
        self._open: set[tuple[str, str]] = set()
        """Commands that may replace it, by client and id, and have no answer."""
        self._current: object = None

    @property
    def is_changing(self) -> bool:
        """Whether another one may become the current one at any moment."""
        return bool(self._open)

    def send(self, client: str, command: Record) -> None:
        """A command is sent."""
        if command["type"] in REPLACING:
            self._open.add((client, command["id"]))
            self._current = None
            self._ledger.leave_session()

    def answer(self, client: str, command: Record, response: Record) -> None:
        """A command is answered."""
        data = as_record(response.get("data"))
        if command["type"] in REPLACING:
            self._open.discard((client, command["id"]))
            self._ledger.leave_session()
        elif command["type"] == "get_state" and response["success"]:
            if isinstance(path := data.get("sessionFile"), str):
                self.paths[path] = None
            self._see(data)

    def _see(self, state: Mapping[str, object]) -> None:
        """Compare the session with the one of the last answer: only a command replaces it, and no crash."""
        if self.is_changing:
            return
        if self._current not in (None, state.get("sessionId")) and state.get("messageCount"):
            self._report("sessions", f"the session is {state.get('sessionId')}, and was {self._current}")
        self._current = state.get("sessionId") if state.get("messageCount") else None


class Surroundings(NamedTuple):
    """What the clients of a history share."""

    trace: Trace
    ledger: Ledger
    events: EventLog
    sessions: "Sessions"
    report: Callable[[str, str], None]
    """Takes the source and the text of a finding."""
    parts: Parts
    start: tuple[str, ...]
    """The flags of the agent."""
    folder: str
    environment: Mapping[str, str]
    dialogs: SharedDialogs | None
    """None: the agent has no extension that opens any."""
    on_record: Callable[[str], bool]
    """Takes the type of a record that a client reads, and returns whether the machine has crashed before."""

    def attach(self, client: str, since: Cursor | None) -> bytes:
        """Return the request of a client."""
        return control(
            {
                "type": "attach",
                "versions": [1],
                "release": "0",
                "new": False,
                "agent": AGENT,
                "session": None,
                "since": None if since is None else str(since),
                "cursors": True,
                "client": client,
                "onEof": "detach",
                "start": list(self.start),
                "cwd": self.folder,
                "environment": dict(self.environment),
                "umask": 0o077,
                "profile": None,
            }
        )


class HostedClient:
    """One client, over all its connections."""

    def __init__(
        self,
        name: str,
        draws: random.Random,
        around: Surroundings,
        bursts: random.Random | None = None,
        *,
        has_named_bursts: bool = False,
    ) -> None:
        """Send nothing yet.

        Args:
            name: Of the client.
            draws: Decides.
            around: What all clients share.
            bursts: Decides when several commands are sent in one write; None: never.
            has_named_bursts: Whether these all name the session: the table of the commands is flushed before each.
        """
        self._bursts = bursts
        self._of_bursts = _NAMING if has_named_bursts else None
        self.name = name
        self.owed: dict[str, Record] = {}
        """Commands without a response, by their ids."""
        self._draws = draws
        self._around = around
        self._cursor: Cursor | None = None
        self._sent = 0
        self._left = 0
        self._open: set[str] = set()
        """The ids that the current connection has sent, and that are not answered."""
        self._is_running = False
        self._refused_aborts = 0
        self._sent_s: dict[str, float] = {}
        """When a command was sent first, by its id."""
        self._deliveries = Deliveries(around.ledger)
        self._changed = trio.Event()
        self._writing = trio.Lock()

    async def live(self, count: int, connect: Connect) -> None:
        """Send so many commands, and attach again until all are answered."""
        self._left = count
        self._changed = trio.Event()
        while True:
            if (connection := connect()) is not None:
                is_done = await self._attached(connection)
                if is_done:
                    return
            await trio.sleep(self._next_s())

    def _next_s(self) -> float:
        is_soon = self._bursts is not None and self._bursts.random() < 0.5
        return 0.0 if is_soon else self._draws.choice(_NEXT_S)

    async def _attached(self, connection: Connection) -> bool:
        """Have one connection; return whether nothing is left to do."""
        around = self._around
        self._open = set()
        self._is_running = False
        self._deliveries = Deliveries(around.ledger)
        reader = EventReader(around.events, self._cursor)
        is_done = False
        try:
            await connection.to_host.send_all(around.attach(self.name, self._cursor))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, connection, reader, nursery)
                is_done = await self._drive(connection)
                if is_done or self._draws.random() < 0.5:
                    await self._write_frame(connection, control({"type": "detach", "atOnce": not is_done}))
                    await trio.sleep(_LEAVING_S)
                    around.report("stalled", f"{self.name} has not left {_LEAVING_S:.0f} s after its detach")
                nursery.cancel_scope.cancel()
        except* trio.BrokenResourceError:
            pass  # the host is gone
        finally:
            connection.lose_client()
        return is_done and not self.owed

    async def _read(self, connection: Connection, events: EventReader, nursery: trio.Nursery) -> None:
        frames, lines = Frames(), LineSplitter()
        while received := await connection.to_client.receive_some():
            for kind, payload in frames.feed(received):
                if kind == "j":
                    self._take_control(payload)
                    continue
                for line in lines.feed(payload):
                    if (answer := self._take(line, events)) is not None:
                        nursery.start_soon(self._answer, connection, *answer)
        nursery.cancel_scope.cancel()

    async def _answer(self, connection: Connection, delay_s: float, response: Record) -> None:
        """Answer a dialog, after some time."""
        around = self._around
        assert around.dialogs is not None
        await trio.sleep(delay_s)
        around.dialogs.answered(response)
        await self._write(connection, response)

    def _take_control(self, payload: bytes) -> None:
        self._around.trace.note(f"{self.name} control", payload.decode())
        record = parse_record(payload + b"\n")
        if record["type"] == "refused" and self._cursor is not None:
            if self._around.ledger.is_trusted:
                # Of an agent that has a cursor, everything that it needs to begin again is on the disk.
                self._around.report("events", f"the cursor {self._cursor} is refused: {record['error']}")
            self._cursor = None

    def _take(self, line: bytes, events: EventReader) -> tuple[float, Record] | None:
        """Take a line; return what is answered to it by itself, and after how many seconds."""
        answer = None
        around = self._around
        around.trace.note(f"{self.name} out", line.decode("utf-8", "replace"))
        try:
            record = around.events.parse(line)
        except NotARecord as error:
            around.report("framing", f"not a record: {error}: {line[:200]!r}")
            return None
        if around.on_record(str(record.get("type"))):
            return None
        if record.get("type") == "response":
            self._settle(record)
        else:
            events.take(record, line)
            self._deliveries.take(record)
            self._cursor = events.cursor
            match record.get("type"):
                case "agent_start":
                    self._is_running = True
                case "agent_settled" | "agent_restarted" | "attached":
                    self._is_running = False
                case "message_start" if "messageId" in record:
                    around.sessions.entries[record["entryId"]] = None
                case "extension_ui_request" if around.dialogs is not None:
                    answer = around.dialogs.take(record, draws=self._draws)
                case _:
                    pass
        self._changed.set()
        self._changed = trio.Event()
        return answer

    async def _drive(self, connection: Connection) -> bool:
        """Repeat what is owed and send more; return whether all is done, else the connection is to be ended."""
        draws = self._draws
        if self._bursts is None:
            for command in tuple(self.owed.values()):
                await self._send(connection, command)
        elif await self._burst(connection, self._bursts, list(self.owed.values())):
            return False
        while self._left:
            await self._pause()
            self._left -= 1
            command = self._command(draws)
            if self._around.parts.has(f"command:{self.name}.{self._sent}"):
                await self._send(connection, command)
            else:
                del self.owed[command["id"]]
            if draws.random() < _CUTS:
                return False
            if self._bursts is not None and self._bursts.random() < _BURSTS:
                commands = [
                    self._command(self._bursts, self._of_bursts)
                    for _ in range(1 + self._bursts.randrange(_MOST_TOGETHER))
                ]
                if await self._burst(connection, self._bursts, commands):
                    return False
        aborts = 0
        while True:
            with trio.move_on_after(PATIENCE_S):
                while self.owed or self._is_running:
                    await self._changed.wait()
                return True
            if aborts == _ABORTS + min(self._refused_aborts, _MOST_REFUSED):
                break
            aborts += 1
            await self._send(connection, self._new({"type": "abort", "queue": "hold"}))
        owed = ", ".join(f"{command['type']} {key}" for key, command in self.owed.items())
        self._around.report("stalled", f"{self.name} waits, and owed are: {owed or 'the end of the run'}")
        self.owed.clear()
        return True

    async def _burst(self, connection: Connection, draws: random.Random, commands: Sequence[Record]) -> bool:
        """Send commands in one write, each in its frame; return whether the connection is to be ended then."""
        has = self._around.parts.has
        left = [each for each in commands if has(f"command:{self.name}.{each['id'].removeprefix('c')}")]
        for command in commands:
            if command not in left:
                del self.owed[command["id"]]
        if not left:
            return False
        await self._send(connection, *left)
        return draws.random() < _CUTS_BEHIND_BURSTS

    async def _pause(self) -> None:
        match self._draws.randrange(4):
            case 0:
                await trio.sleep(self._draws.choice((0.0, 0.001, 0.02, 0.3, 3.0)))
            case 1:
                with trio.move_on_after(5.0):
                    await self._changed.wait()
            case 2:
                with trio.move_on_after(20.0):
                    while self._is_running or self.owed:
                        await self._changed.wait()
            case _:
                pass

    def _command(self, draws: random.Random, name: str | None = None) -> Record:
        if name is None and self._around.dialogs is not None and draws.random() < _DIALOGS:
            return self._new(self._around.dialogs.command(draws))
        name = name or draws.choices(_NAMES, _WEIGHTS)[0]
        command: Record = {"type": name}
        match name:
            case "prompt" | "steer" | "follow_up":
                ledger = self._around.ledger
                number = len(ledger.messages)
                text = draw_text(draws, number)
                command |= {"message": text, "messageId": f"m{number}"}
                if name == "prompt" and draws.random() < 0.7:
                    command["streamingBehavior"] = draws.choice(("steer", "followUp"))
                message = SentMessage(dict(command), text, False, is_astride=self._around.sessions.is_changing)
                ledger.messages[command["messageId"]] = ledger.by_text[text] = message
            case "abort":
                command["queue"] = draws.choice(("hold", "clear", "continue"))
            case "clear_queue":
                command["by"] = f"{self.name}-w{self._sent}"
            case "set_session_name":
                command["name"] = f"name {self.name} {self._sent}"
            case "switch_session":
                paths = [*self._around.sessions.paths]
                command = {**command, "sessionPath": draws.choice(paths)} if paths else {"type": "get_state"}
            case "fork":
                entries = [*self._around.sessions.entries]
                command = {**command, "entryId": draws.choice(entries)} if entries else {"type": "get_state"}
            case _:
                pass
        return self._new(command)

    def _new(self, command: Record) -> Record:
        self._sent += 1
        command["id"] = f"c{self._sent}"
        self.owed[command["id"]] = command
        return command

    async def _send(self, connection: Connection, *commands: Record) -> None:
        for command in commands:
            self._note(command)
        await self._write(connection, *commands)

    def _note(self, command: Record) -> None:
        self._open.add(command["id"])
        if self._around.dialogs is not None and command["type"] in _LEAVING:
            self._around.dialogs.send(self.name, command)
        if command["type"] == "clear_queue":
            self._around.ledger.open_withdrawals.add(command["by"])
        self._around.sessions.send(self.name, command)
        self._sent_s.setdefault(command["id"], self._around.trace.time_s)

    async def _write(self, connection: Connection, *records: Record) -> None:
        lines = [encode_record(record) for record in records]
        for line in lines:
            self._around.trace.note(f"{self.name} in", line.decode().rstrip("\n"))
        await self._write_frame(connection, b"".join(map(data, lines)))

    async def _write_frame(self, connection: Connection, frame: bytes) -> None:
        """Write a frame as a whole: where there are dialogs, several tasks write."""
        if self._around.dialogs is None:
            await connection.to_host.send_all(frame)
            return
        async with self._writing:
            await connection.to_host.send_all(frame)

    def _settle(self, response: Record) -> None:
        around = self._around
        identity = str(response.get("id"))
        command = self.owed.pop(identity, None)
        if command is None or identity not in self._open:
            around.report("answers", f"{self.name}: a response that nothing asked for on its connection: {response}")
            return
        self._open.discard(identity)
        if around.dialogs is not None and command["type"] in _LEAVING:
            around.dialogs.settle(self.name, command)
        if command["type"] == "abort" and response.get("errorCode") == "io_error" and not around.ledger.is_trusted:
            self._refused_aborts += 1
        around.sessions.answer(self.name, command, response)
        if (problem := around.ledger.settle(command, response)) is not None:
            around.report("deliveries", problem)
        is_unknown = response.get("errorCode") == "outcome_unknown" and around.ledger.is_trusted
        if is_unknown and around.events.disturbed_s + _NOTICED_S < self._sent_s[identity]:
            around.report("answers", f"{self.name}: nothing has crashed, and the outcome is unknown: {response}")
        if command["type"] == "set_session_name" and response["success"]:
            around.sessions.names.append(command["name"])


async def audit(connection: Connection, around: Surroundings) -> None:
    """Read the journal again from its first event, and compare it with what clients have got."""
    if not around.events.journals:
        return
    since = Cursor(around.events.journals[-1], 1, 0)
    reader = EventReader(around.events, since, has_all=True)
    frames, lines = Frames(), LineSplitter()
    try:
        await connection.to_host.send_all(around.attach("auditor", since))
        with trio.move_on_after(PATIENCE_S) as limit:
            while not reader.is_current and (received := await connection.to_client.receive_some()):
                for line in [line for kind, each in frames.feed(received) if kind == "d" for line in lines.feed(each)]:
                    try:
                        reader.take(around.events.parse(line), line)
                    except NotARecord as error:
                        around.report("framing", f"not a record: {error}: {line[:200]!r}")
        if limit.cancelled_caught or not reader.is_current:
            around.report("events", f"the replay of the whole journal ends at {reader.cursor}, not {reader.newest}")
    except trio.BrokenResourceError:
        around.report("events", "the connection was lost during the replay of the whole journal")
    finally:
        connection.lose_client()
