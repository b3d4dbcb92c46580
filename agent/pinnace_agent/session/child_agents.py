"""The entries by which a session knows the agents that it has started, and what a crash has left of them.

An agent that a run or a client starts (a sub-agent) is a session of its own. The session that started it holds two
entries: that it has begun, on the disk before the agent does anything, and that it has ended, with what it has used.
What has begun and not ended when a file is opened was cut, and its usage is read from its own file, so that it is
counted once: the entry that counts it is the one that ends it. A message that it is given while it works is an entry,
too, and it has been delivered where its own file has it. An agent has begun, and a message is accepted, when its entry
is on the disk; if it can't be brought there, the entry is taken out again, or another one says that it counts for
nothing. A message that is queued in the file of an agent whose process has ended is taken out of that queue before it
is returned: else an agent that continues the file would deliver it, too. Rules R-SUB-02, R-SUB-06, R-SUB-07, R-SUB-10,
R-SUB-12, R-SUB-13.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.surroundings import system
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.opening import read_text, why_unwritable
from pinnace_agent.session.queue.history import QueueHistory
from pinnace_agent.session.queue.operations import mark_returned
from pinnace_agent.session.store.file import SaveError, SessionFile
from pinnace_agent.session.store.lease import Lease, LeaseHeld, take_waiting
from pinnace_agent.session.store.reading import SessionText
from pinnace_agent.session.totals import FileTotals, file_totals
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Usage
from pinnace_spec.rules import errors

CHILD_BEGUN: Final = "pinnace.child"
"""The type of the custom entry of an agent that has begun."""
CHILD_MESSAGE: Final = "pinnace.child_message"
"""The type of the custom entry of a message to one that works."""
USAGE_KIND: Final = "subagent"
"""The kind of the usage entry of one that has ended."""
AGENT_ENDED: Final = "agent_ended"
"""What returns the messages in the queue of one whose process has ended: to the agent that has started it."""
_FOLDER_SUFFIX: Final = ".children"
# A process that was killed with its parent has let go of its file by then.
_LEASE_WAIT_S: Final = 1.0
_AGENT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

ChildEnd = Literal["completed", "failed", "cancelled", "interrupted"]
"""`failed`: its run has, or its process has ended. `interrupted`: the process that had started it has ended."""
MessageState = Literal["accepted", "delivered", "returned"]
"""`delivered`: its conversation has the message. `returned`: it never will."""


class ChildBegun(TypedDict):
    """What is kept of an agent that has begun: the data of its entry."""

    agentId: str
    """The id of its session."""
    parentId: str
    """The id of the session that has started it: copies of that session hold the entry, but not the agent."""
    toolCallId: NotRequired[str]
    """Absent: a client has started it."""
    messageId: NotRequired[str]
    """What the client calls its task."""
    task: str
    """The beginning of what it was asked."""
    provider: str
    model: str
    cwd: NotRequired[str]
    """Absent: an older release has written it."""


class ChildEnded(TypedDict):
    """What is kept of its end: the fields of a usage entry."""

    kind: str
    provider: str
    model: str
    usage: Usage
    agentId: str
    outcome: ChildEnd
    error: NotRequired[str]
    """Why it has not completed its task."""
    returned: NotRequired[list[str]]
    """The ids of messages to it that were not delivered."""


class ChildMessage(TypedDict):
    """What is kept of a message to an agent that works: the data of its entry."""

    agentId: str
    parentId: str
    """As that of its beginning."""
    messageId: str
    text: str


class ShownMessage(TypedDict):
    """A message to an agent, for clients."""

    messageId: str
    text: str
    state: MessageState


class ChildRemains(NamedTuple):
    """What the file of an agent holds whose process has ended."""

    usage: Usage
    message_ids: frozenset[str]
    """Of the messages of its user."""


def children_folder(session_path: str | os.PathLike[str]) -> Path:
    """Return where the files of the agents of a session are: beside its file, where no list of sessions looks."""
    path = Path(session_path)
    return path.with_name(f"{path.stem}{_FOLDER_SUFFIX}")


def child_file(session_path: str | os.PathLike[str], agent_id: str) -> Path:
    """Return the file of one of them."""
    return children_folder(session_path) / f"{agent_id}.jsonl"


def child_ended(
    begun: ChildBegun, usage: Usage, outcome: ChildEnd, returned: Iterable[str] = (), error: str = ""
) -> ChildEnded:
    """Return the fields of the entry that ends an agent, counts its usage, and names messages that it did not get."""
    ended: ChildEnded = {
        "kind": USAGE_KIND,
        "provider": begun["provider"],
        "model": begun["model"],
        "usage": usage,
        "agentId": begun["agentId"],
        "outcome": outcome,
    }
    if error:
        ended["error"] = error
    if ids := list(returned):
        ended["returned"] = ids
    return ended


def end_cut_children(session: Session, session_path: Path) -> None:
    """End the agents of a session that a crash has cut. One whose process has its file is left for a later opening.

    Args:
        session: It was opened for writing.
        session_path: Its file.
    """
    for ended in tuple(_cut_children(list(session.tree.entries), session.id, session_path)):
        session.keep_usage(ended)


def _cut_children(entries: list[Entry], session_id: str, session_path: Path) -> Iterator[ChildEnded]:
    messages = _messages(entries, session_id)
    for begun in _unended(entries, session_id):
        path = child_file(session_path, begun["agentId"])
        sent = [each["messageId"] for each in messages.get(begun["agentId"], ())]
        if not path.parent.is_dir():
            yield child_ended(begun, usage_of(file_totals(())), "interrupted", sent)
            continue
        try:
            lease = take_waiting(path, _LEASE_WAIT_S)
        except (LeaseHeld, OSError):
            continue
        try:
            remains = child_remains(path)
            lost = [each for each in sent if each not in remains.message_ids]
            _unqueue(path, lost)
            yield child_ended(begun, remains.usage, "interrupted", lost)
        finally:
            lease.release()


def take_back(path: str | os.PathLike[str], message_ids: list[str]) -> list[str]:
    """Take messages out of the queue in the file of an agent whose process has ended; return those that it has not had.

    They are all of them, unless another process continues the file already: what is queued there is delivered by that.
    A file that can't be written keeps its queue, which is paused.
    """
    path = Path(path)
    if not message_ids:
        return message_ids
    try:
        lease = Lease.take(path)
    except LeaseHeld:
        queued = _read_queue(path)[1]
        return [each for each in message_ids if each not in queued]
    except OSError:
        return message_ids
    try:
        _unqueue(path, message_ids)
    finally:
        lease.release()
    return message_ids


def listed_children(
    entries: Iterable[Entry],
    session_id: str,
    session_path: str | os.PathLike[str] | None,
    working: Callable[[str], Mapping[str, MessageState] | None] = lambda _: None,
) -> list[Mapping[str, object]]:
    """Return every agent that a session has started, for clients, in the order in which they began.

    Args:
        entries: Those of the session.
        session_id: Its id.
        session_path: Its file; None: it is in memory.
        working: Returns the states of the messages that were accepted for one that works, by their ids; None: it does
            not work for this process.
    """
    listed: dict[str, dict[str, object]] = {}
    returned: dict[str, Collection[str]] = {}
    entries = list(entries)
    for entry in entries:
        if (begun := _begun(entry, session_id)) is not None:
            listed[begun["agentId"]] = shown_child(begun, session_path)
        elif (never := _never_begun(entry, session_id)) is not None:
            listed.pop(never, None)
        elif (ended := _ended(entry)) is not None and ended["agentId"] in listed:
            listed[ended["agentId"]].update(shown_end(ended))
            returned[ended["agentId"]] = ended.get("returned", ())
    for agent_id, messages in _messages(entries, session_id).items():
        if agent_id in listed:
            texts = {each["messageId"]: each["text"] for each in messages}
            if (back := returned.get(agent_id)) is None:
                states: Mapping[str, MessageState] | None = working(agent_id)
                if states is None:
                    states = dict.fromkeys(texts, "accepted")
                if shown := _shown({each: texts[each] for each in texts if each in states}, states):
                    listed[agent_id]["messages"] = shown
            else:
                listed[agent_id]["messages"] = ended_messages(texts, back)
    return list(listed.values())


def shown_child(begun: ChildBegun, session_path: str | os.PathLike[str] | None) -> dict[str, object]:
    """Return an agent that works, for clients.

    Args:
        begun: Its beginning.
        session_path: The file of the session that has started it; None: it is in memory.
    """
    agent: dict[str, object] = {**begun, "state": "running"}
    del agent["parentId"]
    if session_path is not None:
        agent["sessionFile"] = str(child_file(session_path, begun["agentId"]))
    return agent


def shown_end(ended: ChildEnded) -> dict[str, object]:
    """Return what the end of an agent adds to it, for clients; without its messages."""
    shown: dict[str, object] = {"state": ended["outcome"], "usage": ended["usage"]}
    return {**shown, "error": ended["error"]} if "error" in ended else shown


def keep_child_begun(session: Session, begun: ChildBegun) -> SaveError | None:
    """Append the beginning of an agent. It is on the disk only after `session.sync`.

    Returns:
        Why it is not in the session; None: it is.
    """
    return _keep(session, CHILD_BEGUN, begun, {"agentId": begun["agentId"]})


def drop_child_begun(session: Session, agent_id: str) -> None:
    """Take a beginning out again that can't be brought to the disk: nothing is known of the agent then."""
    _drop(session, CHILD_BEGUN, {"agentId": agent_id})


def keep_child_message(session: Session, message: ChildMessage) -> SaveError | None:
    """Append a message to an agent that works. It is on the disk only after `session.sync`.

    Returns:
        Why it is not in the session; None: it is.
    """
    return _keep(session, CHILD_MESSAGE, message, {"agentId": message["agentId"], "messageId": message["messageId"]})


def drop_child_message(session: Session, agent_id: str, message_id: str) -> None:
    """Take a message out again that can't be brought to the disk: its id is unknown then."""
    _drop(session, CHILD_MESSAGE, {"agentId": agent_id, "messageId": message_id})


def _keep(session: Session, custom_type: str, data: object, names: Mapping[str, str]) -> SaveError | None:
    failure = session.accept_custom(custom_type, data)
    if failure is not None and _is_newest(session, custom_type, names):  # a part of it is in the file
        _mark_dropped(session, custom_type, names)
    return failure


def _drop(session: Session, custom_type: str, names: Mapping[str, str]) -> None:
    if not (_is_newest(session, custom_type, names) and session.take_back()):
        _mark_dropped(session, custom_type, names)


def _is_newest(session: Session, custom_type: str, names: Mapping[str, str]) -> bool:
    entries = session.tree.entries
    newest: Mapping[str, object] = entries[-1] if entries else {}
    data = as_object(newest.get("data")) or {}
    return newest.get("customType") == custom_type and all(data.get(name) == value for name, value in names.items())


def _mark_dropped(session: Session, custom_type: str, names: Mapping[str, str]) -> None:
    session.keep_custom(custom_type, {**names, "parentId": session.id, "dropped": True})


def ended_messages(texts: Mapping[str, str], returned: Collection[str]) -> list[ShownMessage]:
    """Return the messages to an agent that has ended, for clients, by those that it did not get."""
    return _shown(texts, {each: "returned" if each in returned else "delivered" for each in texts})


def _shown(texts: Mapping[str, str], states: Mapping[str, MessageState]) -> list[ShownMessage]:
    return [{"messageId": each, "text": text, "state": states[each]} for each, text in texts.items()]


def usage_of(totals: FileTotals) -> Usage:
    """Return the totals of a session as the usage of one request. How its cost is divided is not known."""
    tokens, cost = totals["tokens"], totals["cost"]
    return {
        "input": tokens["input"],
        "output": tokens["output"],
        "cacheRead": tokens["cacheRead"],
        "cacheWrite": tokens["cacheWrite"],
        "totalTokens": tokens["total"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }


def child_remains(path: str | os.PathLike[str]) -> ChildRemains:
    """Return what the session in a file has used, whose process has ended, and the messages that it has.

    The usage is that of the agents of its own, too, that were cut with it.
    """
    path = Path(path)
    try:
        text = read_text(path)
    except errors.ClientError:  # it was cut before it had a file, or can't be read any more
        return ChildRemains(usage_of(file_totals(())), frozenset())
    entries = list(text.entries)
    session_id = str((text.header or {}).get("id"))
    lost = [
        {"type": "usage", "usage": child_remains(child_file(path, begun["agentId"])).usage}
        for begun in _unended(entries, session_id)
    ]
    ids = (each.get("messageId") for each in entries if each.get("type") == "message")
    usage = usage_of(file_totals([*entries, *lost]))
    return ChildRemains(usage, frozenset(each for each in ids if isinstance(each, str)))


def read_child(path: str | os.PathLike[str]) -> Session:
    """Return what the file of an agent holds now, for reading alone: its process may be writing it.

    Raises:
        ClientError: It can't be read.
    """
    return _session_of(read_text(Path(path)))


def _unqueue(path: Path, message_ids: Collection[str]) -> None:
    """Append that messages are returned, as far as they are queued, to a file that this process may append to.

    That is on the disk then: what returns them in the other session may be, too.
    """
    text, queued = _read_queue(path)
    queued = [each for each in queued if each in message_ids]
    if text is None or not queued:
        return
    damaged = [line.data for line in text.damaged]
    file = SessionFile.opened(path, size=text.size, has_torn_tail=text.has_torn_tail, damaged=damaged, lease=None)
    try:
        mark_returned(_session_of(text, file), queued, AGENT_ENDED, None)
        descriptor = system().open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            system().fdatasync(descriptor)
        finally:
            system().close(descriptor)
    except (SaveError, OSError):
        return
    finally:
        file.abandon()


def _read_queue(path: Path) -> tuple[SessionText | None, Collection[str]]:
    """Return what a file holds, and the ids of the messages that are queued there; None: nothing can be appended."""
    try:
        text = read_text(path)
    except errors.ClientError:
        return None, ()
    return (text, QueueHistory(_session_of(text)).queued) if why_unwritable(text) is None else (None, ())


def _session_of(text: SessionText, file: SessionFile | None = None) -> Session:
    header = text.header or {}
    tree = EntryTree(text.entries, text.heads)
    return Session(str(header.get("cwd")), session_id=str(header.get("id")), tree=tree, file=file, is_continued=True)


def _messages(entries: Iterable[Entry], session_id: str) -> dict[str, list[ChildMessage]]:
    """Return the messages to each agent of a session, in their order."""
    found: dict[str, dict[str, ChildMessage]] = {}
    for entry in entries:
        if entry.get("type") != "custom" or entry.get("customType") != CHILD_MESSAGE:
            continue
        data = as_object(entry.get("data")) or {}
        agent_id, message_id = _text(data, "agentId"), _text(data, "messageId")
        if data.get("parentId") != session_id or not agent_id or not message_id:
            continue
        if data.get("dropped") is True:
            found.get(agent_id, {}).pop(message_id, None)
            continue
        found.setdefault(agent_id, {})[message_id] = {
            "agentId": agent_id,
            "parentId": session_id,
            "messageId": message_id,
            "text": _text(data, "text"),
        }
    return {agent_id: list(messages.values()) for agent_id, messages in found.items()}


def _unended(entries: Iterable[Entry], session_id: str) -> list[ChildBegun]:
    begun: dict[str, ChildBegun] = {}
    for entry in entries:
        if (child := _begun(entry, session_id)) is not None:
            begun[child["agentId"]] = child
        elif (never := _never_begun(entry, session_id)) is not None:
            begun.pop(never, None)
        elif (ended := _ended(entry)) is not None:
            begun.pop(ended["agentId"], None)
    return list(begun.values())


def _begun(entry: Entry, session_id: str) -> ChildBegun | None:
    """Return what an entry holds of a beginning; None: it holds none, or that of another session's agent."""
    data = _data_of_begun(entry, session_id)
    agent_id = data.get("agentId")
    # The id becomes the name of a file.
    if data.get("dropped") is True or not isinstance(agent_id, str) or not _AGENT_ID.fullmatch(agent_id):
        return None
    begun: ChildBegun = {
        "agentId": agent_id,
        "parentId": session_id,
        "task": _text(data, "task"),
        "provider": _text(data, "provider"),
        "model": _text(data, "model"),
    }
    if isinstance(call := data.get("toolCallId"), str):
        begun["toolCallId"] = call
    if name := _text(data, "messageId"):
        begun["messageId"] = name
    if cwd := _text(data, "cwd"):
        begun["cwd"] = cwd
    return begun


def _never_begun(entry: Entry, session_id: str) -> str | None:
    """Return the agent whose beginning an entry takes back; None: it takes none back."""
    data = _data_of_begun(entry, session_id)
    return _text(data, "agentId") if data.get("dropped") is True else None


def _data_of_begun(entry: Entry, session_id: str) -> Mapping[str, object]:
    """Return the data of an entry about the beginning of an agent of this session; empty if it is none."""
    if entry.get("type") != "custom" or entry.get("customType") != CHILD_BEGUN:
        return {}
    data = as_object(entry.get("data")) or {}
    return data if data.get("parentId") == session_id else {}


def _ended(entry: Entry) -> ChildEnded | None:
    if entry.get("type") != "usage" or entry.get("kind") != USAGE_KIND:
        return None
    agent_id, outcome = entry.get("agentId"), entry.get("outcome")
    if not isinstance(agent_id, str):
        return None
    known: tuple[ChildEnd, ...] = ("completed", "failed", "cancelled", "interrupted")
    state: ChildEnd = "interrupted"
    for each in known:
        if each == outcome:
            state = each
    ended: ChildEnded = {
        "kind": USAGE_KIND,
        "provider": _text(entry, "provider"),
        "model": _text(entry, "model"),
        "usage": usage_of(file_totals([entry])),
        "agentId": agent_id,
        "outcome": state,
    }
    if error := _text(entry, "error"):
        ended["error"] = error
    if back := [each for each in as_array(entry.get("returned")) if isinstance(each, str)]:
        ended["returned"] = back
    return ended


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
