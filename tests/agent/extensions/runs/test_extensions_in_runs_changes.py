"""Arguments that approval hooks have changed: validated once, alike for tools of every kind (R-EXT-15)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pinnace_agent.approval.gate import ToolApproval
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.hooks import run_hooks
from pinnace_agent.extensions.registration.registrations import Function, ToolDefinition, ToolRegistration
from pinnace_agent.extensions.registration.tool_schema import tool_function
from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.validation import validate_changed

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns

Change = Callable[[ev.ToolCall], object]
KINDS = ["schema", "signature", "built-in"]
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}


def by_schema(_ctx: object, params: dict[str, Any]) -> str:
    Path(params["path"]).write_text(params["content"])
    return "written"


def by_signature(_ctx: object, path: Path, content: str) -> str:
    path.write_text(content)  # fails for a string: it is converted to the annotated type
    return "written"


def deciding_nothing(change: Change) -> Function:
    def handler(_ctx: object, event: ev.ToolCall) -> None:
        change(event)

    return handler


class Calls:
    """Calls a tool of one kind that writes a file."""

    def __init__(self, rig: "Rig", in_runs: "InRuns", folder: Path, kind: str) -> None:
        self.rig, self.in_runs, self.file, self.kind = rig, in_runs, folder / "out", kind
        self.name = "write" if kind == "built-in" else "probe"
        self.tools = {"write": builtin_tools()["write"]}
        self.prepared = 0
        if kind != "built-in":
            is_by_schema = kind == "schema"
            made = tool_function(by_schema if is_by_schema else by_signature, SCHEMA if is_by_schema else None, {})
            owner = rig.extension("tools")
            definition = ToolDefinition(
                "probe", "writes", made.parameters, made.execute, prepare_arguments=self.prepare
            )
            owner.tools["probe"] = ToolRegistration(definition, owner.source)

    def prepare(self, raw: Any) -> Any:
        self.prepared += 1
        return raw

    async def result(self, *changes: Change) -> tuple[str, bool]:
        """Return the result of a call whose input these change, each of an extension of its own."""
        for number, change in enumerate(changes):
            self.rig.on("tool_call", deciding_nothing(change), extension=self.rig.extension(f"change-{number}"))
        call = self.in_runs.calls(json.dumps({"path": str(self.file), "content": "old"}), name=self.name)
        async with self.in_runs.agent(call, self.in_runs.says("end"), tools=self.tools) as agent:
            await agent.prompt("go")
            [result] = agent.results
            [self.end] = agent.of("tool_execution_end")
            return result["content"][0]["text"], result["isError"]


@pytest.fixture(params=KINDS)
def calls(request: pytest.FixtureRequest, rig: "Rig", in_runs: "InRuns", tmp_path: Path) -> Calls:
    """Call a tool defined by a schema, one defined by a signature, and a built-in one."""
    return Calls(rig, in_runs, tmp_path, request.param)


@pytest.fixture
def approved(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Return the arguments about which the user's approval is asked."""
    seen: list[dict[str, object]] = []
    ask = ToolApproval.may_call

    async def may_call(self: ToolApproval, tool: Any, arguments: dict[str, object], context: Any) -> Any:
        seen.append(dict(arguments))
        return await ask(self, tool, arguments, context)

    monkeypatch.setattr(ToolApproval, "may_call", may_call)
    return seen


def to_content(value: object) -> Change:
    return lambda event: event.input.update(content=value)


def replaced(event: ev.ToolCall) -> None:
    event.input = {"path": event.input["path"]}


INVALID: dict[str, tuple[Change, str]] = {
    "another type": (lambda event: event.input.update(content=["x"]), "content: expected string, got array"),
    "removed": (lambda event: event.input.pop("path"), "path: missing"),
    "replaced": (replaced, "content: missing"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_change_names_the_field(calls: Calls, approved: list[dict[str, object]], name: str) -> None:
    """R-EXT-15"""
    change, problem = INVALID[name]
    results: list[object] = []
    calls.rig.on("tool_result", lambda _ctx, event: results.append(event))
    text, is_error = await calls.result(change)
    assert is_error
    assert text.startswith(
        "An extension's change of the arguments is invalid, so this was not run: "
        f'Validation failed for tool "{calls.name}":\n  - {problem}\n\nReceived arguments:\n'
    )
    assert ([], [], False) == (approved, results, calls.file.exists())
    assert "durationMs" not in calls.end
    [(path, event, error)] = calls.rig.host.reported
    assert ("/ext/change-0.py", "tool_call", True) == (path, event, problem in error)


VALID: dict[str, tuple[Change, dict[str, object]]] = {
    "another value": (lambda event: event.input.update(content="new"), {"content": "new"}),
    "converted like an argument of a model": (lambda event: event.input.update(content=5), {"content": "5"}),
}


@pytest.mark.parametrize("name", VALID)
async def test_a_valid_change_runs_as_approved(calls: Calls, approved: list[dict[str, object]], name: str) -> None:
    """R-EXT-15"""
    change, expected = VALID[name]
    text, is_error = await calls.result(change)
    assert not is_error, text
    assert [{"path": str(calls.file), **expected}] == approved
    assert expected["content"] == calls.file.read_text()
    assert [] == calls.rig.host.reported


async def test_a_property_that_the_schema_does_not_name_is_executed_unless_the_schema_forbids_it(
    calls: Calls, approved: list[dict[str, object]]
) -> None:
    """R-EXT-15: the schema of a signature forbids it, to models as well."""
    text, is_error = await calls.result(lambda event: event.input.update(why="because"))
    if calls.kind == "signature":
        assert is_error
        assert "why: unknown field" in text
    else:
        assert not is_error, text
        assert [{"path": str(calls.file), "content": "old", "why": "because"}] == approved


@pytest.mark.parametrize(
    ("values", "validated"), [([], 0), (["old"], 0), ([5, "old"], 0), (["new"], 1), ([5, ["x"], "new"], 1)]
)
async def test_input_is_validated_once_after_the_last_handler_and_only_if_it_was_changed(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, values: list[object], validated: int
) -> None:
    """R-EXT-15: and the tool's own repair is not repeated."""
    seen: list[object] = []

    def counted(tool: Any, arguments: dict[str, object]) -> dict[str, object]:
        seen.append(arguments)
        return validate_changed(tool, arguments)

    monkeypatch.setattr(run_hooks, "validate_changed", counted)
    changes: list[Change] = [to_content(value) for value in values]
    _, is_error = await calls.result(lambda _: None, *changes)
    assert (validated, False) == (len(seen), is_error)
    assert calls.prepared == (calls.name == "probe")
    assert calls.file.read_text() == (values or ["old"])[-1]


async def test_the_extension_since_whose_change_the_input_is_invalid_is_reported(calls: Calls) -> None:
    """R-EXT-15: neither one that changed it before, nor one that changed something else."""
    contents: list[object] = [["early"], "good", ["bad"]]
    changes: list[Change] = [to_content(value) for value in contents]
    _, is_error = await calls.result(*changes, lambda event: event.input.update(path=str(calls.file) + "2"))
    assert is_error
    assert ["/ext/change-2.py"] == [path for path, *_ in calls.rig.host.reported]
