"""What an agent's process writes, line by line, into the journal, from which every connection takes its records.

So no connection can delay the agent, and each sees the records in one order. The first lines of a process that is not
the agent's first one wait until its state is known. A line that is too long for the memory goes to the disk.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.activity import NOTED, AgentActivity
from pinnace_rpc.host.agents.ports import EpochReason
from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.journal import Journal, addressed, truncated
from pinnace_rpc.host.offers import Offers
from pinnace_rpc.host.open_commands import OpenCommands
from pinnace_rpc.host.own_commands import OwnCommands
from pinnace_rpc.host.protocol import EXIT_LOST, Ended
from pinnace_rpc.host.routing import RoutedResponse, Router
from pinnace_spec.wire.json_text import JsonValue

_READ_BYTES: Final = 64 * 1024
_MAX_LINE_BYTES: Final = 1024 * 1024
"""A longer line of the agent goes to the disk while it is read."""
_HOST: Final = (0,)
"""The connection of the host's own commands, in the place of one that there is."""


class Restart(NamedTuple):
    """What the first record of an epoch reports, as far as the host knows it before the process does."""

    reason: EpochReason
    is_complete: bool
    """Whether no record of the former process is missing."""
    was_interrupted: bool
    """Whether the former process has ended in a run, as far as a host has seen."""


class ProcessOutput:
    """That of one agent, over all its processes."""

    def __init__(
        self,
        journal: Journal,
        connections: AttachedConnections,
        router: Router,
        open_commands: OpenCommands,
        own_commands: OwnCommands,
        offers: Offers,
        activity: AgentActivity,
        answered: Callable[[RoutedResponse, int], None],
    ) -> None:
        """Read nothing yet.

        Args:
            journal: Gets the lines.
            connections: Those that it is read by.
            router: Knows which command an event names.
            open_commands: Those that a line may answer.
            own_commands: Ask for the state of a process.
            offers: Say which connections get an event.
            activity: Follows the records.
            answered: Takes each response when it is visible, with the place of the journal behind it.
        """
        self._journal = journal
        self._connections = connections
        self._router = router
        self._open = open_commands
        self._own = own_commands
        self._offers = offers
        self._activity = activity
        self._answered = answered
        self._restart: Restart | None = None
        """What was not reported yet of a process that is not the first one."""
        self._held: list[bytes] = []
        """What that has written before the host knows its state."""
        self._long_to: Collection[int] | None = None
        """The connections that the event gets which a line is that is too long for the memory; None: all."""

    def hold(self, restart: Restart) -> None:
        """Hold back what a process writes that is about to be read, until its state is known."""
        self._restart, self._held = restart, []

    async def read(self, stdout: trio.abc.ReceiveStream) -> None:
        """Read what the process writes, until the end."""
        rest = bytearray()
        is_long = False
        try:
            while data := bytes(await stdout.receive_some(_READ_BYTES)):
                end = data.rfind(b"\n") + 1
                if is_long:
                    first = data.find(b"\n") + 1
                    self._journal.spool(data[: first or len(data)])
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
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if is_long:
                self._journal.drop_spool()

    def release(self, state: Mapping[str, JsonValue] | None = None) -> None:
        """Let what is held back be seen, if anything is, behind the first record of the epoch; None: no state comes."""
        if (restart := self._restart) is None:
            return
        held, self._restart, self._held = self._held, None, []
        count = (state or {}).get("pendingMessageCount")
        # Where records are missing, the session shows a run whose beginning no host has read.
        was_interrupted = restart.was_interrupted or (not restart.is_complete and "interrupted" in (state or {}))
        record = {
            "type": "agent_restarted",
            "epoch": self._journal.epoch,
            "reason": restart.reason,
            "complete": restart.is_complete,
            "interrupted": was_interrupted,
            "pendingMessageCount": count if isinstance(count, int) else 0,
        }
        self._journal.append(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n")
        if held:
            self._take_lines(b"".join(held))

    # Whole lines.

    def _hold_lines(self, data: bytes) -> None:
        """Keep the first lines of a new process until its state is known, which the first record of the epoch holds."""
        state: Mapping[str, JsonValue] | None = None
        for line in _lines(data):
            self._held.append(line)
            if line.startswith(b'{"id":"%b",' % routing.own_id(self._own.state_number or 0).encode("ascii")):
                state = routing.member(routing.parse_record(line), "data")
        if state is not None or sum(map(len, self._held)) > _MAX_LINE_BYTES:
            self.release(state)

    def _take_lines(self, data: bytes) -> None:
        if self._restart is not None:
            self._hold_lines(data)
            return
        pieces: list[bytes] = []
        events = 0
        size = 0
        to: set[int] = set()
        responses: list[tuple[RoutedResponse, int]] = []
        for line in data.splitlines(keepends=True) if b"\r" not in data else _lines(data):
            response = self._open.take(line)
            piece, addressees = b"", self._offers.audience(line) if response is None else None
            if response is not None:
                if response.command.connection in self._connections:
                    addressees, line = (response.command.connection,), response.line
            elif addressees is None and (piece := self._event(line, self._journal.end + size)):
                events += 1
            if addressees is not None and response is None:
                self._activity.summary.follow_shown(line)
            if addressees:
                to.update(addressees)
                piece = addressed(addressees, len(line)) + line
            pieces.append(piece)
            size += len(piece)
            if response is not None:
                responses.append((response, self._journal.end + size))
        self._activity.keep_end_of_run()
        if size:  # more than responses to the host
            self._activity.wrote()
            self._journal.append(b"".join(pieces), events, None if events else to)
        for response, place in responses:
            self._answered(response, place)

    def _event(self, line: bytes, place: int) -> bytes:
        """Return the line of an event, or nothing for one that clients have; it will be at a place of the journal."""
        kind = routing.record_type(line)
        if kind in NOTED and not self._activity.note(kind, line, place):
            return b""
        if kind == b"bash_execution_update":
            line = self._router.event(line)
        return self._journal.next_event() + line[1:]

    # Lines that are too long for the memory.

    def _begin_long(self, head: bytes) -> None:
        self._activity.wrote()
        self.release()
        response = self._open.begin_long(head)
        self._long_to = self._offers.audience(head) if response is None else (response.command.connection,)
        if self._long_to is None:
            self._journal.begin_spool(self._journal.next_event() + head[1:], 1)
        else:
            line = head if response is None else response.line
            self._journal.begin_spool(addressed(self._long_to or _HOST) + line, 0)

    def _end_long(self) -> None:
        response = self._open.end_long()
        to, self._long_to = self._long_to, None
        length = self._journal.spooled_bytes
        if length is None:
            self._report_lost(response, to)
        elif to is None:
            self._journal.end_spool()
        else:
            if response is not None:
                to = (response.command.connection,)  # another one may have repeated the command
                self._open.note_answer(response, routing.without_data(response))
            to = to or _HOST
            self._journal.end_spool(addressed(to, length - len(addressed(to))), to)
            if response is not None:
                self._answered(response, self._journal.end)

    def _report_lost(self, response: RoutedResponse | None, to: Collection[int] | None) -> None:
        """Report a line that neither the disk nor the memory takes; an event has no number unless it is for all."""
        if response is not None:
            line = routing.failure(response.command, "the response is too long for the host", "outcome_unknown")
            self._open.note_answer(response, line)
            if (number := response.command.connection) in self._connections:
                self._journal.append(addressed((number,), len(line)) + line, to=(number,))
            self._answered(response._replace(line=line), self._journal.end)
            return
        if to is None:
            cursor = self._journal.cursor
            self._journal.append(truncated(cursor._replace(seq=cursor.seq - 1), cursor))
        for connection in self._connections:
            if connection.number in to if to is not None else not connection.has_cursors:
                connection.finish(self._journal.end, Ended(EXIT_LOST, "a record is too long for the host"))


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
