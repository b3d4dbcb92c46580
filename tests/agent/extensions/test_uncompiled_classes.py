"""Events and results behave like the dataclasses that they replace."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.uncompiled import Fields, FrozenFields, frozen, mutable

RESULTS: tuple[type[Any], ...] = (*get_args(rs.Result), rs.TreeSummary)
EVENTS: tuple[type[Any], ...] = tuple({row.event for row in ev.EVENTS.values()} | {*ev.CALLS.values()})
CLASSES = (*sorted(EVENTS, key=lambda each: each.__name__), *RESULTS)


def twin(of: type[Any]) -> type[Any]:
    """Return a compiled dataclass with the same fields."""
    found = [
        (
            each.name,
            each.type,
            dataclasses.field(default=each.default, default_factory=each.default_factory, kw_only=each.kw_only),
        )
        for each in dataclasses.fields(of)
    ]
    return dataclasses.make_dataclass(of.__name__, found, slots=True, frozen=of in RESULTS)


TWINS = {each: twin(each) for each in CLASSES}


def outcome(of: type[Any], args: list[int], values: dict[str, int]) -> Any:
    try:
        made = of(*args, **values)
    except TypeError:
        return "refused"
    return {each.name: getattr(made, each.name) for each in dataclasses.fields(made)}, repr(made).partition("(")[2]


@given(data=st.data(), of=st.sampled_from(CLASSES))
def test_they_are_made_compared_and_shown_like_dataclasses(data: st.DataObject, of: type[Any]) -> None:
    names = [each.name for each in dataclasses.fields(of)]
    args = data.draw(st.lists(st.integers(0, 2), max_size=2 if data.draw(st.booleans()) else 0))
    chosen = data.draw(st.sampled_from([names, names[len(args) :], names[:-1]]))
    values = {name: data.draw(st.integers(0, 2)) for name in chosen}
    if data.draw(st.integers(0, 9)) == 0:
        values["no_such_field"] = 1

    assert outcome(TWINS[of], args, values) == outcome(of, args, values)
    if outcome(of, args, values) != "refused":
        made, other = of(*args, **values), of(*args, **values)
        compiled = TWINS[of](*args, **values)
        assert made == other
        assert made != compiled
        name = data.draw(st.sampled_from(names)) if names else None
        if name is not None:
            assert dataclasses.replace(made, **{name: 7}) != made
            assert getattr(dataclasses.replace(made, **{name: 7}), name) == 7
        assert copy.copy(made) == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize("of", CLASSES)
def test_no_field_can_be_added_and_none_of_a_result_be_set(of: type[Any]) -> None:
    made = of(**dict.fromkeys((each.name for each in dataclasses.fields(of)), 1))

    with pytest.raises((AttributeError, TypeError)):
        made.no_such_field = 1
    if of in RESULTS:
        assert hash(made) == hash(copy.copy(made))
        for each in dataclasses.fields(of):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(made, each.name, 2)
            with pytest.raises(dataclasses.FrozenInstanceError):
                delattr(made, each.name)
    else:
        with pytest.raises(TypeError, match="unhashable"):
            hash(made)
        for each in dataclasses.fields(of):
            setattr(made, each.name, 2)
            assert 2 == getattr(made, each.name)


VALUES: Final[tuple[Any, ...]] = (
    ...,
    1,
    "text",
    dataclasses.field(default=2),
    dataclasses.field(default_factory=list[int]),
    dataclasses.field(kw_only=True),
    dataclasses.field(default=3, init=False),
)
"""What stands behind an annotation; the first: nothing."""


class Described(NamedTuple):
    """What `dataclasses` knows of a class."""

    fields: list[tuple[object, ...]]
    match_args: object
    slots: tuple[str, ...]
    constants: dict[str, object]


def described(of: Any) -> Described:
    names = ("name", "type", "default", "default_factory", "init", "kw_only", "_field_type")
    known = of.__dataclass_fields__.values()
    fields = [tuple(getattr(each, name) for name in names) for each in known]
    constants = {each.name: getattr(of, each.name) for each in known if str(each._field_type) == "_FIELD_CLASSVAR"}
    return Described(fields, of.__match_args__, tuple(of.__slots__), constants)


BODIES: Final = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from([int, str, ClassVar[int]]), st.sampled_from(VALUES)),
        max_size=3,
        unique_by=lambda each: each[0],
    ),
    min_size=1,
    max_size=3,
)


def chain(base: Any, bodies: list[list[tuple[str, Any, Any]]], decorate: Callable[[Any], Any]) -> Any:
    """Return the last class of those with these bodies, each the base of the next."""
    for body in bodies:
        space = {name: copy.copy(value) for name, _, value in body if value is not ...}
        space["__annotations__"] = {name: of for name, of, _ in body}
        base = decorate(type(base)("Of", (base,), space))
    return base


@given(bodies=BODIES, by_name=st.booleans())
@example(bodies=[[("a", int, 1)], [("a", str, ...)]], by_name=False)
def test_fields_are_those_that_dataclass_finds(bodies: list[list[tuple[str, Any, Any]]], by_name: bool) -> None:
    """`dataclass` makes one chain of classes as they are written, the metaclass the other."""
    assume(all(of != ClassVar[int] or isinstance(value, int) for body in bodies for _, of, value in body))
    make = dataclasses.dataclass(slots=True, init=False, repr=False, eq=False, kw_only=by_name)
    compiled = chain(object, bodies, make)
    ours = chain(Fields, bodies, mutable) if by_name else chain(FrozenFields, bodies, frozen)

    assert described(compiled) == described(ours)
    assert not hasattr(object.__new__(ours), "__dict__")


def test_match_takes_what_is_given_by_place() -> None:
    match rs.Block("why"):
        case rs.Block(reason):
            assert "why" == reason
        case _:
            pytest.fail("a pattern with a place does not match")
