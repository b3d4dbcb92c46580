"""What must hold for the messages of one connection of version 1, in their order. A state machine, of both directions.

Each fault names its rule of `rules.toml`. Takes only messages that the schema allows. Must not know what agent it
observes, nor what a client expects of its answers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pinnace_fuzz.acp import connection_observer
from pinnace_fuzz.acp.connection_observer import ConnectionObserver, Fault, Json
from pinnace_fuzz.judge.scenarios.shapes import as_object

RULES: Final = (
    *connection_observer.RULES,
    *("R-ACP-10", "R-ACP-14", "R-ACP-15", "R-ACP-16", "R-ACP-17", "R-ACP-18", "R-ACP-30", "R-ACP-40"),
    *("R-ACP-70", "R-ACP-71", "R-ACP-72"),
)
"""Those that are watched here."""

_ORDER: Final = {"pending": 0, "in_progress": 1, "completed": 2, "failed": 2}
_CHUNKS: Final = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
_ENDED: Final = 2
_OF_TURNS: Final = frozenset({*_CHUNKS, "tool_call", "tool_call_update"})
_OF_CHILDREN: Final = frozenset({"subagent_update", "session_message", "session_message_chunk"})
_OFFERS: Final = {
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/": ("terminal",),
    "elicitation/create": ("elicitation",),
}
"""The beginning of a method of the client -> where its capability is."""


class _Session:
    def __init__(self) -> None:
        self.is_named = False
        self.loads = 0
        self.calls: dict[str, str] = {}
        self.turn_calls: set[str] = set()
        self.message: str | None = None
        self.messages: set[str] = set()
        self.complete: set[str] | None = None
        """The messages that were complete when a session that was open is loaded: others may be shown from anew."""
        self.incomplete: set[str] = set()
        """Likewise, the calls that had not ended: each may be announced once more, in the replay or behind it."""
        self.prompts: list[object] = []
        self.is_at_work = False
        self.has_prompted = False
        self.parent: _Session | None = None
        """Of the session of a sub-agent: the one that has announced it."""
        self.children: list[_Session] = []


class Observer(ConnectionObserver[_Session]):
    """Observes one connection."""

    def __init__(self) -> None:
        """Begin before the first message."""
        super().__init__(_Session, "clientCapabilities")

    def _requested(self, identity: object, method: str, params: Json) -> None:
        if (session := self._session(params)) is None:
            return
        if method == "session/prompt":
            session.prompts.append(identity)
            session.has_prompted = True
        elif method == "session/load":
            session.loads += 1
            if session.is_named and session.complete is None:
                session.complete = session.messages - {session.message}
                session.incomplete = {call for call, status in session.calls.items() if _ORDER[status] < _ENDED}

    def _called(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        if method == "session/update":
            yield from self._updated(params)
            return
        yield from self._asked(method, message)
        if method == "session/request_permission":
            yield from self._asked_permission(params, message)

    def _forgotten(self, identity: object, method: str, params: Json) -> None:
        session = self._session(params)
        if session is not None and identity in session.prompts:
            if session.prompts[0] == identity:
                session.turn_calls.clear()
            session.prompts.remove(identity)

    def _answered(self, method: str, params: Json, message: Json) -> Iterator[Fault]:
        session = self._session(params)
        if method in ("session/new", "session/fork") and "result" in message:
            self._named(message["result"]["sessionId"]).is_named = True
        elif method in ("session/load", "session/resume") and session is not None:
            session.loads -= method == "session/load"
            session.is_named = session.is_named or "result" in message
            session.message = None
            if session.complete is not None and not session.loads:
                session.messages, session.complete = session.complete, None
        elif method == "session/prompt" and session is not None and message["id"] in session.prompts:
            yield from self._end_turn(session, message["id"])

    def _end_turn(self, session: _Session, identity: object) -> Iterator[Fault]:
        is_running = session.prompts[0] == identity
        session.prompts.remove(identity)
        if not is_running:
            return  # cancelled while it waited; calls and sub-agents are of the one that runs
        if any(child.is_at_work for child in session.children) and not (session.is_at_work or session.loads):
            yield Fault("R-ACP-72", "a prompt is over, and a sub-agent is shown as working")
        left = [call for call in session.turn_calls if _ORDER[session.calls[call]] < _ENDED]
        session.turn_calls.clear()
        if left and not session.is_at_work:
            yield Fault("R-ACP-17", f"calls without an end: {left}")

    def _updated(self, params: Json) -> Iterator[Fault]:
        update = params["update"]
        kind = update["sessionUpdate"]
        session = self._named(params["sessionId"])
        if kind in _OF_CHILDREN and not isinstance(self._offered.get("subagents"), Mapping):
            yield Fault("R-ACP-70", f"subagents is not offered: {update}")
        if kind == "subagent_update":
            yield from self._child(session, params["sessionId"], update)
        yield from self._unnamed(session, update)
        meta: Json = update.get("_meta") or {}
        running = (as_object(meta.get("pinnace")) or {}).get("running")
        if isinstance(running, bool):
            session.is_at_work = running
        if session.parent is not None and kind in (*_OF_TURNS, *_OF_CHILDREN) and not session.is_at_work:
            yield Fault("R-ACP-72", f"of a sub-agent that does not work: {update}")
        elif kind in _OF_TURNS and not (session.prompts or session.loads or session.is_at_work):
            rule = "R-ACP-14" if session.has_prompted else "R-ACP-37"
            yield Fault(rule, f"outside of a turn: {update}")
        if kind in _CHUNKS:
            yield from self._chunk(session, update)
        elif kind == "tool_call":
            yield from self._announce(session, update)
        elif kind == "tool_call_update":
            yield from self._advance(session, update)

    def _child(self, session: _Session, parent: str, update: Json) -> Iterator[Fault]:
        """Take the announcement of a sub-agent, or a change of it."""
        child = self._named(update["sessionId"])
        if child is session or (child.parent or session) is not session or (child.is_named and child.parent is None):
            yield Fault("R-ACP-71", f"no sub-agent of {parent}: {update}")
            return
        if child.parent is None:
            session.children.append(child)
            child.parent, child.is_named = session, True
        if state := as_object(update.get("state")):
            is_at_work = state["state"] != "idle"
            if is_at_work and self._loads(session):  # it is shown from anew
                child.calls, child.messages, child.message = {}, set(), None
            left = [call for call in child.turn_calls if _ORDER[child.calls.get(call, "failed")] < _ENDED]
            if not is_at_work and left:
                yield Fault("R-ACP-17", f"calls of a sub-agent without an end: {left}")
            child.turn_calls.clear()
            child.is_at_work = is_at_work

    def _loads(self, session: _Session) -> bool:
        """Return whether a session, or the one that it works for, is being loaded."""
        return session.loads > 0 or (session.parent is not None and self._loads(session.parent))

    def _chunk(self, session: _Session, update: Json) -> Iterator[Fault]:
        identity = update.get("messageId")
        if identity is None or identity == session.message:
            return
        if identity in session.messages and not session.loads:
            yield Fault("R-ACP-18", f"chunks of {identity} after those of another message: {update}")
        session.message = identity
        session.messages.add(identity)

    def _announce(self, session: _Session, update: Json) -> Iterator[Fault]:
        call = update["toolCallId"]
        if call in session.calls and not session.loads and call not in session.incomplete:
            yield Fault("R-ACP-15", f"announced twice: {update}")
        if session.complete is not None:  # it may be one that came live before the replay, and is shown again behind it
            session.incomplete.add(call)
        else:
            session.incomplete.discard(call)
        session.calls[call] = update.get("status") or "pending"
        session.turn_calls.add(call)

    def _advance(self, session: _Session, update: Json) -> Iterator[Fault]:
        call = update["toolCallId"]
        status = update.get("status")
        former = session.calls.get(call)
        if former is None:
            yield Fault("R-ACP-15", f"updated before it was announced: {update}")
        elif _ORDER[former] == _ENDED:
            yield Fault("R-ACP-16", f"after its last status: {update}")
        elif status is not None and _ORDER[status] < _ORDER[former]:
            yield Fault("R-ACP-16", f"goes back from {former}: {update}")
        if status is not None:
            session.calls[call] = status

    def _asked(self, method: str, message: Json) -> Iterator[Fault]:
        place = next((place for begin, place in _OFFERS.items() if method.startswith(begin)), None)
        if place is None:
            return
        offered: Any = self._offered
        for name in place:
            offered = (as_object(offered) or {}).get(name)
        if offered is None or offered is False:
            yield Fault("R-ACP-30", f"{'.'.join(place)} is not offered: {message}")
        if method.startswith("fs/") and not message["params"]["path"].startswith("/"):
            yield Fault("R-ACP-40", f"a relative path: {message}")

    def _asked_permission(self, params: Json, message: Json) -> Iterator[Fault]:
        call = params["toolCall"]["toolCallId"]
        session = self._named(params["sessionId"])
        yield from self._unnamed(session, message)
        status = session.calls.get(call)
        if status not in ("pending", "in_progress"):
            yield Fault("R-ACP-15", f"permission for a call that is not open: {call} ({status})")

    def _unnamed(self, session: _Session, message: Json) -> Iterator[Fault]:
        if not (session.is_named or session.loads):
            yield Fault("R-ACP-10", f"before the response that names the session: {message}")
