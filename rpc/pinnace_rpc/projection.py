"""Three generations of the protocol as projections of one stream of records.

The agent writes one stream; what a client of a generation does not know is left out here and nowhere else. Source:
R-PRO-01 to R-PRO-03. Must not know when a record is written.
"""

from collections.abc import Mapping
from typing import Final, cast

import orjson

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.profiles import Profile
from pinnace_spec.wire import encode_fragment, encode_record

Record = Mapping[str, object]

# What this release may write beside responses, for `hello`.
EVENT_TYPES: Final = (
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "queue_update",
    "auto_retry_start",
    "auto_retry_end",
    "compaction_start",
    "compaction_end",
    "extension_error",
    "bash_execution_update",
    "thinking_level_changed",
    "session_info_changed",
)
# Record types of later generations, which a client that refuses unknown types must not see.
# DEVIATION D-08, D-09: what was not published is left out of `seed`; role `system` is in no profile.
_LATER_TYPES: Final = frozenset(
    {"agent_settled", "bash_execution_update", "thinking_level_changed", "session_info_changed", "entry_appended"}
)
# What a failed message and the records of retries say to programs (`errorMessage` says it to people).
_FAILURE_FIELDS: Final = frozenset({"errorCode", "status", "attempts"})
# Fields of later generations, by record type; the seed generation is written without them.
_LATER_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "tool_execution_end": frozenset({"durationMs"}),
    "toolcall_start": frozenset({"id", "toolName"}),
    "auto_retry_start": _FAILURE_FIELDS,
    "auto_retry_end": _FAILURE_FIELDS,
}
_SOURCE: Final = frozenset({"sourceInfo"})


class SeedProjection:
    """Exactly the seed generation: whole messages in updates, no record type that it does not list."""

    profile: Profile = "seed"

    def line(self, record: Record) -> bytes | None:
        """Encode a record, or None if this generation does not have it."""
        kind = record["type"]
        if kind in _LATER_TYPES:
            return None
        if kind in _LATER_FIELDS:
            return encode_record(_without(record, _LATER_FIELDS[str(kind)]))
        if kind == "response":
            return encode_record(_seed_response(record))
        if kind in {"message_start", "message_end", "turn_end"}:
            return encode_record({**record, "message": _seed_message(record["message"])})
        if kind == "agent_end":
            return encode_record({**record, "messages": _seed_messages(record["messages"])})
        if kind == "compaction_end":
            return encode_record({**record, "result": _seed_result(record["result"])})
        return encode_record(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` with the message so far, twice, encoded once."""
        message = encode_fragment(builder.snapshot())
        event = _without(event, _LATER_FIELDS.get(str(event["type"]), frozenset()))
        return encode_record(
            {"type": "message_update", "message": message, "assistantMessageEvent": {**event, "partial": message}}
        )


class PiProjection:
    """The seed generation complete, plus additive records and fields of later ones."""

    profile: Profile = "pi"

    def line(self, record: Record) -> bytes | None:
        """Encode a record."""
        return encode_record(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` with the message so far, twice, encoded once."""
        message = encode_fragment(builder.snapshot())
        return encode_record(
            {
                "type": "message_update",
                "message": message,
                "usage": builder.usage,
                "assistantMessageEvent": {**event, "partial": message},
            }
        )


class DeltaProjection(PiProjection):
    """As `pi`, but updates carry the delta alone: output grows with the answer, not with its square."""

    profile: Profile = "1.5"

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` without the message."""
        return encode_record({"type": "message_update", "usage": builder.usage, "assistantMessageEvent": event})


AnyProjection = SeedProjection | PiProjection | DeltaProjection


def make_projection(profile: Profile) -> AnyProjection:
    """Return the projection for a profile."""
    match profile:
        case "seed":
            return SeedProjection()
        case "pi":
            return PiProjection()
        case "1.5":
            return DeltaProjection()


def _without(record: Record, fields: frozenset[str]) -> Record:
    return {key: value for key, value in record.items() if key not in fields} if fields else record


def _seed_message(message: object) -> object:
    """Leave out of a message that failed what it says to programs."""
    # cast: what stands there is a message of ours
    return _without(cast(Record, message), _FAILURE_FIELDS) if "errorCode" in cast(Record, message) else message


def _seed_messages(messages: object) -> object:
    """Do so with a list of messages, or with the JSON of one."""
    if isinstance(messages, list):
        return [_seed_message(each) for each in cast(list[object], messages)]  # cast: the list is ours
    text = orjson.dumps(messages)
    return _seed_messages(orjson.loads(text)) if b'"errorCode"' in text else messages


def _seed_response(record: Record) -> Record:
    """Leave the disposition out; a prompt's answer has no data in the seed generation."""
    data = record.get("data")
    if record["command"] == "get_messages" and data is not None:
        return {**record, "data": {"messages": _seed_messages(cast(Record, data)["messages"])}}
    if record["command"] == "compact" and data is not None:
        return {**record, "data": _seed_result(data)}
    if record["command"] == "get_commands" and data is not None:
        commands = cast(Record, data)["commands"]
        # cast: the list is ours
        return {**record, "data": {"commands": [_without(each, _SOURCE) for each in cast(list[Record], commands)]}}
    return _without(record, frozenset({"data"})) if isinstance(data, Disposition) else record


def _seed_result(result: object) -> object:
    """Leave out of a compaction's result what it has cost."""
    # cast: what stands there is a result of ours, or null
    return result and _without(cast(Record, result), frozenset({"usage"}))


class Disposition(dict[str, object]):
    """Data of a response that says nothing but what became of a text: unknown to the seed generation."""
