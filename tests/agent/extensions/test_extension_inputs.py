"""The inputs that authors of extensions see are those of the tools."""

import pytest

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.tools import builtin_tools

TOOLS = builtin_tools()
INPUTS = {
    "bash": ev.BashInput,
    "read": ev.ReadInput,
    "edit": ev.EditInput,
    "write": ev.WriteInput,
    "grep": ev.GrepInput,
    "find": ev.FindInput,
    "ls": ev.LsInput,
}


def test_every_tool_has_an_input() -> None:
    assert TOOLS.keys() == INPUTS.keys() == ev.CALLS.keys()


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_an_input_has_the_fields_of_its_tool(name: str) -> None:
    parameters = TOOLS[name].parameters
    properties, required = parameters["properties"], parameters.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    keys = vars(INPUTS[name])
    assert set(properties) == keys["__required_keys__"] | keys["__optional_keys__"]
    assert set(required) == keys["__required_keys__"]
