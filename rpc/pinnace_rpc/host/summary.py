"""What `pinnace agents` lists of an agent beside its process: model, queued messages, tokens, cost, memory.

Follows the records that pass the host, so that a list asks the agent nothing. Only what was before the first record is
asked for, once: the state of a process that has begun, and the totals of a session that it continues. Must not know
connections or journals.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from resource import getpagesize
from typing import TYPE_CHECKING, Final

from pinnace_rpc.host import routing
from pinnace_spec.wire.json_text import JsonValue

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.subagents.doing import Doing

_CALL_RECORDS: Final = frozenset({b"tool_execution_update", b"tool_execution_end"})
FOLLOWED: Final = frozenset(
    {b"message_end", b"compaction_end", b"auto_compaction_end", b"queue_update", *_CALL_RECORDS}
)
"""Types of records that change it."""
MODEL_COMMANDS: Final = frozenset({"set_model", "cycle_model"})
"""Commands whose responses do."""
_USAGE: Final = b'"usage":'
_OF_CHILD: Final = b'"toolName":"subagent"'
_SHOWN: Final = re.compile(
    rb'\{"type":"subagent_event","agentId":"([0-9a-f-]+)","event":\{"type":"(?:tool_execution_start|message_end)"'
)
_LEAST_NAME: Final = 8
"""Characters of the end of an id, as a table shows it."""
_KINDS: Final = ("input", "output", "cacheRead", "cacheWrite")


class AgentSummary:
    """One agent's, over all its processes."""

    def __init__(self) -> None:
        """Begin with what is known of an agent that has had no process of this host: nothing."""
        self.model: str | None = None
        """Provider and id, with a slash in between."""
        self.queued: int | None = None
        """Queued messages; of an agent that sleeps, those that wait for its next process."""
        self.tokens: int | None = None
        """Of all requests of the session, cached ones too."""
        self.cost: float | None = None
        """Of the same, in US dollars."""
        self._children: dict[str, dict[str, JsonValue]] = {}
        """The sub-agents that work, by their calls; those that clients have started, by their ids."""
        self._started: dict[str, Doing] = {}
        """What those do that clients have started."""

    @property
    def children(self) -> list[dict[str, JsonValue]]:
        """The sub-agents that work, in the order in which they were seen first."""
        return list(self._children.values())

    def child_of(self, name: str) -> str | None:
        """Return the id of the sub-agent that works and that a name means; None: there is none, or more than one.

        A name is its id, the end of its id (those of one moment begin alike), or its session file.
        """
        is_short = len(name) >= _LEAST_NAME
        found = {
            str(each["agentId"])
            for each in self._children.values()
            if name in (each["agentId"], each["sessionFile"]) or (is_short and str(each["agentId"]).endswith(name))
        }
        return found.pop() if len(found) == 1 else None

    def forget_children(self) -> None:
        """Take notice that the process has ended: its sub-agents have ended with it."""
        self._children.clear()
        self._started.clear()

    def take_state(self, data: Mapping[str, JsonValue]) -> bool:
        """Take the data of a `get_state`; returns whether the session has messages, so that its totals are unknown."""
        self._take_model(routing.member(data, "model"))
        count = data.get("pendingMessageCount", data.get("queuedMessageCount"))
        self.queued = count if isinstance(count, int) else None
        has_messages = data.get("messageCount") != 0
        if not has_messages:
            self.tokens, self.cost = 0, 0.0
        return has_messages

    def take_totals(self, data: Mapping[str, JsonValue]) -> None:
        """Take the data of a `get_session_stats`: of the whole session, or of its context in older profiles."""
        totals = routing.member(data, "session") or data
        tokens, cost = routing.member(totals, "tokens").get("total"), totals.get("cost")
        self.tokens = tokens if isinstance(tokens, int) else None
        self.cost = float(cost) if isinstance(cost, int | float) else None

    def take_model_answer(self, line: bytes) -> None:
        """Take the response to a command that has changed the model."""
        data = routing.member(routing.parse_record(line), "data")
        self._take_model(routing.member(data, "model") or data)

    def follow(self, kind: bytes, line: bytes) -> None:
        """Take a record of one of the types `FOLLOWED`."""
        if kind == b"queue_update":
            record = routing.parse_record(line)
            self.queued = sum(len(each) for each in map(record.get, ("steering", "followUp")) if isinstance(each, list))
        elif kind in _CALL_RECORDS:
            if _OF_CHILD in line:
                self._follow_child(kind, routing.parse_record(line))
        elif _USAGE in line:
            record = routing.parse_record(line)
            message = routing.member(record, "message" if kind == b"message_end" else "result")
            self._add(routing.member(message, "usage"))
            if message.get("role") == "assistant":
                self._take_model({"provider": message.get("provider"), "id": message.get("model")})

    def _follow_child(self, kind: bytes, record: Mapping[str, JsonValue]) -> None:
        """Take a record of the call that a sub-agent works for; its usage counts at the end, as in the session."""
        call = str(record.get("toolCallId"))
        result = routing.member(record, "result" if kind == b"tool_execution_end" else "partialResult")
        agent = routing.member(routing.member(result, "details"), "agent")
        usage = routing.member(agent, "usage")
        if kind == b"tool_execution_end":
            self._children.pop(call, None)
            self._add(usage)
        elif agent:
            self._children[call] = {"toolCallId": call, **_child(agent)}

    def take_started(self, agent: Mapping[str, JsonValue]) -> bool:
        """Take a sub-agent that a client has started, and that works; return whether it was unknown."""
        from pinnace_rpc.subagents.doing import Doing  # with the first one

        identity = str(agent.get("agentId"))
        if identity in self._started:
            return False
        self._children[identity], self._started[identity] = _child(agent), Doing()
        return True

    @property
    def has_started(self) -> bool:
        """Whether one works that a client has started."""
        return bool(self._started)

    def follow_shown(self, line: bytes) -> None:
        """Take an event that shows what a sub-agent does; those of calls are followed by the records of their calls."""
        if (match := _SHOWN.match(line)) is None or (doing := self._started.get(match[1].decode())) is None:
            return
        if doing.take(routing.member(routing.parse_record(line), "event")):
            totals = doing.totals
            self._children[match[1].decode()] |= {"activity": doing.activity or None}
            if doing.turns:
                self._children[match[1].decode()] |= {"tokens": totals["tokens"]["total"], "cost": totals["cost"]}

    def started_ended(self, identity: str, data: Mapping[str, JsonValue]) -> None:
        """Take the data of a `wait_agent` for one that a client has started; its usage counts now."""
        self._started.pop(identity, None)
        if self._children.pop(identity, None) is not None:
            self._add(routing.member(routing.member(data, "agent"), "usage"))

    def _take_model(self, model: Mapping[str, JsonValue]) -> None:
        provider, name = model.get("provider"), model.get("id")
        if isinstance(provider, str) and isinstance(name, str):
            self.model = f"{provider}/{name}"

    def _add(self, usage: Mapping[str, JsonValue]) -> None:
        counts = (usage.get(kind) for kind in _KINDS)
        if self.tokens is not None:
            self.tokens += sum(count for count in counts if isinstance(count, int))
        cost = routing.member(usage, "cost").get("total")
        if self.cost is not None and isinstance(cost, int | float):
            self.cost += cost


def _child(agent: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what is listed of a sub-agent."""
    usage = routing.member(agent, "usage")
    return {
        "agentId": agent.get("agentId"),
        "sessionFile": agent.get("sessionFile"),
        "state": agent.get("state"),
        "model": f"{agent.get('provider')}/{agent.get('model')}",
        "activity": agent.get("activity"),
        "tokens": usage.get("totalTokens"),
        "cost": routing.member(usage, "cost").get("total"),
    }


def resident_bytes(pid: int | None) -> int | None:
    """Return the resident memory of a process in whole MiB, with what it shares with others; None: it can't be read."""
    if pid is None:
        return None
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):  # another system; it has ended
        return None
    return pages * getpagesize() >> 20 << 20
