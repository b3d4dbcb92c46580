"""Names of messages: I-EVT-13 (the entry that a message is, and the message's own id, agree wherever they stand).

Pure. The fields are this program's; of agents without them there is nothing to judge. Sources: R-MSG-07, R-MSG-08,
R-TOL-10.
"""

from typing import NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step


class _Named(NamedTuple):
    """A message that was reported with the id of its entry."""

    number: int
    role: object
    message_id: object


class NamesAgree(Automaton):
    """All records of a message have the same `entryId` and `messageId`, and so has its entry of the session.

    So have those of a compaction.
    """

    id = "I-EVT-13"
    rules = ("R-MSG-07",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._run = 0
        self._begun = 0  # the record that began the message
        self._names: tuple[object, object] = (None, None)
        self._calls: dict[str, dict[object, int]] = {}  # of the turn: by the call's id, which may occur twice
        self._answer: tuple[object, list[str], int] = (None, [], 0)  # the entry, the calls and the end of the turn's
        self._compaction: tuple[object, int] | None = None  # the entry of the one that is open, and its first record
        self._gated: dict[tuple[str, object], int] = {}  # calls of the turn that may be refused, and have not begun
        self._entries: dict[str, _Named] = {}
        self._messages: dict[str, int] = {}

    def take(self, step: Step) -> None:
        """Take a record."""
        kind, number = self.fold.kind, step.number
        record = edge.as_record(step.record)
        match kind:
            case "agent_start":
                self._run = number
            case "turn_start":
                self._calls.clear()
                self._gated.clear()
                self._answer = (None, [], 0)
            case "message_start":
                self._begin(number, record)
            case "message_update":
                self._compare(number, (record.get("entryId"), self._names[1]))
            case "message_end":
                self._compare(number, (record.get("entryId"), record.get("messageId")))
                self._begun = 0
                message = edge.inner(record, "message")
                if message.get("role") == "assistant":
                    calls = [edge.text(call, "id") for call in edge.calls(message)]
                    self._answer = record.get("entryId"), calls, number
            case "tool_execution_start":
                self._calls.setdefault(edge.text(record, "toolCallId"), {})[record.get("entryId")] = number
                self._compare_place(number, record)
                if record.get("gated") is True:
                    self._gated[_call_of(record)] = number
            case "tool_execution_update":
                self._compare_call(number, edge.text(record, "toolCallId"), record.get("entryId"))
                self._compare_place(number, record)
                self._gated.pop(_call_of(record), None)
            case "tool_execution_end":
                self._compare_call(number, edge.text(record, "toolCallId"), record.get("entryId"))
                self._compare_place(number, record)
                begun = self._gated.pop(_call_of(record), None)
                if begun is not None and record.get("isError") is False:
                    what = f"record {number} ends the call of record {begun}, whose execution no update has reported"
                    self.report(what, begun, number, rules=("R-TOL-10",))
            case "compaction_start":
                self._compaction = record.get("entryId"), number
            case "compaction_end":
                self._compare_compaction(number, record)
            case "response" if record.get("command") == "get_entries":
                for entry in edge.items(edge.inner(record, "data"), "entries"):
                    self._compare_entry(number, edge.as_record(entry))
            case _:
                pass

    def _begin(self, number: int, record: Record) -> None:
        message = edge.inner(record, "message")
        entry_id, message_id = self._names = (record.get("entryId"), record.get("messageId"))
        self._begun = number
        if message.get("role") == "toolResult":
            self._compare_call(number, edge.text(message, "toolCallId"), entry_id)
        # Ids of other sessions are others' business: they may be equal by chance.
        if isinstance(entry_id, str):
            self.armed += 1
            former = self._entries.get(entry_id)
            if former is not None and former.number > self._run:
                what = f"record {number} is of the entry {edge.shown(entry_id)}, which record {former.number} has"
                self.report(what, former.number, number)
            self._entries[entry_id] = _Named(number, message.get("role"), message_id)
        if message_id is not None and message.get("role") != "user":
            self.report(f"record {number} has a messageId and is no message of the user", number, rules=("R-MSG-08",))
        elif isinstance(message_id, str):
            if (other := self._messages.get(message_id, 0)) > self._run:
                what = f"record {number} delivers the message {edge.shown(message_id)} of record {other} again"
                self.report(what, other, number, rules=("R-MSG-08",))
            self._messages[message_id] = number

    def _compare(self, number: int, names: tuple[object, object]) -> None:
        if self._begun and names != self._names:
            rules = ("R-MSG-08",) if names[0] == self._names[0] else self.rules
            what = f"record {number} names the message of record {self._begun} otherwise"
            self.report(what, self._begun, number, rules=rules)
            self._begun = 0  # once for each message

    def _compare_compaction(self, number: int, record: Record) -> None:
        entry_id, begun = self._compaction or (record.get("entryId"), 0)
        if record.get("entryId") != entry_id:
            what = f"record {number} is of another entry than the compaction of record {begun}"
            self.report(what, begun, number)
        elif isinstance(entry_id, str) and record.get("result") is not None:
            self._entries[entry_id] = _Named(number, None, None)
        self._compaction = None

    def _compare_call(self, number: int, call_id: str, entry_id: object) -> None:
        begun = self._calls.get(call_id)
        if begun is not None and entry_id not in begun:
            last = max(begun.values())
            what = f"record {number} is of another entry than the call {edge.shown(call_id)} of record {last}"
            self.report(what, last, number)

    def _compare_place(self, number: int, record: Record) -> None:
        """Compare the answer and the place that a record of a call names with the answer of the turn."""
        entry_id, calls, ended = self._answer
        named, index = record.get("assistantEntryId"), record.get("callIndex")
        if not ended or (named is None and index is None):
            return
        call = edge.text(record, "toolCallId")
        is_there = isinstance(index, int) and 0 <= index < len(calls) and calls[index] == call
        if named != entry_id or not is_there:
            what = f"record {number} names another call than {edge.shown(call)} of the answer of record {ended}"
            self.report(what, ended, number, rules=("R-TOL-10",))

    def _compare_entry(self, number: int, entry: Record) -> None:
        named = self._entries.get(edge.text(entry, "id"))
        if named is None:
            return
        role = "custom" if entry.get("type") == "custom_message" else edge.inner(entry, "message").get("role")
        if role != named.role:
            what = f"record {number} shows another message as the entry of record {named.number}"
            self.report(what, named.number, number)
        elif entry.get("messageId") != named.message_id:
            what = f"record {number} shows another messageId than record {named.number} has"
            self.report(what, named.number, number, rules=("R-MSG-08",))


def _call_of(record: Record) -> tuple[str, object]:
    return edge.text(record, "toolCallId"), record.get("entryId")
