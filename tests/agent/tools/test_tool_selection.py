"""Which tools are active."""

import pytest

from pinnace_agent.tools.selection import ToolSelection, refused_names, select_tools

TOOLS = {"read": 1, "bash": 2, "edit": 3, "write": 4, "grep": 5, "find": 6}
DEFAULTS = ("read", "bash", "edit", "write", "grep")


def select(wanted: str | None = None, excluded: str = "", *, none: bool = False) -> tuple[str, tuple[str, ...]]:
    words = None if wanted is None else wanted.split()
    tools, warnings = select_tools(TOOLS, ToolSelection(words, excluded.split(), none=none), DEFAULTS)
    assert tools == {name: TOOLS[name] for name in tools}
    return " ".join(tools), warnings


@pytest.mark.parametrize(
    ("wanted", "excluded", "none", "active"),
    [
        (None, "", False, "read bash edit write grep"),
        ("", "", False, ""),
        ("read", "", False, "read"),
        # The order is that of the tools, and twice is once.
        ("write read write", "", False, "read write"),
        ("*", "", False, "read bash edit write grep find"),
        ("find", "", False, "find"),
        ("+find -grep", "", False, "read bash edit write find"),
        ("+f*", "find", False, "read bash edit write grep"),
        ("+find", "", True, "find"),
        ("*r*", "", False, "read write grep"),
        ("e* bash", "", False, "bash edit"),
        ("-bash", "", False, "read edit write grep"),
        ("-bash -edit", "", False, "read write grep"),
        ("+bash", "", False, "read bash edit write grep"),
        ("-* +bash", "", False, "bash"),
        ("+bash -bash", "", False, "read edit write grep"),
        ("-*r*", "", False, "bash edit"),
        (None, "bash", False, "read edit write grep"),
        (None, "*r* nothing-yet", False, "bash edit"),
        ("read bash", "bash", False, "read"),
        ("+bash", "bash", False, "read edit write grep"),
        (None, "", True, ""),
        ("read bash", "", True, "read bash"),
        ("+read +b*", "", True, "read bash"),
        ("-read", "", True, ""),
        ("read bash", "read", True, "bash"),
    ],
)
def test_the_tools_that_are_active(wanted: str | None, excluded: str, none: bool, active: str) -> None:
    assert active == select(wanted, excluded, none=none)[0]


@pytest.mark.parametrize(
    ("wanted", "excluded", "unknown"),
    [
        ("read", "bash", []),
        ("read lint", "", ["lint"]),
        ("lint", "", ["lint"]),
        ("Read", "", ["Read"]),
        ("x* read", "", ["x*"]),
        ("+lint -fmt", "", ["lint", "fmt"]),
        ("+b*", "", []),
        (None, "lint", ["lint"]),
        ("lint", "lint fmt", ["lint", "fmt"]),
    ],
)
def test_a_name_that_fits_no_tool_is_reported_once(wanted: str | None, excluded: str, unknown: list[str]) -> None:
    assert tuple(f'there is no tool named "{name}"' for name in unknown) == select(wanted, excluded)[1]


@pytest.mark.parametrize("wanted", ["read +bash", "-bash read", "+bash * -edit"])
def test_names_and_changes_are_not_mixed(wanted: str) -> None:
    with pytest.raises(ValueError, match="either names or changes"):
        select(wanted)


@pytest.mark.parametrize(
    ("configured", "wanted", "none", "active"),
    [
        (None, None, False, "read bash edit write grep"),
        ("", None, False, ""),
        ("find read", None, False, "read find"),
        ("+find -bash", None, False, "read edit write grep find"),
        ("read +find", None, False, "read find"),
        ("-* +find", None, False, "find"),
        # The command line goes before, and changes what the settings say.
        ("read", "bash", False, "bash"),
        ("read", "+bash", False, "read bash"),
        ("read", "", False, ""),
        ("read", None, True, ""),
        ("read", "+find", True, "find"),
    ],
)
def test_the_settings_go_before_the_defaults(
    configured: str | None, wanted: str | None, none: bool, active: str
) -> None:
    selection = ToolSelection(None if wanted is None else wanted.split(), none=none)
    tools, _ = select_tools(TOOLS, selection, DEFAULTS, None if configured is None else configured.split())

    assert active == " ".join(tools)


def test_a_name_in_the_settings_that_fits_no_tool_is_reported() -> None:
    assert ('there is no tool named "lint"',) == select_tools(TOOLS, ToolSelection(), DEFAULTS, ["+lint"])[1]


@pytest.mark.parametrize(
    ("wanted", "excluded", "active"),
    [
        ("read", "", "read mcp__a__x mcp__b__y read_mcp_resource"),
        ("read mcp__a__*", "", "read mcp__a__x"),
        ("read mcp__later__z", "", "read"),
        ("", "", ""),
        ("read", "mcp__a__* read_mcp_resource", "read mcp__b__y"),
        ("-read -bash", "", "mcp__a__x mcp__b__y read_mcp_resource"),
    ],
)
def test_a_list_filters_tools_of_servers_only_if_it_names_one(wanted: str, excluded: str, active: str) -> None:
    """R-TOL-06: and a name of one is no mistake, since servers are connected later."""
    tools = dict.fromkeys(("read", "bash", "mcp__a__x", "mcp__b__y", "read_mcp_resource"), 0)
    selection = ToolSelection(wanted.split(), excluded.split())
    assert (active.split(), ()) == (list((found := select_tools(tools, selection, tools))[0]), found[1])
    assert refused_names(("read", "bash"), selection) == ()
