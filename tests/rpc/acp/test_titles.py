"""What editors show of a call and of a session in one line."""

import pytest

from pinnace_rpc.acp.translation.titles import session_title
from pinnace_rpc.acp.translation.tool_calls import MAX_TITLE_CHARS, title

LONG = "x" * MAX_TITLE_CHARS


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls -la", "ls -la"),
        ("  ls\n", "ls"),
        ("true\nrm -rf build", "true …"),
        ("true\r\u001b[2Krm", "true\\u{d}\\u{1b}[2Krm"),
        ("ls \u202e; rm", "ls \\u{202e}; rm"),
        (LONG, LONG),
        (LONG + "; rm -rf /", LONG[:-2] + " …"),
        ("\u202e" + LONG, "\\u{202e}" + LONG[:-10] + " …"),
        ("", "bash"),
    ],
)
def test_the_title_of_a_permission_hides_nothing_and_says_where_it_is_cut(command: str, shown: str) -> None:
    assert shown == title("bash", {"command": command}, "/")


@pytest.mark.parametrize("tool", ["read", "write", "edit", "ls", "grep", "find"])
def test_paths_and_patterns_are_shown_without_control_characters(tool: str) -> None:
    assert title(tool, {"path": "a\x1b]0;b\x07", "pattern": "c\x9b2J"}, "/").isprintable()


def test_the_name_of_a_tool_is_shown_without_control_characters() -> None:
    assert title("mcp\x1b[2J", {}, "/") == "mcp\\u{1b}[2J"


@pytest.mark.parametrize("name", ["a\x1b[2Jb", None])
def test_the_title_of_a_session_has_no_control_characters(name: str | None) -> None:
    assert session_title(name, "a\x1b[2Jb\nnext") == "a\ufffd[2Jb"
