"""Tools and results of servers, as models get them."""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.extensions.registration.json_schema import check_schema
from pinnace_agent.mcp import limits
from pinnace_agent.mcp.content import MOST_TEXT_BYTES, pretty_json, shown_contents, shown_result
from pinnace_agent.mcp.definitions import MOST_CHARACTERS, MOST_PLACES, WrongTool, adapted, read_tool
from pinnace_agent.mcp.prompts import ServerPrompt, WrongArguments, WrongPrompt, message_of, read_arguments, read_prompt

PNG = "iVBORw0KGgo="


def test_references_are_resolved_unless_they_come_again_or_lead_elsewhere() -> None:
    schema = {
        "$schema": "x",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "of a"},
            "child": {"$ref": "#"},
            "far": {"$ref": "http://x/y.json"},
            "none": {"$ref": "#/$defs/missing"},
        },
        "$defs": {"A": {"type": "string", "title": "A"}},
    }
    made = adapted(schema)
    properties = made["properties"]
    assert isinstance(properties, dict)
    assert made["type"] == "object"
    assert properties["a"] == {"type": "string", "description": "of a"}
    assert (properties["far"], properties["none"]) == ({}, {})
    assert "$ref" not in json.dumps(made)
    assert not {"$schema", "$defs"} & made.keys()


def test_schemas_that_one_provider_refuses_are_written_otherwise() -> None:
    made = adapted({"properties": {"list": {"type": "array"}, "either": {"type": ["string", "null"], "maxLength": 3}}})
    assert made["properties"] == {
        "list": {"type": "array", "items": {}},
        "either": {"anyOf": [{"maxLength": 3, "type": "string"}, {"type": "null"}]},
    }


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    made = adapted({"type": "object", "properties": {"title": {"type": "string"}, "$id": {"type": "string"}}})
    assert made["properties"] == {"title": {"type": "string"}, "$id": {"type": "string"}}


KEYS = ["type", "$ref", "items", "a", "properties", "required", "anyOf", "$defs", "#"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
)


@given(JSON)
def test_any_definition_is_a_tool_or_wrong(raw: object) -> None:
    try:
        tool = read_tool({"name": "t", "inputSchema": raw}, "s")
    except WrongTool:
        return
    assert tool.parameters["type"] == "object"
    check_schema("t", tool.parameters)


KINDS = ["text", "image", "resource"]
FIELDS = ["type", "text", "data", "mimeType", "resource", "uri", "blob", "content", "messages", "role", "name", "title"]
PARTS = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.sampled_from(["text", "image", "resource"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner),
)


@given(st.lists(PARTS), PARTS, PARTS)
def test_whatever_a_server_answers_is_shown_or_left_out(blocks: list[object], content: object, name: object) -> None:
    """Nothing raises: an element that is odd costs itself."""
    for given_content in (blocks, content, [{"type": "resource", "resource": each} for each in blocks]):
        result = {"content": given_content, "structuredContent": content}
        shown_result("s", "t", result, lambda _: "/file", reads_resources=True)
    shown_contents([{"text": content, "blob": name, "uri": content, "mimeType": name}], lambda _: "/file")
    message_of(
        "s", ServerPrompt("p", "", (), frozenset()), {"messages": [{"role": name, "content": each} for each in blocks]}
    )
    message_of("s", ServerPrompt("p", "", (), frozenset()), {"messages": content})
    pretty_json([blocks, content])
    for each in (name, {"name": name, "description": content, "arguments": blocks}):
        with suppress(WrongPrompt):
            prompt = read_prompt(each)
            assert 0 < len(prompt.name) <= limits.NAME_CHARS
            assert len(prompt.arguments) <= limits.ARGUMENTS


def deep(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"b": [1, "ü"], "a": {}}, '{\n  "b": [\n    1,\n    "ü"\n  ],\n  "a": {}\n}'),
        (deep(300), "[" * 301 + "]" * 301),
        ([2**70], f"[{2**70}]"),
        (deep(100_000), "[JSON that is nested too deeply to be shown]"),
    ],
    ids=["usual", "deep", "large number", "too deep"],
)
def test_json_is_shown_however_it_is_made(value: object, shown: str) -> None:
    assert pretty_json(value) == shown


def test_more_blocks_than_anything_reads_are_left_out() -> None:
    blocks = [{"type": "text", "text": "x"}] * (limits.BLOCKS + 5)
    shown = shown_result("s", "t", {"content": blocks}, lambda _: "/file", reads_resources=True)
    assert len(shown.blocks) == limits.BLOCKS + 1
    assert shown.text.endswith("[5 more omitted]")
    assert shown_contents([{"text": "x"}] * (limits.BLOCKS + 5), lambda _: "/file").text.endswith("[5 more omitted]")


VALID = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    "definitions": {"old": {"type": "string"}},
    "properties": {
        "node": {"$ref": "#/$defs/node"},
        "old": {"$ref": "#/definitions/old", "description": "of draft 7"},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}, True]},
        "tuple": {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
        "draft7": {"type": "array", "items": [{"type": "integer"}], "additionalItems": False},
        "not": {"not": {"const": 5}},
    },
    "patternProperties": {"^x-": {"type": "integer"}},
    "additionalProperties": False,
    "dependentRequired": {"any": ["old"]},
    "if": {"required": ["any"]},
    "then": {"required": ["old"]},
    "propertyNames": {"maxLength": 20},
    "unevaluatedProperties": False,
}


def test_valid_json_schema_works() -> None:
    tool = read_tool({"name": "t", "inputSchema": VALID}, "s")
    check_schema("t", tool.parameters)
    assert "$ref" not in json.dumps(tool.parameters)
    assert set(tool.parameters["properties"]) == set(VALID["properties"])  # type: ignore[call-overload]


def bomb(levels: int, each: int) -> dict[str, object]:
    below = {
        f"l{i}": {"properties": {f"p{j}": {"$ref": f"#/$defs/l{i + 1}"} for j in range(each)}} for i in range(levels)
    }
    return {"properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": below}


def test_references_that_multiply_are_bounded_while_they_are_resolved() -> None:
    with pytest.raises(WrongTool, match=f"more than {MOST_PLACES:,} parts"):
        adapted(bomb(14, 10))
    with pytest.raises(WrongTool, match=f"more than {MOST_CHARACTERS >> 10} KiB"):
        adapted(
            {"properties": {f"p{i}": {"$ref": "#/$defs/e"} for i in range(500)}, "$defs": {"e": {"enum": ["x" * 9000]}}}
        )
    adapted(bomb(3, 10))
    assert read_tool({"name": "t", "inputSchema": {}, "outputSchema": bomb(14, 10)}, "s").output_schema is None


@pytest.mark.parametrize("reference", ["#/anyOf/\u00b2", "#/anyOf/" + "9" * 5000, "#/anyOf/-1", "#/anyOf/x", "#anyOf"])
def test_a_reference_that_leads_nowhere_takes_anything(reference: str) -> None:
    assert {"a": {}} == adapted({"properties": {"a": {"$ref": reference}}, "anyOf": [{}]})["properties"]


def test_valid_schemas_that_say_little_are_taken() -> None:
    made = adapted({"required": ["a", "b", "b", 5], "properties": {"a": True, "c": False, "d": {"type": "string"}}})

    assert ["a", "b"] == made["required"]
    assert {"a": {}, "b": {}, "c": {"not": {}}, "d": {"type": "string"}} == made["properties"]
    check_schema("t", made)
    assert "required" not in adapted({"required": "a"})


def test_a_description_has_no_control_characters() -> None:
    tool = read_tool({"name": "t", "inputSchema": {}, "description": " a\x1b[31m\u202eb\n "}, "s")
    assert tool.description == "a[31mb"
    assert read_tool({"name": "t", "inputSchema": {}}, "s").description == "MCP tool t from server s"


def result(tmp_path: Path, *blocks: object, **fields: object) -> tuple[str, int]:
    def save(data: bytes) -> str:
        path = tmp_path / "saved.log"
        path.write_bytes(data)
        return str(path)

    shown = shown_result("s", "t", {"content": list(blocks), **fields}, save, reads_resources=True)
    return shown.text.replace(str(tmp_path), "DIR"), sum(block["type"] == "image" for block in shown.blocks)


def blob(data: bytes, mime_type: str, uri: str = "file:///a.pdf") -> Mapping[str, object]:
    resource = {"uri": uri, "mimeType": mime_type, "blob": base64.b64encode(data).decode()}
    return {"type": "resource", "resource": resource}


@pytest.mark.parametrize(
    ("block", "text", "images"),
    [
        ({"type": "text", "text": "a"}, "a", 0),
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, "", 1),
        ({"type": "image", "data": PNG, "mimeType": "image/tiff"}, "[image image/tiff omitted, 8B]", 0),
        ({"type": "audio", "data": "", "mimeType": "audio/wav"}, "[audio audio/wav omitted]", 0),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "inside"}}, "inside", 0),
        (blob(b"text", "text/csv; charset=utf-8"), "text", 0),
        (blob(b"\x89PNG", "image/png"), "", 1),
        (
            blob(b"12345", "application/pdf"),
            "[Binary resource file:///a.pdf (application/pdf, 5B) saved to DIR/saved.pdf]",
            0,
        ),
        (
            blob(b"1", "", "x:../../etc/passwd.looooooooong"),
            "[Binary resource x:../../etc/passwd.looooooooong (unknown type, 1B) saved to DIR/saved.bin]",
            0,
        ),
        (
            {"type": "resource_link", "uri": "x:1", "name": "n", "title": "T", "mimeType": "a/b", "size": 2048},
            '[Resource x:1 "T" (a/b, 2.0KB). Read it with read_mcp_resource (server "s")]',
            0,
        ),
        ({"type": "new"}, "[unsupported MCP content new]", 0),
    ],
)
def test_each_kind_of_content_is_shown(tmp_path: Path, block: Mapping[str, object], text: str, images: int) -> None:
    assert result(tmp_path, block) == (text, images)


def test_structured_content_is_shown_where_there_is_no_other(tmp_path: Path) -> None:
    assert result(tmp_path, structuredContent={"a": 1}) == ('{\n  "a": 1\n}', 0)
    assert result(tmp_path, {"type": "text", "text": "x"}, structuredContent={"a": 1}) == ("x", 0)
    assert result(tmp_path, isError=True) == ("MCP tool s/t returned an error", 0)


def test_a_long_text_loses_its_middle_and_is_in_a_file(tmp_path: Path) -> None:
    long = "ä" * MOST_TEXT_BYTES
    text, _ = result(tmp_path, {"type": "text", "text": long})
    notice = f"Warning: truncated output (original token count: {MOST_TEXT_BYTES // 2})\nTotal output lines: 1\n\nä"
    assert text.startswith(notice)
    assert f"…{MOST_TEXT_BYTES // 2} chars truncated…" in text
    assert text.endswith("[Full output: DIR/saved.log (read it with offset/limit)]")
    assert (tmp_path / "saved.log").read_text(encoding="utf-8") == long


def test_contents_of_resources_are_shown() -> None:
    def save(_data: bytes) -> str:
        raise OSError(28, "No space left on device")

    binary = {"uri": "x:2", "mimeType": "x/y", "blob": "AA=="}
    shown = shown_contents([{"uri": "x:1", "text": "a"}, binary, {"uri": "x:3"}], save)
    assert shown.text.splitlines() == [
        "a",
        "[Binary resource x:2 (x/y, 1B) could not be saved: No space left on device]",
        "[resource x:3 has no content]",
    ]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", None),
        ("one", {"a": "one"}),
        ("'one two' three", {"a": "one two", "b": "three"}),
        ("b=x one two", {"a": "one two", "b": "x"}),
        ("it's", {"a": "it's"}),
        ("c=d", {"a": "c=d"}),
        ("1 2 3", None),
    ],
)
def test_arguments_of_prompts_are_words_or_named(text: str, arguments: Mapping[str, str] | None) -> None:
    prompt = ServerPrompt("p", "", ["a", "b"], frozenset({"a"}))
    if arguments is None:
        with pytest.raises(WrongArguments):
            read_arguments(prompt, text)
    else:
        assert read_arguments(prompt, text) == arguments


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [], "structuredContent": {"n": 1}}, ['{\n  "n": 1\n}']),
        ({"content": [{"type": "text", "text": " \n"}], "structuredContent": {"n": 1}}, ['{\n  "n": 1\n}']),
        ({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}}, ["one"]),
        ({"content": [{"type": "text", "text": ""}]}, [""]),
    ],
)
def test_structured_content_is_shown_where_no_text_is(result: dict[str, object], shown: list[str]) -> None:
    blocks = shown_result("s", "t", result, lambda _: "", reads_resources=False).blocks
    assert [block.get("text") for block in blocks] == shown
