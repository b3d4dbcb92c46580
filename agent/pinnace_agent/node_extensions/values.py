"""The values of a request: each is read by its place and name, and a wrong one is an error that names it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.node_extensions.errors import RefusedRequest

if TYPE_CHECKING:
    from pinnace_agent.node_extensions.bridge import Bridge
    from pinnace_spec.records.messages import Model

_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "undefined",
}


class Values:
    """The values of one request."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: Sequence[object]) -> None:
        """Read `values` of the member `name`."""
        self._name = name
        self._values = values

    def any(self, place: int) -> object:
        """Return a value as it is; None where it is missing."""
        return self._values[place] if place < len(self._values) else None

    def text(self, place: int, field: str) -> str:
        """Return a string."""
        value = self.any(place)
        if not isinstance(value, str):
            raise self._wrong(field, "a string", value)
        return value

    def text_or_none(self, place: int, field: str) -> str | None:
        """Return a string or None."""
        return None if self.any(place) is None else self.text(place, field)

    def number(self, place: int, field: str) -> int:
        """Return an integer."""
        value = self.any(place)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(field, "an integer", value)
        return value

    def number_or_none(self, place: int, field: str) -> int | None:
        """Return an integer or None."""
        return None if self.any(place) is None else self.number(place, field)

    def seconds_or_none(self, place: int, field: str) -> float | None:
        """Return a duration or None."""
        value = self.any(place)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(field, "a number", value)
        return float(value)

    def flag(self, place: int, field: str) -> bool:
        """Return a boolean."""
        value = self.any(place)
        if not isinstance(value, bool):
            raise self._wrong(field, "true or false", value)
        return value

    def record(self, place: int, field: str) -> Mapping[str, object]:
        """Return an object."""
        value = as_object(self.any(place))
        if value is None:
            raise self._wrong(field, "an object", self.any(place))
        return value

    def model(self, place: int) -> "Model":
        """Return a model, of which what it is used for looks up the id."""
        return cast("Model", self.record(place, "model"))  # cast: as said

    def texts(self, place: int, field: str) -> list[str]:
        """Return a list of strings."""
        value = as_list(self.any(place))
        texts = [each for each in value or () if isinstance(each, str)]
        if value is None or len(texts) != len(value):
            raise self._wrong(field, "a list of strings", self.any(place))
        return texts

    def records(self, place: int, field: str) -> list[dict[str, object]]:
        """Return a list of objects."""
        value = as_list(self.any(place))
        objects = [found for each in value or () if (found := as_object(each)) is not None]
        if value is None or len(objects) != len(value):
            raise self._wrong(field, "a list of objects", self.any(place))
        return objects

    def _wrong(self, field: str, wanted: str, value: object) -> RefusedRequest:
        return RefusedRequest(f"{self._name}: {field} must be {wanted}, not {_KINDS.get(type(value), 'a number')}")


Now: TypeAlias = "Callable[[Bridge, int | None, Values], object]"
"""Returns the value of a member. Takes the extension, the number of the context and the values."""
Ask: TypeAlias = "Callable[[Bridge, int | None, Values], Awaitable[object]]"
"""The same for a member that waits."""


def custom_type(message: Mapping[str, object]) -> str:
    """Return the type of an extension's message: `custom` if it has none, since pi takes one without."""
    given = message.get("customType")
    return "custom" if given is None or given == "" else cast("str", given)  # cast: the API checks it
