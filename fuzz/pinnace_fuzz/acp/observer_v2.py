"""What must hold for the messages of one connection of version 2, in their order. A state machine, of both directions.

Work is a state: it begins with `running`, and ends with `idle` and a reason. A prompt is answered with the id of a
message that the client is shown. Within work a call and a terminal have one end, and nothing of a turn follows it. A
session that is resumed is shown from anew, and has its state before the response. Each fault names its rule of
`rules.toml`. Takes only messages that the schema allows. Must not know what agent it observes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace_fuzz.acp import connection_observer
from pinnace_fuzz.acp.connection_observer import ConnectionObserver, Fault, Json
from pinnace_fuzz.judge.scenarios.shapes import as_object

RULES: Final = (
    *connection_observer.RULES,
    *("R-ACP-10", "R-ACP-30", "R-ACP-71", "R-ACP-72", "R-ACP-102", "R-ACP-103", "R-ACP-105"),
    *(
        "R-ACP-106",
        "R-ACP-107",
        "R-ACP-108",
        "R-ACP-109",
        "R-ACP-110",
        "R-ACP-119",
        "R-ACP-124",
        "R-ACP-125",
        "R-ACP-131",
    ),
)
"""Those that are watched here."""

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})
_OF_TURNS: Final = frozenset(
    {
        *("agent_message_chunk", "agent_thought_chunk", "agent_message", "agent_thought"),
        *("tool_call_update", "tool_call_content_chunk", "terminal_update", "terminal_output_chunk"),
    }
)
_USER_MESSAGES: Final = frozenset({"user_message", "user_message_chunk"})


class _Session:
    def __init__(self) -> None:
        self.is_named = False
        self.is_closed = False
        self.state = "idle"
        self.reports_background = False
        self.calls: dict[str, str] = {}
        self.terminals: dict[str, bool] = {}
        """Of each, whether it has exited."""
        self.shown: set[str] = set()
        """The messages of the user that the client has."""
        self.accepted: set[str] = set()
        """The messages that responses have named."""
        self.resuming = 0
        self.has_state = True
        """Whether its state has come since it was resumed."""
        self.parent: _Session | None = None
        """Of the session of a sub-agent: the one that has announced it."""


class ObserverV2(ConnectionObserver[_Session]):
    """Observes one connection."""

    def __init__(self) -> None:
        """Begin before the first message."""
        super().__init__(_Session, "capabilities")

    def _requested(self, identity: object, method: str, params: Json) -> None:
        if method == "session/resume" and (session := self._session(params)) is not None:
            session.resuming += 1
            session.has_state = session.is_closed = False

    def _called(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        if (session := self._session(params)) is not None:
            if session.is_closed:
                yield Fault("R-ACP-125", f"after the session was closed: {message}")
            if not (session.is_named or session.resuming):
                yield Fault("R-ACP-10", f"before the response that names the session: {message}")
            if method == "session/update":
                yield from self._updated(session, params["update"])
        if method == "elicitation/create":
            offered = as_object(self._offered.get("elicitation")) or {}
            if not isinstance(offered.get(params.get("mode", "form")), Mapping):
                yield Fault("R-ACP-30", f"elicitation.{params.get('mode')} is not offered: {message}")

    def _forgotten(self, identity: object, method: str, params: Json) -> None:
        session = self._session(params)
        if method == "session/resume" and session is not None:
            session.resuming -= 1

    def _answered(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        session = self._session(params)
        has_succeeded = "result" in message
        if method in ("session/new", "session/fork") and has_succeeded:
            self._named(message["result"]["sessionId"]).is_named = True
        if session is None:
            return
        if method == "session/resume":
            session.resuming -= 1
            session.is_named = session.is_named or has_succeeded
            if has_succeeded and not session.has_state:
                yield Fault("R-ACP-119", f"resumed without its state: {message}")
        elif method == "session/close" and has_succeeded:
            session.is_closed = True
            if session.state != "idle":
                yield Fault("R-ACP-124", f"closed while {session.state}: {message}")
        elif method == "session/prompt" and has_succeeded:
            accepted = message["result"]["messageId"]
            if accepted in session.accepted:
                yield Fault("R-ACP-103", f"the id of an earlier message: {message}")
            session.accepted.add(accepted)

    def _updated(self, session: _Session, update: Json) -> Iterator[Fault]:
        kind = update["sessionUpdate"]
        if kind == "subagent_update":
            yield from self._child(session, update)
        elif kind == "state_update":
            yield from self._state(session, update)
        elif kind in _OF_TURNS and session.state == "idle" and not session.resuming:
            yield Fault("R-ACP-107", f"outside of work: {update}")
        if kind in _USER_MESSAGES:
            session.shown.add(update["messageId"])
        elif kind == "tool_call_update":
            yield from _call(session, update)
        elif kind == "tool_call_content_chunk" and session.calls.get(update["toolCallId"]) != "in_progress":
            yield Fault("R-ACP-110", f"of a call that is not in progress: {update}")
        elif kind in ("terminal_update", "terminal_output_chunk"):
            yield from _terminal(session, update)

    def _child(self, session: _Session, update: Json) -> Iterator[Fault]:
        """Take the announcement of a sub-agent, or a change of it."""
        child = self._named(update["sessionId"])
        state = (as_object(update.get("state")) or {}).get("state")
        if (child.parent or session) is not session or (child.parent is None and (child.shown or child.calls)):
            yield Fault("R-ACP-71", f"announced late, or by another session: {update}")
        if child.parent is not None and state == "idle" != child.state:
            yield Fault("R-ACP-72", f"a sub-agent is idle before its own session is: {update}")
        if session.resuming and state == "running":  # it is shown from anew
            child = self._sessions[update["sessionId"]] = _Session()
        child.parent, child.is_named = session, True

    def _state(self, session: _Session, update: Json) -> Iterator[Fault]:
        state, former = update["state"], session.state
        if isinstance(update.get("background"), list):
            session.reports_background = True
        elif session.reports_background:
            yield Fault("R-ACP-131", f"without the work in the background: {update}")
        session.state = state
        if session.resuming:
            session.has_state = True
            return
        if state == former:
            yield Fault("R-ACP-105", f"the state is sent twice: {update}")
        elif former == "idle" and state != "running":
            yield Fault("R-ACP-105", f"from idle to {state}")
        if state != "idle":
            return
        if working := [each for each in self._sessions.values() if each.parent is session and each.state != "idle"]:
            yield Fault("R-ACP-72", f"idle, and {len(working)} sub-agents work")
        if former != "idle" and update.get("stopReason") is None:
            yield Fault("R-ACP-106", f"work ends without a reason: {update}")
        if open_calls := [call for call, status in session.calls.items() if status not in _ENDED]:
            yield Fault("R-ACP-108", f"calls without an end: {open_calls}")
        if open_terminals := [each for each, has_exited in session.terminals.items() if not has_exited]:
            yield Fault("R-ACP-108", f"terminals without an end: {open_terminals}")
        if unseen := session.accepted - session.shown:
            yield Fault("R-ACP-102", f"messages that were accepted and not shown: {sorted(unseen)}")


def _call(session: _Session, update: Json) -> Iterator[Fault]:
    former = session.calls.get(update["toolCallId"])
    if former in _ENDED and not session.resuming:
        yield Fault("R-ACP-109", f"after its last status: {update}")
    if former is None and not update.get("title"):
        yield Fault("R-ACP-110", f"a call without a title: {update}")
    session.calls[update["toolCallId"]] = update.get("status") or former or "pending"


def _terminal(session: _Session, update: Json) -> Iterator[Fault]:
    identity = update["terminalId"]
    has_exited = session.terminals.get(identity, False)
    if has_exited and not session.resuming:
        yield Fault("R-ACP-109", f"after its end: {update}")
    if update["sessionUpdate"] == "terminal_output_chunk" and identity not in session.terminals:
        yield Fault("R-ACP-110", f"of an unknown terminal: {update}")
    session.terminals[identity] = update.get("exitStatus") is not None or (has_exited and not session.resuming)
