"""Judges a run against a host at rest: the clients' logs against the session file, the journal, and each other.

Every accepted message is delivered, queued or returned, exactly one of them; every record that a client has read is in
the journal, and the other way round, unless a record reports a gap; a command with an effect ran at most once; every
run is closed, or reported as interrupted. Reads the files in its own way. Pure, but for `read_files`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.chaos.hosted.client_log import MESSAGES, ClientLog, JournalPosition
from pinnace_fuzz.records import Record, parse_record
from pinnace_fuzz.session_verdict import entries_of, find_damage, text_of

_SEGMENT: Final = re.compile(r"(\d{10})-\d{15}-(\d{20})\.jsonl")
_ADDRESSED: Final = re.compile(rb'\{"to":(?:\d+|\[[\d,]+\]),"length":(\d+) *\}\n')
_UNDECIDED: Final = frozenset({"outcome_unknown", "agent_restarted"})


class Agent(NamedTuple):
    """One agent at rest, and all that is known of it."""

    name: str
    logs: Sequence[ClientLog]
    session: bytes
    """The file."""
    files: Mapping[str, bytes]
    """Those of its journal, by name."""
    waiting: int
    """The number of queued messages that it reports."""
    ran: Sequence[str]
    """The ids of the shell commands that have run."""
    had_disk_fault: bool
    """Whether something could not be saved at some time."""


def read_files(folder: Path) -> Mapping[str, bytes]:
    """Read the files of a journal."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def find_faults(agent: Agent, counts: Counter[str]) -> list[str]:
    """Return what is wrong; `counts` grows by what was found right, so that a run shows what it has exercised."""
    entries = entries_of(agent.session)
    found = [fault for log in agent.logs for fault in log.faults]
    # A full disk takes no command into the table of its client.
    found += [] if agent.had_disk_fault else [fault for log in agent.logs for fault in log.forgotten]
    found += find_damage(agent.session, may_be_torn=False) if agent.session and not agent.had_disk_fault else []
    found += _fates(agent, entries, counts)
    found += _journal(agent, counts)
    found += _shells(agent, counts)
    found += _runs(agent, counts)
    found += _silent_gaps(agent, entries)
    return [f"agent {agent.name}: {each}" for each in found]


# Messages.


class _Queue(NamedTuple):
    """What the operations on the queue in a session file come to, by texts."""

    queued: set[str]
    returned: set[str]


def _queue_of(entries: Sequence[Record]) -> _Queue:
    queue, returned = dict[str, str](), set[str]()
    for entry in entries:
        match entry:
            case {"type": "custom", "customType": "pinnace.queue", "data": {"op": "add"} as data}:
                queue[data["messageId"]] = data["text"]
                returned.discard(data["text"])  # its return could not be brought to the disk
            case {"type": "custom", "customType": "pinnace.queue", "data": {"op": operation, "messageIds": [*ids]}}:
                texts = [queue.pop(each) for each in ids if each in queue]
                if operation == "remove":
                    returned.update(texts)
            case {"type": "message", "messageId": str(identity)}:
                queue.pop(identity, None)
            case _:
                pass
    return _Queue(set(queue.values()), returned)


def _delivered(entries: Sequence[Record]) -> Counter[str]:
    """Count by text how often messages were delivered.

    One that was appended and then refused is not: its id is unknown again, and the next process may take it.
    """
    texts: dict[str, str] = {}
    """Of the last message of each id that was appended and not refused."""
    found = Counter[str]()
    for entry in entries:
        for identity in _refused_by(entry):
            if (refused := texts.pop(identity, None)) is not None:
                found[refused] -= 1
        if entry["type"] == "message" and entry["message"]["role"] == "user":
            text = text_of(entry["message"])
            found[text] += 1
            if (message_id := entry.get("messageId")) is not None:
                texts[message_id] = text
    return found


def _ids(entry: Record, operation: str) -> Sequence[str]:
    """Return the messages that an operation on the queue names."""
    match entry:
        case {"type": "custom", "customType": "pinnace.queue", "data": {"op": op, "messageIds": [*ids]}}:
            return ids if op == operation else ()
        case _:
            return ()


def _refused_by(entry: Record) -> Sequence[str]:
    """Return the messages that were appended and are refused, by the queue or by what leaves a prompt out."""
    match entry:
        case {"type": "custom", "customType": "pinnace.leaf", "data": {"refused": str(identity)}}:
            return (identity,)
        case _:
            return _ids(entry, "refused")


def _fates(agent: Agent, entries: Sequence[Record], counts: Counter[str]) -> Iterator[str]:
    queue = _queue_of(entries)
    delivered = _delivered(entries)
    handed_back = Counter(text for log in agent.logs for each in log.responses.values() for text in _cleared(each))
    has_cut_return = any(_is_cut_return(log, identity) for log in agent.logs for identity in log.sent)
    for log in agent.logs:
        for identity, command in log.sent.items():
            if command["type"] not in MESSAGES:
                continue
            text = command["message"]
            fates: dict[str, int] = {
                "delivered": delivered[text],
                "queued": int(text in queue.queued),
                "returned": int(text in queue.returned),
            }
            outcome = _outcome(log, identity)
            counts[f"message {outcome}"] += 1
            where = f"{text!r} ({identity}), {outcome}, is {fates}"
            total = sum(fates.values())
            if total > 1 or (outcome == "accepted" and not total) or (outcome == "refused" and total):
                yield where
            # A return that the disk does not take is reported, and forgotten by a crash: the message is queued again.
            is_forgotten = handed_back[text] and not fates["returned"] and not agent.had_disk_fault
            if handed_back[text] > 1 or is_forgotten:
                yield f"{where}, and was returned {handed_back[text]} times"
            if fates["returned"] and not handed_back[text] and not has_cut_return:
                yield f"{where}, and no client has got it"
            for name, count in fates.items():
                counts[name] += count
    if agent.waiting != len(queue.queued):
        yield f"{agent.waiting} messages wait, and in the session file {sorted(queue.queued)}"


def _outcome(log: ClientLog, identity: str) -> str:
    response = log.responses.get(identity)
    if response is None:
        return "unanswered"
    if response["success"]:
        return "accepted"
    return "undecided" if response.get("errorCode") in _UNDECIDED else "refused"


def _cleared(response: Record) -> list[str]:
    match response:
        case {"data": {"cleared": {"steering": [*steering], "followUp": [*follow_up]}}}:
            pass
        case {"data": {"steering": [*steering], "followUp": [*follow_up]}}:
            pass
        case _:
            return []
    return [each if isinstance(each, str) else text_of(each) for each in (*steering, *follow_up)]


def _is_cut_return(log: ClientLog, identity: str) -> bool:
    """Whether a command that returns messages has lost its response."""
    command = log.sent[identity]
    is_return = command["type"] == "clear_queue" or command.get("queue") == "clear"
    return is_return and _outcome(log, identity) in ("unanswered", "undecided")


def _shells(agent: Agent, counts: Counter[str]) -> Iterator[str]:
    ran = Counter(agent.ran)
    for log in agent.logs:
        for identity, command in log.sent.items():
            if command["type"] != "bash":
                continue
            outcome = _outcome(log, identity)
            counts[f"shell {outcome}"] += 1
            is_done = _has_exited(log.responses.get(identity))
            if ran[identity] > 1 or (is_done and not ran[identity]):
                yield f"the shell command {identity}, {outcome}, has run {ran[identity]} times"


def _has_exited(response: Record | None) -> bool:
    match response:
        case {"success": True, "data": {"exitCode": 0}}:
            return True
        case _:
            return False


# Records.


def _journal(agent: Agent, counts: Counter[str]) -> Iterator[str]:
    kept, problems = _kept(agent.files)
    yield from problems
    seen: dict[JournalPosition, Record] = {}
    for log in agent.logs:
        for place, record in log.events.items():
            counts["event"] += 1
            if seen.setdefault(place, record) != record:
                yield f"event {place} is {record} to client {log.name}, and to another {seen[place]}"
    journals = {log.cursor.journal for log in agent.logs if log.cursor is not None}
    if agent.had_disk_fault and len(journals) > 1:
        return  # a full disk has renamed the journal, and not every client has attached since
    journal = next(iter(journals), None)
    for place, record in seen.items():
        if place.journal != journal:
            continue
        if (there := kept.get(place[1:])) is None:
            if not agent.had_disk_fault:
                yield f"event {place} was seen, and is not in the journal: {record}"
        elif there != record:
            yield f"event {place} was {record}, and in the journal it is {there}"
    for log in agent.logs:
        for epoch, seq in kept:
            place = JournalPosition(str(journal), epoch, seq)
            if log.begun is None or log.begun.journal != journal or place <= log.begun or place in log.events:
                continue
            if log.cursor is not None and place > log.cursor:
                yield f"event {place} is in the journal, and client {log.name} has only read up to {log.cursor}"
            elif not any(begin < place <= end for begin, end in log.gaps):
                yield f"event {place} is in the journal, and client {log.name} has not seen it"


def _kept(files: Mapping[str, bytes]) -> tuple[Mapping[tuple[int, int], Record], Sequence[str]]:
    """Read the events of a journal: epoch and seq -> record."""
    kept: dict[tuple[int, int], Record] = {}
    problems: list[str] = []
    for name, data in files.items():
        if (match := _SEGMENT.fullmatch(name)) is None:
            continue
        at = 0
        while at < len(data):
            if head := _ADDRESSED.match(data, at):
                at = head.end() + int(head[1])
                continue
            end = data.find(b"\n", at)
            if end < 0:
                problems.append(f"{name} ends with half a line: {data[at:][:200]!r}")
                break
            record = parse_record(data[at:end])
            at = end + 1
            if "seq" in record:
                place = int(match[1]), int(record.pop("seq"))
                if place in kept:
                    problems.append(f"event {place} is twice in the journal")
                kept[place] = record
    return kept, problems


def _runs(agent: Agent, counts: Counter[str]) -> Iterator[str]:
    """Every run ends, or the next epoch reports that it was interrupted."""
    for log in agent.logs:
        if log.gaps or agent.had_disk_fault:  # a full disk may not take that a run has begun
            continue
        begun: JournalPosition | None = None
        for place, record in log.events.items():
            if begun is not None and begun.epoch != place.epoch:
                yield from _cut(log, begun, place.epoch, counts)
                begun = None
            if record["type"] == "agent_start":
                begun = place
            elif record["type"] == "agent_settled":
                begun = None
        if begun is not None and log.cursor is not None:
            if begun.epoch == log.cursor.epoch:
                yield f"the run at {begun} has not ended"
            else:
                yield from _cut(log, begun, log.cursor.epoch, counts)


def _cut(log: ClientLog, begun: JournalPosition, until: int, counts: Counter[str]) -> Iterator[str]:
    restarts = [record for (_, epoch), record in log.restarts.items() if begun.epoch < epoch <= until]
    counts["run cut"] += 1
    if not any(record["interrupted"] for record in restarts):
        yield f"client {log.name}: the run at {begun} was cut, and is not reported as interrupted: {restarts}"


def _silent_gaps(agent: Agent, entries: Sequence[Record]) -> Iterator[str]:
    """Every message of the session was reported by its `message_end`, or an epoch reports that records are missing."""
    refused = {identity for entry in entries for identity in _refused_by(entry)}
    for log in agent.logs:
        if log.gaps or log.begun is None or log.begun.seq or log.begun.epoch > 1:
            continue
        ends = {record.get("entryId"): place for place, record in log.events.items() if record["type"] == "message_end"}
        # What a shell command of a client said is in its response.
        messages = [
            each["id"]
            for each in entries
            if each["type"] == "message" and _role(each) != "bashExecution" and each.get("messageId") not in refused
        ]
        former = log.begun.epoch
        missing: list[str] = []
        for identity in [*messages, None]:
            if identity is not None and identity not in ends:
                missing.append(identity)
                continue
            epoch = log.cursor.epoch if identity is None and log.cursor is not None else ends[identity].epoch
            between = [record for (_, number), record in log.restarts.items() if former < number <= epoch]
            if missing and all(record["complete"] for record in between):
                what = [f"{entry['id']} ({_role(entry)})" for entry in entries if entry["id"] in missing]
                yield f"client {log.name}: no record reported messages {what}, and none that any is missing: {between}"
            missing.clear()
            former = epoch


def _role(entry: Record) -> str:
    return str(entry["message"]["role"])
