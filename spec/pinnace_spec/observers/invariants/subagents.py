"""Sub-agents: I-SUB-1 (each is listed, ends once, and with its call), I-SUB-2 (what was accepted for it is kept).

What a client is shown of one is between its beginning and its end, and nothing is shown to a client that has not asked.
A task that a client has named has one, and a client that waits for one without a limit learns of its end. Pure. Not
judged with extensions, which may replace the tool or its results. Sources: R-SUB-01, R-SUB-05, R-SUB-07, R-SUB-09,
R-SUB-10, R-SUB-13, R-SUB-14.
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
    """The call that has started it; empty: a client has."""
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
        self._is_asked = False
        """Whether the client is shown what sub-agents do."""
        self._shown: set[str] = set()
        """Those whose beginning it was shown, and whose end it was not."""
        self._of_tasks: dict[str, str] = {}
        """The sub-agents of the tasks that clients have named."""
        self._session_since = 0
        """The step since which there is this session: an answer to an earlier command may be about another one."""

    def take(self, step: Step) -> None:
        """Follow calls of the tool, and lists."""
        if self.fold.checks.has_extensions:
            return
        answered = self.fold.commands.answered
        if answered is not None and answered.is_success:
            self._answer(answered, step)
            return
        record = edge.as_record(step.record)
        if step.direction == "in":
            # Its answer may be behind what it has caused.
            self._is_asked = self._is_asked or (
                edge.text(record, "type") == "hello" and record.get("subagents") is True
            )
            return
        match self.fold.kind:
            case "session_changed":
                self._forget(step.number)
            case "subagent_event":
                self._show(step.number, record)
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

    def _forget(self, number: int) -> None:
        """Another session has other sub-agents."""
        self._session_since = number
        self._children.clear()
        self._of_calls.clear()
        self._doubled.clear()
        self._shown.clear()
        self._of_tasks.clear()

    def _show(self, number: int, record: Record) -> None:
        """Take what the client is shown of a sub-agent."""
        self.armed += 1
        identity, agent = edge.text(record, "agentId"), edge.inner(record, "agent")
        if not self._is_asked:
            self.report(f"record {number} shows a sub-agent, and the client has not asked", number, rules=("R-SUB-09",))
        if agent:
            call, state = edge.text(agent, "toolCallId"), edge.text(agent, "state")
            child = self._children.setdefault(identity, _Child(call, number))
            if call:
                self._of_calls.setdefault(call, set()).add(identity)
            self._become(number, child, state, f"record {number} shows a sub-agent as {edge.shown(state)}")
            (self._shown.add if state == _RUNNING else self._shown.discard)(identity)
        elif identity not in self._shown:
            self.report(f"record {number} shows a sub-agent that does not work", number, rules=("R-SUB-09",))

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
                if identity in self._shown:
                    what = f"record {number} ends the call of a sub-agent whose end was not shown"
                    self.report(what, self._children[identity].named, number, rules=("R-SUB-09",))
        if edge.text(edge.inner(edge.inner(result, "details"), "agent"), "state") == _RUNNING:
            self.report(f"record {number} ends the call of a sub-agent that it reports as running", number)

    def _answer(self, answered: Sent, step: Step) -> None:
        if answered.kind in SESSION_COMMANDS:
            self._forget(step.number)
        if answered.kind == "hello" and answered.record.get("subagents") is False:
            self._is_asked = False
            self._shown.clear()
        data = edge.inner(edge.as_record(step.record), "data")
        if answered.kind == "list_agents":
            self._list(step.number, data)
        elif answered.kind in ("start_agent", "wait_agent") and answered.number > self._session_since:
            self._take_answer(step.number, answered, edge.inner(data, "agent"))

    def _take_answer(self, number: int, answered: Sent, agent: Record) -> None:
        """Take the answer to a client that has started a sub-agent, or waited for one."""
        self.armed += 1
        identity, state = edge.text(agent, "agentId"), edge.text(agent, "state")
        is_known = identity in self._children
        child = self._children.setdefault(identity, _Child(edge.text(agent, "toolCallId"), number))
        self._become(number, child, state, f"record {number} answers with a sub-agent as {edge.shown(state)}")
        name = edge.text(answered.record, "messageId")
        if answered.kind == "start_agent" and name:
            first = self._of_tasks.setdefault(name, identity)
            if first != identity:
                what = f"record {number} answers with another sub-agent than for the same task before"
                self.report(what, self._children[first].named, number, rules=("R-SUB-13",))
        is_limited = answered.record.get("timeout") is not None
        if answered.kind == "wait_agent" and is_known and state == _RUNNING and not is_limited:
            what = f"record {number} ends a wait without a limit for a sub-agent that works"
            self.report(what, child.named, number, rules=("R-SUB-14",))

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


@dataclass(slots=True)
class _Message:
    """A message to a sub-agent."""

    state: str
    decided: int
    """The step that gave it that state."""
    ends: int = 0
    """The step at which the sub-agent was shown to have it."""


class AgentMessagesKept(Automaton):
    """Each message to a sub-agent that was accepted is delivered once, or returned with the end of the sub-agent."""

    id = "I-SUB-2"
    rules = ("R-SUB-10",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._messages: dict[str, dict[str, _Message]] = {}
        """By sub-agent and id."""
        self._ended: dict[str, int] = {}
        """Sub-agents that have ended, with the step that shows it."""
        self._session_since = 0

    def take(self, step: Step) -> None:
        """Follow answers, and what is shown of sub-agents."""
        if self.fold.checks.has_extensions:
            return
        record = edge.as_record(step.record)
        answered = self.fold.commands.answered
        if answered is not None and answered.is_success:
            self._answer(step.number, answered, edge.inner(record, "data"))
            return
        match self.fold.kind:
            case "session_changed":
                self._forget(step.number)
            case "subagent_event":
                self._show(step.number, record)
            case "tool_execution_end" if edge.text(record, "toolName") == _TOOL:
                self._read(step.number, edge.inner(edge.inner(edge.inner(record, "result"), "details"), "agent"))
            case _:
                pass

    def _forget(self, number: int) -> None:
        self._session_since = number
        self._messages.clear()
        self._ended.clear()

    def _answer(self, number: int, answered: Sent, data: Record) -> None:
        if answered.kind in SESSION_COMMANDS:
            self._forget(number)
        elif answered.kind == "list_agents":
            for item in edge.items(data, "agents"):
                self._read(number, edge.as_record(item), is_whole=True)
        elif answered.kind in ("start_agent", "wait_agent") and answered.number > self._session_since:
            self._read(number, edge.inner(data, "agent"), is_whole=True)
        elif answered.kind == "message_agent":
            self.armed += 1
            agent, state = edge.text(answered.record, "agentId"), edge.text(data, "state")
            known = self._messages.setdefault(agent, {})
            message = edge.text(data, "messageId")
            if state == "accepted" and message not in known and agent in self._ended:
                what = f"record {number} accepts a message to a sub-agent that has ended"
                self.report(what, self._ended[agent], number)
            self._become(number, known, message, state)

    def _show(self, number: int, record: Record) -> None:
        identity, event = edge.text(record, "agentId"), edge.inner(record, "event")
        if not event:
            self._read(number, edge.inner(record, "agent"))
            return
        message = self._messages.get(identity, {}).get(edge.text(event, "messageId"))
        if message is None or edge.text(event, "type") != "message_end":
            return
        if message.ends:
            what = f"record {number} shows a message to a sub-agent again, which it has had from record {message.ends}"
            self.report(what, message.ends, number)
        message.ends = number
        self._become(number, self._messages[identity], edge.text(event, "messageId"), "delivered")

    def _read(self, number: int, agent: Record, *, is_whole: bool = False) -> None:
        """Take what a record has of a sub-agent; `is_whole`: with all messages, also while it works."""
        identity = edge.text(agent, "agentId")
        has_ended = edge.text(agent, "state") not in ("", _RUNNING)
        if has_ended:
            self._ended.setdefault(identity, number)
        elif not is_whole:
            return
        known, named = self._messages.setdefault(identity, {}), set[str]()
        for item in edge.items(agent, "messages"):
            self.armed += 1
            message = edge.as_record(item)
            name, state = edge.text(message, "messageId"), edge.text(message, "state")
            named.add(name)
            self._become(number, known, name, state)
            if has_ended and state == "accepted":
                self.report(f"record {number} ends a sub-agent without saying what became of a message", number)
        for name, kept in known.items():
            if name not in named:
                what = f"record {number} does not name a message to a sub-agent, which record {kept.decided} does"
                self.report(what, kept.decided, number)

    def _become(self, number: int, known: dict[str, _Message], name: str, state: str) -> None:
        message = known.setdefault(name, _Message(state, number))
        if message.state not in ("accepted", state):
            what = f"record {number} has a message to a sub-agent as {edge.shown(state)}"
            self.report(f"{what}, which was {edge.shown(message.state)}", message.decided, number)
        elif message.state != state:
            message.state, message.decided = state, number
