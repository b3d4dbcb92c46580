"""What one named client of a host has sent and read, across its connections: the evidence of a run.

Follows the cursor as docs/durable-agents.md has it: of each epoch every event comes once and in order, and what is
missing is reported by a record. Pure. Independent of processes; what the messages became is `verdict`'s.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.records import Record

MESSAGES: Final = frozenset({"prompt", "steer", "follow_up"})
_CURSOR: Final = re.compile(r"(?P<journal>[^.]+)\.(?P<epoch>\d+):(?P<seq>\d+)")


class JournalPosition(NamedTuple):
    """One event of an agent, or where an epoch begins (`seq` 0)."""

    journal: str
    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.journal}.{self.epoch}:{self.seq}"


def read_cursor(text: str) -> JournalPosition:
    """Read a cursor.

    Raises:
        ValueError: It is none.
    """
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise ValueError(f"no cursor: {text!r}")
    return JournalPosition(match["journal"], int(match["epoch"]), int(match["seq"]))


class ClientLog:
    """One name of a client at one agent."""

    def __init__(self, name: str) -> None:
        """Begin before the first connection."""
        self.name = name
        self.cursor: JournalPosition | None = None
        """Behind the last event; None: it was never attached."""
        self.begun: JournalPosition | None = None
        """Where it began to read."""
        self.events: dict[JournalPosition, Record] = {}
        self.restarts: dict[tuple[str, int], Record] = {}
        """Journal and epoch -> its `agent_restarted`."""
        self.gaps: list[tuple[JournalPosition, JournalPosition]] = []
        """What was reported as missing: behind the first place, up to the second one."""
        self.sent: dict[str, Record] = {}
        """Ids -> commands, in their order."""
        self.responses: dict[str, Record] = {}
        self.pending: dict[str, Record] = {}
        """Commands without a response, in their order."""
        self.unknown: set[str] = set()
        """Commands that were lost with a connection and can't be repeated."""
        self.is_attached = False
        """Whether the connection there is has begun."""
        self.faults: list[str] = []
        self.forgotten: list[str] = []
        """When the host did not know this client, although it had answered a command of it that it has to keep."""
        self.records = 0
        """How many have been read."""
        self._written: set[str] = set()
        """Ids of commands that were written to this connection."""
        self._unanswered: Counter[str] = Counter()
        """Ids of commands -> how often they were written without an answer."""

    # What is sent.

    def ask(self, command: Record) -> None:
        """Add a command, which is to be written (`to_write`)."""
        self.sent[command["id"]] = self.pending[command["id"]] = command

    def to_write(self) -> list[Record]:
        """Return the commands that are to be written to the connection now, each once a connection."""
        if not self.is_attached:
            return []
        found = [command for identity, command in self.pending.items() if identity not in self._written]
        self._written.update(command["id"] for command in found)
        self._unanswered.update(command["id"] for command in found)
        return found

    def disconnect(self) -> None:
        """Take notice that the connection is lost; what was written may come again."""
        self.is_attached = False
        self._written.clear()

    # What is read.

    def take(self, record: Record) -> None:
        """Take the next record of the connection."""
        self.records += 1
        kind = record["type"]
        if kind == "attached":
            self._attach(record)
        elif not self.is_attached:
            self._blame(f"before `attached`: {record}")
        elif kind == "response":
            self._respond(record)
        elif kind == "truncated":
            self._truncate(record)
        elif kind == "agent_restarted":
            self._restart(record)
        elif "seq" in record:
            self._take_event(record)
        elif kind != "extension_ui_request":  # one that is open is repeated
            self._blame(f"an event without a seq: {record}")

    def _attach(self, record: Record) -> None:
        here = JournalPosition(record["journal"], record["epoch"], record["seq"])
        if self.is_attached:
            self._blame("attached twice")
        self.is_attached = True
        former = self.cursor
        if former is None or former.journal != here.journal:
            # The disk did not take the epoch, and so the journal got another name: a gap that is reported.
            if former is not None:
                self.gaps.append((former, here))
            self.begun = self.begun or here
            self.cursor = here
        elif record["replay"] == "none":
            self._blame(f"its cursor {former} is not known, in the same journal, which is at {here}")
            self.cursor = here
        elif here < former:
            self._blame(f"its cursor is {former}, and the journal is only at {here}")
        if record["knownClient"] is not True:
            if kept := [identity for identity in self.responses if has_effect(self.sent[identity])]:
                self.forgotten.append(
                    f"client {self.name}: the host answered {kept[-3:]}, and does not know it: {record}"
                )
            self._forget_unsafe()

    def _forget_unsafe(self) -> None:
        """The host has lost this client's commands: what may have been executed can't be sent again."""
        for identity, command in list(self.pending.items()):
            name = str(command["type"])
            if self._unanswered[identity] and name not in MESSAGES and not name.startswith("get_"):
                self.unknown.add(identity)
                del self.pending[identity]

    def _respond(self, record: Record) -> None:
        identity = str(record.get("id"))
        first = self.responses.setdefault(identity, record)
        self._unanswered[identity] -= 1
        if self._unanswered[identity] < 0:
            # A connection that replaces another one gets its responses, perhaps before it repeats the commands.
            self._blame(f"a response too many: {record}")
        elif record != first and has_effect(self.sent[identity]):
            self._blame(f"another response to {identity}: {record}; the first one was {first}")
        self.pending.pop(identity, None)

    def _truncate(self, record: Record) -> None:
        begin, end = read_cursor(record["from"]), read_cursor(record["to"])
        if self.cursor is None or begin != self.cursor or end < begin:
            self._blame(f"behind {self.cursor}: {record}")
        self.gaps.append((begin, end))
        self.cursor = end

    def _restart(self, record: Record) -> None:
        assert self.cursor is not None
        epoch = record["epoch"]
        if epoch < self.cursor.epoch or (epoch == self.cursor.epoch and self.cursor.seq):
            self._blame(f"behind {self.cursor}: {record}")
        self.cursor = JournalPosition(self.cursor.journal, epoch, 0)
        self.restarts[self.cursor.journal, epoch] = record

    def _take_event(self, record: Record) -> None:
        assert self.cursor is not None
        place = self.cursor._replace(seq=record["seq"])
        if record["type"] == "extension_ui_request" and place.seq <= self.cursor.seq:
            return
        if place.seq != self.cursor.seq + 1:
            self._blame(f"behind {self.cursor} came {record}")
        self.cursor = place
        self.events[place] = {name: value for name, value in record.items() if name != "seq"}

    def _blame(self, text: str) -> None:
        self.faults.append(f"client {self.name}: {text}")


def has_effect(command: Mapping[str, object]) -> bool:
    """Return whether a command is no read."""
    return not str(command["type"]).startswith(("get_", "list_"))
