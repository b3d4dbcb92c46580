"""What must hold of a history, whatever the seed.

- Every message that was accepted is in a session file after each crash: delivered, queued or returned (R-SES-05,
  R-QUE-12).
- It is exactly one of these, and delivered at most once, across all crashes; one that an answer has returned to the
  client is neither delivered nor queued (R-QUE-12, R-QUE-14).
- Files hold no damage but what a crash has cut, and zeros where the disk has lost data (R-SES-07).
- The records of each life satisfy the specification's observers.

Nothing here knows how the agent does that. Sources: the rules named, `pinnace_spec.observers`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.session_verdict import Files, entries_of, queue_operations, text_of
from pinnace_fuzz.simulation.client import Ledger
from pinnace_spec.observers.judge import judge
from pinnace_spec.observers.verdicts import Checks, End, Step
from pinnace_spec.profiles.generations import generation

_PROFILE: Final = "pi"


class _Fates(NamedTuple):
    """What the files say of messages, by id."""

    delivered: Mapping[str, int]
    """How often."""
    queued: frozenset[str]
    returned: frozenset[str]


def find_lost(ledger: Ledger, files: Files) -> Iterable[str]:
    """Find messages that were accepted and that no file has, or that are twice what they may be once."""
    fates = _fates(files)
    for message_id, message in ledger.messages.items():
        delivered = fates.delivered.get(message_id, 0)
        is_queued, is_returned = message_id in fates.queued, message_id in fates.returned
        if delivered > 1:
            yield f"{message_id} was delivered {delivered} times"
        if not message.is_accepted:
            continue
        if not (delivered or is_queued or is_returned):
            yield f"{message_id} was accepted and is in no file"
        if delivered and is_returned:
            yield f"{message_id} was delivered and returned"
        if message.is_returned and (delivered or is_queued):
            yield f"{message_id} was returned to the client and is {'delivered' if delivered else 'queued'}"


def find_violations(steps: Sequence[Step], end: End, *, is_fresh: bool) -> Iterable[str]:
    """Judge the records of one life of the agent by the specification's observers.

    Without their times: the client reads late, whenever the seed wants it.
    """
    report = judge(steps, end, generation(_PROFILE), Checks(is_fresh=is_fresh, is_ours=True, has_times=False))
    for verdict in report.verdicts:
        if verdict.level == "violation":
            yield f"{verdict.invariant} ({', '.join(verdict.rules)}): {verdict.text}"


def session_files(contents: Mapping[str, bytes]) -> Files:
    """Choose the session files."""
    return {name: data for name, data in contents.items() if name.endswith(".jsonl")}


def _fates(files: Files) -> _Fates:
    delivered: dict[str, int] = {}
    queued: set[str] = set()
    returned: set[str] = set()
    for data in files.values():
        waiting: set[str] = set()
        for operation in queue_operations(data):
            match operation:
                case {"op": "add", "messageId": str(message_id)}:
                    waiting.add(message_id)
                    returned.discard(message_id)
                case {"op": op, "messageIds": [*message_ids]}:
                    waiting.difference_update(message_ids)
                    if op == "remove":
                        returned.update(message_ids)
                case _:
                    pass
        for entry in entries_of(data):
            if entry["type"] == "message" and entry["message"].get("role") == "user" and text_of(entry["message"]):
                message_id = str(entry.get("messageId"))
                delivered[message_id] = delivered.get(message_id, 0) + 1
        queued |= waiting
    return _Fates(delivered, frozenset(queued - delivered.keys()), frozenset(returned))
