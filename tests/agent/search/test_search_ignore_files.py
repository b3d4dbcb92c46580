"""Lines of ignore files, as both of their readers take them."""

import pytest

from pinnace_agent.search.ignore_files import parse_rule


@pytest.mark.parametrize(
    ("line", "path", "fits"),
    [
        ("# comment", "/# comment", None),
        ("", "/a", None),
        ("a  ", "/b/a", True),
        ("a\t", "/a", True),
        ("a\\ ", "/a ", True),
        ("/a", "/b/a", False),
        ("b/a", "/c/b/a", False),
        ("{a,b}", "/a", False),
        ("{a,b}", "/{a,b}", True),
    ],
)
def test_a_line_fits_a_path_as_for_git(line: str, path: str, fits: bool | None) -> None:
    rule = parse_rule(line, has_braces=False)

    assert fits == (rule and rule.glob.matches(path))


def test_braces_hold_alternatives_for_searches_alone() -> None:
    rule = parse_rule("{a,b}")

    assert rule is not None
    assert rule.glob.matches("/b")
