"""`mcp` of settings.json."""

import pytest

from pinnace_agent.mcp.configuration import McpSettings, read_settings


def test_settings_are_read() -> None:
    assert read_settings({}) == read_settings({"mcp": None}) == McpSettings(10.0, 100)
    group = {"startupWaitSeconds": 0, "maxTools": 7.0, "ofOthers": 1}
    assert read_settings({"mcp": group}) == McpSettings(0.0, 7)


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        (5, "mcp must be an object"),
        ({"startupWaitSeconds": "10"}, "mcp.startupWaitSeconds must be a number of seconds"),
        ({"startupWaitSeconds": -1}, "mcp.startupWaitSeconds must be a number of seconds"),
        ({"maxTools": 0}, "mcp.maxTools must be a positive whole number"),
        ({"maxTools": 1.5}, "mcp.maxTools must be a positive whole number"),
        ({"maxTools": True}, "mcp.maxTools must be a positive whole number"),
        ({"maxTool": 5}, 'mcp: unknown key "maxTool" is ignored; did you mean "maxTools"?'),
    ],
)
def test_what_is_wrong_is_reported_and_the_default_is_used(group: object, problem: str) -> None:
    assert read_settings({"mcp": group}) == McpSettings(problems=(f"settings.json: {problem}",))
