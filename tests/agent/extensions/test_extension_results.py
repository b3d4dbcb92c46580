"""What handlers may return: classes and plain dicts, held to one shape."""

from collections.abc import Mapping

import pytest

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as res
from pinnace_agent.extensions.events.result_reader import ResultError, read_result
from pinnace_agent.tools.local.programs import LOCAL_BASH
from pinnace_spec.records.messages import UserMessage

COMPACTION = {"summary": "s", "firstKeptEntryId": "e", "tokensBefore": 3}
OUTPUT: res.BashOutput = {"output": "o", "exitCode": 0, "cancelled": False, "truncated": False}
MESSAGE: UserMessage = {"role": "user", "content": "hello", "timestamp": 1}
CUSTOM: res.CustomContent = {"customType": "c", "content": "text", "display": True}

SAME = [
    # event, as a dict in wire spelling, as a class
    ("project_trust", {"trusted": "yes", "remember": True}, res.Trust("yes", True)),
    ("resources_discover", {"skillPaths": ["a"], "promptPaths": ["b"]}, res.Resources(["a"], ["b"])),
    ("session_before_switch", {"cancel": True}, res.Cancel()),
    ("session_before_fork", {"cancel": True}, res.Cancel()),
    ("session_before_fork", {"skipConversationRestore": True}, res.ForkOptions(True)),
    ("session_before_compact", {"cancel": True}, res.Cancel()),
    ("session_before_compact", {"compaction": COMPACTION}, res.Compaction("s", "e", 3)),
    ("session_before_tree", {"cancel": True}, res.Cancel()),
    ("session_before_tree", {"summary": {"summary": "s"}}, res.TreeOptions(res.TreeSummary("s"))),
    ("session_before_tree", {"label": "l", "replaceInstructions": True}, res.TreeOptions(None, None, True, "l")),
    ("input", {"action": "transform", "text": "t"}, res.Transform("t")),
    ("input", {"action": "handled"}, res.Handled()),
    ("input", {"action": "handled", "text": "t"}, res.Handled()),
    ("before_agent_start", {"message": CUSTOM, "systemPrompt": "p"}, res.BeforeStart(CUSTOM, "p")),
    ("agent_before_settle", {"continue": True}, res.Boundary(continue_=True)),
    ("turn_end", {"entries": []}, res.Boundary([])),
    ("message_end", {"message": MESSAGE}, res.ReplaceMessage(MESSAGE)),
    ("context", {"messages": [MESSAGE]}, res.Messages([MESSAGE])),
    ("context_with_system", {"messages": [MESSAGE]}, res.Messages([MESSAGE])),
    ("cache_warming_decision", {"action": "stop"}, res.CacheDecision("stop")),
    ("tool_call", {"block": True, "reason": "r", "terminate": True}, res.Block("r", True)),
    (
        "tool_result",
        {"isError": True, "structuredContent": {"a": 1}},
        res.ResultPatch(is_error=True, structured={"a": 1}),
    ),
    ("user_bash", {"result": OUTPUT}, res.UserBash(result=OUTPUT)),
    ("user_bash", {"operations": LOCAL_BASH}, res.UserBash(operations=LOCAL_BASH)),
]

NOTHING = [
    ("session_before_switch", {"cancel": False}),
    ("session_before_switch", {}),
    ("session_before_compact", {"cancel": False}),
    ("session_before_compact", {}),
    ("input", {"action": "continue"}),
    ("input", res.Continue()),
    ("tool_call", {"block": False}),
    ("tool_call", {"block": False, "note": 1}),
    ("session_before_switch", {"cancel": False, "note": 1}),
    ("context", {}),
    ("input", {}),
    ("tool_call", {}),
]

WRONG = [
    ("project_trust", None, "a result is required"),
    ("project_trust", {"trusted": "maybe"}, 'trusted must be "yes", "no" or "undecided", not a string'),
    ("project_trust", {}, "'trusted' is missing"),
    ("resources_discover", {"skillPaths": "a"}, "skillPaths must be a list of paths, not a string"),
    ("resources_discover", {"skills": ["a"]}, "there is no field 'skills'"),
    ("session_before_switch", {"cancel": "yes"}, "cancel must be true or false, not a string"),
    ("session_before_switch", {"canceled": True}, "there is no field 'canceled'"),
    ("session_before_fork", res.Block(), "a Block is not a result of this event"),
    ("session_before_compact", {"compaction": {**COMPACTION, "tokensBefore": "3"}}, "tokensBefore must be a number"),
    ("session_before_compact", {"compaction": {"summary": "s"}}, "'firstKeptEntryId' is missing"),
    ("session_before_compact", {"summary": "s"}, "there is no field 'summary'"),
    ("session_before_tree", {"summary": "s"}, "summary must be an object with a summary, not a string"),
    ("session_before_tree", {"summary": {"text": "s"}}, "summary: there is no field 'text'"),
    ("input", {"action": "rewrite"}, "action must be"),
    ("input", {"action": "transform"}, "'text' is missing"),
    ("input", {"action": "transform", "text": "t", "images": ["x"]}, "images must be a list of images, not a list"),
    ("input", "text", "a string is not a result of this event"),
    ("before_agent_start", {"message": "hi"}, "message must be an object with customType"),
    ("before_agent_start", {"system_prompt": "p"}, "there is no field 'system_prompt'"),
    ("turn_end", {"continue": 1}, "continue must be true or false, not a number"),
    ("message_end", {"message": {"content": "x"}}, "message must be a message, not an object"),
    ("context", {"messages": [1]}, "messages must be a list of messages, not a list"),
    ("context", ["x"], "messages must be a list of messages"),
    ("tool_call", True, "a bool is not a result of this event"),
    ("tool_call", "no", "a string is not a result of this event"),
    ("tool_call", {"block": 1}, "block must be true or false, not a number"),
    ("tool_call", {"blocked": True}, "there is no field 'blocked'"),
    ("tool_call", {"block": True, "reason": 5}, "reason must be a string, not a number"),
    ("tool_call", res.Block(5), "reason must be a string, not a number"),  # type: ignore[arg-type]
    ("tool_call", res.Cancel(), "a Cancel is not a result of this event"),
    ("tool_result", {"content": "text"}, "content must be a list of text and image blocks, not a string"),
    ("tool_result", {"content": [{"type": "text"}]}, "content must be a list of text and image blocks"),
    ("tool_result", {"is_error": True}, "there is no field 'is_error'"),
    ("user_bash", {}, "exactly one of operations and result"),
    ("user_bash", res.UserBash(LOCAL_BASH, OUTPUT), "exactly one of operations and result"),
    ("user_bash", {"result": {"output": "o"}}, "result must be an object with output"),
    ("user_bash", {"operations": "ssh"}, "operations must be operations, not a string"),
]


@pytest.mark.parametrize(("event", "plain", "made"), SAME)
def test_a_dict_and_a_class_mean_the_same(event: str, plain: Mapping[str, object], made: res.Result) -> None:
    assert made == read_result(event, plain)
    assert made == read_result(event, made)


@pytest.mark.parametrize(("event", "value"), NOTHING)
def test_some_answers_change_nothing(event: str, value: object) -> None:
    assert None is read_result(event, value)


@pytest.mark.parametrize(("event", "value", "text"), WRONG)
def test_an_error_names_the_invalid_field(event: str, value: object, text: str) -> None:
    """For a gate this is a block."""
    with pytest.raises(ResultError) as error:
        read_result(event, value)
    assert str(error.value).startswith(f"{event}:")
    assert text in str(error.value)


def test_an_error_does_not_show_the_invalid_value() -> None:
    """Security 6: it may be a secret."""
    with pytest.raises(ResultError) as error:
        read_result("tool_call", {"block": True, "reason": ["sk-secret"]})
    assert "sk-secret" not in str(error.value)


def test_a_list_of_messages_is_messages() -> None:
    assert res.Messages([MESSAGE]) == read_result("context", [MESSAGE])


def test_a_summary_alone_is_options_for_the_tree() -> None:
    assert res.TreeOptions(res.TreeSummary("s")) == read_result("session_before_tree", res.TreeSummary("s"))


def test_any_payload_replaces_a_request() -> None:
    """Whatever it is, but for None."""
    assert res.Payload({"model": "m"}) == read_result("before_provider_request", {"model": "m"})
    assert res.Payload([]) == read_result("before_provider_request", [])
    assert None is read_result("before_provider_request", None)


def test_details_may_be_set_to_null_or_left() -> None:
    """2.1 decision 8: UNSET and None differ."""
    patch = read_result("tool_result", {"details": None})
    assert isinstance(patch, res.ResultPatch)
    assert patch.details is None
    assert patch.content is res.UNSET
    assert not res.UNSET
    assert "UNSET" == repr(res.UNSET)


def test_results_of_other_events_are_ignored() -> None:
    for name in [name for name, row in ev.EVENTS.items() if row.result is None]:
        assert None is read_result(name, "anything")


def test_an_explicitly_empty_exit_code_is_allowed() -> None:
    """A command that was cancelled has none."""
    output = {"output": "", "exitCode": None, "cancelled": True, "truncated": False, "fullOutputPath": None}
    assert isinstance(read_result("user_bash", {"result": output}), res.UserBash)
