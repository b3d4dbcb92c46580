"""One attached connection: frames of a socket to commands of an agent, and its journal to frames.

Two tasks: one reads commands, one writes what the journal has for this connection while it is behind; when it has
written everything it follows, and whatever makes records visible writes them at once. Neither holds more than one read
of the journal, so a client that stops reading costs one block of memory, however far it is behind. Must not know how
agents are found, started or ended.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.agent import HostedAgent
from pinnace_rpc.host.journal import Gap, JournalReader, truncated
from pinnace_rpc.host.locations import LocationError
from pinnace_rpc.host.named_clients import NamedClient
from pinnace_rpc.host.protocol import (
    EXIT_LOST,
    PROTOCOL_VERSIONS,
    Accepted,
    Attach,
    Detach,
    EndAgent,
    Ended,
    Frame,
    FrameDecoder,
    data_frames,
    encode_host_control,
    parse_client_control,
)
from pinnace_rpc.host.surroundings import ClientStream
from pinnace_spec.rules.errors import PARSE_COMMAND, ErrorCode, record_too_long
from pinnace_spec.wire.framing import MAX_RECORD_BYTES, LineDecoder, TooLong

READ_BYTES: Final = 64 * 1024
MAX_UNREAD: Final = 1000
"""Commands that are open or whose responses are unread; then the connection is not read until there are fewer."""
_START_LIMIT_S: Final = 60.0
"""How long a client that detaches waits for the extensions of an agent that has just begun."""
_LONG_LINE_BYTES: Final = 1024 * 1024


class AttachedConnection:
    """A connection from its acceptance to its end. Implements the agent's `AgentConnection`."""

    def __init__(
        self,
        number: int,
        stream: ClientStream,
        decoder: FrameDecoder,
        early: Sequence[Frame],
        request: Attach,
        agent: HostedAgent,
        other_options: Sequence[str],
        wall_time_s: Callable[[], float],
    ) -> None:
        """Attach nothing yet; `early` frames came with the request, `other_options` than those of the agent."""
        self.number = number
        self.has_cursors = request.has_cursors
        self.client: NamedClient | None = None
        self.last_read = wall_time_s()
        """When the client last took something, in seconds since the epoch."""
        self._wall_time_s = wall_time_s
        self._stream = stream
        self._decoder = decoder
        self._early = early
        self._other_options = tuple(other_options)
        self._request = request
        self._agent = agent
        self._lines = LineDecoder()
        self._end: tuple[int, Ended] | None = None
        self._responses: deque[int] = deque()
        """The places of responses that are not written yet."""
        self._is_detaching = False
        self._knows_start = False
        self._progress = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._reader = JournalReader(
            agent.journal, agent.journal.end, number, agent.journal.cursor, has_cursors=self.has_cursors
        )
        self._unsent: list[memoryview] = []
        """What is taken from the journal and not written: of one piece."""
        self._is_broken = False

    async def run(self, release: str, end_agent: Callable[[], None]) -> None:
        """Serve the connection until it ends; `end_agent` is called when the client ends its agent.

        A connection that breaks is an end, too.

        Raises:
            LocationError: The commands of a named client can't be kept; nothing has been sent.
        """
        agent = self._agent
        if (name := self._request.client) is not None:
            try:
                self.client = agent.clients.join(name, self.number)
            except OSError as error:
                raise LocationError(f"{agent.folder}: the client's commands can't be kept: {error.strerror}") from None
        agent.connections.add(self)
        agent.abandoned_at = None
        with self._scope:
            try:
                begin = Accepted(PROTOCOL_VERSIONS[0], release, agent.name, self._other_options)
                await self._stream.send_all(encode_host_control(begin))
                if self.has_cursors:
                    await agent.wait_known()
                self._reader, opening = self._begin()
                self._unsent = data_frames(opening)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive, end_agent, nursery)
                    await self._write()
                    nursery.cancel_scope.cancel()
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the client is gone
            finally:
                agent.left(self.number)

    def close(self) -> None:
        """End at once, without a last message."""
        self._scope.cancel()

    @property
    def _has_ended(self) -> bool:
        """Whether no command is taken any more: the client repeats it on another connection, which gets the answer."""
        return self._end is not None or self._scope.cancel_called

    # As the agent sees it.

    def finish(self, place: int, ended: Ended) -> None:
        """Write everything up to a place of the journal, and then the end. The first call counts."""
        if self._end is None:
            self._end = place, ended
            self._agent.followers.advance(self.number)

    def answered(self, place: int) -> None:
        """Take notice of a response to this connection that ends at a place."""
        if self._unsent or place > self._reader.place:
            self._responses.append(place)
        self._finish_detaching()

    # What the client sends.

    async def _receive(self, end_agent: Callable[[], None], nursery: trio.Nursery) -> None:
        frames, self._early = self._early, ()
        while True:
            for frame in frames:
                if self._has_ended:
                    return
                if frame.kind == "d":
                    await self._take_data(frame.payload)
                else:
                    match parse_client_control(frame.payload):
                        case Detach(at_once=True):
                            self.finish(self._agent.journal.end, Ended(0, None))
                        case Detach():
                            # What follows the last LF is no command.
                            self._is_detaching = True
                            nursery.start_soon(self._detach)
                        case EndAgent():
                            end_agent()
            data = await self._stream.receive_some(READ_BYTES)
            if not data:
                break
            frames = self._decoder.receive_data(data)
        self.close()

    async def _take_data(self, data: bytes) -> None:
        self._lines.receive_data(data)
        for number, line in enumerate(self._lines.lines()):
            if number:  # one that comes alone does not wait; one that sends many gives others a turn after each
                await trio.lowlevel.checkpoint()
            while self._agent.router.count(self.number) + len(self._responses) >= MAX_UNREAD:
                await self._progress.park()
            if self._has_ended:
                return
            if isinstance(line, TooLong):
                command = routing.RoutedCommand(PARSE_COMMAND, {}, False, None, False)
                self._agent.open_commands.refuse(
                    self.number, command, record_too_long(MAX_RECORD_BYTES), ErrorCode.PARSE_ERROR
                )
                continue
            command = await _read(line)
            await self._agent.commands.send(self.number, self.client, command, line)

    async def _detach(self) -> None:
        """Leave when it is known whether the agent has started: else its client would not learn why it has not."""
        await self._agent.wait_known()
        with trio.move_on_after(_START_LIMIT_S):
            await self._agent.own_commands.wait_started()
        self._knows_start = True
        self._finish_detaching()

    def _finish_detaching(self) -> None:
        if self._is_detaching and self._knows_start and not self._agent.router.count(self.number):
            self.finish(self._agent.journal.end, Ended(0, None))

    # What the client gets.

    def _begin(self) -> tuple[JournalReader, bytes]:
        """Return where the connection begins to read, and what is written before."""
        journal = self._agent.journal
        place, cursor, opening, replay = journal.end, journal.cursor, b"", "none"
        if (since := self._request.since) is not None:
            start = journal.find(since)
            place = start.place
            if start.is_known:
                cursor = start.gap or since
                replay = "complete" if start.gap is None else "truncated"
                opening = b"" if start.gap is None else truncated(since, start.gap)
        if self.has_cursors:
            opening = self._attached(replay) + opening
        opening += b"".join(self._agent.dialogs.before(place))
        return JournalReader(journal, place, self.number, cursor, has_cursors=self.has_cursors), opening

    def _attached(self, replay: str) -> bytes:
        agent = self._agent
        details, cursor = agent.details, agent.journal.cursor
        record: Mapping[str, object] = {
            "type": "attached",
            "agent": agent.name,
            "protocol": details.profile,
            "hostVersion": agent.release,
            "sessionId": details.session_id,
            "sessionFile": details.session_file,
            "journal": cursor.journal,
            "epoch": cursor.epoch,
            "seq": cursor.seq,
            "replay": replay,
            "clients": len(agent.connections),
            "knownClient": self.client is not None and self.client.table.is_known,
        }
        return json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n"

    async def _write(self) -> None:
        while True:
            while not self._advance():
                if self._is_broken:
                    raise trio.BrokenResourceError
                if self._unsent:
                    await self._stream.wait_writable()
                elif (ended := self._reached_end()) is not None:
                    await self._stream.send_all(encode_host_control(ended))
                    return
                else:
                    await trio.lowlevel.checkpoint()
            await self._agent.followers.follow(self.number, self._follow)

    def _follow(self, place: int) -> bool:
        self._reader.skip(place)
        return self._advance()

    def _advance(self) -> bool:
        """Write one more piece, without waiting; return whether everything is written and more may come."""
        if not self._flush() or self._reached_end() is not None:
            return False
        if not self._take_piece():
            return True
        return self._flush() and self._reached_end() is None and self._reader.place >= self._agent.journal.end

    def _take_piece(self) -> bool:
        """Take the next piece of the journal; return whether there was one."""
        reader = self._reader
        before = reader.cursor
        piece = reader.read()
        if piece is None:
            return False
        if isinstance(piece, Gap):
            if self.has_cursors and not reader.is_broken:
                piece = truncated(before, piece.cursor)
            else:
                piece = b""
                self._end = (reader.place, Ended(EXIT_LOST, "records are lost: this client was too far behind"))
        self._unsent = data_frames(piece)
        return True

    def _flush(self) -> bool:
        """Write what has been taken, as far as the client takes it; return whether that was all."""
        unsent = self._unsent
        try:
            while unsent:
                sent = self._stream.send_now(unsent)
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.pop(0))
                if sent:
                    unsent[0] = unsent[0][sent:]
                self.last_read = self._wall_time_s()
        except BlockingIOError:
            return False
        except OSError:
            self._is_broken = True
            return False
        while self._responses and self._responses[0] <= self._reader.place:
            self._responses.popleft()
            self._progress.unpark_all()
        return True

    def _reached_end(self) -> Ended | None:
        """Return the last message if everything before it is taken."""
        return self._end[1] if self._end is not None and self._reader.place >= self._end[0] else None


async def _read(line: bytes) -> routing.RoutedCommand:
    """Read a command; one that is so long that it would hold up others, in a thread."""
    if len(line) < _LONG_LINE_BYTES:
        return routing.read_command(line)
    return await trio.to_thread.run_sync(routing.read_command, line)
