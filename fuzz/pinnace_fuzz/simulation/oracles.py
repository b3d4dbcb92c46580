"""What must hold of a history, whatever the seed.

- Every message that was accepted is in a session file after each crash: delivered, queued or returned (R-SES-05,
  R-QUE-12).
- It is exactly one of these, and delivered at most once, across all crashes; one that an answer has returned to the
  client is neither delivered nor queued (R-QUE-12, R-QUE-14).
- Files hold no damage but what a crash has cut, and zeros where the disk has lost data (R-SES-07).
- A queue that a process has left is reported behind the first response of the next one (R-QUE-13).
- The records of each life satisfy the specification's observers.

Nothing here knows how the agent does that. Sources: the rules named, `pinnace_spec.observers`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.records import Record
from pinnace_fuzz.session_verdict import Files, entries_of, own_operations, text_of
from pinnace_fuzz.simulation.client import Ledger
from pinnace_spec.observers.edge import as_record, inner, out_kind, shown, words
from pinnace_spec.observers.judge import judge
from pinnace_spec.observers.verdicts import Checks, End, Step
from pinnace_spec.profiles.generations import generation

_PROFILE: Final = "pi"
# Commands that take the queue out, or answer others with themselves.
_WITHDRAWING: Final = frozenset({"clear_queue", "abort", "new_session"})
_DELIVERIES: Final = "I-QUE-2"
_QUEUED_AGAIN: Final = frozenset({"I-QUE-1", "I-QUE-5"})
_READ_ONLY: Final = "can only be read"
_LEAF: Final = "pinnace.leaf"
"""Of entries that leave out what was written before them (R-SES-05)."""


class _Fates(NamedTuple):
    """What the files say of messages, by id."""

    delivered: Mapping[str, int]
    """How often. Copies of an entry in other sessions do not count."""
    queued: frozenset[str]
    returned: frozenset[str]
    withdrawn: Mapping[str, frozenset[str]]
    """Those that a `clear_queue` has returned, by its `by`."""


def find_lost(ledger: Ledger, files: Files) -> Iterable[str]:
    """Find messages that were accepted and that no file has, or that are twice what they may be once."""
    fates = _fates(files)
    for message_id, message in ledger.messages.items():
        delivered = fates.delivered.get(message_id, 0)
        is_queued, is_returned = message_id in fates.queued, message_id in fates.returned
        if message.is_astride:  # no session knows what another one has done with it
            if message.is_accepted and not (delivered or is_queued or is_returned):
                yield f"{message_id} was accepted and is in no file"
            continue
        if delivered > 1:
            yield f"{message_id} was delivered {delivered} times"
        if not message.is_accepted:
            if message.is_rejected and ledger.is_trusted and delivered:
                yield f"{message_id} was rejected and is delivered"
            continue
        if not (delivered or is_queued or is_returned):
            yield f"{message_id} was accepted and is in no file"
        if delivered and is_returned:
            yield f"{message_id} was delivered and returned"
        if message.is_sent_on and not delivered:
            yield f"{message_id} was sent to the model and is not delivered in any file"
        if message.is_returned and (delivered or is_queued):
            yield f"{message_id} was returned to the client and is {'delivered' if delivered else 'queued'}"

    for by, message_ids in fates.withdrawn.items():
        for message_id in sorted(message_ids if by in ledger.withdrawn - ledger.astride else ()):
            sent = ledger.messages.get(message_id)
            if sent is None or sent.is_returned or sent.is_elsewhere or sent.is_astride:
                continue  # the session to which the command is repeated need not know it
            yield f"{message_id} was returned by {by}, and no answer has it"


def find_unannounced(left: Sequence[str], steps: Sequence[Step]) -> Iterable[str]:
    """Find that a queue which a former process has left is not reported by the second response (R-QUE-13).

    Commands that waited for the first one may be answered with it, so responses that follow it at once do not count. A
    report before the first response counts too: it shows the same where the first command adds to the queue. A session
    that can only be read leaves its queue to the next process.

    Args:
        left: The messages that the session's file left queued when the agent was started.
        steps: Of its life.
    """
    begun = next((step.number for step in steps if left and out_kind(step) == "agent_start"), 0)
    if begun and not any(_releases(step) for step in steps[:begun]):
        yield f"record {begun} begins a run, and only a former process has sent messages"
    if any(out_kind(step) == "warning" and _READ_ONLY in step.line for step in steps):
        return
    responses = [step for step in steps if out_kind(step) == "response"]
    first = responses[0] if left and responses else None
    if first is None:
        return
    while len(responses) > 1 and responses[1].number == first.number + 1:
        del responses[0]
        first = responses[0]
    end = responses[1].number if len(responses) > 1 else len(steps) + 1
    before = steps[: end - 1]
    if any(step.direction == "in" and as_record(step.record).get("type") in _WITHDRAWING for step in before):
        return
    if not any(out_kind(step) == "queue_update" for step in before):
        yield f"no queue_update before record {end}, and the first response is {first.number}: {len(left)} were queued"


def _releases(step: Step) -> bool:
    command = as_record(step.record)
    return step.direction == "in" and ("message" in command or command.get("queue") == "continue")


def find_violations(
    steps: Sequence[Step], end: End, *, left: Sequence[str], is_fresh: bool, has_failed: bool, has_extensions: bool
) -> Iterable[str]:
    """Judge the records of one life of the agent by the specification's observers.

    Without their times: the client reads late, whenever the seed wants it. Where the disk has failed, without those of
    the queue's reports and of messages that are left: messages whose return can't be saved are queued again, paused
    (R-QUE-12), which they take for others, and for ones that nothing holds. And without deliveries of messages that a
    former process has left queued, where the first command releases them: they are reported behind its response.
    """
    former = tuple(shown(text) for text in left)
    report = judge(
        steps,
        end,
        generation(_PROFILE),
        Checks(is_fresh=is_fresh, is_ours=True, has_times=False, has_extensions=has_extensions),
    )
    for verdict in report.verdicts:
        if verdict.invariant == _DELIVERIES and (
            any(text in verdict.text for text in former)
            or any(_delivered_text(steps[number - 1]) in left for number in verdict.steps)
        ):
            continue
        if verdict.level == "violation" and not (has_failed and verdict.invariant in _QUEUED_AGAIN):
            yield f"{verdict.invariant} ({', '.join(verdict.rules)}): {verdict.text}"


def _delivered_text(step: Step) -> str | None:
    return words(inner(as_record(step.record), "message")) if out_kind(step) == "message_start" else None


def find_repeated(files: Files) -> Iterable[str]:
    """Find names that a session has got twice, though each was sent in one command: its id was used again."""
    found = {  # once for each entry: copies of a session have its entries
        (entry["name"], entry["id"])
        for data in files.values()
        for entry in entries_of(data)
        if entry["type"] == "session_info"
    }
    for name, count in sorted(Counter(name for name, _ in found).items()):
        if count > 1:
            yield f"the command that names the session {name!r} was executed {count} times"


def find_unnamed(names: Iterable[str], files: Files) -> Iterable[str]:
    """Find names that an answer has confirmed, and that no session has got."""
    found = {entry["name"] for data in files.values() for entry in entries_of(data) if entry["type"] == "session_info"}
    for name in names:
        if name not in found:
            yield f"the command that names the session {name!r} was answered and not executed"


def session_files(contents: Mapping[str, bytes]) -> Files:
    """Choose the session files."""
    return {name: data for name, data in contents.items() if name.endswith(".jsonl")}


def _fates(files: Files) -> _Fates:
    delivered: dict[str, set[str]] = {}
    queued: set[str] = set()
    returned: set[str] = set()
    withdrawn: dict[str, set[str]] = {}
    for data in files.values():
        waiting: set[str] = set()
        for operation in own_operations(data):
            match operation:
                case {"op": "add", "messageId": str(message_id)}:
                    waiting.add(message_id)
                    returned.discard(message_id)
                    for message_ids in withdrawn.values():
                        message_ids.discard(message_id)
                case {"op": op, "messageIds": [*message_ids]}:
                    waiting.difference_update(message_ids)
                    if op == "remove":
                        returned.update(message_ids)
                    if operation.get("reason") == "clear_queue":
                        withdrawn.setdefault(str(operation.get("by")), set()).update(message_ids)
                case _:
                    pass
        latest: Record | None = None
        for entry in entries_of(data):
            if entry["type"] == "message" and entry["message"].get("role") == "user" and text_of(entry["message"]):
                delivered.setdefault(str(entry.get("messageId")), set()).add(entry["id"])
                latest = entry
            elif entry.get("customType") == _LEAF and latest is not None and latest["parentId"] == entry["parentId"]:
                # Readers go on from before the message: its prompt was rejected when it was written.
                delivered[str(latest.get("messageId"))].discard(latest["id"])
        queued |= waiting
    counts = {message_id: len(entries) for message_id, entries in delivered.items()}
    by = {identity: frozenset(message_ids) for identity, message_ids in withdrawn.items()}
    return _Fates(
        counts, frozenset(queued - {each for each, count in counts.items() if count}), frozenset(returned), by
    )
