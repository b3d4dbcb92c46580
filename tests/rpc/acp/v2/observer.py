"""What must hold for the messages of one connection of version 2, in their order. Reads both directions.

States: work begins with `running`, ends with `idle` and a reason, and each is sent once. Within work: a call and a
terminal have one end, and nothing of a turn follows it. A prompt's response names a message that the client is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pinnace_fuzz.acp.observer import Fault

Json = Mapping[str, Any]  # Any: JSON

RULE = "ACP v2"
ENDED = ("completed", "failed", "cancelled")
OF_TURNS = frozenset(
    {
        *("agent_message_chunk", "agent_thought_chunk", "agent_message", "agent_thought"),
        *("tool_call_update", "tool_call_content_chunk", "terminal_update", "terminal_output_chunk"),
    }
)


class _Session:
    def __init__(self) -> None:
        self.state = "idle"
        self.calls: dict[str, str] = {}
        self.terminals: dict[str, bool] = {}
        self.shown: set[str] = set()
        self.promised: set[str] = set()
        self.resuming = 0
        self.has_state = True
        self.is_closed = False
        self.parent: _Session | None = None


class Observer2:
    """Observes one connection."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[str, Json]] = {}
        self._sessions: dict[str, _Session] = {}

    def sent(self, message: Json) -> None:
        if "method" not in message or "id" not in message:
            return
        params: Json = message.get("params") or {}
        self._open[message["id"]] = (message["method"], params)
        if message["method"] == "session/resume" and isinstance(params.get("sessionId"), str):
            session = self._sessions.setdefault(params["sessionId"], _Session())
            session.resuming += 1
            session.has_state = session.is_closed = False

    def forget(self, identity: object) -> None:
        self._open.pop(identity, None)

    def closed(self) -> Sequence[Fault]:
        return [Fault(RULE, f"without a response: {sorted(map(str, self._open))}")] if self._open else []

    def received(self, message: Json) -> Sequence[Fault]:
        if "method" not in message:
            return [*self._responded(message)]
        params: Json = message["params"]
        session = self._sessions.setdefault(str(params.get("sessionId")), _Session())
        faults = [Fault(RULE, f"after the session was closed: {message}")] if session.is_closed else []
        if message["method"] == "session/update":
            faults += self._updated(session, params["update"])
        return faults

    def _responded(self, message: Json) -> Iterator[Fault]:
        if (identity := message.get("id")) is None:
            return
        opened = self._open.pop(identity, None)
        if opened is None:
            yield Fault(RULE, f"a response to no open request: {message}")
            return
        method, params = opened
        session = self._sessions.setdefault(str(params.get("sessionId")), _Session())
        if method == "session/resume":
            session.resuming -= 1
            if "result" in message and not session.has_state:
                yield Fault(RULE, f"a session was resumed without its state: {message}")
        elif method == "session/close" and "result" in message:
            session.is_closed = True
            if session.state != "idle":
                yield Fault(RULE, f"closed while {session.state}")
        elif method == "session/prompt" and "result" in message:
            session.promised.add(message["result"]["messageId"])

    def _updated(self, session: _Session, update: Json) -> Iterator[Fault]:
        kind = update["sessionUpdate"]
        if kind == "subagent_update":
            child = self._sessions.setdefault(update["sessionId"], _Session())
            if (child.parent or session) is not session or (child.parent is None and (child.shown or child.calls)):
                yield Fault(RULE, f"announced late, or by another session: {update}")
            if child.parent is not None and update["state"]["state"] == "idle" != child.state:
                yield Fault(RULE, f"a sub-agent is idle before its own session is: {update}")
            child.parent = session
            if session.resuming and update["state"]["state"] == "running":  # it is shown from anew
                self._sessions[update["sessionId"]] = child = _Session()
                child.parent = session
        if kind == "state_update":
            yield from self._state(session, update)
        elif kind in OF_TURNS and session.state == "idle" and not session.resuming:
            yield Fault(RULE, f"outside of work: {update}")
        if kind == "user_message":
            session.shown.add(update["messageId"])
        elif kind == "tool_call_update":
            former = session.calls.get(update["toolCallId"])
            if former in ENDED and not session.resuming:
                yield Fault(RULE, f"after its last status: {update}")
            if former is None and not update.get("title"):
                yield Fault(RULE, f"a call without a title: {update}")
            session.calls[update["toolCallId"]] = update.get("status", former or "pending")
        elif kind == "tool_call_content_chunk" and session.calls.get(update["toolCallId"]) != "in_progress":
            yield Fault(RULE, f"of a call that is not in progress: {update}")
        elif kind in ("terminal_update", "terminal_output_chunk"):
            yield from self._terminal(session, update)

    def _state(self, session: _Session, update: Json) -> Iterator[Fault]:
        state, former = update["state"], session.state
        if session.resuming:
            session.has_state, session.state = True, state
            return
        if state == former:
            yield Fault(RULE, f"the state is sent twice: {update}")
        if former == "idle" and state != "running":
            yield Fault(RULE, f"from idle to {state}")
        if state == "idle":
            if working := [each for each in self._sessions.values() if each.parent is session and each.state != "idle"]:
                yield Fault(RULE, f"idle, and {len(working)} sub-agents work")
            if "stopReason" not in update:
                yield Fault(RULE, f"work ends without a reason: {update}")
            if open_calls := [call for call, status in session.calls.items() if status not in ENDED]:
                yield Fault(RULE, f"calls without an end: {open_calls}")
            if open_terminals := [each for each, has_ended in session.terminals.items() if not has_ended]:
                yield Fault(RULE, f"terminals without an end: {open_terminals}")
            if unseen := session.promised - session.shown:
                yield Fault(RULE, f"messages that were accepted and not shown: {unseen}")
        session.state = state

    def _terminal(self, session: _Session, update: Json) -> Iterator[Fault]:
        identity = update["terminalId"]
        if session.terminals.get(identity) and not session.resuming:
            yield Fault(RULE, f"after its end: {update}")
        if update["sessionUpdate"] == "terminal_output_chunk" and identity not in session.terminals:
            yield Fault(RULE, f"of an unknown terminal: {update}")
        session.terminals[identity] = update.get("exitStatus") is not None
