"""The exact generations: `seed`, `0.5x` and `0.18`, for clients that reject unknown records and fields.

Each generation lists its records and fields, so later additions never reach its clients. Loaded when one of
them is chosen. Source: R-PRO-02, R-OLD-01. Must not know when a record is written.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, cast

import orjson

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.command_table import OWN_COMMANDS, TEXT_COMMANDS
from pinnace_spec.records.messages import TextContent, ThinkingContent, ToolCall
from pinnace_spec.wire.json_text import encode_fragment, encode_record

Record = Mapping[str, object]
Fields = frozenset[str]


# The fields of the generations' records beside `type`, by record type. None: all fields of the record.
_RECORDS: Final[dict[str, Fields]] = {
    kind: frozenset(fields.split())
    for kind, fields in {
        "agent_start": "",
        "agent_end": "messages willRetry",
        "turn_start": "",
        "turn_end": "message toolResults",
        "message_start": "message",
        "message_end": "message",
        "tool_execution_start": "toolCallId toolName args",
        "tool_execution_update": "toolCallId toolName args partialResult",
        "tool_execution_end": "toolCallId toolName result isError",
        "queue_update": "steering followUp",
        "compaction_start": "reason",
        "compaction_end": "reason result aborted willRetry errorMessage",
        "auto_retry_start": "attempt maxAttempts delayMs errorMessage",
        "auto_retry_end": "success attempt finalError",
        "extension_error": "extensionPath event error",
        "extension_ui_request": (
            "id method title options message placeholder prefill timeout notifyType statusKey statusText widgetKey "
            "widgetLines widgetPlacement text"
        ),
    }.items()
}
_TOOL_OUTPUT: Final = frozenset({"content", "details"})
_MESSAGES: Final[Mapping[str, Fields]] = {
    role: frozenset(f"role timestamp {fields}".split())
    for role, fields in {
        "user": "content",
        "assistant": "content api provider model usage stopReason errorMessage responseId responseModel",
        "toolResult": "toolCallId toolName content details isError",
        "bashExecution": "command output exitCode cancelled truncated fullOutputPath excludeFromContext",
    }.items()
}
# Roles of releases from 0.31 on, which the published protocol does not list.
_UNLISTED: Final[Mapping[str, Fields]] = {
    role: frozenset(f"role timestamp {fields}".split())
    for role, fields in {
        "custom": "customType content display details",
        "branchSummary": "summary fromId",
        "compactionSummary": "summary tokensBefore",
    }.items()
}
# Before 0.59: without the provider's id of an answer and the model that it names.
_EARLIER_ANSWER: Final = _MESSAGES["assistant"] - {"responseId", "responseModel"}
_EARLIER_USAGE: Final = frozenset("input output cacheRead cacheWrite totalTokens cost".split())
_USAGE: Final = _EARLIER_USAGE | {"cacheWrite1h"}
_COST: Final = frozenset("input output cacheRead cacheWrite total".split())
_CALL: Final = frozenset("type id name arguments thoughtSignature".split())
# The blocks of an answer.
_BLOCKS: Final[Mapping[str, Fields]] = {
    "text": frozenset({"type", "text", "textSignature"}),
    "thinking": frozenset({"type", "thinking", "thinkingSignature", "redacted"}),
    "toolCall": _CALL,
}
_IN_BLOCKS: Final = frozenset(key for each in (TextContent, ThinkingContent, ToolCall) for key in each.__annotations__)


def _later(blocks: Mapping[str, Fields]) -> tuple[str, ...]:
    """Return the fields of blocks that no block of a generation has."""
    return tuple(sorted(_IN_BLOCKS.difference(*blocks.values())))


_STEP: Final = frozenset({"type", "contentIndex"})
_STATE: Final = frozenset(
    "model thinkingLevel isStreaming isCompacting steeringMode followUpMode sessionFile sessionId sessionName "
    "autoCompactionEnabled messageCount pendingMessageCount".split()
)
_STATS: Final = frozenset(
    "sessionFile sessionId userMessages assistantMessages toolCalls toolResults totalMessages tokens cost "
    "contextUsage".split()
)
_COMPACTION: Final = frozenset("summary firstKeptEntryId tokensBefore estimatedTokensAfter details".split())
_COMMAND_INFO: Final = frozenset("name description source location path".split())
# Responses that only confirm that a message was accepted.
_TEXTS: Final = frozenset(TEXT_COMMANDS)


class ExactProjection:
    """Base of the exact generations: leaves out record types, roles and fields that the generation does not have."""

    profile: ClientProfile
    has_whole_updates = True
    unknown_names: frozenset[str] = frozenset(
        {
            "messageId",
            "context",
            "by",
            "delegate",
            "directories",
            "surfaces",
            "subagents",
            "themes",
            "theme",
            "toolsExpanded",
            *OWN_COMMANDS,
        }
    )
    roles: ClassVar[Mapping[str, Fields]] = _MESSAGES
    records: ClassVar[Mapping[str, Fields]] = _RECORDS
    usage: ClassVar[Fields] = _USAGE
    blocks: ClassVar[Mapping[str, Fields]] = _BLOCKS
    later_in_blocks: ClassVar[Sequence[str]] = _later(_BLOCKS)
    compaction: ClassVar[Fields] = _COMPACTION
    replies: ClassVar[Mapping[str, Fields]]
    """The fields of responses' data, for commands whose data later generations have extended."""

    @property
    def event_names(self) -> tuple[str, ...]:
        """The types of the records that may be written beside responses."""
        return ("message_update", *self.records)

    def line(self, record: Record) -> bytes | None:
        """Encode a record, or None if this generation does not have it."""
        kind = str(record["type"])
        if kind == "response":
            return encode_record(self._response(record))
        shaped = self._event(kind, record)
        return None if shaped is None else encode_record(shaped)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` with the message so far, twice, encoded once."""
        # Every delta passes here, so nothing is called if no field has to be left out.
        snapshot = builder.snapshot()
        has_more = not (snapshot.keys() <= self.roles["assistant"] and snapshot["usage"].keys() <= self.usage)
        for block in snapshot["content"]:
            for name in self.later_in_blocks:
                has_more = has_more or name in block
        message = encode_fragment(self._message(cast(Record, snapshot)) if has_more else snapshot)
        if event["type"] == "toolcall_start":
            event = _only(event, _STEP)
        elif event["type"] == "toolcall_end":
            event = {**event, "toolCall": _only(cast(Record, event["toolCall"]), _CALL)}
        return encode_record(
            {"type": "message_update", "message": message, "assistantMessageEvent": {**event, "partial": message}}
        )

    def _event(self, kind: str, record: Record) -> Record | None:
        fields = self.records.get(kind)
        if fields is None:
            return None
        shaped: dict[str, object] = {"type": kind}
        for name, value in record.items():
            if name in fields:
                shaped[name] = self._value(name, value)
        return shaped

    def _value(self, name: str, value: object) -> object:
        # cast, below: records are ours, so these fields hold what their names say
        match name:
            case "message" if isinstance(value, Mapping):  # that of a dialog is a text
                return self._message(cast(Record, value))
            case "messages" | "toolResults":
                return self._messages(value)
            case "result" | "partialResult" if isinstance(value, Mapping):
                result = _without_created(cast(Record, value))
                return _only(result, self.compaction if "summary" in result else _TOOL_OUTPUT)
            case _:
                return value

    def _messages(self, messages: object) -> list[Record]:
        found = cast(Iterable[object], messages)
        if not (isinstance(found, list) and all(isinstance(each, Mapping) for each in found)):
            found = orjson.loads(encode_record({"messages": found}))["messages"]  # kept as they are in the file
        return [self._message(cast(Record, each)) for each in cast(Iterable[object], found)]

    def _message(self, message: Record) -> Record:
        fields = self.roles.get(str(message["role"]))
        if fields is None:
            return _as_user(message)
        if message["role"] != "assistant":
            return _only(_without_created(message), fields)
        usage, content = cast(Record, message["usage"]), cast("list[Record]", message["content"])
        if not (usage.keys() <= self.usage and cast(Record, usage["cost"]).keys() <= _COST):
            cost = _only(cast(Record, usage["cost"]), _COST)
            message = {**message, "usage": {**_only(usage, self.usage), "cost": cost}}
        if any(not block.keys() <= self.blocks[str(block["type"])] for block in content):
            shaped = [_only(block, self.blocks[str(block["type"])]) for block in content]
            message = {**message, "content": shaped}
        return _only(message, fields)

    def _response(self, record: Record) -> Record:
        if not record["success"]:
            return {name: value for name, value in record.items() if name not in {"errorCode", "didYouMean"}}
        command, data = str(record["command"]), record.get("data")
        if command in _TEXTS:
            return {name: value for name, value in record.items() if name != "data"}
        if not isinstance(data, Mapping):
            return record
        # Any data is ours.
        shaped = self._data(command, cast(Record, data))
        head = {name: value for name, value in record.items() if name != "data"}
        return {**head, "data": shaped} if shaped or command == "get_last_assistant_text" else head

    def _data(self, command: str, data: Record) -> Record:
        if command == "get_messages":
            return {"messages": self._messages(data["messages"])}
        if command == "get_commands":
            return {"commands": [_only(each, _COMMAND_INFO) for each in cast(Iterable[Record], data["commands"])]}
        fields = self.compaction if command == "compact" else self.replies.get(command)
        shaped = data if fields is None else _only(data, fields)
        # A level of a later generation is written as the highest one that this generation has.
        return {
            name: "xhigh" if value == "max" and name in {"thinkingLevel", "level"} else value
            for name, value in shaped.items()
        }


class SeedProjection(ExactProjection):
    """The published protocol: whole messages in updates, no record, role or field that it does not have.

    One exception: `agent_end.willRetry`, which its release writes without listing it.
    """

    # DEVIATION D-08, D-09: records that were not published are left out of `seed`; role `system` is in no profile.
    profile: ClientProfile = "seed"
    replies: ClassVar[Mapping[str, Fields]] = {
        "get_state": _STATE,
        "get_session_stats": _STATS,
        **dict.fromkeys(("new_session", "switch_session", "clone"), frozenset({"cancelled"})),
        **dict.fromkeys(("fork", "branch"), frozenset({"text", "cancelled"})),
    }


class FifthProjection(ExactProjection):
    """Releases 0.31 to 0.65: automatic compactions have their own records, and requested ones have none."""

    profile: ClientProfile = "0.5x"
    roles: ClassVar[Mapping[str, Fields]] = {**_MESSAGES, **_UNLISTED, "assistant": _EARLIER_ANSWER}
    usage: ClassVar[Fields] = _EARLIER_USAGE
    records: ClassVar[Mapping[str, Fields]] = {
        kind: fields
        for kind, fields in (_RECORDS | {"agent_end": frozenset({"messages"})}).items()
        if kind not in {"queue_update", "compaction_start", "compaction_end"}
    }
    compaction: ClassVar[Fields] = _COMPACTION - {"estimatedTokensAfter"}
    replies: ClassVar[Mapping[str, Fields]] = {**SeedProjection.replies, "get_session_stats": _STATS - {"contextUsage"}}
    auto_start: ClassVar[Fields] = frozenset({"reason"})
    auto_end: ClassVar[Fields] = frozenset({"result", "aborted", "willRetry", "errorMessage"})
    leaves_out_null: ClassVar[bool] = True

    @property
    def event_names(self) -> tuple[str, ...]:
        """The types of the records that may be written beside responses."""
        return (*super().event_names, "auto_compaction_start", "auto_compaction_end")

    def _data(self, command: str, data: Record) -> Record:
        if self.leaves_out_null and command == "get_last_assistant_text" and data.get("text") is None:
            return {}  # as these releases wrote it; their documents have null
        return super()._data(command, data)

    def _event(self, kind: str, record: Record) -> Record | None:
        if kind not in {"compaction_start", "compaction_end"}:
            return super()._event(kind, record)
        if record["reason"] == "manual":
            return None
        fields = self.auto_start if kind == "compaction_start" else self.auto_end
        members = {name: self._value(name, value) for name, value in record.items() if name in fields}
        return {"type": f"auto_{kind}", **members}


class OldestProjection(FifthProjection):
    """Releases 0.16 to 0.30: one queue, no progress of tools, no retries, no dialogs."""

    profile: ClientProfile = "0.18"
    roles: ClassVar[Mapping[str, Fields]] = {
        **_MESSAGES,
        "assistant": _EARLIER_ANSWER,
        "bashExecution": _MESSAGES["bashExecution"] - {"excludeFromContext"},
    }
    blocks: ClassVar[Mapping[str, Fields]] = {**_BLOCKS, "thinking": _BLOCKS["thinking"] - {"redacted"}}
    later_in_blocks: ClassVar[Sequence[str]] = _later(blocks)
    records: ClassVar[Mapping[str, Fields]] = {
        kind: fields
        for kind, fields in FifthProjection.records.items()
        if not kind.startswith(("auto_retry_", "extension_", "tool_execution_update"))
    }
    compaction: ClassVar[Fields] = frozenset({"summary", "tokensBefore"})
    replies: ClassVar[Mapping[str, Fields]] = {
        **FifthProjection.replies,
        "get_state": (_STATE - {"steeringMode", "followUpMode", "pendingMessageCount", "sessionName"})
        | {"queueMode", "queuedMessageCount"},
        "switch_session": frozenset(),
        "branch": frozenset({"text"}),
    }
    auto_start: ClassVar[Fields] = frozenset()
    auto_end: ClassVar[Fields] = frozenset({"result", "aborted"})
    leaves_out_null: ClassVar[bool] = False


def exact_projection(profile: ClientProfile) -> ExactProjection:
    """Return the projection for an exact profile."""
    kinds = {kind.profile: kind for kind in (SeedProjection, FifthProjection, OldestProjection)}
    return kinds[profile]()


def _without_created(result: Record) -> Record:
    """Leave out the details of a `write`: none of these generations has any there."""
    details = result.get("details")
    if isinstance(details, Mapping) and list(cast(Record, details)) == ["created"]:
        return {name: value for name, value in result.items() if name != "details"}
    return result


def _only(record: Record, fields: Fields) -> Record:
    return record if record.keys() <= fields else {name: record[name] for name in record if name in fields}


def _as_user(message: Record) -> Record:
    """Return a message whose role the generation does not have as a user message, as models receive it."""
    from pinnace_agent.llm.context import llm_text

    return {"role": "user", "content": llm_text(message), "timestamp": message["timestamp"]}
