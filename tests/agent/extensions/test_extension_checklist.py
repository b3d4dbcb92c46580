"""The list of what an extension system has to have: each item has its tests, or says what is not so here."""

import ast
import tomllib
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import TypedDict

from pinnace_agent.extensions.events.events import EVENTS

TESTS = Path(__file__).parents[2]
TOTALS = {
    "api": 28,
    "context": 19,
    "command_context": 8,
    "user_interface": 20,
    "tool_definition": 9,
    "discovery": 9,
    "options": 9,
    "modes": 13,
    "runner": 40,
    "examples": 12,
}
WHOLE = "*"


class Item(TypedDict, total=False):
    tests: list[str]
    degraded: str


SECTIONS: Final[dict[str, dict[str, Item]]] = tomllib.loads(
    Path(__file__).with_name("extension_checklist.toml").read_text(encoding="utf-8")
)
ITEMS: Final = {f"{name}.{key}": item for name, section in SECTIONS.items() for key, item in section.items()}


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    """The names of all tests, by module."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        functions = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        found[path.stem] = {each.name for each in functions if isinstance(each, kinds)} | {WHOLE}
    return found


def test_no_item_is_missing_and_none_is_made_up() -> None:
    assert list(SECTIONS["events"]) == list(EVENTS)
    assert {name: len(section) for name, section in SECTIONS.items() if name != "events"} == TOTALS


def test_every_item_has_a_test_or_a_documented_difference() -> None:
    assert [] == [name for name, item in ITEMS.items() if not item.get("tests") and not item.get("degraded")]
    assert [] == [name for name, item in ITEMS.items() if item.keys() - {"tests", "degraded"}]


def test_every_test_that_is_named_is_there(there: dict[str, set[str]]) -> None:
    missing = [
        f"{name}: {reference}"
        for name, item in ITEMS.items()
        for reference in item.get("tests", ())
        for module, _, function in [reference.partition("::")]
        if function not in there.get(module, set())
    ]
    assert [] == missing
