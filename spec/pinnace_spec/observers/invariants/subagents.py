"""Sub-agents: I-SUB-1 (each that a record names is listed, ends once, and does not outlive the call that started it).

Pure. Not judged with extensions, which may replace the tool or its results. Sources: R-SUB-01, R-SUB-05, R-SUB-07.
"""

from dataclasses import dataclass
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Record, Step

_TOOL: Final = "subagent"
_RUNNING: Final = "running"


@dataclass(slots=True)
class _Child:
    """A sub-agent that a record has named."""

    call: str
    named: int
    """The step that named it first."""
    state: str = _RUNNING
    decided: int = 0
    """The step that gave it that state."""
    outlived: int = 0
    """The step at which its call had ended."""


class SubagentsEnd(Automaton):
    """Each sub-agent that a record names is listed once, ends once, and does not work when its call has ended."""

    id = "I-SUB-1"
    rules = ("R-SUB-05",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._children: dict[str, _Child] = {}
        self._of_calls: dict[str, set[str]] = {}
        """The sub-agents of the calls that are carried out."""
        self._doubled: set[str] = set()

    def take(self, step: Step) -> None:
        """Follow calls of the tool, and lists."""
        if self.fold.checks.has_extensions:
            return
        answered = self.fold.commands.answered
        if answered is not None and answered.is_success:
            self._answer(answered, step)
            return
        record = edge.as_record(step.record)
        match edge.out_kind(step):
            case "session_changed":
                self._forget()
            case "tool_execution_start" if edge.text(record, "toolName") == _TOOL:
                self._start(edge.text(record, "toolCallId"))
            case "tool_execution_update" if edge.text(record, "toolName") == _TOOL:
                self._name(step.number, record, edge.inner(record, "partialResult"))
            case "tool_execution_end" if edge.text(record, "toolName") == _TOOL:
                self._name(step.number, record, edge.inner(record, "result"))
                self._end(step.number, edge.text(record, "toolCallId"), edge.inner(record, "result"))
            case _:
                pass

    def _start(self, call: str) -> None:
        if call in self._of_calls:  # of an answer that has an id twice: which of the two ends is not known
            self._doubled.add(call)
        self._of_calls.setdefault(call, set())

    def _forget(self) -> None:
        """Another session has other sub-agents."""
        self._children.clear()
        self._of_calls.clear()
        self._doubled.clear()

    def _name(self, number: int, record: Record, result: Record) -> None:
        """Take what a record of a call says of a sub-agent."""
        agent = edge.inner(edge.inner(result, "details"), "agent")
        identity, state = edge.text(agent, "agentId"), edge.text(agent, "state")
        if not identity or not state:
            return
        self.armed += 1
        call = edge.text(record, "toolCallId")
        child = self._children.setdefault(identity, _Child(call, number))
        self._of_calls.setdefault(call, set()).add(identity)
        if child.call != call:
            what = f"record {number} names the sub-agent of record {child.named} for another call"
            self.report(what, child.named, number, rules=("R-SUB-01",))
        self._become(number, child, state, f"record {number} reports a sub-agent as {edge.shown(state)}")

    def _become(self, number: int, child: _Child, state: str, what: str) -> None:
        if child.state not in (_RUNNING, state):
            self.report(f"{what}, which has ended as {edge.shown(child.state)}", child.decided, number)
        elif state == _RUNNING and child.outlived:
            self.report(f"{what}, whose call record {child.outlived} has ended", child.outlived, number)
        elif child.state != state:
            child.state, child.decided = state, number

    def _end(self, number: int, call: str, result: Record) -> None:
        for identity in self._of_calls.pop(call, ()):
            if call not in self._doubled:
                self._children[identity].outlived = number
        if edge.text(edge.inner(edge.inner(result, "details"), "agent"), "state") == _RUNNING:
            self.report(f"record {number} ends the call of a sub-agent that it reports as running", number)

    def _answer(self, answered: Sent, step: Step) -> None:
        if answered.kind in SESSION_COMMANDS:
            self._forget()
        if answered.kind == "list_agents":
            self._list(step.number, edge.inner(edge.as_record(step.record), "data"))

    def _list(self, number: int, data: Record) -> None:
        self.armed += 1
        listed: set[str] = set()
        for item in edge.items(data, "agents"):
            agent = edge.as_record(item)
            identity, state = edge.text(agent, "agentId"), edge.text(agent, "state")
            if identity in listed:
                self.report(f"record {number} lists a sub-agent twice", number, rules=("R-SUB-07",))
            listed.add(identity)
            if (child := self._children.get(identity)) is not None:
                self._become(number, child, state, f"record {number} lists a sub-agent as {edge.shown(state)}")
        for identity, child in self._children.items():
            if identity not in listed:
                what = f"record {number} does not list the sub-agent of record {child.named}"
                self.report(what, child.named, number, rules=("R-SUB-07",))
