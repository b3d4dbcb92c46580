"""Events and results behave like the dataclasses that they replace."""

import copy
import dataclasses
import pickle
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs

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
