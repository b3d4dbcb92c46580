"""Observers: what must hold of any trace of records, judged from the records alone.

Pure. An observer is fed each record that an agent wrote, in order, and says what is wrong with it, citing the
invariant; it never looks at the agent. Used by tests of the whole program, and on recorded traces. Must not know the
chart: a defect of the chart must not hide itself here. Invariants: I-EVT-1 (brackets), I-EVT-2 (updates), I-EVT-3
(deltas), I-EVT-6 (tool calls), I-EVT-8 (sums), I-EVT-9 (retries), I-EVT-10 (compactions), I-EVT-11 (settled),
I-RSP-2 (shape of responses).
"""

from collections.abc import Mapping
from typing import Any, cast

# The edge of JSON: records of any agent, of which nothing may be assumed.
Record = Mapping[str, Any]

_BRACKETS = {
    "agent_start": "agent",
    "turn_start": "turn",
    "compaction_start": "compaction",
}
_ENDS = {"agent_end": "agent", "turn_end": "turn", "compaction_end": "compaction"}
_PARENTS = {"agent": (), "turn": ("agent",), "compaction": ()}


class TraceObserver:
    """Judges one trace. Feed every record in order; `finish` when the trace has ended."""

    def __init__(self) -> None:
        """Begin with nothing open."""
        self._open: list[str] = []
        self._message: Record | None = None  # between message_start and message_end
        self._deltas: dict[int, list[str]] = {}
        self._assistant: Record | None = None  # of this turn
        self._run_messages: list[Record] = []
        self._calls: dict[str, str] = {}  # open tool executions: id to name
        self._results: list[Record] = []  # of this turn
        self._causes = _Causes()

    def feed(self, record: Record) -> list[str]:
        """Take a record and return what is wrong with it."""
        return [*self._causes.feed(record), *self._feed(record)]

    def _feed(self, record: Record) -> list[str]:
        kind = record.get("type")
        match kind:
            case "response":
                return _response(record)
            case "agent_start" | "turn_start" | "compaction_start":
                return self._begin(str(kind))
            case "agent_end" | "turn_end" | "compaction_end":
                return self._end(str(kind), record)
            case "message_start":
                return self._start_message(record["message"])
            case "message_update":
                return self._update(record["assistantMessageEvent"])
            case "message_end":
                return self._end_message(record["message"])
            case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
                return self._tool(str(kind), record)
            case "agent_settled":
                return self._settle()
            case _:
                return []

    def finish(self) -> list[str]:
        """End the trace: nothing may be open (I-EOF-1)."""
        problems = [f"I-EOF-1: {name} is still open" for name in self._open] + self._causes.finish()
        if self._message is not None:
            problems.append("I-EOF-1: a message is still open")
        return [*problems, *(f"I-EOF-1: tool call {call} is still open" for call in self._calls)]

    def _begin(self, kind: str) -> list[str]:
        name = _BRACKETS[kind]
        problems = [] if tuple(self._open) == _PARENTS[name] else [f"I-EVT-1: {kind} inside {self._open}"]
        self._open.append(name)
        if name == "agent":
            self._run_messages = []
        if name == "turn":
            self._assistant, self._results = None, []
        return problems

    def _end(self, kind: str, record: Record) -> list[str]:
        name = _ENDS[kind]
        if not self._open or self._open[-1] != name or self._message is not None or self._calls:
            return [f"I-EVT-1: {kind} while {self._open}, message {self._message is not None}, calls {self._calls}"]
        self._open.pop()
        if name == "turn":
            return self._turn_sums(record)
        if name == "agent" and record["messages"] != self._run_messages:
            return ["I-EVT-8: agent_end.messages is not what message_end told since agent_start"]
        return []

    def _turn_sums(self, record: Record) -> list[str]:
        problems: list[str] = []
        if record["message"] != self._assistant:
            problems.append("I-EVT-8: turn_end.message is not the last assistant message")
        if record["toolResults"] != self._results:
            problems.append("I-EVT-8: turn_end.toolResults are not the turn's results")
        wanted = [block["id"] for block in _blocks(self._assistant) if block["type"] == "toolCall"]
        got = [result["toolCallId"] for result in self._results]
        if _stop(self._assistant) not in {"error", "aborted"} and wanted != got:
            problems.append(f"I-EVT-6: calls {wanted} have results {got}")
        return problems

    def _start_message(self, message: Record) -> list[str]:
        problems = [] if self._open[-1:] == ["turn"] else ["I-EVT-1: message_start outside a turn"]
        if self._message is not None:
            problems.append("I-EVT-1: message_start inside a message")
        self._message = message
        self._deltas = {}
        return problems

    def _update(self, event: Record) -> list[str]:
        if self._message is None or self._message["role"] != "assistant":
            return ["I-EVT-2: message_update outside an assistant message"]
        index, kind = event["contentIndex"], str(event["type"])
        if kind.endswith("_start"):
            self._deltas[index] = []
        elif index not in self._deltas:
            return [f"I-EVT-3: {kind} of block {index}, which was not started"]
        elif kind.endswith("_delta"):
            self._deltas[index].append(event["delta"])
        elif kind in {"text_end", "thinking_end"} and "".join(self._deltas[index]) != event["content"]:
            return [f"I-EVT-3: the deltas of block {index} are not its content"]
        return []

    def _end_message(self, message: Record) -> list[str]:
        problems: list[str] = []
        if self._message is None or self._message["role"] != message["role"]:
            problems.append("I-EVT-1: message_end without its message_start")
        elif message["role"] != "assistant" and self._message != message:
            problems.append("I-EVT-1: message_end differs from message_start")
        self._message = None
        self._run_messages.append(message)
        if message["role"] == "assistant":
            self._assistant = message
            problems += self._delta_sums(message)
        elif message["role"] == "toolResult":
            self._results.append(message)
        return problems

    def _delta_sums(self, message: Record) -> list[str]:
        for index, block in enumerate(_blocks(message)):
            text = block.get("text", block.get("thinking"))
            if text is not None and "".join(self._deltas.get(index, [])) != text:
                return [f"I-EVT-3: the deltas of block {index} are not message_end's"]
        return []

    def _tool(self, kind: str, record: Record) -> list[str]:
        call = record["toolCallId"]
        if kind == "tool_execution_start":
            known = [block["id"] for block in _blocks(self._assistant) if block["type"] == "toolCall"]
            problems = [] if call in known else [f"I-EVT-6: {call} is no call of the message"]
            self._calls[call] = record["toolName"]
            return problems
        if call not in self._calls:
            return [f"I-EVT-6: {kind} of {call}, which is not executing"]
        if kind == "tool_execution_end":
            del self._calls[call]
        return []

    def _settle(self) -> list[str]:
        return [f"I-EVT-11: settled inside {self._open}"] if self._open or self._message else []


class _Causes:
    """Judges why runs start: for a text, for a retry that was announced, or because a compaction has made room."""

    def __init__(self) -> None:
        self._announced = ""  # what must come before anything else of a run; empty: nothing
        self._attempt = 0  # of the open retry bracket; one slot, beside the others
        self._has_spoken = False  # a text came since the attempt was announced: its failures count anew
        self._needs_text = False  # the run that has started was announced by nothing
        self._reason: object = None  # of the open compaction
        self._stop = ""  # of the last answer

    def feed(self, record: Record) -> list[str]:
        """Take a record and return what is wrong with it."""
        match record.get("type"):
            case "agent_start":
                # A retry leads to a run, and so does a compaction that says so.
                self._needs_text = self._announced != "agent_start"
                return self._expect("agent_start")
            case "agent_end":
                self._announced = "auto_retry_start" if record.get("willRetry") else ""
            case "message_start" | "message_end" as kind:
                return self._message(kind, record["message"])
            case "auto_retry_start":
                return self._start_retry(record)
            case "auto_retry_end":
                return self._end_retry(record)
            case "compaction_start":
                self._reason = record["reason"]
                return self._expect("compaction_start")
            case "compaction_end":
                return self._end_compaction(record)
            case "agent_settled":
                problems = self._expect("agent_settled")
                return [*problems, "I-EVT-9: settled inside a retry"] if self._attempt else problems
            case _:
                pass
        return []

    def finish(self) -> list[str]:
        """End the trace: what was announced has come."""
        problems = [f"I-EOF-1: {self._announced} was announced and never came"] if self._announced else []
        return [*problems, "I-EOF-1: a retry is still open"] if self._attempt else problems

    def _expect(self, kind: str) -> list[str]:
        announced, self._announced = self._announced, ""
        invariant = "I-EVT-9" if announced == "auto_retry_start" or self._attempt else "I-EVT-10"
        return [f"{invariant}: {kind} where {announced} was announced"] if announced not in {"", kind} else []

    def _message(self, kind: str, message: Record) -> list[str]:
        if message["role"] != "assistant":
            self._needs_text, self._has_spoken = False, True
        elif kind == "message_end":
            self._stop = _stop(message)
        elif self._needs_text:
            self._needs_text = False
            return ["I-EVT-1: a run starts for no text, no retry and no compaction"]
        return []

    def _start_retry(self, record: Record) -> list[str]:
        problems = [] if self._announced == "auto_retry_start" else ["I-EVT-9: a retry that agent_end did not announce"]
        attempt = record["attempt"]
        allowed = {self._attempt + 1, 1} if self._has_spoken else {self._attempt + 1}
        if attempt not in allowed or attempt > record["maxAttempts"]:
            problems.append(f"I-EVT-9: attempt {attempt} of {record['maxAttempts']} after {self._attempt}")
        self._attempt, self._has_spoken, self._announced = attempt, False, "agent_start"
        return problems

    def _end_retry(self, record: Record) -> list[str]:
        problems = [] if record["attempt"] == self._attempt else [f"I-EVT-9: the open attempt is {self._attempt}"]
        if record["success"] and self._stop in {"error", "aborted"}:
            problems.append(f"I-EVT-9: a retry succeeds with an answer that is {self._stop}")
        # Cancelled in its delay: then no run follows.
        self._attempt, self._announced = 0, ""
        return problems

    def _end_compaction(self, record: Record) -> list[str]:
        problems = [] if record["reason"] == self._reason else ["I-EVT-10: compaction_end names another reason"]
        self._announced = "agent_start" if record["willRetry"] else ""
        if record["willRetry"] and record["reason"] != "overflow":
            problems.append(f"I-EVT-10: {record['reason']} leads to a run")
        return problems


def _response(record: Record) -> list[str]:
    if not isinstance(record.get("command"), str) or not isinstance(record.get("success"), bool):
        return ["I-RSP-2: a response without command or success"]
    if record["success"] == ("error" in record):
        return ["I-RSP-2: error stands if and only if success is false"]
    return []


def _blocks(message: Record | None) -> list[Record]:
    content: object = message["content"] if message is not None else []
    return cast(list[Record], content) if isinstance(content, list) else []


def _stop(message: Record | None) -> str:
    return str(message["stopReason"]) if message is not None else "aborted"
