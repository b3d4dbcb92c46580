"""The questions of an agent's extensions to its users that wait for an answer.

Each is asked of all clients, and the first answer counts: the others learn that it is over. One that attaches later is
asked what was asked before the place at which it begins to read.
"""

import json
from typing import Final, NamedTuple

from pinnace_rpc.host import routing
from pinnace_rpc.host.journal import Journal
from pinnace_spec.records.messages import ASKED_BY, DIALOG_METHODS
from pinnace_spec.wire.json_text import JsonValue

_MAX_DIALOGS: Final = 1000


class _Dialog(NamedTuple):
    """An open question."""

    line: bytes
    place: int
    """Of the journal, before it."""
    child: str
    """The id of the sub-agent that has asked it; empty: the agent has."""


class OpenDialogs:
    """Those of one agent. It is true if one waits for an answer."""

    def __init__(self, journal: Journal) -> None:
        """Begin with none; that one was answered is reported in the journal."""
        self._journal = journal
        self._dialogs: dict[str, _Dialog] = {}

    def __bool__(self) -> bool:
        return bool(self._dialogs)

    @property
    def asking(self) -> set[str]:
        """The ids of the sub-agents that have asked one; empty: the agent itself."""
        return {dialog.child for dialog in self._dialogs.values()}

    def before(self, place: int) -> list[bytes]:
        """Return those that were asked before a place of the journal."""
        return [dialog.line for dialog in self._dialogs.values() if dialog.place < place]

    def note(self, line: bytes, place: int) -> None:
        """Take an `extension_ui_request`, which may ask nothing, at a place of the journal."""
        fields = routing.parse_record(line)
        identity = fields.get("id")
        if fields.get("method") in DIALOG_METHODS and isinstance(identity, str):
            while len(self._dialogs) >= _MAX_DIALOGS:
                del self._dialogs[next(iter(self._dialogs))]
            child = str(fields.get("title")).rpartition(ASKED_BY)
            self._dialogs[identity] = _Dialog(line, place, child[2] if child[1] else "")

    def take_back(self, line: bytes) -> bool:
        """Follow the end of a dialog; return whether it was open: if not, clients have the answer that has ended it."""
        return self.close(routing.parse_record(line).get("id"))

    def close(self, identity: JsonValue) -> bool:
        """Close a dialog; return whether it was open."""
        return isinstance(identity, str) and self._dialogs.pop(identity, None) is not None

    def report_answered(self, identity: JsonValue) -> None:
        """Report to all clients that one of them has answered a dialog."""
        fields = {"type": "extension_ui_resolved", "id": identity, "reason": "answered"}
        record = json.dumps(fields, separators=(",", ":"))
        self._journal.append(self._journal.next_event() + record.encode("ascii")[1:] + b"\n", 1)

    def forget(self) -> None:
        """Take notice that the process has ended: what it has asked needs no answer."""
        self._dialogs.clear()
