"""Reads a transcript: what was said, in which order, and whether it keeps the invariants.

Pure; knows no agent. Judges nothing itself: faults are those of the specification's observers.
"""

from collections.abc import Iterable, Sequence

from pinnace_fuzz.harness.journal import ReceivedRecord
from pinnace_fuzz.records import Record
from pinnace_spec.observers import Checks, End, Report, judge
from pinnace_spec.observers.trace_file import steps_of
from pinnace_spec.profiles.generations import generation

# The result when another reader has read the lines: records, in order, and what followed.
OUTPUTS = Checks(has_inputs=False, has_times=False)


def kinds(records: Sequence[ReceivedRecord], *wanted: str) -> list[str]:
    """Return the types of records in order, or only the wanted ones; responses as `command:ok` or `command:error`."""
    words = [_word(received.record) for received in records]
    return [word for word in words if word in wanted] if wanted else words


def _word(record: Record) -> str:
    if record["type"] == "response":
        return f"{record['command']}:{'ok' if record['success'] else 'error'}"
    return str(record["type"])


def user_texts(records: Sequence[ReceivedRecord]) -> list[str]:
    """Return the texts of the users' messages that entered the conversation, in order."""
    messages = [each.record["message"] for each in records if each.record["type"] == "message_end"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def joined_deltas(records: Sequence[ReceivedRecord], kind: str = "text_delta") -> str:
    """Join the deltas of one kind: of the only answer, or of all of them."""
    events = (each.record["assistantMessageEvent"] for each in records if each.record["type"] == "message_update")
    return "".join(event["delta"] for event in events if event["type"] == kind)


def faults(records: Iterable[ReceivedRecord]) -> list[str]:
    """Say what is wrong with a whole transcript, by the specification's observers; what is left open is wrong too."""
    return record_faults(each.record for each in records)


def record_faults(records: Iterable[Record]) -> list[str]:
    """Say the same of records alone, which count from 1."""
    return worded(judge(steps_of(records), End("exit"), generation("pi"), OUTPUTS))


def worded(report: Report) -> list[str]:
    """Word what breaks a rule that our own agent has to keep."""
    return [f"{verdict.invariant}: {verdict.text}" for verdict in report.violations]
