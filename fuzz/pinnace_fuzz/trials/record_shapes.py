"""Judges live records by the schema that is published, each shape of record once: they come by the ten thousand.

Two records of one shape have the same fields with values of the same kinds, and the same words where words are listed;
a schema says the same of both. The schema is made from the models here and now, so that a change of a model counts
before it is published; that what is published is the same, another test says. Source: R-PRO-01.
"""

from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Final, cast

from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_spec.generate.schema.bundles import Schema
from pinnace_spec.generate.schema.json_schema import target, walk
from pinnace_spec.generate.schema.schema import schema
from pinnace_spec.generate.source import load
from pinnace_spec.profiles.profiles import ClientProfile

# What may hold anything: no schema looks inside.
_OPEN: Final = frozenset({"args", "arguments", "details", "entry", "structuredContent"})


def live_problems(record: Mapping[str, Any], profile: ClientProfile) -> list[str]:
    """Return what the published schema finds wrong with a record, the first time that one of its shape comes."""
    return _sieve(profile).problems(record)


class Sieve:
    """Judges what it has not seen, by one bundle."""

    def __init__(self, bundle: Schema) -> None:
        """Take a bundle; it is not changed."""
        self._verdict = SchemaVerdict(bundle)
        self._listed = frozenset(_listed(bundle["$defs"]))
        self._seen: set[Hashable] = set()

    def problems(self, record: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with a record; nothing if one of its shape was judged before."""
        shape = self._shape(record, "")
        if shape in self._seen:
            return []
        self._seen.add(shape)
        return self._verdict.output_problems(record)

    def _shape(self, value: object, field: str) -> Hashable:
        """Return what a schema can distinguish: kinds, fields, listed words, and on which side of zero a number is."""
        if isinstance(value, bool) or value is None:
            return value, "is"
        if isinstance(value, str):
            return value if field in self._listed else bool(value)
        if isinstance(value, int | float):
            return isinstance(value, int), (value > 0) - (value < 0), value == int(value)
        if field in _OPEN:
            return True
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            return frozenset((key, self._shape(member, key)) for key, member in members.items())
        if isinstance(value, list):
            return "list", frozenset(self._shape(each, field) for each in cast("list[object]", value))
        return None


def _listed(definitions: Mapping[str, Schema]) -> set[str]:
    """Return the fields whose words some schema lists."""
    names: set[str] = set()
    for each in walk(dict(definitions)):
        for name, value in cast("Schema", each.get("properties", {})).items():
            if value is None:  # `x-foreign` takes a field away
                continue
            definition = definitions.get(str(target(value)), value)
            if (
                any("enum" in inner or "const" in inner for inner in walk(definition))
                and "properties" not in definition
            ):
                names.add(name)
    return names


@cache
def _sieve(profile: ClientProfile) -> Sieve:
    return Sieve(schema(profile, load()))
