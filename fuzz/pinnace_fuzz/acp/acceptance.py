"""Whether a schema allows a value, as functions that are made from it once.

The library of JSON Schema looks up each reference, and describes each mismatch, for each value again; most values
have none. This has the keywords of the protocol's schemas, refuses others, and says no more than yes or no: what is
wrong with a value is asked of the library. Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Accepts: TypeAlias = Callable[[Any], bool]  # Any: JSON, of any type
Schema: TypeAlias = Mapping[str, Any]  # Any: JSON

_REFERENCE: Final = "#/$defs/"
_WITHOUT_EFFECT: Final = frozenset(
    {
        *("$schema", "$defs", "contentEncoding", "default", "description", "format", "title"),
        # OpenAPI's hint for `oneOf` and `anyOf`, which decide all the same.
        "discriminator",
    }
)
_OF_OBJECTS: Final = frozenset({"additionalProperties", "properties", "required"})


class UnknownKeyword(ValueError):
    """A schema has a keyword, or a use of one, that this module has not."""


class Acceptance:
    """Decides by the named types of one schema."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        """Make what decides by each of the types: threads that ask share what is complete.

        Raises:
            UnknownKeyword: A schema can't be decided here.
        """
        self._definitions = definitions
        self._made: dict[str, Accepts] = {}
        self._begun: set[str] = set()
        for name in definitions:
            self._make(name)

    def of(self, name: str) -> Accepts:
        """Return what decides whether a value is of a type."""
        return self._made[name]

    def _make(self, name: str) -> Accepts:
        if name in self._made:
            return self._made[name]
        if name in self._begun:  # a type that contains itself: it is there when a value comes

            def accepts_later(value: Any) -> bool:
                return self._made[name](value)

            return accepts_later
        self._begun.add(name)
        self._made[name] = self._all(self._definitions[name])
        return self._made[name]

    def _all(self, schema: Schema) -> Accepts:
        """Return what decides by all keywords of a schema."""
        parts = list(self._parts(schema))
        match parts:
            case []:
                return _anything
            case [part]:
                return part
            case [first, second]:
                return lambda value: first(value) and second(value)
            case _:
                return lambda value: all(part(value) for part in parts)

    def _parts(self, schema: Schema) -> Iterable[Accepts]:
        if "type" in schema:
            yield _of_type(schema["type"])
        if not _OF_OBJECTS.isdisjoint(schema):
            others = schema.get("additionalProperties", True)
            yield self._object(schema.get("properties", {}), schema.get("required", ()), others)
        for keyword, argument in schema.items():
            if not (keyword == "type" or keyword in _OF_OBJECTS or _is_without_effect(keyword, argument)):
                yield self._by(keyword, argument)

    def _by(self, keyword: str, argument: Any) -> Accepts:
        match keyword:
            case "$ref":
                return self._referred(argument)
            case "allOf":
                return self._all_of(argument)
            case "anyOf":
                options = [self._all(each) for each in argument]
                return lambda value: any(option(value) for option in options)
            case "oneOf":
                options = [self._all(each) for each in argument]
                return lambda value: sum(option(value) for option in options) == 1
            case "not":
                accepts = self._all(argument)
                return lambda value: not accepts(value)
            case "items":
                accepts = self._all(argument)
                return lambda value: not _is_array(value) or all(map(accepts, value))
            case "const":
                return _equals(argument)
            case "enum":
                options = [_equals(each) for each in argument]
                return lambda value: any(option(value) for option in options)
            case _:
                return _by_size(keyword, argument)

    def _referred(self, reference: str) -> Accepts:
        if not reference.startswith(_REFERENCE):
            raise UnknownKeyword(f"$ref: {reference!r}")
        return self._make(reference.removeprefix(_REFERENCE))

    def _all_of(self, schemas: Sequence[Schema]) -> Accepts:
        if len(schemas) == 1:
            return self._all(schemas[0])
        parts = [self._all(each) for each in schemas]
        return lambda value: all(part(value) for part in parts)

    def _object(self, properties: Mapping[str, Schema], required: Sequence[str], others: Schema | bool) -> Accepts:
        """Return what decides by the members of an object."""
        made = {name: self._all(schema) for name, schema in properties.items()}
        # Those that are required first, constants among them: by these the variants of a type differ.
        needed = [(name, made.pop(name, _anything)) for name in required]
        optional = [(name, accepts) for name, accepts in made.items() if accepts is not _anything]
        rest = self._all(others) if not isinstance(others, bool) else _anything if others else _nothing

        def accepts_object(value: Any) -> bool:
            if not _is_object(value):
                return True
            for name, accepts in needed:
                if name not in value or not accepts(value[name]):
                    return False
            for name, accepts in optional:
                if name in value and not accepts(value[name]):
                    return False
            return rest is _anything or all(rest(value[name]) for name in value if name not in properties)

        return accepts_object


def _is_without_effect(keyword: str, argument: object) -> bool:
    return (
        keyword in _WITHOUT_EFFECT
        or keyword.startswith("x-")
        or (keyword == "unevaluatedProperties" and argument is True)
    )


def _anything(_: object) -> bool:
    return True


def _nothing(_: object) -> bool:
    return False


def _of_type(name: str | Sequence[str]) -> Accepts:
    if not isinstance(name, str):
        options = [_of_type(each) for each in name]
        return lambda value: any(option(value) for option in options)
    if name not in _TYPES:
        raise UnknownKeyword(f"type: {name!r}")
    return _TYPES[name]


def _equals(constant: object) -> Accepts:
    """Return what compares with a constant: a number is equal to none that is a boolean."""
    if isinstance(constant, str):
        return lambda value: value == constant
    if isinstance(constant, int) and not isinstance(constant, bool):
        return lambda value: value == constant and not isinstance(value, bool)
    raise UnknownKeyword(f"const: {constant!r}")


def _by_size(keyword: str, least: Any) -> Accepts:
    match keyword:
        case "minimum":
            return lambda value: not _is_number(value) or value >= least
        case "maximum":
            return lambda value: not _is_number(value) or value <= least
        case "minItems":
            return lambda value: not _is_array(value) or len(value) >= least
        case "minLength":
            return lambda value: not isinstance(value, str) or len(value) >= least
        case _:
            raise UnknownKeyword(f"{keyword}: {least!r}")


def _is_array(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


_TYPES: Final[Mapping[str, Accepts]] = {
    "array": _is_array,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": _is_object,
    "string": lambda value: isinstance(value, str),
}
