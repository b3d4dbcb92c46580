"""Events of extensions: their table, their shape, their way to the wire and back."""

import ast
import inspect
from dataclasses import fields
from typing import get_args

import pytest
from pydantic import BaseModel
from tests.agent.samples import sample_answer
from tests.call_count import CallCount

from pinnace_agent.extensions.api import subscribing
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events.base import camel_case, wire_fields

ROWS = list(ev.EVENTS.values())
NAMES = sorted(ev.EVENTS)


def example(row: ev.EventRow) -> dict[str, object]:
    """Return a record with a value in every field."""
    record: dict[str, object] = {"type": row.event.type}
    record |= {each.wire_name: f"<{each.name}>" for each in wire_fields(row.event)}
    return record


def test_every_class_has_the_name_of_its_event() -> None:
    assert NAMES == sorted(
        "".join(f"_{c.lower()}" if c.isupper() else c for c in row.event.__name__)[1:] for row in ROWS
    )


@pytest.mark.parametrize("row", ROWS, ids=[row.event.type for row in ROWS])
def test_an_event_is_the_same_after_the_wire(row: ev.EventRow) -> None:
    record = example(row)
    event = ev.event_from_wire(record)
    assert type(event) is row.event
    assert record == event.to_wire()


@pytest.mark.parametrize("row", ROWS, ids=[row.event.type for row in ROWS])
def test_nothing_can_be_added_to_an_event(row: ev.EventRow) -> None:
    event = ev.event_from_wire(example(row))
    assert not hasattr(event, "__dict__")
    with pytest.raises(AttributeError):
        event.another = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", ROWS, ids=[row.event.type for row in ROWS])
def test_a_missing_field_is_named(row: ev.EventRow) -> None:
    for each in wire_fields(row.event):
        record = example(row)
        del record[each.wire_name]
        if each.is_optional:
            ev.event_from_wire(record)
        else:
            with pytest.raises(ValueError, match=f'^{row.event.type}: "{each.wire_name}" is missing$'):
                ev.event_from_wire(record)


def test_names_on_the_wire_are_camel_case() -> None:
    assert "toolCallId" == camel_case("tool_call_id")
    assert "continue" == camel_case("continue_")
    assert [
        "turnIndex",
        "message",
        "toolResults",
        "messageEntryId",
        "toolResultEntryIds",
        "entries",
        "continue",
        "context",
    ] == [each.wire_name for each in wire_fields(ev.TurnEnd)]


def test_optional_fields_that_are_none_are_left_out() -> None:
    assert {"type": "session_start", "reason": "new"} == ev.SessionStart(reason="new").to_wire()
    assert {"type": "agent_start"} == ev.AgentStart().to_wire()


def test_a_required_field_is_written_also_as_null() -> None:
    assert {"type": "session_tree", "newLeafId": None, "oldLeafId": "a"} == ev.SessionTree(
        new_leaf_id=None, old_leaf_id="a"
    ).to_wire()


def test_a_field_of_a_newer_version_is_passed_over() -> None:
    assert ev.AgentSettled(aborted=True) == ev.AgentSettled.from_wire(
        {"type": "agent_settled", "aborted": True, "x": 1}
    )


def test_a_record_of_another_event_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^agent_end: this is a record of agent_start$"):
        ev.AgentEnd.from_wire({"type": "agent_start", "messages": []})
    with pytest.raises(ValueError, match="there is no event 'nonsense'"):
        ev.event_from_wire({"type": "nonsense"})


def test_a_call_of_a_built_in_tool_has_a_class_of_its_own() -> None:
    """`isinstance` identifies the tool."""
    for name, expected in ev.CALLS.items():
        event = ev.event_from_wire({"type": "tool_call", "toolName": name, "toolCallId": "1", "input": {}})
        assert type(event) is expected
    other = ev.ToolCall.from_wire({"toolName": "greet", "toolCallId": "1", "input": {}})
    assert type(other) is ev.ToolCall
    assert "greet" == other.tool


def test_a_result_of_a_built_in_tool_has_a_class_of_its_own() -> None:
    """As for calls."""
    for name, expected in ev.RESULTS.items():
        record = {"toolName": name, "toolCallId": "1", "input": {}, "content": [], "isError": False}
        assert type(ev.ToolResult.from_wire(record)) is expected


def test_the_input_of_a_call_is_the_dict_that_it_was_made_of() -> None:
    """What a handler changes is what will be executed."""
    arguments: dict[str, object] = {"command": "ls"}
    event = ev.event_from_wire({"type": "tool_call", "toolName": "bash", "toolCallId": "1", "input": arguments})
    assert isinstance(event, ev.BashCall)
    event.input["command"] = "ls -l"
    assert {"command": "ls -l"} == arguments


def test_the_input_can_be_read_as_a_model() -> None:
    class Arguments(BaseModel):
        count: int

    event = ev.ToolCall(tool_name="x", tool_call_id="1", input={"count": "3"})
    assert 3 == event.parse(Arguments).count


def test_names_of_older_generations_are_known_as_such() -> None:
    """Accepted, with a word in the log."""
    assert {"session_directory", "session_switch", "session_fork"} == {
        name for name, row in ev.EVENTS.items() if row.is_legacy
    }


def test_an_unknown_event_name_suggests_the_nearest() -> None:
    assert "did you mean 'tool_call'?" in ev.unknown_event("toolcall")
    assert "did you mean" not in ev.unknown_event("zzzzzz")


def test_the_overloads_of_on_are_the_table_of_events() -> None:
    """For each event its class, and a result where one is read."""
    overloads: dict[str, tuple[str, bool]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(subscribing.Subscribing))):
        if not isinstance(node, ast.FunctionDef) or node.name != "on" or not node.decorator_list:
            continue
        event, handler = node.args.args[1].annotation, node.args.args[2].annotation
        assert event is not None
        assert isinstance(handler, ast.Subscript)
        assert isinstance(handler.slice, ast.Tuple)
        given, answer = map(ast.unparse, handler.slice.elts)
        result = node.returns
        assert isinstance(result, ast.Subscript)
        assert ast.unparse(handler.slice) == ast.unparse(result.slice)
        if (named := ast.unparse(event)).startswith("Literal["):
            overloads[ast.literal_eval(named[8:-1])] = (given.removeprefix("ev."), answer != "None")
    expected = {name: (row.event.__name__, row.result is not None) for name, row in ev.EVENTS.items()}
    assert expected == overloads


def test_details_of_tools_are_typed_by_their_tool() -> None:
    assert {"read", "bash", "edit", "write", "grep", "find", "ls"} == set(ev.CALLS) == set(ev.RESULTS)
    assert all("input" in {each.name for each in fields(event)} for event in ev.CALLS.values())


def test_making_an_event_is_cheap() -> None:
    """One is created for each token while there is a handler."""
    message = sample_answer()
    update: dict[str, object] = {"type": "text_delta", "delta": "x"}

    with CallCount() as making:
        ev.MessageUpdate(message=message, assistant_message_event=update)
    assert making.calls <= 2  # counted: 1


def test_reasons_are_closed_sets() -> None:
    from pinnace_agent.extensions.events.session_events import ShutdownReason, StartReason

    assert ("startup", "reload", "new", "resume", "fork") == get_args(StartReason)
    assert ("quit", "reload", "new", "resume", "fork") == get_args(ShutdownReason)
