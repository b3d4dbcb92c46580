"""State of tools that follows the branch."""

import pytest
from pydantic import BaseModel

from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.base import Services
from pinnace_agent.extensions.registration.flags import FlagValues
from pinnace_agent.extensions.registration.registrations import Extension, Generation, SourceInfo
from pinnace_agent.extensions.services.bus import EventBus


def made() -> tuple[Extension, ExtensionAPI]:
    generation = Generation()
    source = SourceInfo(path="/x/todo.py", source="auto", scope="user", origin="top-level")
    extension = Extension("/x/todo.py", source, generation)
    bus = EventBus(generation, lambda line: None)
    return extension, ExtensionAPI(extension, Services(bus, FlagValues(), lambda: [extension], "/"))


class Todo(BaseModel):
    items: list[str] = []


class Session:
    """A context with a branch."""

    def __init__(self, *details: object) -> None:
        self._details = details

    @property
    def session_manager(self) -> "Session":
        return self

    def get_branch(self) -> tuple[object, ...]:
        results = [{"role": "toolResult", "toolName": "todo", "details": each} for each in self._details]
        other = {"role": "toolResult", "toolName": "other", "details": {"items": ["wrong"]}}
        return ({"type": "model_change"}, *({"type": "message", "message": each} for each in [*results, other]))


def test_state_follows_the_branch() -> None:
    """2.4: read again at session_start and session_tree."""
    extension, pi = made()
    state = pi.tool_state("todo", Todo)
    assert Todo() == state.value
    reads = [extension.handlers[name][0].function for name in ("session_start", "session_tree")]
    reads[0](Session({"items": ["a"]}, {"items": ["a", "b"]}, None), None)
    assert ["a", "b"] == state.value.items
    state.value.items.append("c")
    assert {"items": ["a", "b", "c"]} == state.details
    reads[1](Session({"items": ["a"]}), None)
    assert ["a"] == state.value.items
    reads[1](Session(), None)
    assert [] == state.value.items


def test_details_that_do_not_fit_leave_the_default() -> None:
    extension, pi = made()
    state = pi.tool_state("todo", Todo, lambda: Todo(items=["first"]))
    with pytest.raises(ValueError, match="validation error"):
        extension.handlers["session_start"][0].function(Session({"items": 3}), None)
    assert ["first"] == state.value.items
