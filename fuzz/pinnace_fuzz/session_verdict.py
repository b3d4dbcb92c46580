"""Judges session files from outside: whether they are whole, whether anything that was promised is missing.

Pure, on bytes and records; for any agent that writes the format. Reads files in its own simple way, not in that of the
agent, so that both would have to be wrong in the same way. Rules R-SES-05, R-SES-07.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

from pinnace_fuzz.records import NotARecord, Record, parse_record
from pinnace_spec.session_format import validate_session

_QUEUE: Final = "pinnace.queue"
Files: TypeAlias = Mapping[str, bytes]
"""The session files of a home: name -> content."""


def find_damage(data: bytes, *, may_be_torn: bool) -> list[str]:
    """Return what is wrong with a session file.

    Args:
        data: The whole file.
        may_be_torn: Whether its last line may be cut: the writer was killed. A file of 0 bytes is cut before its first.
    """
    if may_be_torn:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return []
    return validate_session(data, is_closed=True)


def without_cut_line(data: bytes, former: bytes) -> bytes:
    """Leave out of a file the line that was cut in its former state, so that the rest can be judged.

    Raises:
        AssertionError: The file does not begin with its former state, and a line feed after it if that was cut.
    """
    begun = former[former.rfind(b"\n") + 1 :]
    assert data.startswith(former), "what was in the file was changed"
    if not begun or len(data) == len(former):
        return data
    assert data[len(former) :].startswith(b"\n"), "something was glued to the line that was cut"
    return former[: len(former) - len(begun)] + data[len(former) + 1 :]


def entries_of(data: bytes) -> list[Record]:
    """Return the entries that can be read, in the order of the file."""
    return [record for record in _read(data.partition(b"\n")[2]) if record.get("type") != "session"]


@lru_cache(maxsize=8)  # a file is asked about several times before it changes
def _read(data: bytes) -> tuple[Record, ...]:
    return tuple(_records_of(data))


def _records_of(data: bytes) -> Iterator[Record]:
    """Yield what can be read. A loss of power may leave NUL bytes before an entry, which it does not hide."""
    for line in data.split(b"\n"):
        for part in line.split(b"\0") if b"\0" in line else (line,):
            try:
                yield parse_record(part)
            except NotARecord:
                continue


def messages_of(files: Files) -> list[Record]:
    """Return the messages of all files, on all branches."""
    return [entry["message"] for data in files.values() for entry in entries_of(data) if entry["type"] == "message"]


def branch_messages(data: bytes) -> list[Record]:
    """Return the messages of the branch that ends at the last entry: what a reader goes on from.

    Without those that an entry of the branch hides: answers that failed and were asked for again.
    """
    entries = entries_of(data)
    by_id = {entry["id"]: entry for entry in entries}
    entry = entries[-1] if entries else None
    messages: list[Record] = []
    hidden: set[str] = set()
    while entry is not None:
        if entry["type"] == "context_edit" and entry["replacement"] is None:
            hidden.add(entry["targetId"])
        elif entry["type"] == "message" and entry["id"] not in hidden:
            messages.append(entry["message"])
        entry = by_id.get(entry["parentId"])
    return messages[::-1]


def shell_results(files: Files) -> list[Record]:
    """Return what is kept of the client's shell commands, in whatever entry: also while a run keeps it waiting."""
    found: list[Record] = []
    for data in files.values():
        for entry in entries_of(data):
            match entry:
                case {"message": {"role": "bashExecution"} as result} | {"data": {"role": "bashExecution"} as result}:
                    found.append(cast("Record", result))
                case _:
                    pass
    return found


def queue_operations(data: bytes) -> list[Record]:
    """Return what a file says of queued messages, copied sessions' operations included, in its order (R-QUE-12)."""
    return [
        cast("Record", entry["data"])
        for entry in entries_of(data)
        if entry["type"] == "custom" and entry.get("customType") == _QUEUE
    ]


def own_operations(data: bytes) -> list[Record]:
    """Return what a file says of messages that are queued in its own session."""
    session_id = _session_id(data)
    return [each for each in queue_operations(data) if each.get("session", session_id) == session_id]


def queued_texts(data: bytes) -> list[str]:
    """Return the messages that a session's file leaves queued, in their order (R-QUE-13)."""
    session_id = _session_id(data)
    queued: dict[str, str] = {}
    for entry in entries_of(data):
        match entry.get("data") if entry.get("customType") == _QUEUE else entry:
            case {"type": "message", "messageId": str(message_id)}:
                queued.pop(message_id, None)
            case {"session": owner} if owner != session_id:
                pass
            case {"op": "add", "messageId": str(message_id), "text": str(text)}:
                queued[message_id] = text
            case {"messageIds": [*message_ids]}:
                for message_id in message_ids:
                    queued.pop(message_id, None)
            case _:
                pass
    return [*queued.values()]


def _session_id(data: bytes) -> object:
    """Read the header: the first line, but behind one that a full disk has cut."""
    return next((record.get("id") for record in _records_of(data) if record.get("type") == "session"), None)


def find_losses(records: Iterable[Record], texts: Mapping[str, str], files: Files) -> list[str]:
    """Return what the agent reported as safe, or a client has seen complete, and is in no file.

    Args:
        records: What the client has read.
        texts: Ids of messages -> their texts. One that was accepted is in a file: delivered, or queued, whatever became
            of it there.
        files: What is on the disk.
    """
    saved = messages_of(files)
    whole = {_key(message) for message in saved}
    saved_texts = {text_of(message) for message in saved if message["role"] == "user"}
    operations = [operation for data in files.values() for operation in queue_operations(data)]
    saved_texts |= {operation["text"] for operation in operations if operation["op"] == "add"}
    outputs = {result["output"] for result in shell_results(files)}
    losses: list[str] = []
    for record in records:
        match record:
            case {"data": {"disposition": "handled" | "duplicate"}}:
                pass
            case {"type": "response", "success": True, "id": identity} if identity in texts:
                if texts[identity] not in saved_texts:
                    losses.append(f"message {identity} was accepted and is in no file")
            case {"type": "response", "success": True, "command": "bash", "data": {"output": output}}:
                if output not in outputs:
                    losses.append(f"what a shell said is in no file: {output!r}")
            case {"type": "message_start", "message": {"role": "user"} as message}:
                if text_of(cast("Record", message)) not in saved_texts:
                    losses.append(f"the user's message {_short(message)} began and is in no file")
            case {"type": "message_end", "message": message}:
                if _key(message) not in whole:
                    losses.append(f"the message {_short(message)} ended and is in no file")
            case _:
                pass
    return losses


def find_request_faults(body: Record) -> list[str]:
    """Say what a provider of chat completions would refuse in a request: calls without one result, and the reverse."""
    faults: list[str] = []
    open_calls: list[str] = []
    for number, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                faults.append(f"message {number}: a result of no call before it")
            continue
        faults += [f"message {number}: before it the call {call} has no result" for call in open_calls]
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    return faults + [f"at the end the call {call} has no result" for call in open_calls]


def text_of(message: Record) -> str:
    """Return the texts of a message, joined."""
    content: Any = message.get("content", "")
    if isinstance(content, str):
        return content
    blocks = cast("Sequence[Record]", content)
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _key(message: Mapping[str, object]) -> str:
    return json.dumps(message, sort_keys=True)


def _short(message: object) -> str:
    return json.dumps(message)[:200]
