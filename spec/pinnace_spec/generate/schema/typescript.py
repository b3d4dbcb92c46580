"""The records as TypeScript types, made from a bundle: one type for each definition, unions that `type` narrows.

For clients: unknown fields of commands are not offered, optional fields of commands may be null. What JSON Schema says
beyond shapes (`if`, lengths) has no type. Comments carry the texts, the rules and the releases. Source: the bundle.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from pinnace_spec.generate.schema.json_schema import Schema, target
from pinnace_spec.generate.schema.schema import schema
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.profiles.generations import DEFAULT_BUNDLE

_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*\Z")
# A longer union has a line for each of its types.
_SHORT: Final = 4
_BASIC: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
    "array": "unknown[]",
}


def typescript(spec: Spec) -> str:
    """Return `typescript/protocol.ts`."""
    bundle = schema(DEFAULT_BUNDLE, spec)
    parts = [f"// {NOTE}\n// {bundle['title']}. {bundle['description']}"]
    parts += ["\n".join(_declaration(name, definition)) for name, definition in bundle["$defs"].items()]
    parts.append("\n".join(_answers(bundle["$defs"])))
    return "\n\n".join(parts) + "\n"


def _answers(definitions: dict[str, Schema]) -> Iterator[str]:
    """Say which answer a command has, so that a client's function can return it."""
    yield "/** The success of each command, by its name. */"
    yield "export interface ResponseOf {"
    for command, to in definitions["Response"]["discriminator"]["mapping"].items():
        yield f"  {command}: {target({'$ref': to})};"
    yield "}"


def _declaration(name: str, definition: Schema) -> Iterator[str]:
    yield from _comment(_texts(definition), "")
    if definition.get("type") == "object" and "properties" in definition:
        yield f"export interface {name} {{"
        yield from _members(definition, "  ")
        yield "}"
    elif len(definition.get("oneOf", ())) > _SHORT:
        yield f"export type {name} ="
        yield from (f"  | {_type(each, '')}" for each in definition["oneOf"][:-1])
        yield f"  | {_type(definition['oneOf'][-1], '')};"
    else:
        yield f"export type {name} = {_type(definition, '')};"


def _members(definition: Schema, lead: str) -> Iterator[str]:
    required = definition.get("required", ())
    for key, value in definition["properties"].items():
        yield from _comment(_texts(value), lead)
        name = key if _NAME.match(key) else json.dumps(key)
        yield f"{lead}{name}{'' if key in required else '?'}: {_type(value, lead)};"
    if definition.get("additionalProperties") is True:
        yield f"{lead}[key: string]: unknown;"


def _type(value: Any, lead: str) -> str:
    name = target(value)
    if name is not None:
        return name
    for key in ("oneOf", "anyOf"):
        if key in value and "properties" not in value:
            return _union([_type(each, lead) for each in value[key]])
    if "const" in value:
        return json.dumps(value["const"])
    if "enum" in value:
        return _union([json.dumps(each) for each in value["enum"]])
    kind: Any = value.get("type")
    if isinstance(kind, list):
        return _union([_BASIC[each] for each in cast("list[str]", kind)])
    if kind == "array" and "items" in value:
        inner = _type(value["items"], lead)
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if kind == "object" and "properties" in value:
        return "{\n" + "\n".join(_members(value, lead + "  ")) + f"\n{lead}}}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"Record<string, {_type(value['additionalProperties'], lead)}>"
    return _BASIC.get(kind, "unknown")


def _union(types: list[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _texts(definition: Schema) -> list[str]:
    texts = [definition["description"]] if "description" in definition else []
    if rules := definition.get("x-rules"):
        texts.append(f"Rules: {', '.join(rules)}.")
    if definition.get("x-origin") == "ours":
        texts.append("This program's alone.")
    if since := definition.get("x-since"):
        until = f", until {definition['x-until']}" if "x-until" in definition else ""
        texts.append(f"Since {since}{until}.")
    return texts


def _comment(texts: list[str], lead: str) -> Iterator[str]:
    safe = [text.replace("*/", "*\\/") for text in texts]
    if len(safe) == 1:
        yield f"{lead}/** {safe[0]} */"
    elif safe:
        yield f"{lead}/**"
        yield from (f"{lead} * {text}" for text in safe)
        yield f"{lead} */"
