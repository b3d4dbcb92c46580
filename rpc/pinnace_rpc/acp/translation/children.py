"""Sub-agents of a session as sessions of their own: what the client is shown of each, live and again.

The session that has started one announces it (`subagent_update`) before anything that bears its id, and shows its
state. The rest is in a session of its id, as the conversation of any session is. All versions write both alike. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast, get_args

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.ports.children import MESSAGE_WORDS
from pinnace_rpc.acp.translation.parts import child_state
from pinnace_rpc.acp.translation.prompts import first_text
from pinnace_rpc.acp.translation.replay import active_branch, last_answer, replay
from pinnace_rpc.acp.translation.shown import CallReplayed, ChildState, ChildWorks, Json, Shown, Update, UserMessage
from pinnace_rpc.acp.translation.titles import session_title
from pinnace_rpc.acp.translation.translator import Translator
from pinnace_rpc.acp.translation.version import Client

_TOOL: Final = "subagent"
_LAST_OF_ENTRIES: Final = frozenset({"message_end", "tool_execution_end", "compaction_end"})

Addressed: TypeAlias = tuple[str, Update]
"""An update, behind the id of its session."""


class StoredChild(NamedTuple):
    """A sub-agent, with what is in its file."""

    agent: Json
    """As `list_agents` has it."""
    entries: Sequence[Json]
    children: Sequence["StoredChild"]
    """Those that it has started."""


class ChildReplayed(NamedTuple):
    """A sub-agent is shown again, behind the call that has started it."""

    stored: StoredChild
    call: str | None
    """The client's id of the call; None: a client has started it."""


class ChildSessions:
    """The sub-agents of one session."""

    def __init__(self, parent: str, client: Client, call_of: Callable[[str], str | None], *, offers: bool) -> None:
        """Begin without any.

        Args:
            parent: The id of the session.
            client: Whom they are shown to.
            call_of: Returns the client's id of a call that runs, by the agent's.
            offers: Whether the client may cancel one alone.
        """
        self._parent = parent
        self._client = client
        self._call_of = call_of
        self._offers = offers
        self._open: dict[str, _Child] = {}
        self._held: list[Json] | None = None
        """Records that wait until what was before them is shown again; None: they need not."""
        self._over: set[str] = set()
        """Those that were shown again meanwhile, to their end."""

    def __contains__(self, identity: object) -> bool:
        """Return whether a sub-agent is at work."""
        return identity in self._open

    def take(self, record: Json) -> Iterator[Addressed]:
        """Yield what a `subagent_event` shows."""
        if self._held is not None:
            self._held.append(record)
            return
        identity = str(record.get("agentId"))
        if (agent := as_object(record.get("agent"))) is not None:
            yield from self._change(identity, agent)
        elif (child := self._open.get(identity)) is not None:
            yield from child.take(as_object(record.get("event")) or {})

    def _change(self, identity: str, agent: Json) -> Iterator[Addressed]:
        if identity not in self._open:
            call = agent.get("toolCallId")
            yield from self._announce(identity, agent, self._call_of(call) if isinstance(call, str) else None)
        if agent.get("state") != "running":
            yield from self._end(identity, agent)

    def _announce(self, identity: str, agent: Json, call: str | None) -> Iterator[Addressed]:
        child = self._open[identity] = _Child(identity, self._parent, agent, self._client, call)
        yield self._parent, child.announced(offers=self._offers)
        yield from child.show(ChildWorks("running"))

    def _end(self, identity: str, agent: Json) -> Iterator[Addressed]:
        child = self._open.pop(identity)
        yield from child.end(agent)
        yield self._parent, child.changed(agent)

    def close(self) -> Iterator[Addressed]:
        """Yield the end of each that works: the agent that has started it is gone."""
        for identity, child in list(self._open.items()):
            yield from self._end(identity, {**child.agent, "state": "interrupted"})

    # Again.

    def hold(self) -> None:
        """Hold records until `release`: what was before them is about to be read."""
        self._held = self._held or []

    def replay(self, replayed: ChildReplayed) -> Iterator[Addressed]:
        """Yield all that a sub-agent has shown; one that works goes on with the records that follow."""
        stored = replayed.stored
        identity = str(stored.agent.get("agentId"))
        self._open.pop(identity, None)
        yield from self._announce(identity, stored.agent, replayed.call)
        is_at_work = stored.agent.get("state") == "running"
        yield from self._open[identity].replay(stored, is_at_work=is_at_work)
        if not is_at_work:
            self._over.add(identity)
            yield from self._end(identity, stored.agent)

    def release(self) -> Iterator[Addressed]:
        """Yield what the held records show, but for what was read before."""
        held, self._held = self._held or [], None
        over, self._over = self._over, set()
        held = [record for record in held if record.get("agentId") not in over]
        known = {identity: child.entries for identity, child in self._open.items()}
        last = {
            str(record.get("agentId")): at
            for at, record in enumerate(held)
            if _ended_entry(as_object(record.get("event")) or {}) in known.get(str(record.get("agentId")), ())
        }
        for at, record in enumerate(held):
            if "event" not in record or at > last.get(str(record.get("agentId")), -1):
                yield from self.take(record)


class _Child:
    """One that works, or is shown again."""

    def __init__(self, identity: str, parent: str, agent: Json, client: Client, call: str | None) -> None:
        self.agent = agent
        self.entries: frozenset[object] = frozenset()
        """The ids of those that the client was shown again."""
        self._id = identity
        self._parent = parent
        self._translator = Translator()
        folder = agent.get("cwd")
        self._cwd = folder if isinstance(folder, str) else None
        self._updates = client.translation.updates(self._cwd or "/", client.abilities)
        self._children = ChildSessions(identity, client, self._translator.id_of_call, offers=False)
        self._details: dict[str, object] = {"model": f"{agent.get('provider')}/{agent.get('model')}"}
        if call is not None:
            self._details["toolCallId"] = call

    def announced(self, *, offers: bool) -> Update:
        """Return what names it."""
        task = str(self.agent.get("task", ""))
        update: Update = {"sessionUpdate": "subagent_update", "sessionId": self._id, "description": task}
        if title := session_title(None, task):
            update["title"] = title
        if self._cwd is not None:
            update["cwd"] = self._cwd
        if offers:
            update["capabilities"] = {"cancel": {}, "_meta": {"steering": {"supported": True}}}
        return {**update, "state": child_state("running"), "_meta": {"pinnace": self._details}}

    def changed(self, agent: Json) -> Update:
        """Return its end, with what it has used, and what became of the messages to it."""
        update: Update = {"sessionUpdate": "subagent_update", "sessionId": self._id, "capabilities": None}
        ends = {name: agent[name] for name in ("usage", "messages") if name in agent}
        return {**update, "state": child_state(_state(agent)), "_meta": {"pinnace": {**self._details, **ends}}}

    def take(self, event: Json) -> Iterator[Addressed]:
        """Yield what a record of its process shows."""
        if event.get("type") == "subagent_event":
            yield from self._children.take(event)
            return
        for shown in self._translator.take(event):
            yield from self.show(shown)

    def show(self, shown: Shown) -> Iterator[Addressed]:
        """Yield the updates of its session, of which nothing can be changed by the client.

        Its task is a message of the session that has started it. One that a client has given it has no sender, and
        names what the client knows it by.
        """
        if isinstance(shown, UserMessage):
            message: Update = {"sessionUpdate": "session_message", "messageId": shown.entry}
            message |= {"content": [*shown.blocks], "recipientSessionId": self._id}
            if first_text(shown.blocks).startswith(MESSAGE_WORDS):
                message["_meta"] = {"pinnace": {"messageId": shown.given_as}}
            else:
                message["senderSessionId"] = self._parent
            yield self._id, message
            return
        for update in self._updates.of(shown):
            update.pop("capabilities", None)
            yield self._id, update

    def end(self, agent: Json) -> Iterator[Addressed]:
        """Yield the end of what is open, and its own."""
        yield from self._children.close()
        state = _state(agent)
        for shown in self._translator.close("cancelled" if state == "cancelled" else "failed"):
            yield from self.show(shown)
        yield from self.show(ChildWorks(state))

    def replay(self, stored: StoredChild, *, is_at_work: bool) -> Iterator[Addressed]:
        """Yield what is in its file; calls of one that works may still end."""
        ids = [each["id"] for each in stored.entries if isinstance(each.get("id"), str)]
        branch = active_branch(stored.entries, cast("str", ids[-1]) if ids else None)
        if is_at_work:
            self.entries = frozenset(ids)
            self._translator.join(frozenset(map(str, ids)), last_answer(branch))
            self._children.hold()
        unfinished = self._translator.unfinished
        for each in with_children(replay(branch, unfinished), stored.children):
            if isinstance(each, ChildReplayed):
                yield from self._children.replay(each)
            else:
                yield from self.show(each)
        yield from self._children.release()


def with_children(shown: Iterable[Shown], children: Sequence[StoredChild]) -> Iterator[Shown | ChildReplayed]:
    """Yield what a session shows again, and behind each call the sub-agent that it has started.

    Those that clients have started are at its end: where they began is no part of the conversation.
    """
    left = [child for child in children if "toolCallId" in child.agent]
    for each in shown:
        yield each
        if isinstance(each, CallReplayed) and each.call.tool == _TOOL:
            child = next((child for child in left if _is_of(child, each)), None)
            if child is not None:
                left.remove(child)
                yield ChildReplayed(child, each.call.id)
    yield from (ChildReplayed(child, None) for child in children if "toolCallId" not in child.agent)


def _is_of(child: StoredChild, replayed: CallReplayed) -> bool:
    """Return whether a call has started a sub-agent. Its result says so; one without a result is known by its id."""
    if replayed.result is None:
        return child.agent.get("toolCallId") == replayed.call.agent_id
    details = as_object(replayed.result.get("details")) or {}
    return (as_object(details.get("agent")) or {}).get("agentId") == child.agent.get("agentId")


def _state(agent: Json) -> ChildState:
    state = agent.get("state")
    return cast("ChildState", state) if state in get_args(ChildState) else "interrupted"


def _ended_entry(event: Json) -> object:
    """Return the entry that is complete with a record; None: it completes none."""
    return event.get("entryId") if event.get("type") in _LAST_OF_ENTRIES else None
