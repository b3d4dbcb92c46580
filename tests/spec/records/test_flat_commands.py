"""The table of scalar commands is what the models say: the same names and values, nothing taken that they refuse."""

from typing import Any, Literal, get_args, get_origin

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import ValidationError

from pinnace_spec.profiles.profiles import PROFILES
from pinnace_spec.records.command_table import COMMAND_TABLE
from pinnace_spec.records.commands import ALL_COMMANDS, MODELS
from pinnace_spec.records.flat_commands import COMMAND_NAMES, flat_command

LISTS = {"images", "attachments", "context"}
WORDS = ("steer", "followUp", "hold", "clear", "continue", "all", "one-at-a-time", "low", "xhigh", *PROFILES)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", " ", "\t\n", "a", "ä\u2028", "\ud800", "a\udfff", "Steer", *WORDS]),
    st.text(st.characters(exclude_categories=())),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.just([]),
    st.just({}),
    st.just([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
)


def test_the_names_are_those_of_the_models_in_their_order() -> None:
    assert COMMAND_NAMES == ALL_COMMANDS
    assert COMMAND_TABLE.keys() == MODELS.keys()


@pytest.mark.parametrize("name", COMMAND_TABLE)
def test_the_fields_are_those_of_the_model(name: str) -> None:
    fields = {info.alias or key: info for key, info in MODELS[name].model_fields.items()}

    assert fields.keys() - LISTS - {"id", "type"} == COMMAND_TABLE[name].keys()
    for key, (kind, default, _) in COMMAND_TABLE[name].items():
        info = fields[key]
        assert info.is_required() == (default is ...)
        assert info.is_required() or info.default == default
        choices = [part for part in (info.annotation, *get_args(info.annotation)) if get_origin(part) is Literal]
        assert (frozenset(get_args(choices[0])) if choices else None) == (kind if isinstance(kind, frozenset) else None)


@pytest.mark.parametrize("name", COMMAND_TABLE)
@given(data=st.data())
def test_what_the_table_takes_is_what_the_model_makes_of_it(name: str, data: st.DataObject) -> None:
    keys = [*COMMAND_TABLE[name], *sorted(LISTS), "other"]
    value = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(keys, VALUES)))
    record = {"type": name, "id": "c", **value}
    flat = flat_command(name, record, "c", has_id=True)
    try:
        model = MODELS[name].model_validate({key: item for key, item in record.items() if item is not None})
    except ValidationError:
        assert flat is None
        return
    if flat is None:
        has_list = any(record.get(key) is not None for key in LISTS)
        # Of two commands that have `by`, the table has the rule of the stricter one.
        is_empty = "" in (record.get("message"), record.get("by")) or not str(record.get("name", "x")).strip()
        assert has_list or is_empty
        return
    assert (name, "c", True) == (flat.command_name, flat.id, flat.has_id)
    assert {key: getattr(model, key) for key in vars(flat)} == vars(flat)
    assert () == flat.content_blocks == getattr(model, "content_blocks", ())
