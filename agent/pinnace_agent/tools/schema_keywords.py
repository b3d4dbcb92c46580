"""The keywords of JSON schema that few tools have: patterns, formats, references, conditions, sums of schemas.

`validation` repairs arguments and checks what nearly all schemas have. A schema that has more is checked here as well,
by a library that takes a tenth of a second to load. A schema that is invalid itself, and a pattern that Python does not
read, are not enforced: the tool sees the value. Pure, but a pattern may take its time: those of MCP servers are left to
the servers.
"""

import re
from collections.abc import Iterable
from datetime import datetime, time
from functools import cache
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.tools.parameters import Schema

if TYPE_CHECKING:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import ValidationError

LIMITS: Final = (
    # keyword, what it bounds, lower bound?, wording
    ("minimum", "number", True, "expected >= {}"),
    ("maximum", "number", False, "expected <= {}"),
    ("minLength", "length of a string", True, "expected at least {} characters"),
    ("maxLength", "length of a string", False, "expected at most {} characters"),
    ("minItems", "length of a list", True, "expected at least {} items"),
    ("maxItems", "length of a list", False, "expected at most {} items"),
)
"""What bounds numbers and lengths, with the words of a failure, which are those of the original."""
_MORE: Final = frozenset(
    {
        *("$ref", "$dynamicRef", "allOf", "oneOf", "not", "if", "pattern", "format", "exclusiveMinimum"),
        *("exclusiveMaximum", "multipleOf", "uniqueItems", "contains", "prefixItems", "patternProperties"),
        *("propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
        *("unevaluatedProperties", "unevaluatedItems"),
    }
)
"""Keywords that `schema_keywords` enforces."""
_WORDED: Final = {
    **{keyword: wording for keyword, _, _, wording in LIMITS},
    "pattern": "expected to match {}",
    "format": "expected format {}",
    "exclusiveMinimum": "expected > {}",
    "exclusiveMaximum": "expected < {}",
    "multipleOf": "expected a multiple of {}",
    "minProperties": "expected at least {} properties",
    "maxProperties": "expected at most {} properties",
}
_PLAIN: Final = {
    "uniqueItems": "expected unique items",
    "not": "must not match the schema in not",
    "oneOf": "matches more than one alternative, or none",
    "anyOf": "matches no alternative",
    "contains": "must have an item of the expected form",
    "additionalProperties": "unknown field",
    "unevaluatedProperties": "unknown field",
    "required": "lacks a property that is needed",
    "dependentRequired": "lacks a property that another one needs",
}


def keyword_problems(value: object, schema: Schema) -> Iterable[tuple[str, str]]:
    """Return the path and the text of each way in which a value does not fit a schema; the texts hold no values."""
    if not _has_more(schema):
        return []
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
        # With this registry it fetches no schema that another one refers to.
        validator = kind(dict(schema), format_checker=_formats(), registry=EMPTY_REGISTRY)
        # cast: a value of JSON
        errors = sorted(
            validator.iter_errors(cast("str", value)), key=lambda error: [str(each) for each in error.absolute_path]
        )
    except (SchemaError, re.error, RecursionError):
        return []
    except Unresolvable as error:
        return [("", f"the schema of the tool refers to what it does not have: {error.ref}")]
    return [(".".join(str(each) for each in error.absolute_path), _wording(error)) for error in errors]


def _has_more(schema: object) -> bool:
    """Return whether a schema has keywords that this module enforces."""
    if not is_object(schema):
        return False
    if not schema.keys().isdisjoint(_MORE) or is_object(schema.get("additionalProperties")):
        return True
    properties = schema.get("properties")
    parts = list(properties.values()) if is_object(properties) else []
    branches = schema.get("anyOf")
    return any(map(_has_more, [*parts, schema.get("items"), *(branches if is_list(branches) else ())]))


def _wording(error: "ValidationError") -> str:
    keyword, limit = str(error.validator), cast("object", error.validator_value)  # cast: of JSON
    if keyword in _WORDED:
        return _WORDED[keyword].format(limit)
    if keyword == "type":
        return f"expected {' or '.join(map(str, limit)) if is_list(limit) else limit}"
    return _PLAIN.get(keyword, f"does not fit `{keyword}`")


@cache
def _formats() -> "FormatChecker":
    """Return what checks formats: those of the library, and those for which it needs others."""
    from jsonschema import FormatChecker

    checker = FormatChecker()
    for name, check in _CHECKS.items():
        checker.checks(name)(check)
    return checker


def _is_uri(value: object) -> bool:
    """Return whether a string is an absolute address."""
    if not isinstance(value, str):
        return True
    if re.search(r'[\s<>"{}|\\^`]', value):
        return False
    try:
        return re.match(r"[A-Za-z][A-Za-z0-9+.-]*\Z", urlsplit(value).scheme) is not None
    except ValueError:
        return False


def _is_date_time(value: object) -> bool:
    """Return whether a string is a moment with its zone."""
    if not isinstance(value, str):
        return True
    try:
        return datetime.fromisoformat(value).tzinfo is not None and "T" in value.upper()
    except ValueError:
        return False


def _is_time(value: object) -> bool:
    """Return whether a string is a time of day with its zone."""
    if not isinstance(value, str):
        return True
    try:
        return time.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_hostname(value: object) -> bool:
    """Return whether a string is the name of a host."""
    label = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    return not isinstance(value, str) or (len(value) < 254 and re.match(rf"{label}(?:\.{label})*\Z", value) is not None)


_CHECKS: Final = {
    "uri": _is_uri,
    "url": _is_uri,
    "date-time": _is_date_time,
    "time": _is_time,
    "hostname": _is_hostname,
}
