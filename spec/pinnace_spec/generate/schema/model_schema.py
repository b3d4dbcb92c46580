"""The models of records, commands and answers as definitions of JSON Schema, one for each record and shared type.

Names are those of the wire: `AgentEnd`, `PromptCommand`, `GetStateResponse`, `TextDelta`. What a model's validators say
beyond its fields is said here once more, where JSON Schema can say it. Must not know generations (`dating`).
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from pinnace_spec.generate.schema.json_schema import (
    PREFIX,
    Schema,
    one_of,
    pascal,
    ref,
    renamed,
    rewritten,
    target,
    walk,
)
from pinnace_spec.generate.schema.model_texts import command_texts, record_texts
from pinnace_spec.records.messages import APPROVAL_MODES, QUEUE_MODES, STOP_REASONS, THINKING_LEVELS
from pinnace_spec.records.parsing import MAX_ID_CHARS

ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    "StopReason": STOP_REASONS,
    "ThinkingLevel": THINKING_LEVELS,
    "QueueMode": QUEUE_MODES,
    "ApprovalMode": APPROVAL_MODES,
}
_UNIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "UserContent": ("TextContent", "ImageContent"),
    "AssistantContent": ("TextContent", "ThinkingContent", "ToolCall"),
}
_ID_IN: Final[Schema] = {
    "type": ["string", "number", "null"],
    "maxLength": MAX_ID_CHARS,
    "description": "Comes back with the answer. Any text; a number or null is tolerated.",
}
_ID_OUT: Final[Schema] = {"type": ["string", "number", "null"], "description": "The command's, if it had one."}
_NO_NULL: Final[Schema] = {"type": ["object", "array", "string", "number", "boolean"]}


def output_definitions(
    records: Mapping[str, object], answers: Mapping[str, object], failure: object, may_lack_data: Iterable[str]
) -> dict[str, Schema]:
    """Return a definition for every record, answer and shared type that is written.

    Args:
        records: Record type -> model, or union of models by `method`.
        answers: Command -> the type of its success's data, or None.
        failure: The model of a failure.
        may_lack_data: Commands whose success may also have no data.
    """
    wanted = {("record", kind): model for kind, model in records.items()}
    wanted |= {("data", command): model for command, model in answers.items() if model is not None}
    wanted["failure", ""] = failure
    schemas, raw = _json_schemas(wanted)
    definitions = {name: _tidied(name, schema, _output_field, record_texts()) for name, schema in raw.items()}
    result: dict[str, Schema] = {}
    for kind in records:
        _add_record(result, definitions, kind, schemas["record", kind])
    for command in answers:
        data = schemas.get(("data", command))
        result[f"{pascal(command)}Response"] = _success(command, data, is_optional=command in may_lack_data)
    failure_name = str(target(schemas["failure", ""]))
    result["Failure"] = definitions[failure_name]
    result["Failure"]["properties"]["id"] = dict(_ID_OUT)
    result |= {name: schema for name, schema in definitions.items() if name not in result}
    return _shared(result)


def input_definitions(models: Mapping[str, object]) -> dict[str, Schema]:
    """Return a definition for every command and for the types in them. Unknown fields are allowed everywhere."""
    schemas, raw = _json_schemas({("command", name): model for name, model in models.items()})
    definitions = {name: _tidied(name, schema, _input_field, command_texts()) for name, schema in raw.items()}
    result: dict[str, Schema] = {}
    for name in models:
        command = {**definitions[str(target(schemas["command", name]))]}
        command["properties"] = {"type": {"const": name}, **_without(command["properties"], "type"), "id": dict(_ID_IN)}
        command["required"] = sorted(command.get("required", ["type"]), key=lambda field: field != "type")
        command |= CONSTRAINTS.get(f"{pascal(name)}Command", {})
        result[f"{pascal(name)}Command"] = command
    names = {"ImageContent": "InputImage", "_Attachment": "Attachment", "ContextItem": "ContextItem"}
    names |= {"SurfaceItem": "SurfaceItem"}
    encoded = {"InputImage": "data", "Attachment": "content"}
    for old, new in names.items():
        if old in definitions:
            result[new] = definitions[old]
            if new in encoded:
                result[new]["properties"][encoded[new]]["contentEncoding"] = "base64"
            elif new == "ContextItem":
                result[new]["properties"]["uri"]["minLength"] = 1
    return {name: _with_shared_enums(renamed(schema, names)) for name, schema in result.items()}


def _json_schemas(wanted: Mapping[tuple[str, str], object]) -> tuple[dict[tuple[str, str], Schema], dict[str, Schema]]:
    return deepcopy(_made_of(tuple(wanted.items())))


@cache
def _made_of(
    wanted: tuple[tuple[tuple[str, str], object], ...],
) -> tuple[dict[tuple[str, str], Schema], dict[str, Schema]]:
    """Ask pydantic once for the same models: several files are made of each bundle."""
    # Any: whatever the tables of the specification hold, pydantic takes as a type.
    types: tuple[tuple[tuple[str, str], Any], ...] = wanted
    inputs: list[Any] = [(key, "validation", TypeAdapter[Any](model)) for key, model in types]
    schemas, whole = TypeAdapter.json_schemas(inputs, ref_template=PREFIX + "{model}")
    return {key[0]: schema for key, schema in schemas.items()}, whole["$defs"]


def _add_record(result: dict[str, Schema], definitions: Mapping[str, Schema], kind: str, schema: Schema) -> None:
    """Give a record type its own definition; one for each method, where it is a union of them."""
    name = target(schema)
    if name is not None:
        result[pascal(kind)] = _of_kind(definitions[name], kind)
        update = result[pascal(kind)]["properties"].get("assistantMessageEvent")
        if update is not None:
            steps = {step: target({"$ref": to}) for step, to in update["discriminator"]["mapping"].items()}
            for step, model in sorted(steps.items()):
                result[pascal(step)] = _of_kind(definitions[str(model)], step)
            result["AssistantMessageEvent"] = one_of({step: pascal(step) for step in sorted(steps)}, "type")
            result[pascal(kind)]["properties"]["assistantMessageEvent"] = ref("AssistantMessageEvent")
        return
    suffix = kind.split("_", 1)[0].capitalize() if kind.startswith("hook") else ""
    methods = {method: target({"$ref": to}) for method, to in schema["discriminator"]["mapping"].items()}
    for method, model in methods.items():
        result[f"{suffix}{pascal(method)}Request"] = definitions[str(model)]
    union = one_of({method: f"{suffix}{pascal(method)}Request" for method in methods}, "method")
    result[pascal(kind)] = {"description": "A request to the user, or something to show him, by its method.", **union}


def _of_kind(schema: Schema, kind: str) -> Schema:
    return {**schema, "properties": {"type": {"const": kind}, **_without(schema["properties"], "type")}}


def _success(command: str, data: Schema | None, *, is_optional: bool) -> Schema:
    properties: Schema = {
        "type": {"const": "response"},
        "id": dict(_ID_OUT),
        "command": {"const": command},
        "success": {"const": True},
    }
    required = ["type", "command", "success"]
    if data is not None:
        properties["data"] = _or_null(data)
        required += [] if is_optional else ["data"]
    return {
        "description": f"`{command}` was carried out, or accepted.",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _or_null(data: Schema) -> Schema:
    """Keep `null` where an answer may be it."""
    return {"anyOf": data["anyOf"]} if "anyOf" in data else data


def _without(table: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in table.items() if name != key}


def _tidied(name: str, schema: Schema, field: Any, texts: Mapping[str, Mapping[str, str]]) -> Schema:
    """Drop what only repeats names; take the docstrings of fields; say what absence and null mean."""
    tidy: Schema = rewritten(
        schema, lambda each: _without(each, "title") if isinstance(each.get("title"), str) else each
    )
    properties = tidy.get("properties")
    if properties is None:
        return tidy
    required = set(tidy.get("required", ()))
    for key, value in properties.items():
        changed = field(value, is_required=key in required)
        text = texts.get(name, {}).get(key)
        properties[key] = {**changed, "description": text} if text else changed
    return tidy | CONSTRAINTS.get(name.removeprefix("Seed"), {})


def _output_field(value: Schema, *, is_required: bool) -> Schema:
    """A field whose default is null may be absent, and never is null."""
    if is_required or "default" not in value:
        return value
    bare = _without(value, "default")
    if value["default"] is None and "anyOf" in bare:
        kinds = [each for each in bare["anyOf"] if each != {"type": "null"}]
        bare = _without(bare, "anyOf") | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
    return bare or dict(_NO_NULL)


def _input_field(value: Schema, *, is_required: bool) -> Schema:
    """A field that may be absent may also be null."""
    if is_required:
        return value
    bare = {**value} if value.get("default") not in (None, [], {}) else _without(value, "default")
    if bare and "null" not in str(bare.get("anyOf", "")):
        default = {"default": bare.pop("default")} if "default" in bare else {}
        bare = {"anyOf": [bare, {"type": "null"}], **default}
    return bare


def _shared(definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Give unions of messages and of contents a definition of their own, and drop the prefix of generations."""
    names = {
        name: short
        for name in definitions
        if name.startswith("Seed") and (short := name.removeprefix("Seed")) not in definitions
    }
    named = {names.get(name, name): renamed(schema, names) for name, schema in definitions.items()}
    roles = next(
        each["discriminator"]["mapping"]
        for schema in named.values()
        for each in walk(schema)
        if each.get("discriminator", {}).get("propertyName") == "role"
    )
    named["Message"] = one_of({role: to.removeprefix(PREFIX) for role, to in roles.items()}, "role")
    for union, members in _UNIONS.items():
        kinds = {str(named[member]["properties"]["type"]["const"]): member for member in members}
        named[union] = one_of(kinds, "type")

    def change(each: Schema) -> Schema:
        if each.get("discriminator", {}).get("propertyName") == "role":
            return ref("Message")
        pointed = tuple(str(target(other)) for other in each.get("anyOf", ()))
        return next((ref(union) for union, members in _UNIONS.items() if pointed == members), each)

    kept = {"Message", *_UNIONS}
    shared = {name: schema if name in kept else rewritten(schema, change) for name, schema in named.items()}
    return {name: _with_shared_enums(schema) for name, schema in shared.items()} | {
        name: {"enum": list(values)} for name, values in ENUMS.items()
    }


def _with_shared_enums(schema: Schema) -> Schema:
    def change(each: Schema) -> Schema:
        name = next((name for name, values in ENUMS.items() if each.get("enum") == list(values)), None)
        kept: Schema = {key: each[key] for key in ("description", "default") if key in each}
        return {**ref(name), **kept} if name else each

    changed: Schema = rewritten(schema, change)
    return changed


_IS_RESULT: Final[Schema] = {"properties": {"result": {"type": "object"}}, "required": ["result"]}
_IS_ABORTED: Final[Schema] = {"properties": {"aborted": {"const": True}}}
_HAS_ERROR: Final[Schema] = {"required": ["errorMessage"]}
_TEXT_OR_IMAGES: Final[Schema] = {
    "anyOf": [
        {"properties": {"message": {"minLength": 1}}},
        {"properties": {"images": {"type": "array", "minItems": 1}}, "required": ["images"]},
        {"properties": {"attachments": {"type": "array", "minItems": 1}}, "required": ["attachments"]},
    ]
}
CONSTRAINTS: Final[Mapping[str, Schema]] = {
    "CompactionEnd": {
        "oneOf": [_IS_RESULT, _IS_ABORTED, _HAS_ERROR],
        "if": {"properties": {"willRetry": {"const": True}}},
        "then": {**_IS_RESULT, "properties": {"result": {"type": "object"}, "reason": {"const": "overflow"}}},
    },
    "ShellResult": {
        "oneOf": [
            {"properties": {"cancelled": {"const": True}}},
            {"properties": {"cancelled": {"const": False}}, "required": ["exitCode"]},
        ],
        "if": {"properties": {"cancelled": {"const": True}}},
        "then": {"not": {"required": ["exitCode"]}},
    },
    "AutoRetryEnd": {
        "if": {"properties": {"success": {"const": True}}},
        "then": {"not": {"required": ["finalError"]}},
        "else": {"required": ["finalError"]},
    },
    "AgentSettled": {
        "dependentRequired": {"reason": ["limit"], "limit": ["reason"]},
        "if": {"required": ["limit"]},
        "then": {"properties": {"aborted": {"const": True}}},
    },
    "ContextUsage": {
        "if": {"properties": {"tokens": {"type": "null"}}},
        "then": {"properties": {"percent": {"type": "null"}}},
        "else": {"properties": {"percent": {"type": "number"}}},
    },
    "SessionStatus": {
        "if": {"properties": {"saved": {"const": True}}},
        "then": {"not": {"anyOf": [{"required": ["problem"]}, {"required": ["unsavedEntries"]}]}},
    },
    "PromptCommand": _TEXT_OR_IMAGES,
    "SteerCommand": _TEXT_OR_IMAGES,
    "FollowUpCommand": _TEXT_OR_IMAGES,
    "QueueMessageCommand": _TEXT_OR_IMAGES,
    "SetSessionNameCommand": {"allOf": [{"properties": {"name": {"pattern": "\\S"}}}]},
}
