"""docs/extensions.md names every event, member, import and example. tests/docs/test_pages.py runs what it shows."""

import inspect
import re
from pathlib import Path

import pytest

import pinnace.extensions as facade
from pinnace_agent.extensions.api.contexts import CommandContext, Context, ToolContext
from pinnace_agent.extensions.api.user_interface import UserInterface
from pinnace_agent.extensions.events.events import EVENTS

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "extensions.md"
TEXT = PAGE.read_text(encoding="utf-8")


def named(text: str) -> set[str]:
    """The names between backticks."""
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


NAMED = named(re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE))


def test_every_event_is_in_the_table() -> None:
    assert [] == sorted(EVENTS.keys() - NAMED)


@pytest.mark.parametrize("of", [facade.ExtensionAPI, Context, ToolContext, CommandContext, UserInterface])
def test_every_member_is_named(of: type) -> None:
    members = {name for name, _ in inspect.getmembers(of) if not name.startswith("_")} - {"bind"}

    assert [] == sorted(members - NAMED)


def test_every_import_is_named() -> None:
    assert [] == sorted(set(facade.__all__) - NAMED)


def test_every_example_is_listed() -> None:
    examples = {
        path.name for path in (REPOSITORY / "examples" / "extensions").iterdir() if not path.name.startswith("__")
    }

    assert [] == sorted(name for name in examples if not re.search(rf"extensions/{name}[)/]", TEXT))
