"""The protocol as an AsyncAPI 3 document: two channels, an operation a command, messages that point into a bundle.

The application that the document describes is the agent: it receives on stdin and sends on stdout. Payloads are
definitions of `schema/pi.json`; an answer is the reply of its command's operation and has its id. Source: the published
protocol, R-FRM-01, R-RSP-01.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pinnace_spec.generate.schema.json_schema import PREFIX, Schema
from pinnace_spec.generate.schema.schema import schema
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.profiles.generations import DEFAULT_BUNDLE

VERSION: Final = "3.0.0"
BUNDLE: Final = f"./schema/{DEFAULT_BUNDLE}.json"
FORMAT: Final = "application/schema+json;version=draft-2020-12"

_PLAIN: Final = re.compile(r"[A-Za-z_][\w./-]*\Z")
# Words that YAML reads as something else, in any of its versions.
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def asyncapi(spec: Spec) -> str:
    """Return `asyncapi.yaml`."""
    return f"# {NOTE}\n{to_yaml(document(spec))}"


def to_yaml(value: Mapping[str, Any]) -> str:
    """Write mappings, lists and texts as YAML; texts that could be read as something else in quotes."""
    return "\n".join(_yaml(value)) + "\n"


def document(spec: Spec) -> Schema:
    """Return the document as a value."""
    definitions: Mapping[str, Schema] = schema(DEFAULT_BUNDLE, spec)["$defs"]
    commands = _mapping(definitions["Command"])
    answers = _mapping(definitions["Response"])
    records = {kind: name for kind, name in _mapping(definitions["Output"]).items() if kind != "response"}
    outputs = [*answers.values(), "Failure", *records.values()]
    return {
        "asyncapi": VERSION,
        "info": {
            "title": "pinnace: an RPC protocol for coding agents",
            "version": schema(DEFAULT_BUNDLE, spec)["x-release"],
            "description": "JSON records, one a line, over the standard streams of a process. The version is that of "
            "the original program whose newest records it has.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "stdin": _channel(
                "stdin", "Commands, and answers to dialogs: JSON objects, each ended by LF.", commands.values()
            ),
            "stdout": _channel("stdout", "Responses and events: JSON objects, each ended by LF.", outputs),
        },
        "operations": {
            **{kind: _operation(kind, name, answers.get(kind), definitions) for kind, name in commands.items()},
            "events": {
                "action": "send",
                "channel": {"$ref": "#/channels/stdout"},
                "title": "What happens",
                "messages": [_in_channel("stdout", name) for name in records.values()],
            },
        },
        "components": {
            "messages": {name: _message(name, definitions[name]) for name in [*commands.values(), *outputs]}
        },
    }


def _mapping(union: Schema) -> dict[str, str]:
    return {key: to.removeprefix(PREFIX) for key, to in union["discriminator"]["mapping"].items()}


def _channel(name: str, text: str, messages: Any) -> Schema:
    return {
        "address": name,
        "description": text,
        "messages": {each: {"$ref": f"#/components/messages/{each}"} for each in messages},
    }


def _in_channel(channel: str, message: str) -> Schema:
    return {"$ref": f"#/channels/{channel}/messages/{message}"}


def _operation(kind: str, name: str, answer: str | None, definitions: Mapping[str, Schema]) -> Schema:
    operation: Schema = {
        "action": "receive",
        "channel": {"$ref": "#/channels/stdin"},
        "title": kind,
        "summary": definitions[name].get("description", kind),
        "messages": [_in_channel("stdin", name)],
    }
    if answer is not None:
        replies = [_in_channel("stdout", answer), _in_channel("stdout", "Failure")]
        operation["reply"] = {"channel": {"$ref": "#/channels/stdout"}, "messages": replies}
    return operation


def _message(name: str, definition: Schema) -> Schema:
    properties = definition.get("properties", {})
    kind = properties.get("type", {}).get("const")
    message: Schema = {
        "name": kind if isinstance(kind, str) and kind != "response" else name,
        "title": name,
        "summary": definition.get("description", name),
        "payload": {"schemaFormat": FORMAT, "schema": {"$ref": f"{BUNDLE}{PREFIX}{name}"}},
    }
    if "id" in properties:
        message["correlationId"] = {"location": "$message.payload#/id"}
    return message


def _yaml(value: Mapping[str, Any] | Sequence[Any], depth: int = 0) -> Iterator[str]:
    """Give the lines, two spaces a level."""
    lead = "  " * depth
    items = (
        [(f"{_text(key)}:", each) for key, each in value.items()]
        if isinstance(value, Mapping)
        else [("-", each) for each in value]
    )
    for mark, each in items:
        if isinstance(each, str):
            yield f"{lead}{mark} {_text(each)}"
        elif mark == "-":
            first, *rest = _yaml(each, depth + 1)
            yield f"{lead}- {first.lstrip()}"
            yield from rest
        else:
            yield f"{lead}{mark}"
            yield from _yaml(each, depth + 1)


def _text(text: str) -> str:
    is_plain = _PLAIN.match(text) is not None and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)
