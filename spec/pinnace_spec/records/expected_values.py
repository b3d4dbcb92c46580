"""What is expected of a field of a command, in words, as its declaration says: for the error that names it (R-ERR-03).

Loaded after a mistake alone. Objects in lists have words of their own, since their types say nothing of base64.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from pinnace_spec.records.commands import MODELS

# More values than this are listed without quotes.
_FEW: Final = 5
_BOUNDS: Final = ("min_length", "max_length", "ge", "gt", "le")
_OBJECTS: Final[Mapping[str, str]] = {
    "images": '{"type": "image", "data": base64, "mimeType": string}',
    "attachments": '{"type": "image" or "document", "mimeType": string, "content": base64}',
    "context": '{"uri": string, "text": string}',
}


def expected(command: str, field: str) -> str:
    """Return what is expected of a field, by its name on the wire."""
    fields = MODELS[command].model_fields
    found = fields.get(field) or next(each for each in fields.values() if each.alias == field)
    if field in _OBJECTS:
        return f"a list of {_OBJECTS[field]}"
    if field == "item":
        return '{"kind": "call", "result", "message" or "entry", "name": string, "id": string}'
    return _worded(found.annotation, found.metadata)


def _worded(annotation: Any, facts: list[Any]) -> str:  # Any: a type as it was declared
    kinds = [each for each in _kinds(annotation, facts) if each[0] is not NoneType]
    if {kind for kind, _ in kinds} == {int, float}:
        return "a number" + _bounded(kinds[0][1])
    [(kind, known)] = kinds
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind), "or")
    if get_origin(kind) is list:
        inner = get_args(kind)[0]
        values = get_args(inner) if get_origin(inner) is Literal else ()
        return f"a list of {_one_of(values, 'and') if values else 'strings'}"
    if kind is bool:
        return "true or false"
    if kind is int:
        return "an integer" + _bounded(known)
    return "a string" + (f" of {known['min_length']} to {known['max_length']} characters" if known else "")


def _bounded(known: Mapping[str, int]) -> str:
    match known:
        case {"ge": least, "le": most}:
            return f" from {least} to {most}"
        case {"ge": least}:
            return f" of at least {least}"
        case {"gt": below}:
            return f" above {below}"
        case _:
            return ""


def _kinds(annotation: Any, facts: list[Any]) -> Iterator[tuple[Any, dict[str, int]]]:
    if get_origin(annotation) in (Union, UnionType):
        for part in get_args(annotation):
            yield from _kinds(part, facts)
    elif get_origin(annotation) is Annotated:
        kind, *more = get_args(annotation)
        yield from _kinds(kind, [*facts, *more])
    else:
        yield annotation, dict(_bounds(facts))


def _bounds(facts: list[Any]) -> Iterator[tuple[str, int]]:
    for fact in facts:
        if isinstance(fact, FieldInfo):
            yield from _bounds(fact.metadata)
        yield from ((name, getattr(fact, name)) for name in _BOUNDS if hasattr(fact, name))


def _one_of(values: tuple[str, ...], last: str) -> str:
    if len(values) > _FEW:
        return f"one of {', '.join(values)}"
    *others, end = (f"'{value}'" for value in values)
    return f"{', '.join(others)} {last} {end}"


def steps_to(location: Sequence[int | str]) -> list[int | str]:
    """Return the names and places that lead to a value, without the names of types that were tried on the way."""
    return [part for part in location if not (isinstance(part, str) and _names_type(part))]


def _names_type(part: str) -> bool:
    return part.startswith("function-") or part in ("float", "int")
