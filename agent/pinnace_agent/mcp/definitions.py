"""Tools as servers define them, and as models get them: each is read alone, so a wrong one costs itself only.

Schemas are made such that no provider refuses a whole request for one of them. Nothing that a schema names is fetched.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp import limits

_MOST_NAME_CHARS: Final = 200
_MOST_DESCRIPTION_BYTES: Final = 8 * 1024
_MOST_DEPTH: Final = 32
_DROPPED: Final = frozenset({"$schema", "$id", "$comment", "title", "$defs", "definitions"})
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_MOST_CALLED_CHARS: Final = 64
_HASH_CHARS: Final = 8
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
_BIDI: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class WrongTool(Exception):
    """A tool can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server."""

    name: str
    """What the server calls it."""
    title: str
    description: str
    parameters: Mapping[str, object]
    """A schema of type object that providers take."""
    output_schema: Mapping[str, object] | None
    annotations: Mapping[str, bool]
    """Hints of the server, which decide nothing."""


def read_tool(raw: object, server: str) -> OfferedTool:
    """Read a tool of `tools/list`.

    Raises:
        WrongTool: It can't be used.
    """
    if not is_object(raw):
        raise WrongTool("it is no object")
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        raise WrongTool("it has no name")
    if len(name) > _MOST_NAME_CHARS:
        raise WrongTool(f"its name has more than {_MOST_NAME_CHARS} characters")
    schema = raw.get("inputSchema")
    if not is_object(schema):
        raise WrongTool("its inputSchema is no object")
    execution = raw.get("execution")
    if is_object(execution) and execution.get("taskSupport") == "required":
        raise WrongTool("it runs as a task only (execution.taskSupport is required), and tasks are not supported yet")
    if len(json.dumps(raw)) > limits.TOOL_BYTES:
        raise WrongTool(f"its definition has more than {limits.TOOL_BYTES >> 10} KiB")
    hints = raw.get("annotations")
    annotations = hints if is_object(hints) else {}
    title = _line(raw.get("title")) or _line(annotations.get("title"))
    output = raw.get("outputSchema")
    return OfferedTool(
        name,
        title,
        _text(raw.get("description")) or title or f"MCP tool {name} from server {server}",
        adapted(schema),
        adapted(output) if is_object(output) else None,
        {hint: value for hint in _HINTS if isinstance(value := annotations.get(hint), bool)},
    )


def adapted(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema of arguments as providers take it: an object without references."""
    made = _Adapting(schema).schema(schema, 0, ())
    made["type"] = "object"
    if not is_object(made.get("properties")):
        made["properties"] = {}
    return made


class _Adapting:
    """Makes one schema."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root

    def schema(self, schema: Mapping[str, object], depth: int, inside: tuple[str, ...]) -> dict[str, object]:
        """Return a schema without references; what is too deep, recursive or elsewhere takes anything."""
        if depth > _MOST_DEPTH:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(schema, reference, depth, inside)
        made: dict[str, object] = {}
        for key, value in schema.items():
            if key not in _DROPPED:
                made[key] = self._value(key, value, depth, inside)
        kinds = made.get("type")
        if is_list(kinds):
            made = _alternatives(made, kinds)
        if made.get("type") == "array" and "items" not in made:
            made["items"] = {}
        return made

    def _value(self, key: str, value: object, depth: int, inside: tuple[str, ...]) -> object:
        if key in _DATA:
            return value
        if is_object(value):
            if key in _MAPS:
                return {name: self._inner(each, depth, inside) for name, each in value.items()}
            return self.schema(value, depth + 1, inside)
        if is_list(value):
            return [self._inner(each, depth, inside) for each in value]
        return value

    def _inner(self, value: object, depth: int, inside: tuple[str, ...]) -> object:
        return self.schema(value, depth + 1, inside) if is_object(value) else value

    def _referred(
        self, schema: Mapping[str, object], reference: str, depth: int, inside: tuple[str, ...]
    ) -> dict[str, object]:
        rest = {key: value for key, value in schema.items() if key not in ("$ref", *_DROPPED)}
        found = None if reference in inside else self._found(reference)
        target = {} if found is None else self.schema(found, depth + 1, (*inside, reference))
        return {**target, **self.schema(rest, depth + 1, inside)}

    def _found(self, reference: str) -> Mapping[str, object] | None:
        """Return what a reference within the document names; None: nothing, or it is elsewhere."""
        if not reference.startswith("#"):
            return None
        at: object = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(at):
                at = at.get(name)
            elif is_list(at) and name.isdigit() and int(name) < len(at):
                at = at[int(name)]
            else:
                return None
        return at if is_object(at) else None


def _alternatives(schema: dict[str, object], kinds: list[object]) -> dict[str, object]:
    """Return a schema of several types as several schemas: one API takes no list of types."""
    if "anyOf" in schema or not kinds:
        return {key: value for key, value in schema.items() if key != "type"}
    if len(kinds) == 1:
        return {**schema, "type": kinds[0]}
    own = {key: value for key, value in schema.items() if key in ("description", "default")}
    rest = {key: value for key, value in schema.items() if key not in ("type", *own)}
    each: list[dict[str, object]] = []
    for kind in kinds:
        one: dict[str, object] = {"type": kind} if kind == "null" else {**rest, "type": kind}
        if kind == "array" and "items" not in one:
            one["items"] = {}
        each.append(one)
    return {**own, "anyOf": each}


def _text(value: object) -> str:
    """Return a text of a server without what would deceive a reader, up to the limit."""
    if not isinstance(value, str):
        return ""
    kept = "".join(char for char in _BIDI.sub("", value) if char in "\n\t" or unicodedata.category(char) != "Cc")
    return kept.strip().encode("utf-8", "replace")[:_MOST_DESCRIPTION_BYTES].decode("utf-8", "ignore")


def _line(value: object) -> str:
    return " ".join(_text(value).split())


def first_line(text: str, most: int) -> str:
    """Return the first line of what a server says, for a list."""
    return next((line.strip() for line in _text(text).splitlines() if line.strip()), "")[:most]


# The names that models call tools by: those of the original, so that sessions of both programs fit. Every provider
# takes them: letters, digits, underscores, at most 64.


def plain_name(server: str, tool: str) -> str:
    """Return the name of a tool, if it is short enough and no other has it."""
    return _OTHER.sub("_", f"mcp__{server}__{tool}")


def tool_names(server: str, tools: Iterable[str], taken: Container[str] = ()) -> dict[str, str]:
    """Return the names of a server's tools, by what the server calls them.

    Tools whose names would be equal all get a suffix, so that none depends on the order.

    Args:
        server: Its name.
        tools: What it calls its tools, each once.
        taken: Names that others have.
    """
    plain = {tool: plain_name(server, tool) for tool in tools}
    shared = Counter(plain.values())
    return {
        tool: _hashed(server, tool, name)
        if shared[name] > 1 or name in taken or len(name) > _MOST_CALLED_CHARS
        else name
        for tool, name in plain.items()
    }


def _hashed(server: str, tool: str, name: str) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{name[: _MOST_CALLED_CHARS - _HASH_CHARS - 1]}_{digest}"
