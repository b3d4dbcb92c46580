"""The table of scalar commands is what the models say: the same names and values, nothing taken that they refuse."""

from typing import Any, Literal, cast, get_args, get_origin

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import ValidationError

from pinnace_spec.commands import ALL_COMMANDS, MODELS
from pinnace_spec.flat_commands import COMMAND_NAMES, FLAT_COMMANDS, flat_command
from pinnace_spec.plain_commands import PLAIN_COMMANDS
from pinnace_spec.profiles import PROFILES

LISTS = {"images", "attachments"}
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
    assert FLAT_COMMANDS.keys() | set(PLAIN_COMMANDS) == MODELS.keys()


@pytest.mark.parametrize("name", FLAT_COMMANDS)
def test_the_fields_are_those_of_the_model(name: str) -> None:
    fields = {info.alias or key: info for key, info in MODELS[name].model_fields.items()}

    assert fields.keys() - LISTS - {"id", "type"} == FLAT_COMMANDS[name].keys()
    for key, flat in FLAT_COMMANDS[name].items():
        info = fields[key]
        assert info.is_required() == (flat.default is ...)
        assert info.is_required() or info.default == flat.default
        choices = [part for part in (info.annotation, *get_args(info.annotation)) if get_origin(part) is Literal]
        assert (frozenset(get_args(choices[0])) if choices else None) == (
            flat.kind if isinstance(flat.kind, frozenset) else None
        )


@pytest.mark.parametrize("name", FLAT_COMMANDS)
@given(data=st.data())
def test_what_the_table_takes_is_what_the_model_makes_of_it(name: str, data: st.DataObject) -> None:
    keys = [*FLAT_COMMANDS[name], *sorted(LISTS), "other"]
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
        is_empty = record.get("message") == "" or not str(record.get("name", "x")).strip()
        assert has_list or is_empty
        return
    assert (name, "c", True) == (flat.command_name, flat.id, flat.has_id)
    assert {key: getattr(model, key) for key in vars(flat)} == vars(flat)
    if "message" in FLAT_COMMANDS[name]:
        assert () == flat.content_images == cast("Any", model).content_images
