"""Which tool the text of a refusal names."""

import pytest

from pinnace_agent.llm.refused_tools import refused_tool

NAMES = ["read", "mcp__a__get", "mcp__a__get_all"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("400: Invalid schema for function 'mcp__a__get': array schema missing items.", "mcp__a__get"),
        ("400: Invalid schema for function 'mcp__a__get_all': no", "mcp__a__get_all"),
        ('400: {"param":"tools[1].function.parameters","code":"invalid_function_parameters"}', "mcp__a__get"),
        ("400: tools.2.custom.input_schema: JSON schema is invalid", "mcp__a__get_all"),
        (
            "400: * GenerateContentRequest.tools[0].function_declarations[2].parameters: missing field",
            "mcp__a__get_all",
        ),
        ("400: tools.3.custom.input_schema: JSON schema is invalid", None),
        ("400: bread is no tool; nor is xmcp__a__get or mcp__a__get-1", None),
        ("400: messages.1.content: no", None),
        ("", None),
    ],
)
def test_a_tool_is_found_by_its_name_or_its_place(text: str, name: str | None) -> None:
    assert refused_tool(text, NAMES) == name
