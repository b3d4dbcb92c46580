"""What a generation has of the whole: definitions without what is younger or gone, and marks that say since when.

The dates are those of `profiles.toml`, whose fields are named by a path: the record, the command or the shared type,
then field by field (`get_state.data.queueMode`, `Usage.totalTokens`). Must not know how definitions are made.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace_spec.generate.schema.json_schema import PREFIX, Schema, pascal, target
from pinnace_spec.profiles.generations import Generation, Lifetime, lifetimes, release_of

Definitions = dict[str, Schema]


def definition_of_path(path: str, definitions: Mapping[str, Schema]) -> tuple[str, ...]:
    """Split a dated field into the definition that it starts in, and its fields.

    Raises:
        KeyError: Nothing of that name is defined.
    """
    first, *rest = path.split(".")
    if first == "response":
        return ("Failure", *rest)
    candidates = (f"{pascal(first)}Response",) if rest[0] == "data" else (pascal(first), f"{pascal(first)}Command")
    for name in candidates:
        if name in definitions:
            return (name, *rest)
    raise KeyError(path)


def holders(path: str, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    """Give the objects that have the dated field, through references, lists and unions; maybe none."""
    try:
        first, *fields = definition_of_path(path, definitions)
    except KeyError:
        return
    objects = [definitions[first]]
    for field in fields[:-1]:
        objects = [
            found
            for each in objects
            if field in each.get("properties", {})
            for found in _objects(each["properties"][field], definitions)
        ]
    yield from (each for each in objects if fields[-1] in each.get("properties", {}))


def _objects(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    name = target(schema)
    if name is not None:
        yield from _objects(definitions[name], definitions)
    elif "properties" in schema:
        yield schema
    for key in ("oneOf", "anyOf"):
        for each in schema.get(key, ()):
            yield from _objects(each, definitions)
    if "items" in schema:
        yield from _objects(schema["items"], definitions)


def mark(definitions: Definitions) -> None:
    """Say in every record, command and dated field since when and until when it was there, and whose it is."""
    for kind, suffix in (("commands", "Command"), ("commands", "Response"), ("records", "")):
        for name, life in lifetimes(kind).items():
            if (definition := definitions.get(pascal(name) + suffix)) is not None:
                definition.update(_marks(life))
    for path, life in lifetimes("fields").items():
        for holder in holders(path, definitions):
            holder["properties"][_last(path)] = {**holder["properties"][_last(path)], **_marks(life)}


def _marks(life: Lifetime) -> Schema:
    marks: Schema = {"x-since": life.since} if life.since else {}
    if life.until:
        marks["x-until"] = life.until
    if life.ours == "alone":
        marks["x-origin"] = "ours"
    return marks


def _last(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def project(definitions: Definitions, generation: Generation) -> None:
    """Take away, in place, what agents of that generation do not speak; keep, but not require, what they need not."""
    release = release_of(generation.release)
    for path, life in lifetimes("fields").items():
        for holder in holders(path, definitions):
            if not life.is_written_in(release):
                del holder["properties"][_last(path)]
            if not life.is_certain_in(release):
                _unrequire(holder, _last(path))
    _narrow(definitions["StopReason"], generation.stop_reasons)
    _narrow(definitions["ThinkingLevel"], generation.levels)
    _narrow_union(definitions["Message"], generation.roles)


def _unrequire(holder: Schema, field: str) -> None:
    if field in holder.get("required", ()):
        holder["required"] = [each for each in holder["required"] if each != field]


def _narrow(enum: Schema, values: frozenset[str]) -> None:
    enum["enum"] = [value for value in enum["enum"] if value in values]


def _narrow_union(union: Schema, values: frozenset[str]) -> None:
    mapping = {value: to for value, to in union["discriminator"]["mapping"].items() if value in values}
    union["discriminator"] = {**union["discriminator"], "mapping": mapping}
    union["oneOf"] = [each for each in union["oneOf"] if PREFIX + str(target(each)) in mapping.values()]


def differences(own: Definitions, theirs: Definitions) -> None:
    """Note in our own definitions, in place, what is otherwise in those of the generation's other agents.

    `x-foreign` beside a keyword holds its value for them, null where they have no such keyword. Definitions that only
    they have are added; nothing of ours refers to them.
    """
    for name, schema in theirs.items():
        if name in own:
            _compare(own[name], schema)
        else:
            own[name] = {**schema, "x-foreign": {}}


_COMPARED: Final = (
    *("required", "oneOf", "anyOf", "enum", "discriminator", "type", "minLength", "minItems"),
    *("if", "then", "else", "not", "dependentRequired"),
)


def _compare(own: Schema, theirs: Schema) -> None:
    foreign: Schema = {}
    for key in _COMPARED:
        if own.get(key) != theirs.get(key):
            foreign[key] = theirs.get(key)
    for key, schema in theirs.get("properties", {}).items():
        if key not in own.get("properties", {}):
            foreign.setdefault("properties", {})[key] = schema
        else:
            _compare(own["properties"][key], schema)
    for key in sorted(set(own.get("properties", {})) - set(theirs.get("properties", {}))):
        foreign.setdefault("properties", {})[key] = None
    if foreign:
        own["x-foreign"] = foreign
