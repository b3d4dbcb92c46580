"""Tools whose calls a server holds to their schemas: what is sent of them is what the original sends.

What release 1.5.2 sent is kept in tests/data, so that this runs without it. Where it is present it must still send
that. To record anew, delete the file and run this with the original.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm.original_requests import Conversation, ask_original
from tests.agent.samples import served_model, user
from tests.recorded import Record, RecordedList

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.anthropic import compat as anthropic_compat
from pinnace_agent.llm.anthropic import request as anthropic
from pinnace_agent.llm.google import request as google
from pinnace_agent.llm.mistral import request as mistral
from pinnace_agent.llm.openai_chat import compat as chat_compat
from pinnace_agent.llm.openai_chat import request as chat
from pinnace_agent.llm.openai_responses import codex
from pinnace_agent.llm.openai_responses import compat as responses_compat
from pinnace_agent.llm.openai_responses import request as responses
from pinnace_agent.llm.refused_parts import refused_names, without
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import loose_parameters, strict_parameters
from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.validation import validate_arguments
from pinnace_spec.records.messages import Model

RECORD: Final = RecordedList("strict-tools")
PLAIN: Final[Mapping[str, object]] = {"type": "string"}
ODD: Final[Mapping[str, Mapping[str, object]]] = {
    "no_properties": {},
    "closed": {"properties": {"a": PLAIN}, "required": ["a"], "additionalProperties": False},
    "open": {"properties": {"a": PLAIN}, "additionalProperties": True},
    "nested": {
        "properties": {
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {"x": PLAIN, "y": PLAIN}, "required": ["x"]},
            },
            "inner": {"type": "object", "properties": {"z": {"type": "boolean"}}},
        }
    },
    "nullable": {"properties": {"a": {"type": ["string", "null"]}, "b": {"enum": ["x", None]}, "c": {"const": None}}},
    "union": {"properties": {"a": {"anyOf": [PLAIN, {"type": "number"}]}}},
    "union_with_null": {"properties": {"a": {"anyOf": [PLAIN, {"type": "null"}]}}},
    "union_of_objects": {"properties": {"a": {"anyOf": [PLAIN, {"type": "object"}]}}},
    "no_branches": {"properties": {"a": {"anyOf": []}}},
    "reference": {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": PLAIN}},
    "all_of": {"properties": {"a": {"allOf": [PLAIN]}}},
    "anything": {"properties": {"a": True}},
    "bounds": {"properties": {"a": {"type": "number", "minimum": 1}}},
    "few": {"properties": {"a": {"type": "array", "items": PLAIN, "minItems": 1}}},
    "many": {"properties": {"a": {"type": "array", "items": PLAIN, "minItems": 2}}},
    "known_format": {"properties": {"a": {"type": "string", "format": "uri"}}},
    "other_format": {"properties": {"a": {"type": "string", "format": "regex"}}},
    "unknown_required": {"properties": {"a": PLAIN}, "required": ["b"]},
    "tuple": {"properties": {"a": {"type": "array", "items": [PLAIN]}}},
}
TOOLS: Final = (
    *(ToolSpec(name, "Does.", tool.parameters, prefers_strict=True) for name, tool in builtin_tools().items()),
    *(ToolSpec(name, "Does.", {"type": "object", **more}, prefers_strict=True) for name, more in ODD.items()),
    ToolSpec("plain", "Does.", {"type": "object", "properties": {"a": PLAIN}}),
)
ID: Final = {"google-generative-ai": "gemini-3.8-flash", "google-vertex": "gemini-3.8-flash"}
FLAGS: Final[Mapping[str, tuple[Mapping[str, object], ...]]] = {
    "openai-completions": ({"supportsStrictMode": True}, {"supportsStrictMode": False}, {}),
    "openai-responses": ({"supportsStrictMode": True}, {"supportsStrictMode": False}),
    "azure-openai-responses": ({}, {"supportsStrictMode": False}),
    "openai-codex-responses": ({}, {"supportsStrictMode": False}),
    "anthropic-messages": ({"supportsStrictTools": True}, {}),
    "mistral-conversations": ({},),
    "google-generative-ai": ({},),
}


def model(api: str, compat: Mapping[str, object], model_id: str | None = None) -> Model:
    named = {"id": model_id or ID.get(api, "m"), "api": api, "provider": "p", "baseUrl": "https://server.example/v1"}
    return served_model(**named, reasoning=False, maxTokens=4096, compat=dict(compat))


# Of ChatGPT: its token names an account.
TOKEN: Final = "e30.eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYSJ9fQ.e30"
CASES: Final = [
    Conversation(
        f"{api} {json.dumps(compat)}",
        model(api, compat),
        [user("hi")],
        tools=TOOLS,
        key=TOKEN if api == "openai-codex-responses" else "key",
    )
    for api, every in FLAGS.items()
    for compat in every
] + [Conversation("gemini 2", model("google-generative-ai", {}, "gemini-2.5-flash"), [user("hi")], tools=TOOLS)]


def body_of(asked: Conversation) -> Any:
    request = LlmRequest(asked.model, "Be brief.", asked.messages, asked.tools, "off", asked.key, {}, "s1")
    with surrounded_by(Surroundings({})):
        match asked.model["api"]:
            case "openai-completions":
                http = chat.http_request(request, chat_compat.compat_of(request.model))
            case "anthropic-messages":
                http = anthropic.http_request(request, anthropic_compat.compat_of(request.model))
            case "mistral-conversations":
                http = mistral.http_request(request)
            case "google-generative-ai":
                http = google.http_request(request)
            case "openai-codex-responses":
                http = codex.http_request(request, "a")
            case _:
                http = responses.http_request(request, responses_compat.compat_of(request.model))
    return json.loads(http.body)


def of_tools(body: Any) -> Any:
    """Return what is sent of tools, without marks of the cache, which are another matter."""
    tools = [{name: value for name, value in tool.items() if name != "cache_control"} for tool in body["tools"]]
    return {"tools": tools, "toolConfig": body.get("toolConfig")}


def test_the_original_still_sends_what_is_recorded(original_pi: list[str]) -> None:
    asked = ask_original(original_pi, CASES)
    RECORD.check([{"case": case.name, **of_tools(each["body"])} for case, each in zip(CASES, asked, strict=True)])


def keeps_whole_schemas(tool: Any) -> Any:
    """Return a tool for Anthropic as the original makes it: what is not strict loses all but its properties."""
    schema = tool["input_schema"]
    if tool.get("strict"):
        return tool
    kept = ("type", "properties", "required", "$defs", "definitions")
    return {**tool, "input_schema": {name: schema[name] for name in kept if name in schema}}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_same_is_sent_as_by_the_original(case: Conversation) -> None:
    (theirs,) = (each for each in RECORD.read() if each["case"] == case.name)
    ours: Record = {"case": case.name, **of_tools(body_of(case))}
    if case.model["api"] == "anthropic-messages":
        ours["tools"] = [keeps_whole_schemas(tool) for tool in ours["tools"]]
    assert ours == theirs


def test_the_tools_that_prefer_it_are_those_of_the_original() -> None:
    assert {name for name, tool in builtin_tools().items() if getattr(tool, "prefers_strict", False)} == {
        "read", "bash", "edit", "write",
    }  # fmt: skip


def test_a_null_is_an_argument_that_was_left_out() -> None:
    tool = builtin_tools()["read"]
    assert validate_arguments(tool, {"path": "x", "offset": None, "limit": None}) == {"path": "x"}


# Refusals


def without_ban(schema: Any) -> Any:
    """Return a schema without the ban on further properties, which changes nothing for models."""
    if isinstance(schema, list):
        return [without_ban(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: without_ban(value) for name, value in schema.items() if name != "additionalProperties"}


@pytest.mark.parametrize(
    "text",
    [
        "The compiled grammar is too large, which would cause performance issues.",
        "Too many strict tools (21). The maximum number of strict tools supported is 20.",
        "Schemas contains too many parameters with union types (17 parameters).",
        "Unknown parameter: 'tools[0].function.strict'.",
    ],
)
@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[9]], ids=lambda case: case.name)
def test_strict_tools_that_are_refused_are_sent_with_their_own_schemas(text: str, case: Conversation) -> None:
    body = json.dumps(body_of(case)).encode()
    assert "strict" in refused_names(text)
    left = without(body, ["strict"])
    assert left is not None
    assert b'"strict"' not in left
    for tool, sent in zip(builtin_tools().values(), json.loads(left)["tools"], strict=False):
        described = sent.get("function", sent)
        schema = described.get("parameters") or described["input_schema"]
        assert {"required": [], **without_ban(schema)} == {"required": [], **tool.parameters}


KINDS: Final[st.SearchStrategy[Any]] = st.sampled_from([{"type": "string"}, {"type": "number"}, {"enum": ["a", 1]}])
OBJECTS: Final[st.SearchStrategy[Any]] = st.recursive(
    KINDS,
    lambda inner: (
        st.builds(
            lambda properties, needed: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name in needed],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc")),
        )
        | inner.map(lambda each: {"type": "array", "items": each})
    ),
    max_leaves=6,
).filter(lambda schema: schema.get("type") == "object")


@given(OBJECTS)
def test_the_schema_of_a_strict_tool_is_made_loose_again(schema: dict[str, object]) -> None:
    strict = strict_parameters(ToolSpec("t", "", schema, prefers_strict=True))
    assert strict is not None
    assert loose_parameters(strict) == schema
