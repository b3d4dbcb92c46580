"""A JSON value to a command, or to an answer that names the field and what was expected of it."""

import types
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import StrictBool, StrictFloat, StrictInt, StrictStr
from typing_extensions import get_type_hints

from pinnace_spec.records.commands import ALL_COMMANDS, MODELS
from pinnace_spec.records.expected_values import expected
from pinnace_spec.records.parsing import MAX_ID_CHARS, CommandError, parse_command
from pinnace_spec.rules import errors
from pinnace_spec.rules.errors import ErrorCode
from pinnace_spec.wire.json_text import JsonValue, WireError, decode_line, encode_record

IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
ATTACHMENT = {"type": "image", "mimeType": "image/png", "content": "aGVsbG8="}

# A value that each field takes, where its kind alone does not say which.
VALID: dict[str, JsonValue] = {
    "images": [cast("JsonValue", IMAGE)],
    "context": [{"uri": "file:///a", "text": "b"}],
    "attachments": [cast("JsonValue", ATTACHMENT)],
    "streamingBehavior": "steer",
    "queue": "clear",
    "level": "high",
    "mode": "all",
    "protocol": "seed",
    "delegate": ["read_text_file"],
    "item": {"kind": "call", "name": "read", "id": "call1"},
}
BY_KIND: dict[object, JsonValue] = {
    StrictStr: "text",
    StrictBool: True,
    StrictInt: 5,
    StrictFloat: 2.5,
    list[StrictStr]: ["text"],
}
# Values of every kind of JSON; what a field takes is left out for it.
WRONG: list[JsonValue] = [-1, 1, 1.5, True, "text", "", [], {}, ["text"], {"type": "image"}, [1], [None], [{}]]
# Fields that must be there, and may be null.
NULLABLE = {("navigate_tree", "entryId")}
# An answer to the agent is not judged here: it has no response that could say what is wrong with it.
UNJUDGED = {"value", "confirmed", "cancelled", "success", "content", "error", "errorCode"}


class Field(NamedTuple):
    command: str
    name: str
    is_required: bool
    kind: object
    """Without what is checked beside it, and without null."""
    is_bounded: bool


def kind_of(annotation: Any) -> tuple[object, bool]:
    """Return a declared type without null, and whether more is checked than that."""
    if get_origin(annotation) in (Union, types.UnionType):
        [annotation] = (each for each in get_args(annotation) if each is not types.NoneType)
    if annotation in BY_KIND or get_origin(annotation) is not Annotated:
        return annotation, False
    kind = get_args(annotation)[0]
    if set(get_args(kind)) == {StrictFloat, StrictInt}:  # a number may be whole
        return StrictFloat, True
    return {str: StrictStr, int: StrictInt}[kind], True


def fields_of(command: str) -> list[Field]:
    hints = get_type_hints(MODELS[command], include_extras=True)
    return [
        Field(command, field.alias or name, field.is_required(), *kind_of(hints[name]))
        for name, field in MODELS[command].model_fields.items()
        if name not in {"id", "type", *UNJUDGED}
    ]


FIELDS = [field for command in MODELS for field in fields_of(command)]


def valid_value(field: Field) -> JsonValue:
    if (field.command, field.name) == ("set_tool_approval", "mode"):
        return "ask"
    if (field.command, field.name) == ("login", "method"):
        return "device-code"
    return VALID[field.name] if field.name in VALID else BY_KIND[field.kind]


def valid(command: str, *, only_required: bool = False) -> dict[str, JsonValue]:
    fields = [field for field in fields_of(command) if field.is_required or not only_required]
    return {"id": "c1", "type": command, **{field.name: valid_value(field) for field in fields}}


def refusal(value: JsonValue) -> CommandError:
    with pytest.raises(CommandError) as refused:
        parse_command(value)
    return refused.value


def wrong_values(field: Field, values: list[JsonValue] = WRONG) -> list[JsonValue]:
    def is_right(value: JsonValue) -> bool:
        if field.kind is StrictBool:
            return isinstance(value, bool)
        if field.kind is StrictInt:
            return isinstance(value, int) and not isinstance(value, bool) and (value > 0 or not field.is_bounded)
        if field.kind is StrictFloat:
            return (
                isinstance(value, int | float) and not isinstance(value, bool) and (value > 0 or not field.is_bounded)
            )
        if field.kind is StrictStr:
            return isinstance(value, str) and (value != "" or not field.is_bounded)
        if field.kind == list[StrictStr]:
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        return get_origin(field.kind) is list and value == []

    return [value for value in values if not is_right(value)]


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_a_command_is_read_with_all_its_fields_and_with_none(command: str) -> None:
    for fields in (valid(command), valid(command, only_required=True)):
        parsed = parse_command(fields)

        assert (command, "c1", True) == (parsed.command_name, parsed.id, parsed.has_id)
        model = MODELS[command].model_validate(fields)
        assert fields == model.model_dump(by_alias=True, exclude_unset=True)


@pytest.mark.parametrize(
    "field", [field for field in FIELDS if field.is_required], ids=lambda f: f"{f.command}.{f.name}"
)
@pytest.mark.parametrize("is_null", [False, True])
def test_a_missing_field_is_named(field: Field, is_null: bool) -> None:
    """R-ERR-03; null equals absent, but where it means something."""
    fields = valid(field.command)
    del fields[field.name]
    if is_null:
        fields[field.name] = None
    if is_null and (field.command, field.name) in NULLABLE:
        assert getattr(parse_command(fields), field.name) is None
        return
    error = refusal(fields)

    or_null = " or null" if (field.command, field.name) in NULLABLE else ""
    assert f"Invalid {field.command} command: {field.name} must be {expected(*field[:2])}{or_null}" == error.text
    assert (ErrorCode.INVALID_FIELD, field.command, "c1", True) == (error.code, error.command, error.id, error.has_id)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f"{f.command}.{f.name}")
def test_a_field_of_the_wrong_kind_is_named_with_what_was_expected(field: Field) -> None:
    """R-ERR-03, also for a text that is none of those that a field knows."""
    for value in wrong_values(field):
        error = refusal({**valid(field.command), field.name: value})

        assert error.text.startswith(f"Invalid {field.command} command: {field.name}"), value
        if not isinstance(value, list | dict):  # nothing inside of it is named
            assert error.text.startswith(f"Invalid {field.command} command: {field.name} must "), value
        assert expected(*field[:2]) in error.text, value
        assert (ErrorCode.INVALID_FIELD, "c1") == (error.code, error.id)


@pytest.mark.parametrize(
    "field", [field for field in FIELDS if not field.is_required], ids=lambda f: f"{f.command}.{f.name}"
)
def test_null_in_an_optional_field_equals_absent(field: Field) -> None:
    fields = valid(field.command)
    absent = {name: value for name, value in fields.items() if name != field.name}

    assert parse_command(absent) == parse_command({**fields, field.name: None})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("streamingBehavior", {"steer", "followUp"}),
        ("queue", {"hold", "clear", "continue"}),
        ("level", {"off", "minimal", "low", "medium", "high", "xhigh", "max"}),
        ("mode", {"all", "one-at-a-time"}),
        ("protocol", {"pi", "seed", "1.5"}),
    ],
)
def test_an_error_lists_every_value_of_a_closed_set(name: str, values: set[str]) -> None:
    for field in FIELDS:
        if field.name == name:
            taken = {"never", "ask", "read-only"} if field.command == "set_tool_approval" else values
            for value in taken:
                parse_command({**valid(field.command), name: value})
            assert all(value in expected(field.command, name) for value in taken)


@pytest.mark.parametrize("command", ["prompt", "steer", "follow_up", "queue_message"])
@pytest.mark.parametrize(
    ("images", "path"),
    [
        ([{**IMAGE, "data": "not base64!"}], "images[0] data must be base64"),
        ([IMAGE, {**IMAGE, "data": 1}], "images[1].data is not as expected"),
        ([{**IMAGE, "type": "picture"}], "images[0].type is not as expected"),
        ([{"type": "image", "data": "AAAA"}], "images[0].mimeType is not as expected"),
        ([IMAGE, "AAAA"], "images[1] is not as expected"),
    ],
)
def test_what_is_wrong_inside_of_images_is_named(command: str, images: JsonValue, path: str) -> None:
    error = refusal({**valid(command), "images": images})

    assert error.text.startswith(f"Invalid {command} command: {path}")


@pytest.mark.parametrize(
    ("attachment", "path"),
    [
        ({**ATTACHMENT, "content": "é"}, "attachments[0].content must be base64"),
        ({**ATTACHMENT, "type": "movie"}, "attachments[0].type is not as expected"),
        ({"type": "image"}, "attachments[0].mimeType is not as expected"),
    ],
)
def test_what_is_wrong_inside_of_attachments_is_named(attachment: JsonValue, path: str) -> None:
    assert path in refusal({"type": "prompt", "message": "x", "attachments": [attachment]}).text


@pytest.mark.parametrize("command", ["prompt", "steer", "follow_up", "queue_message"])
def test_a_text_of_nothing_needs_an_image(command: str) -> None:
    """R-PRM-06."""
    error = refusal({"type": command, "message": ""})

    assert f"Invalid {command} command: message must not be empty without images" == error.text
    parse_command({"type": command, "message": "", "images": [cast("JsonValue", IMAGE)]})
    parse_command({"type": command, "message": " "})


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_a_session_name_of_nothing_is_refused_with_the_published_text(name: str) -> None:
    error = refusal({"type": "set_session_name", "name": name})

    assert (errors.SESSION_NAME_EMPTY, ErrorCode.INVALID_FIELD) == (error.text, error.code)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [], [{"type": "get_state"}]])
def test_what_is_no_object_is_answered_as_parse(value: JsonValue) -> None:
    """R-ERR-01."""
    error = refusal(value)

    assert "Failed to parse command: expected an object" == error.text
    assert (ErrorCode.PARSE_ERROR, "parse", False) == (error.code, error.command, error.has_id)


@pytest.mark.parametrize("fields", [{}, {"type": None}, {"type": 1}, {"type": ["get_state"]}, {"type": {"type": "x"}}])
def test_an_object_without_a_type_is_answered_as_unknown_with_its_id(fields: dict[str, JsonValue]) -> None:
    """R-ERR-01."""
    error = refusal({"id": 7, **fields})

    assert "Invalid command: type must be a string" == error.text
    assert (ErrorCode.INVALID_COMMAND, "unknown", 7, True) == (error.code, error.command, error.id, error.has_id)


@pytest.mark.parametrize(
    "name", ["nope", "", "Prompt", " prompt", "parse", "unknown", "response", "\ud800", "__class__"]
)
def test_an_unknown_command_is_echoed_with_its_id(name: str) -> None:
    """R-ERR-04."""
    error = refusal({"id": "a", "type": name})

    assert f"Unknown command: {name}" == error.text
    assert (ErrorCode.UNKNOWN_COMMAND, name, "a") == (error.code, error.command, error.id)


@pytest.mark.parametrize("identity", ["a", "", "x" * MAX_ID_CHARS, 0, -1, 1.5, 2**64, None, "\ud800"])
def test_an_id_is_kept_as_it_came(identity: JsonValue) -> None:
    """R-ID-01: a text, tolerated numbers, and null."""
    parsed = parse_command({"id": identity, "type": "get_state"})

    assert (identity, True) == (parsed.id, parsed.has_id)
    assert type(identity) is type(parsed.id)
    assert (identity, True) == (refusal({"id": identity}).id, refusal({"id": identity}).has_id)


def test_no_id_is_no_id() -> None:
    assert not parse_command({"type": "get_state"}).has_id
    assert not refusal({"type": "nope"}).has_id


@pytest.mark.parametrize("identity", [True, False, [], ["a"], {}, {"a": 1}, "x" * (MAX_ID_CHARS + 1)])
def test_another_id_is_refused_and_not_echoed(identity: JsonValue) -> None:
    """R-ID-01."""
    error = refusal({"id": identity, "type": "get_state"})

    assert "Invalid get_state command: id must be a string of at most 256 characters" == error.text
    assert not error.has_id
    assert error.id is None
    for other in ({"id": identity}, {"id": identity, "type": "nope"}):
        assert not refusal(other).has_id


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_unknown_fields_are_ignored(command: str) -> None:
    """Also those that a model has inside, and those of other commands."""
    extra: JsonValue = {"since_entry": 1, "model_config": 1, "ref": 1, "version": 1, "": 1, "__dict__": 1, "\ud800": 1}
    fields = valid(command)

    assert parse_command(fields) == parse_command({**cast("dict[str, JsonValue]", extra), **fields})


def deep(levels: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(levels):
        value = [value, {"a": value}] if levels <= 20 else [value]
    return value


# Deeper than a line can be (wire.MAX_NESTING), and wider than deep: a command may also come from elsewhere.
HOSTILE: list[JsonValue] = [
    deep(100_000),
    deep(20),
    [*("x" for _ in range(100_000))],
    {str(n): n for n in range(10_000)},
    "x" * 10_000_000,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize(
    "command", ["prompt", "set_model", "extension_ui_response", "client_response", "get_state", "get_entries"]
)
def test_a_hostile_value_in_any_place_is_refused_or_ignored(command: str, number: int) -> None:
    """R-ERR-02: whatever stands where, the answer is short and says no more than what was expected."""
    hostile = HOSTILE[number]
    parse_command({**valid(command), "unheard": hostile, "value": hostile, "confirmed": hostile})
    places = [field.name for field in fields_of(command) if wrong_values(field, [hostile])]
    refused = [refusal({**valid(command), place: hostile}) for place in [*places, "id"]]
    refused.append(refusal(hostile if not isinstance(hostile, dict) else {"type": hostile, "id": hostile}))

    assert all(len(error.text) < 500 for error in refused)
    assert not any(error.has_id for error in refused[len(places) :])


@given(
    st.dictionaries(
        st.sampled_from(["id", "type", *sorted({field.name for field in FIELDS}), "other"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False)
            | st.sampled_from([*ALL_COMMANDS, "", "\ud800"]),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*IMAGE, "content"]), inner, max_size=3)
            ),
        ),
    )
)
def test_any_object_is_a_command_or_an_error_that_can_be_answered(value: dict[str, JsonValue]) -> None:
    try:
        parse_command(value)
    except CommandError as error:
        encode_record({"id": error.id, "command": error.command, "error": error.text, "errorCode": error.code})


@given(st.sampled_from(ALL_COMMANDS), st.binary(max_size=30), st.integers(0, 200))
def test_a_damaged_line_of_a_command_is_read_or_refused(command: str, damage: bytes, at: int) -> None:
    line = encode_record(valid(command)).removesuffix(b"\n")
    try:
        parse_command(decode_line(line[:at] + damage + line[at:]))
    except (CommandError, WireError) as error:
        encode_record({"error": error.text})
