"""Tools as servers define them, and as models get them: each is read alone, so a wrong one costs itself only.

Schemas are made such that no provider refuses a whole request for one of them. Nothing that a schema names is fetched.
A schema whose references multiply is a few hundred bytes that stand for more than any memory: what it comes to is
counted while it is made, and the tool is left out beyond a bound.
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

_MOST_DESCRIPTION_BYTES: Final = 8 * 1024
_MOST_DEPTH: Final = 32
MOST_PLACES: Final = 5000
"""Schemas in one schema, references resolved."""
MOST_CHARACTERS: Final = 4 * limits.TOOL_BYTES
"""Of the texts and values in it, likewise."""
_DROPPED: Final = frozenset({"$schema", "$id", "$comment", "title", "$defs", "definitions"})
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_MOST_CALLED_CHARS: Final = 64
_HASH_CHARS: Final = 8
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")
_INDEX: Final = re.compile("[0-9]{1,6}")
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
    needs_task: bool = False
    """Whether a call has to ask for a task."""


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
    if len(name) > limits.NAME_CHARS:
        raise WrongTool(f"its name has more than {limits.NAME_CHARS} characters")
    schema = raw.get("inputSchema")
    if not is_object(schema):
        raise WrongTool("its inputSchema is no object")
    execution = raw.get("execution")
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
        _output(output) if is_object(output) else None,
        {hint: value for hint in _HINTS if isinstance(value := annotations.get(hint), bool)},
        needs_task=is_object(execution) and execution.get("taskSupport") == "required",
    )


def _output(schema: Mapping[str, object]) -> dict[str, object] | None:
    """Return a schema of results; None, as if there were none: it is too much."""
    try:
        return adapted(schema)
    except WrongTool:
        return None


def adapted(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema of arguments as providers take it: an object without references.

    Raises:
        WrongTool: Its references make too much of it.
    """
    made = _Adapting(schema).schema(schema, 0, ())
    made["type"] = "object"
    given = made.get("properties")
    properties: dict[str, object] = dict(given) if is_object(given) else {}
    described: dict[str, object] = properties
    if "required" in made:
        required = made.pop("required")
        names = [each for each in required if isinstance(each, str)] if is_list(required) else []
        if names:
            made["required"] = list(dict.fromkeys(names))
            described = {**{each: dict[str, object]() for each in names}, **properties}
    # True and false are schemas, too, and a required property need not be described.
    made["properties"] = {
        name: each if is_object(each) else {"not": {}} if each is False else {} for name, each in described.items()
    }
    return made


class _Adapting:
    """Makes one schema."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._places = 0
        self._characters = 0
        self._sizes: dict[int, int] = {}

    def _count(self, value: object) -> None:
        """Count what is no schema; what many references lead to is measured once.

        Raises:
            WrongTool: It is too much.
        """
        if isinstance(value, str) or is_object(value) or is_list(value):
            if id(value) not in self._sizes:  # all are parts of the document, which lives as long as this
                self._sizes[id(value)] = len(json.dumps(value))
            self._characters += self._sizes[id(value)]
        if self._characters > MOST_CHARACTERS:
            raise WrongTool(f"its schema has more than {MOST_CHARACTERS >> 10} KiB, references resolved")

    def schema(self, schema: Mapping[str, object], depth: int, inside: tuple[str, ...]) -> dict[str, object]:
        """Return a schema without references; what is too deep, recursive or elsewhere takes anything."""
        if depth > _MOST_DEPTH:
            return {}
        self._places += 1
        if self._places > MOST_PLACES:
            raise WrongTool(f"its schema has more than {MOST_PLACES:,} parts, references resolved")
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(schema, reference, depth, inside)
        made: dict[str, object] = {}
        for key, value in schema.items():
            if key not in _DROPPED:
                self._count(key)
                made[key] = self._value(key, value, depth, inside)
        kinds = made.get("type")
        if is_list(kinds):
            made = _alternatives(made, kinds)
        if made.get("type") == "array" and "items" not in made:
            made["items"] = {}
        return made

    def _value(self, key: str, value: object, depth: int, inside: tuple[str, ...]) -> object:
        if key in _DATA:
            self._count(value)
            return value
        if is_object(value):
            if key in _MAPS:
                self._count("".join(value))
                return {name: self._inner(each, depth, inside) for name, each in value.items()}
            return self.schema(value, depth + 1, inside)
        if is_list(value):
            return [self._inner(each, depth, inside) for each in value]
        self._count(value)
        return value

    def _inner(self, value: object, depth: int, inside: tuple[str, ...]) -> object:
        if is_object(value):
            return self.schema(value, depth + 1, inside)
        self._count(value)
        return value

    def _referred(
        self, schema: Mapping[str, object], reference: str, depth: int, inside: tuple[str, ...]
    ) -> dict[str, object]:
        rest = {key: value for key, value in schema.items() if key not in ("$ref", *_DROPPED)}
        found = None if reference in inside else self._found(reference)
        target = {} if found is None else self.schema(found, depth + 1, (*inside, reference))
        return {**target, **self.schema(rest, depth + 1, inside)}

    def _found(self, reference: str) -> Mapping[str, object] | None:
        """Return what a reference within the document names; None: nothing, or it is elsewhere."""
        if reference != "#" and not reference.startswith("#/"):
            return None
        at: object = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(at):
                at = at.get(name)
            elif is_list(at) and _INDEX.fullmatch(name) and int(name) < len(at):
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
