"""Makes `docs/rpc-reference.md`: every command, event, type and error code of the protocol, for authors of clients.

Fields and their meanings are those of the schema of profile `pi`, errors those of `command_errors`, examples the
recorded ones. The rules are in the other reference (`reference`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from pinnace_spec.generate.examples import command_example
from pinnace_spec.generate.schema.schema import bundles
from pinnace_spec.generate.site.commands import GROUPS, definition_of
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.records.command_errors import COMMON, MEANINGS, OF_COMMANDS

Definitions: TypeAlias = Mapping[str, Mapping[str, Any]]

_BEGIN: Final = f"""\
<!-- {NOTE} -->

# RPC reference

Every command, event and type of the protocol in profile `pi`, with its fields. The [RPC guide](rpc.md) explains how
they work together; the [reference of the rules](../spec/reference.md) states what the agent guarantees. The same
definitions exist as [JSON Schema](../spec/schema/pi.json), [AsyncAPI](../spec/asyncapi.yaml) and
[TypeScript](../spec/typescript/protocol.ts).

A command is a line that the client writes, an event a line that the agent writes without being asked. *Since* is the
release of pi that added a field; fields without it are as old as their record. Fields that are marked *pinnace* exist
in no release of pi. In examples, which are recorded, `→` precedes lines of the client and `←` lines of the agent.

## Responses

Every command but `extension_ui_response` and `client_response` gets exactly one response. Every command has an
optional `id`, a string, which its response repeats.

| Field | Present | Type | Meaning |
|---|---|---|---|
| `type` | always | `"response"` | |
| `id` | if the command has one | string | the `id` of the command |
| `command` | always | string | the `type` of the command, or `parse` for a line that is not a command |
| `success` | always | boolean | true: executed or accepted. False: rejected, and nothing has changed |
| `data` | on success, if there are data | | see each command |
| `error` | on failure | string | a description for people |
| `errorCode` | on failure | [ErrorCode](#errorcode-type) | a code for programs |
| `didYouMean` | if a command, model or tool is unknown | string | the most similar name, if there is one |
"""
_COMMON_FIELDS: Final = ("type", "id")


def rpc_reference(spec: Spec) -> str:
    """Return the page."""
    known: Definitions = json.loads(bundles(spec)["pi.json"])["$defs"]
    events = [name for name, each in known.items() if each.get("x-direction") == "out" and _is_event(name)]
    types = sorted(
        name
        for name, each in known.items()
        if each.get("x-direction") is None and not name.endswith(("Command", "Response"))
    )
    parts = [_BEGIN, "## Commands\n", *_command_list(known)]
    for names in GROUPS.values():
        parts += [_command(name, known) for name in names]
    parts.append("## Events\n")
    parts += [_event(name, known) for name in sorted(events, key=lambda name: _type_of(known[name]) or name)]
    parts += ["## Types\n", *(_type(name, known) for name in types if name != "Output")]
    parts += [
        "## Error codes\n",
        _table(("`errorCode`", "Meaning"), ((f"`{code}`", text) for code, text in MEANINGS.items())),
    ]
    return "\n".join(parts)


def _is_event(name: str) -> bool:
    return not name.endswith("Response") and name != "Failure"


def _type_of(definition: Mapping[str, Any]) -> str:
    return str(definition.get("properties", {}).get("type", {}).get("const", ""))


def _command_list(known: Definitions) -> Iterable[str]:
    for title, names in GROUPS.items():
        rows = ((f"[`{name}`](#{name})", _about(known, definition_of(name, "Command"))) for name in names)
        yield _table((title, ""), rows)


def _about(known: Definitions, name: str) -> str:
    return str(known.get(name, {}).get("description", ""))


def _command(name: str, known: Definitions) -> str:
    request = known[definition_of(name, "Command")]
    lines = [f"### {name}", "", _about(known, definition_of(name, "Command")), ""]
    if fields := _fields(request, _COMMON_FIELDS):
        lines.append(fields)
    response = known.get(definition_of(name, "Response"), {}).get("properties", {})
    if "data" in response:
        lines += [f"Data of the response: {_kind(response['data'])}.", ""]
    elif response:
        lines += ["The response has no data.", ""]
    else:
        lines += ["There is no response.", ""]
    if codes := OF_COMMANDS.get(name, ()):
        lines += [f"Error codes: {', '.join(f'`{code}`' for code in (*codes, *COMMON))}.", ""]
    if rules := request.get("x-rules"):
        lines += [f"Rules: {', '.join(f'[{rule}](../spec/reference.md#{rule.lower()})' for rule in rules)}.", ""]
    if example := command_example(name):
        shown = (f"{'→' if step.is_in else '←'} {step.text}" for step in example.steps)
        lines += ["```text", *shown, "```", ""]
    return "\n".join(lines)


def _event(name: str, known: Definitions) -> str:
    definition = known[name]
    title = _type_of(definition) or {"ExtensionUiRequest": "extension_ui_request"}.get(name, name)
    lines = [f"### {title}", "", str(definition.get("description", "")), ""]
    lines.append(_fields(definition, ("type",)) or _alternatives(definition))
    return "\n".join(lines)


def _type(name: str, known: Definitions) -> str:
    definition = known[name]
    lines = [f"### {name} (type)", ""]
    if text := definition.get("description"):
        lines += [str(text), ""]
    lines.append(_fields(definition, ()) or _alternatives(definition))
    return "\n".join(lines)


def _alternatives(definition: Mapping[str, Any]) -> str:
    return f"{_kind(definition)}.\n" if _kind(definition) not in {"object", "anything"} else ""


def _fields(definition: Mapping[str, Any], without: Sequence[str]) -> str:
    required = set(definition.get("required", ()))
    rows = [
        (
            f"`{name}`",
            "always" if name in required else "optional",
            _kind(each),
            "pinnace" if each.get("x-origin") == "ours" else str(each.get("x-since", "")),
            str(each.get("description", "")),
        )
        for name, each in definition.get("properties", {}).items()
        if name not in without and "x-until" not in each
    ]
    return _table(("Field", "Present", "Type", "Since", "Meaning"), rows) if rows else ""


def _kind(schema: Mapping[str, Any]) -> str:
    """Describe the values of a field in a few words."""
    if reference := schema.get("$ref"):
        name = str(reference).rpartition("/")[2]
        return f"[{name}](#{name.lower()}-type)"
    if "const" in schema:
        return f"`{json.dumps(schema['const'], ensure_ascii=False)}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each, ensure_ascii=False)}`" for each in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema and not schema.get("properties"):
            return " or ".join(_kind(each) for each in schema[key])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
    kind = schema.get("type", "anything")
    return " or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
