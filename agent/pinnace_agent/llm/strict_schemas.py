"""Schemas of tools for servers that hold the arguments of a call to them ("strict tools").

Pure. Such a server wants every property named as required and no others allowed, so an optional argument may be null in
the place of being left out; `tools.validation` reads it so. A schema that holds what these servers don't support has no
strict form, and is sent as it is. The same rules as those of the original. Independent of any API.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pinnace_agent.core.json_access import as_array, as_list, as_object
from pinnace_agent.llm.request import ToolSpec

Schema = dict[str, object]
Refuses = Callable[[str, object], bool]
"""Whether a server does not support a keyword with this value."""

_UNSUPPORTED: Final = frozenset(
    """$ref $defs definitions allOf oneOf patternProperties dependentSchemas dependencies unevaluatedProperties
    propertyNames contains prefixItems not if then else""".split()
)
_NULL: Final[Mapping[str, object]] = {"type": "null"}


class _Unsupported(Exception):
    """A schema has no strict form."""


def _refuses_none(_keyword: str, _value: object) -> bool:
    return False


def strict_parameters(tool: ToolSpec, refuses: Refuses = _refuses_none) -> Schema | None:
    """Return the strict form of a tool's parameters; None: the tool does not ask for it, or there is none.

    Args:
        tool: Its parameters are not changed.
        refuses: What the server does not support beyond what none does.
    """
    if not tool.prefers_strict:
        return None
    try:
        strict = _strict(tool.parameters, refuses)
    except _Unsupported:
        return None
    return strict if strict.get("type") == "object" else None


def loose_parameters(strict: Mapping[str, object]) -> Schema:
    """Return the parameters that have this strict form, but for the ban on further properties."""
    loose = dict(strict)
    if (items := as_object(strict.get("items"))) is not None:
        loose["items"] = loose_parameters(items)
    if (properties := as_object(strict.get("properties"))) is not None:
        inner = {name: as_object(member) or {} for name, member in properties.items()}
        optional = {name: given for name, member in inner.items() if (given := _of_optional(member)) is not None}
        loose["properties"] = {name: loose_parameters(optional.get(name, member)) for name, member in inner.items()}
        loose["required"] = [name for name in as_array(strict.get("required")) if name not in optional]
    return loose


def _of_optional(member: Mapping[str, object]) -> Schema | None:
    branches = as_array(member.get("anyOf"))
    is_optional = set(member) == {"anyOf"} and len(branches) == 2 and branches[1] == _NULL
    return as_object(branches[0]) if is_optional else None


def _strict(schema: object, refuses: Refuses) -> Schema:
    members = as_object(schema)
    if members is None or not _UNSUPPORTED.isdisjoint(members):
        raise _Unsupported
    if any(refuses(keyword, value) for keyword, value in members.items()):
        raise _Unsupported
    strict = dict(members)
    if "anyOf" in strict:
        branches = as_list(strict["anyOf"])
        if not branches or any(_is_structured(branch) for branch in branches):
            raise _Unsupported
        strict["anyOf"] = [_strict(branch, refuses) for branch in branches]
    if "items" in strict:
        strict["items"] = _strict(strict["items"], refuses)
    if strict.get("type") == "object":
        strict |= _strict_object(strict, refuses)
    elif "properties" in strict:
        raise _Unsupported
    return strict


def _strict_object(schema: Schema, refuses: Refuses) -> Schema:
    properties = as_object(schema.get("properties", {}))
    required = as_list(schema.get("required", []))
    if properties is None or required is None or schema.get("additionalProperties", False) is not False:
        raise _Unsupported
    if any(not isinstance(name, str) or name not in properties for name in required):
        raise _Unsupported
    strict: Schema = {}
    for name, member in properties.items():
        made = _strict(member, refuses)
        strict[name] = made if name in required or _takes_null(made) else {"anyOf": [made, dict(_NULL)]}
    return {
        **({"properties": strict} if "properties" in schema else {}),
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_structured(schema: object) -> bool:
    members = as_object(schema)
    if members is None:
        return False
    kinds = _kinds(members)
    return "object" in kinds or "array" in kinds or "properties" in members or "items" in members


def _takes_null(schema: object) -> bool:
    members = as_object(schema)
    if members is None:
        return False
    if "null" in _kinds(members) or ("const" in members and members["const"] is None):
        return True
    return None in as_array(members.get("enum")) or any(map(_takes_null, as_array(members.get("anyOf"))))


def _kinds(members: Mapping[str, object]) -> list[object]:
    kind = members.get("type")
    return [kind] if isinstance(kind, str) else as_array(kind)
