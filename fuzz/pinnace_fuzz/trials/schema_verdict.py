"""Judges records by a published bundle, with a validator that knows nothing of this project's models.

A second opinion beside `pinnace_spec.records.outputs`, and the only one on agents of other generations.
Words what is wrong
with the path to it, as a person would look for it: of the alternatives of a union only the one that was meant. One
record at a time. Source: R-PRO-01.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pinnace_spec.generate.schema.bundles import Schema, command_definition_of, definition_of

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

_MAX_MESSAGE_CHARS: Final = 200


class SchemaVerdict:
    """Judges by one bundle, opened or not; keeps a validator for each definition."""

    def __init__(self, schema: Schema) -> None:
        """Take a bundle; it is not changed."""
        self._schema = schema
        self._validators: dict[str, Draft202012Validator] = {}

    def output_problems(self, record: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with a record of an agent's stdout."""
        name = definition_of(record, self._schema)
        if name is None:
            return [f"no record of this bundle: type {record.get('type')!r}, command {record.get('command')!r}"]
        return self.problems(name, record)

    def command_problems(self, record: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with a command."""
        name = command_definition_of(record, self._schema)
        if name is None:
            return [f"no command of this bundle: {record.get('type')!r}"]
        return self.problems(name, record)

    def problems(self, definition: str, value: object) -> list[str]:
        """Return what is wrong with a value that should be as a definition says: `data.model: 5 is not …`."""
        from jsonschema import Draft202012Validator

        if definition not in self._validators:
            wanted = {"$ref": f"#/$defs/{definition}", "$defs": self._schema["$defs"]}
            self._validators[definition] = Draft202012Validator(wanted)
        # Any: whatever JSON is, and whatever is none.
        errors = cast("Any", self._validators[definition]).iter_errors(value)
        return list(dict.fromkeys(_worded(each) for error in errors for each in _meant(error)))


def _meant(error: "ValidationError") -> "Iterator[ValidationError]":
    """Go down into the alternative of a union whose tag fits, if one does."""
    branches: dict[object, list[ValidationError]] = {}
    for each in error.context or ():
        branches.setdefault(each.schema_path[0], []).append(each)
    fitting = [branch for branch in branches.values() if not any(_is_tag(each) for each in branch)]
    if error.validator in {"oneOf", "anyOf"} and len(fitting) == 1:
        for each in fitting[0]:
            yield from _meant(each)
    else:
        yield error


def _is_tag(error: "ValidationError") -> bool:
    """Return whether an alternative was not meant: its constant, or its kind of JSON, is another."""
    return error.validator == "const" or (error.validator == "type" and not error.path)


def _worded(error: "ValidationError") -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return f"{path.removeprefix('.') or 'record'}: {error.message[:_MAX_MESSAGE_CHARS]}"
