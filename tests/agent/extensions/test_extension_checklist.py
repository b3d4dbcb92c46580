"""The list of what an extension system has to have, E1 to X12: each item has its tests, or says what is not so here."""

import ast
import tomllib
from pathlib import Path

import pytest
from typing_extensions import TypedDict

TESTS = Path(__file__).parents[2]
TOTALS = {"E": 42, "A": 28, "C": 18, "K": 8, "U": 20, "T": 9, "D": 9, "F": 9, "M": 13, "R": 40, "X": 12}
WHOLE = "*"


class Item(TypedDict, total=False):
    tests: list[str]
    degraded: str


def read_items() -> dict[str, Item]:
    sections = tomllib.loads(Path(__file__).with_name("extension_checklist.toml").read_text(encoding="utf-8"))
    return {name: item for section in sections.values() for name, item in section.items()}


ITEMS = read_items()


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
    assert [f"{letter}{number}" for letter, total in TOTALS.items() for number in range(1, total + 1)] == list(ITEMS)


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
