"""Reads a transcript: what was said, in which order, and whether every bracket is closed.

Pure; knows the published nesting of records and nothing of any agent. Brackets may be left open in a transcript that
was cut; whoever asks says whether that matters. Rules R-RUN-01 to R-RUN-03, C-15.
"""

from collections.abc import Iterable, Sequence

from pinnace_fuzz.journal import ReceivedRecord
from pinnace_fuzz.records import Record

# How many brackets are open around each kind.
_DEPTHS = {"agent": 0, "turn": 1, "message": 2}


def kinds(records: Sequence[ReceivedRecord], *wanted: str) -> list[str]:
    """Return the types of records in order, or only the wanted ones; responses as `command:ok` or `command:error`."""
    words = [_word(received.record) for received in records]
    return [word for word in words if word in wanted] if wanted else words


def _word(record: Record) -> str:
    if record["type"] == "response":
        return f"{record.get('command')}:{'ok' if record.get('success') else 'error'}"
    return str(record["type"])


def user_texts(records: Sequence[ReceivedRecord]) -> list[str]:
    """Return the texts of the users' messages that entered the conversation, in order."""
    messages = [each.record["message"] for each in records if each.record["type"] == "message_end"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def deltas(records: Sequence[ReceivedRecord], kind: str = "text_delta") -> str:
    """Join the deltas of one kind: of the only answer, or of all of them."""
    events = (each.record["assistantMessageEvent"] for each in records if each.record["type"] == "message_update")
    return "".join(event["delta"] for event in events if event["type"] == kind)


def bracket_faults(records: Iterable[ReceivedRecord]) -> list[str]:
    """Say what is wrong with the nesting of runs, turns, messages, blocks, tools, retries and compactions.

    An empty list means: each opened where it may, and all closed at the end, innermost first.
    """
    brackets = _Brackets()
    for received in records:
        for fault in brackets.take(received.record):
            brackets.faults.append(f"#{received.number} {_word(received.record)}: {fault}")
    return brackets.faults + [f"left open: {name}" for name in brackets.left_open()]


class _Brackets:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self._stack: list[str] = []
        self._tools: list[str] = []
        self._blocks: list[int] = []
        self._others: list[str] = []

    def left_open(self) -> list[str]:
        return [*self._stack, *self._tools, *map(str, self._blocks), *self._others]

    def take(self, record: Record) -> list[str]:
        name, _, edge = str(record["type"]).rpartition("_")
        match name, edge:
            case ("agent" | "turn" | "message"), "start":
                return self._open(name, record)
            case ("agent" | "turn" | "message"), "end":
                return self._close(name, record)
            case "message", "update":
                return self._update(record["assistantMessageEvent"])
            case "tool_execution", _:
                return self._tool(edge, record["toolCallId"])
            case ("auto_retry" | "compaction"), "start":
                self._others.append(name)
            case ("auto_retry" | "compaction"), "end":
                return _remove(self._others, name)
            case "agent", "settled":
                return [f"inside of {name}" for name in self.left_open()]
            case _:
                pass
        return []

    def _open(self, name: str, record: Record) -> list[str]:
        faults = [] if len(self._stack) == _DEPTHS[name] else [f"opens inside of {self._stack}"]
        if name == "message" and record["message"]["role"] == "toolResult":
            faults += [f"a result while {tool} works" for tool in self._tools]
        self._stack.append(name)
        return faults

    def _close(self, name: str, record: Record) -> list[str]:
        faults: list[str] = []
        if name == "message" and record["message"].get("stopReason") == "error":
            self._blocks.clear()  # a stream that broke leaves its blocks without an end
        if name == "turn":
            faults += [f"{tool} still works" for tool in self._tools]
        faults += [f"block {block} is still open" for block in self._blocks]
        if self._stack[-1:] == [name]:
            self._stack.pop()
            return faults
        return [*faults, f"closes inside of {self._stack}"]

    def _update(self, event: Record) -> list[str]:
        faults = [] if self._stack[-1:] == ["message"] else [f"an update inside of {self._stack}"]
        _, _, edge = str(event["type"]).rpartition("_")
        match edge:
            case "start":
                self._blocks.append(event["contentIndex"])
            case "end":
                faults += _remove(self._blocks, event["contentIndex"])
            case _ if event["contentIndex"] not in self._blocks:
                faults.append(f"a delta for block {event['contentIndex']}, which is not open")
            case _:
                pass
        return faults

    def _tool(self, edge: str, call_id: str) -> list[str]:
        faults = [] if self._stack == ["agent", "turn"] else [f"a tool inside of {self._stack}"]
        match edge:
            case "start":
                self._tools.append(call_id)
            case "end":
                faults += _remove(self._tools, call_id)
            case _ if call_id not in self._tools:
                faults.append(f"progress of {call_id}, which does not work")
            case _:
                pass
        return faults


def _remove(names: list[str] | list[int], name: str | int) -> list[str]:
    if name not in names:
        return [f"{name} was not open"]
    names.remove(name)  # type: ignore[arg-type]  # both are of the same kind
    return []
