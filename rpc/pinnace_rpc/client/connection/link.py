"""Records over an agent's two pipes: commands out, responses to pending calls, all other records to the readers.

A record is written completely or not at all, also on cancellation. Answers are matched by id; agents of older
generations leave it out of some refusals, which then go to the oldest command of that name. A response that no call
waits for is an event. Has no access to processes; independent of the meaning of commands.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from anyio import BrokenResourceError, ClosedResourceError, Event

from pinnace_rpc.client.connection.process import READ_BYTES
from pinnace_rpc.client.connection.reading import read_record
from pinnace_rpc.client.connection.tasks import Bell, arrival
from pinnace_rpc.client.failures import ClientClosed, CommandFailed, ProtocolError, shown
from pinnace_rpc.client.records.events import Record
from pinnace_rpc.client.subscriptions import Hub, Loss
from pinnace_spec.wire.framing import MAX_RECORD_BYTES, LineDecoder, TooLong
from pinnace_spec.wire.json_text import encode_record

ID_PREFIX: Final = "client-"
MESSAGES: Final = frozenset({"prompt", "steer", "follow_up"})
"""Commands with a `messageId`, by which an agent recognises those that it has."""
_NULLABLE: Final = frozenset({("navigate_tree", "entryId")})
"""Commands and fields that must be there, and may be null."""

_OF_DIALOGS: Final = frozenset({"extension_ui_request", "extension_ui_resolved", "agent_restarted"})


class Source(Protocol):
    """Where records come from."""

    async def receive_some(self, most_bytes: int) -> bytes:
        """Wait for data; none at its end."""
        ...


class Sink(Protocol):
    """Where records go to."""

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises an error of anyio's resources when that is not possible any more."""
        ...


class Admission(Protocol):
    """What a conversation over several connections decides: which records are new, and what is written again."""

    id_prefix: str

    def admits(self, record: Record) -> bool:
        """Return whether a record is new and for readers; raises ProtocolError if it is malformed."""
        ...

    def answer_again(self, record: Record) -> Mapping[str, object] | None:
        """Return what is to be written for a record that is not new, if anything."""
        ...

    def keep_answer(self, answer: Mapping[str, object]) -> None:
        """Take an answer that is about to be written."""
        ...


@dataclass(slots=True, eq=False)
class Asked:
    """A command that was sent or will be. Its caller waits for `done`."""

    id: str
    command: str
    line: bytes
    done: Event = field(default_factory=Event)
    answer: Record | None = None
    is_withdrawn: bool = False
    is_begun: bool = False
    """Some of it was written, so all of it will be."""


class Link:
    """One conversation with one agent."""

    def __init__(
        self,
        hub: Hub,
        on_dialog: Callable[[Record], None],
        on_malformed: Callable[[ProtocolError], None] | None,
        admission: Admission | None = None,
    ) -> None:
        """Begin.

        Args:
            hub: Gets every event.
            on_dialog: Gets each record that opens dialogs or closes them, after the hub.
            on_malformed: Called with each line that is not a record, and the conversation continues; None: it ends
                then.
            admission: Of a conversation that goes on over another connection when one is lost; None: it ends.
        """
        self._admission = admission
        self._id_prefix = ID_PREFIX if admission is None else admission.id_prefix
        self.hub = hub
        self.cut_record: str | None = None
        """The beginning of a last line that the agent left unfinished."""
        self._on_dialog = on_dialog
        self._on_malformed = on_malformed
        self._asked: dict[str, Asked] = {}
        self._outgoing: deque[Asked | bytes] = deque()
        self._has_outgoing = Bell()
        self._is_writing = False
        self._has_written = Bell()
        self._count = 0
        self._loss: Loss | None = None

    @property
    def is_over(self) -> bool:
        """Whether the conversation has ended."""
        return self._loss is not None

    def ask(self, command: str, fields: Mapping[str, object]) -> Asked:
        """Queue a command for writing. Fields that are None are left out, unless null means something there.

        Raises:
            TypeError: A field is not JSON.
            ValueError: The record is longer than an agent takes.
            ClientFailure: The conversation is over.
        """
        if self._loss is not None:
            raise self._loss()
        self._count += 1
        identity = f"{self._id_prefix}{self._count}"
        given = {name: value for name, value in fields.items() if value is not None or (command, name) in _NULLABLE}
        if self._admission is not None and command in MESSAGES:
            given.setdefault("messageId", identity)  # it may be written again
        line = encode_record({**given, "type": command, "id": identity})
        if len(line) > MAX_RECORD_BYTES:
            raise ValueError(f"{command}: the record has {len(line)} bytes; an agent takes {MAX_RECORD_BYTES}")
        asked = Asked(identity, command, line)
        self._asked[identity] = asked
        self._send(asked)
        return asked

    async def answer(self, asked: Asked) -> object:
        """Wait for the answer; return its data, or None. Cancelled, a command that was not begun is not sent.

        Raises:
            CommandFailed: The agent has refused the command, or it has failed.
            ClientFailure: The conversation is over.
        """
        try:
            with self.hub.waiting():
                await asked.done.wait()
        finally:
            self.withdraw(asked)
        if asked.answer is None:
            raise (self._loss or ClientClosed)()
        return answered_data(asked.answer, asked.command)

    async def insist(self, command: str, limit_s: float) -> None:
        """Send a command and wait `limit_s` at most until it is answered, also when cancelled meanwhile."""
        if self._loss is None:
            asked = self.ask(command, {})
            try:
                with self.hub.waiting():
                    await arrival(asked.done, limit_s)
            finally:
                self.withdraw(asked)

    def withdraw(self, asked: Asked) -> None:
        """Stop waiting for an answer."""
        self._asked.pop(asked.id, None)
        asked.is_withdrawn = True

    def post(self, record: Mapping[str, object]) -> None:
        """Queue a record without a response for writing."""
        if self._loss is None:
            if self._admission is not None:
                self._admission.keep_answer(record)
            self._send(encode_record(record))

    def resend(self, is_safe: Callable[[str], bool]) -> None:
        """Put what was written and not answered before everything else that is to be written, on a new connection.

        Args:
            is_safe: Returns whether a command may be written again; others fail: whether it was carried out is not
                known.
        """
        self.cut_record = None
        begun = [asked for asked in self._asked.values() if asked.is_begun]
        self._outgoing.extendleft(reversed([asked for asked in begun if is_safe(asked.command)]))
        for asked in begun:
            if not is_safe(asked.command):
                error = "the connection was lost before the answer; whether the command was carried out is not known"
                answer = {"type": "response", "id": asked.id, "command": asked.command, "success": False}
                self._take({**answer, "error": error, "errorCode": "outcome_unknown"}, len(error))

    async def flush(self) -> None:
        """Wait until all queued records are written; forever if stdin is broken."""
        while self._outgoing or self._is_writing:
            await self._has_written.wait()

    async def write(self, stdin: Sink) -> None:
        """Write the queued records, in order, until stdin breaks."""
        while True:
            self._is_writing = False
            self._has_written.ring()
            while not self._outgoing:
                await self._has_outgoing.wait()
            item = self._outgoing.popleft()
            self._is_writing = True
            if isinstance(item, Asked):
                if item.is_withdrawn:
                    continue
                item.is_begun = True
                item = item.line
            try:
                await stdin.send_all(item)
            except (BrokenResourceError, ClosedResourceError):
                return

    async def read(self, stdout: Source) -> None:
        """Read records until stdout ends, at the pace of the slowest reader (see `subscriptions`)."""
        decoder = LineDecoder()
        while data := await stdout.receive_some(READ_BYTES):
            decoder.receive_data(data)
            for line in decoder.lines():
                self._take_line(line)
            await self.hub.room()
        decoder.close()
        for line in decoder.lines():
            self._take_last(line)

    def end(self, loss: Loss) -> None:
        """End the conversation: every call that waits raises the reason, now and later."""
        if self._loss is None:
            self._loss = loss
            self.hub.end(None if loss is ClientClosed else loss)
            for asked in self._asked.values():
                asked.done.set()

    def _send(self, item: Asked | bytes) -> None:
        # Unbounded: one record for each pending call, and one for each dialog.
        self._outgoing.append(item)
        self._has_outgoing.ring()

    def _take_line(self, line: bytes | TooLong) -> None:
        if self._loss is not None:
            return  # read on, so that the agent can end
        try:
            if isinstance(line, TooLong):
                raise ProtocolError(f"a record is longer than {line.limit_bytes} bytes")
            self._take(read_record(line), len(line))
        except ProtocolError as error:
            if self._on_malformed is not None:
                self._on_malformed(error)
            else:
                problem = error
                self.end(lambda: copy.copy(problem))

    def _take_last(self, line: bytes | TooLong) -> None:
        """Take a last line without a line feed: a record if it is complete, else cut by the exit of the agent."""
        try:
            if isinstance(line, bytes) and self._loss is None:
                self._take(read_record(line), len(line))
        except ProtocolError:
            self.cut_record = shown(cast("bytes", line))  # it was read as a record

    def _take(self, record: Record, size_bytes: int) -> None:
        if self._admission is not None and not self._admission.admits(record):
            if (answer := self._admission.answer_again(record)) is not None:
                self.post(answer)
            return
        if record["type"] == "response":
            asked = self._find_asked(record)
            self.hub.publish(record, size_bytes, is_answer=asked is not None)
            if asked is not None:
                del self._asked[asked.id]
                asked.answer = record
                asked.done.set()
            return
        self.hub.publish(record, size_bytes)
        if record["type"] in _OF_DIALOGS:
            self._on_dialog(record)

    def _find_asked(self, record: Record) -> Asked | None:
        identity = record.get("id")
        if isinstance(identity, str):
            return self._asked.get(identity)
        if identity is None and record.get("success") is False:
            command = record.get("command")
            return next((each for each in self._asked.values() if each.command == command and each.is_begun), None)
        return None


def answered_data(answer: Record, command: str) -> object:
    """Return an answer's data.

    Raises:
        CommandFailed: It reports a failure.
    """
    if answer.get("success") is True:
        return answer.get("data")
    code, near = answer.get("errorCode"), answer.get("didYouMean")
    raise CommandFailed(
        command,
        str(answer.get("error", "no reason was given")),
        code if isinstance(code, str) else None,
        near if isinstance(near, str) else None,
    )
