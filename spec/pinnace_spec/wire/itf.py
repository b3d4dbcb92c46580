"""The Informal Trace Format (ITF), which tools for TLA+ and Quint read and write: a document of variables and states.

A state has a value for each variable: texts, lists, and integers, which are `{"#bigint": "…"}`. Pure: texts in, texts
out; what the variables mean is for those who use this.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

State = Mapping[str, Any]  # Any: JSON
_DESCRIPTION: Final = "https://apalache-mc.org/docs/adr/015adr-trace.html"
_BEGINNING: Final = '{"#meta": '


class NotItf(ValueError):
    """A text is no document in this format, or one of other variables. The text has the place and the reason."""


class Document(NamedTuple):
    """What a document holds."""

    meta: Mapping[str, Any]
    states: Sequence[State]


def is_itf(text: str) -> bool:
    """Return whether a text begins as the documents do that are written here."""
    return text.startswith(_BEGINNING)


def write(variables: Sequence[str], states: Sequence[State], meta: Mapping[str, str]) -> str:
    """Write a document.

    Args:
        variables: The names, in their order.
        states: In order, each with a value for each variable.
        meta: Further facts of the whole.
    """
    described = {"format": "ITF", "format-description": _DESCRIPTION, **meta}
    numbered = [{"#meta": {"index": index}, **state} for index, state in enumerate(states)]
    # ASCII: lone surrogates survive.
    return json.dumps({"#meta": described, "vars": [*variables], "states": numbered}) + "\n"


def read(text: str, variables: Sequence[str]) -> Document:
    """Read a document of these variables.

    Raises:
        NotItf: It is none.
    """
    try:
        fields = _as_object(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise NotItf(f"it is no JSON: {error}") from None
    if fields is None or fields.get("vars") != [*variables]:
        raise NotItf(f"its variables are not {', '.join(variables)}")
    states: object = fields.get("states")
    if not isinstance(states, list):
        raise NotItf("it has no array of states")
    found: list[State] = []
    for place, each in enumerate(cast("list[object]", states)):
        if (state := _as_object(each)) is None:
            raise NotItf(f"state {place} is no object")
        found.append(state)
    return Document(_as_object(fields.get("#meta")) or {}, found)


def integer(value: int) -> Mapping[str, str]:
    """Write an integer."""
    return {"#bigint": str(value)}


def number(state: State, name: str, place: int) -> int:
    """Read an integer.

    Raises:
        NotItf: The variable is none; `place` is that of the state.
    """
    value: object = state.get(name)
    boxed = _as_object(value)
    digits: object = value if boxed is None else boxed.get("#bigint")
    try:
        return int(cast("str", digits))
    except (TypeError, ValueError):
        raise NotItf(f"state {place}: {name} is no integer") from None


def _as_object(value: object) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
