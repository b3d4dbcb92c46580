"""The border between extensions and the agent: what is JSON is copied, and what is not is refused by its place."""

import dataclasses
import datetime
import decimal
import enum
import json
import re
import sys
import uuid
from collections import OrderedDict, namedtuple
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from pinnace_agent.core.frozen import frozen
from pinnace_agent.core.json_values import MAX_NESTING, MAX_VALUES, NotJsonError, json_copy
from pinnace_spec.wire.json_text import decode_line, encode_record


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


class Ratio(float):
    """As numpy's `float64` is."""


class Point(BaseModel):
    at: Path


@dataclasses.dataclass
class Found:
    path: Path
    lines: tuple[int, ...]


Pair = namedtuple("Pair", "a b")  # as extensions write it


class Untidy:
    """A value with code of its own."""


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def holding_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"list": []}
    value["list"].append(value)
    return value


def doubled(levels: int) -> list[object]:
    value: list[object] = [1]
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "copied"),
    [
        (Path("a") / "b", "a/b"),
        ({"file": Path("x")}, {"file": "x"}),
        ({404: 2, Level.LOW: 3}, {"404": 2, "1": 3}),
        ({Path("a"): 1, Colour.RED: 2}, {"a": 1, "red": 2}),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        (Name("n"), "n"),
        (Ratio(0.5), 0.5),
        (True, True),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Found(Path("f"), (1, 2)), {"path": "f", "lines": [1, 2]}),
        (Point(at=Path("p")), {"at": "p"}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), "2024-02-29T00:00:00+00:00"),
        ("\ud800", "\ud800"),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
        (nested(MAX_NESTING), nested(MAX_NESTING)),
    ],
)
def test_values_with_one_json_form_are_converted(value: object, copied: object) -> None:
    made = json_copy(value, "details")
    assert copied == made
    assert type(copied) is type(made)
    line = encode_record({"a": {"b": {"c": made}}})
    assert {"a": {"b": {"c": made}}} == decode_line(line[:-1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"file": b"x"}, "details.file: bytes is not JSON"),
        ({"a": [1, {"b c": {1}}]}, "details.a[1]['b c']: set is not JSON"),
        (decimal.Decimal(1), "details: Decimal is not JSON"),
        (1j, "details: complex is not JSON"),
        (Untidy(), "details: Untidy is not JSON"),
        (Untidy, "details: type is not JSON"),
        (Found, "details: type is not JSON"),
        (Found(Path("f"), (1, b"")), "details.lines[1]: bytes is not JSON"),  # type: ignore[arg-type]
        (iter([]), "details: list_iterator is not JSON"),
        ({True: 1}, "details: a key must be a string, not bool"),
        ({None: 1}, "details: a key must be a string, not NoneType"),
        ({(1, 2): 1}, "details: a key must be a string, not tuple"),
        ({1: "a", "1": "b"}, "details: two keys become '1'"),
        ([float("nan")], "details[0]: nan is not a number of JSON"),
        ([Ratio("inf")], "details[0]: inf is not a number of JSON"),
        (2**64, "details: an integer of more than 64 bits"),
        ([10**5000], "details[0]: an integer of more than 64 bits"),
        ({10**5000: 1}, "details: an integer of more than 64 bits"),
        (holding_itself(), "details.list[0]: contains itself"),
        (nested(MAX_NESTING + 1), f"nested deeper than {MAX_NESTING} levels"),
        (nested(100_000), f"nested deeper than {MAX_NESTING} levels"),
        (doubled(20), f"more than {MAX_VALUES} values"),
    ],
)
def test_a_value_that_is_not_json_is_rejected_with_its_place(value: object, text: str) -> None:
    with pytest.raises(NotJsonError, match=re.escape(text)) as raised:
        json_copy(value, "details")
    assert str(raised.value).startswith("details")
    assert len(str(raised.value)) < 400


class Generic:
    """A number of numpy, as far as it matters here; numpy itself is large."""

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        return self._value


def test_a_numpy_number_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(generic=Generic))
    assert [0.5, 3, True] == json_copy([Generic(0.5), Generic(3), Generic(True)], "details")
    with pytest.raises(NotJsonError, match=r"details\[0\]: nan is not a number of JSON"):
        json_copy([Generic(float("nan"))], "details")
    endless = Generic(None)
    endless._value = endless
    with pytest.raises(NotJsonError, match="details: Generic is not JSON"):
        json_copy(endless, "details")


def test_a_place_deep_in_a_stack_is_an_error_like_any_other() -> None:
    def down(levels: int) -> object:
        return down(levels - 1) if levels else json_copy(nested(MAX_NESTING), "details")

    with pytest.raises(NotJsonError, match="nested too deep"):
        down(900)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=30,
)


def containers(value: object) -> list[object]:
    found = [value] if isinstance(value, dict | list) else []
    members: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*found, *(each for member in members for each in containers(member))]


@given(JSON)
def test_a_copy_is_equal_and_shares_nothing_that_can_change(value: object) -> None:
    """The value as it is, and as extensions get it, which is only to be read."""
    for given_value in (value, frozen(value)):
        made = json_copy(given_value, "details")
        assert json.dumps(value) == json.dumps(made)
        ids = set(map(id, containers(given_value)))
        assert not ids & set(map(id, containers(made)))
        assert all(type(each) in (dict, list) for each in containers(made))
