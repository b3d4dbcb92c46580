"""The records that are no responses: published examples, closed shapes, and what each profile writes."""

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, TypeAdapter

from pinnace_fuzz.records import objects
from pinnace_spec.profiles.profiles import EVENT_NAMES, PROFILES, Profile
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.outputs import validate_output

# The edge of JSON: examples are changed at any place.
Json = Any

EXAMPLES: dict[str, Json] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
PUBLISHED: list[Json] = [record for record in EXAMPLES["seed records"] if record["type"] != "response"]

# The table of the published protocol, and the requests beside it.
SEED_TYPES = {
    *("agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update", "message_end"),
    *("tool_execution_start", "tool_execution_update", "tool_execution_end", "queue_update"),
    *("compaction_start", "compaction_end", "auto_retry_start", "auto_retry_end", "extension_error"),
    "extension_ui_request",
}
LATER_TYPES = {
    "agent_settled",
    "bash_execution_update",
    "thinking_level_changed",
    "session_info_changed",
    "entry_appended",
    "client_request",
    "ui_surface_open",
    "ui_surface_draw",
    "ui_input",
    "ui_surface_close",
    "ui_theme",
    "ui_display",
    "ui_tools_expanded",
    "mcp_status",
    "subagent_event",
    "warning",
    "login_start",
    "login_end",
    "session_changed",
    "extension_ui_resolved",
}

WANTED: Json = {"submitted": "hello", "followUp": True, "action": "app.clear", "declined": True}
CHILD: Json = {"agentId": "k", "toolCallId": "c1", "task": "t", "state": "running", "provider": "p", "model": "m"}
COST: Json = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
USAGE: Json = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3, "cost": COST}
USER: Json = {"role": "user", "content": [{"type": "text", "text": "hello"}], "timestamp": 1}
MODEL: Json = {"api": "a", "provider": "p", "model": "m"}
ASSISTANT: Json = {"role": "assistant", "content": [], **MODEL, "usage": USAGE, "stopReason": "stop", "timestamp": 1}
RESULT: Json = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "read",
    "content": [],
    "isError": False,
    "timestamp": 1,
}
CALL: Json = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
TOOL: Json = {"toolCallId": "c1", "toolName": "read", "entryId": "e1", "assistantEntryId": "e0", "callIndex": 0}
NAMES: Json = {"entryId": "e1", "messageId": "m1"}
OUTPUT: Json = {"content": [{"type": "text", "text": "x"}], "details": {"any": 1}}
COMPACTION: Json = {
    "summary": "s",
    "firstKeptEntryId": "e1",
    "tokensBefore": 5,
    "estimatedTokensAfter": 2,
    "details": {},
    "usage": USAGE,
}
ENTRY: Json = {"type": "custom", "id": "e1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
STEP: Json = {"type": "text_delta", "contentIndex": 0, "delta": "x", "partial": ASSISTANT}
# A record of every type with every field that profile `pi` may write in it.
FAILURE: Json = {"errorCode": "server_error", "status": 500, "attempts": 2}
ASKED: Json = {"id": "r1", "toolCallId": "c1", "path": "/a", "timeout": 1}
LAYOUT: Json = {
    **dict.fromkeys(("width", "minWidth", "maxHeight"), "50%"),
    **dict.fromkeys(("offsetX", "offsetY", "margin"), 1),
    "anchor": "top-left",
    "row": "1",
    "column": "2",
}
DISPLAY: Json = {
    "workingMessage": "m",
    "workingVisible": False,
    "workingFrames": ["a", "b"],
    "workingIntervalMs": 80,
    "hiddenThinkingLabel": "l",
    "completes": True,
}
SERVER: Json = {"name": "s", "state": "failed", "source": "user", "transport": "stdio", "tools": 1, "error": "e"}
SESSION: Json = {"sessionId": "s", "sessionFile": "/a/s.jsonl", "leafId": None}
RECORDS: list[Json] = [
    {"type": "agent_start"},
    {"type": "agent_end", "messages": [USER, ASSISTANT, RESULT], "willRetry": False},
    {"type": "agent_settled", "aborted": True, "reason": "limit", "limit": "maxTurns"},
    {"type": "turn_start"},
    {"type": "turn_end", "message": ASSISTANT, "toolResults": [RESULT]},
    {"type": "message_start", **NAMES, "message": USER},
    {"type": "message_update", "entryId": "e1", "message": ASSISTANT, "usage": USAGE, "assistantMessageEvent": STEP},
    {"type": "message_end", **NAMES, "message": USER},
    {"type": "tool_execution_start", **TOOL, "args": {"any": [1]}, "gated": True},
    {"type": "tool_execution_update", **TOOL, "args": {}, "partialResult": OUTPUT},
    {"type": "tool_execution_end", **TOOL, "result": OUTPUT, "isError": False, "durationMs": 5},
    {"type": "queue_update", "steering": ["a"], "followUp": []},
    {"type": "bash_execution_update", "id": "c1", "delta": "x"},
    {"type": "thinking_level_changed", "level": "high"},
    {"type": "session_info_changed", "name": "n"},
    {"type": "entry_appended", "entry": ENTRY},
    {"type": "compaction_start", "reason": "overflow", "entryId": "c1"},
    {
        "type": "compaction_end",
        "reason": "overflow",
        "result": COMPACTION,
        "aborted": False,
        "willRetry": True,
        "entryId": "c1",
    },
    {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "e", **FAILURE},
    {"type": "auto_retry_end", "success": False, "attempt": 3, "finalError": "e", **FAILURE},
    {"type": "extension_error", "extensionPath": "/x", "event": "tool_call", "error": "e"},
    {"type": "client_request", "method": "write_text_file", **ASKED, "content": "x"},
    {"type": "ui_surface_open", "surface": "a", "place": "overlay", "key": "w", "layout": LAYOUT},
    {"type": "ui_surface_draw", "surface": "a", "lines": ["\x1b[31mred\x1b[39m"]},
    {"type": "ui_input", "surface": "a", "by": "c", "taken": 2, "text": "", **WANTED},
    {"type": "ui_surface_close", "surface": "a"},
    {"type": "ui_theme", "theme": "light"},
    {"type": "ui_display", **DISPLAY},
    {"type": "ui_tools_expanded", "expanded": True},
    {"type": "mcp_status", **SERVER},
    {"type": "subagent_event", "agentId": "k", "agent": {**CHILD, "cwd": "/w", "sessionFile": "/s", "usage": USAGE}},
    {"type": "subagent_event", "agentId": "k", "event": {"type": "agent_start"}},
    {"type": "warning", "kind": "models", "text": "t", "remedy": "r", "source": "/a/models.json"},
    {"type": "login_start", "provider": "xai", "url": "https://x/", "userCode": "A-1", "expiresAt": 1},
    {"type": "login_end", "provider": "xai", "success": False, "error": "refused"},
    {"type": "session_changed", "reason": "new", "by": "client", **SESSION},
    {"type": "extension_ui_resolved", "id": "r1", "reason": "timeout"},
    *(record for record in PUBLISHED if record["type"] == "extension_ui_request"),
]
# What is open on purpose.
OPEN = {"args", "arguments", "details", "entry", "event"}
# Fields that say nothing by their absence, or may be null.
OPTIONAL = {
    *("key", "layout", "width", "minWidth", "maxHeight", "row", "column"),
    *DISPLAY,
    *("remedy", "source", "sessionFile"),
    *("durationMs", "id", "name", "usage", "timeout", "placeholder", "prefill", "notifyType", "entryId", "messageId"),
    *("assistantEntryId", "callIndex", "gated", "error"),
    *(
        "userCode",
        "expiresAt",
        "statusText",
        "widgetLines",
        "widgetPlacement",
        "details",
        "errorCode",
        "status",
        "attempts",
    ),
}


def problems(record: Json, profile: Profile = "pi") -> list[str]:
    return validate_output(record, profile)


def name_of(record: Json) -> str:
    return "-".join(str(record[key]) for key in ("type", "method") if key in record)


@pytest.mark.parametrize("record", PUBLISHED, ids=name_of)
def test_every_published_example_is_valid_in_its_generation(record: Json) -> None:
    assert [] == problems(record, "seed")


@pytest.mark.parametrize("record", PUBLISHED, ids=name_of)
def test_pi_only_adds_to_what_is_published(record: Json) -> None:
    """All that such a record lacks in `pi` is what later generations have added: nothing is gone or changed."""
    assert {"willRetry: Field required", "usage: Field required"} >= set(problems(record))


@pytest.mark.parametrize("example", EXAMPLES["differences"], ids=lambda example: example["problem"])
def test_what_is_published_but_never_written_is_no_output(example: Json) -> None:
    """The running original writes neither attachments nor a usage without its total."""
    for profile in PROFILES:
        assert [example["problem"]] == problems(example["record"], profile)


def test_seed_has_the_published_types_and_the_others_the_later_ones_too() -> None:
    """R-PRO-02."""
    assert set(EVENTS["seed"]) == SEED_TYPES
    assert set(EVENTS["pi"]) == set(EVENTS["1.5"]) == SEED_TYPES | LATER_TYPES == set(EVENT_NAMES)


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_a_record_with_every_field_is_valid(record: Json) -> None:
    assert [] == problems(record)


def test_every_type_and_every_field_stands_in_the_examples() -> None:
    """Else the tests that go through them would pass over a new one."""
    assert {record["type"] for record in RECORDS} == set(EVENTS["pi"])
    for record in RECORDS:
        model: object = TypeAdapter(cast("type[object]", EVENTS["pi"][record["type"]])).validate_python(record)
        assert isinstance(model, BaseModel)
        optional = {"errorMessage", "timeout"} | (
            {"toolCallId", "optionKinds", "url", "loginProvider", "paste"}
            if record["type"] == "extension_ui_request"
            else set[str]()
        )
        optional |= {"agent", "event"} if record["type"] == "subagent_event" else set[str]()  # either
        assert set(type(model).model_fields) - optional == set(record) - optional


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_an_unknown_key_anywhere_is_found(record: Json) -> None:
    for number, _ in enumerate(objects(record, OPEN)):
        changed = copy.deepcopy(record)
        list(objects(changed, OPEN))[number]["unheard"] = 1
        assert any("unheard: Extra" in problem for problem in problems(changed)), number


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
@pytest.mark.parametrize("wrong", [None, 0.5, [[]], {"a": 1}])
def test_a_value_of_the_wrong_kind_is_found(record: Json, wrong: Json) -> None:
    for key in record:
        may_be = (key == "id" and isinstance(wrong, float)) or (key in OPEN and isinstance(wrong, dict))
        if not may_be and (key, wrong) != ("leafId", None):
            assert problems({**record, key: wrong}), key


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_a_field_that_lacks_is_found_unless_it_may_be_absent(record: Json) -> None:
    for key in record:
        is_optional = (key in OPTIONAL or (record["type"] == "ui_input" and key in WANTED)) and (
            record["type"],
            key,
        ) not in {
            ("agent_end", "willRetry"),
            ("message_update", "usage"),
            ("extension_ui_request", "id"),
            ("client_request", "id"),
            ("extension_ui_resolved", "id"),
            ("client_request", "timeout"),
            ("extension_error", "error"),
            ("login_end", "error"),
            ("mcp_status", "name"),
            ("mcp_status", "source"),
            ("ui_input", "submitted"),  # with followUp
        }
        found = problems({name: value for name, value in record.items() if name != key})
        assert is_optional == (found == []), key


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_what_seed_refuses_of_pi_is_what_was_added_later(record: Json) -> None:
    """R-PRO-02: closed to types, and to fields that clients of that generation do not know."""
    kind = record["type"]
    if kind in LATER_TYPES:
        assert [f"type: {kind!r} is no record of profile seed"] == problems(record, "seed")
    else:
        call = ["entryId", "assistantEntryId", "callIndex"]
        later = {"tool_execution_start": [*call, "gated"], "tool_execution_update": call}
        later |= {"tool_execution_end": [*call, "durationMs"], "message_update": ["entryId", "usage"]}
        later |= {"message_start": list(NAMES), "message_end": list(NAMES), "compaction_start": ["entryId"]}
        later |= {"compaction_end": ["result.usage", "entryId"]}
        later |= {name: list(FAILURE) for name in ("auto_retry_start", "auto_retry_end")}
        expected = [f"{field}: Extra inputs are not permitted" for field in later.get(kind, ())]
        assert expected == problems(record, "seed")


@pytest.mark.parametrize("role", ["custom", "branchSummary", "compactionSummary"])
@pytest.mark.parametrize("bracket", ["message_start", "message_end"])
def test_roles_that_were_not_published_are_no_output_of_seed(role: str, bracket: str) -> None:
    """R-PRO-02."""
    fields: Json = {"custom": {"customType": "t", "content": "x", "display": True}, "branchSummary": {"fromId": "e1"}}
    message: Json = {"role": role, "timestamp": 1, **fields.get(role, {})}
    message |= {"branchSummary": {"summary": "s"}, "compactionSummary": {"summary": "s", "tokensBefore": 1}}.get(
        role, {}
    )

    assert [] == problems({"type": bracket, "message": message})
    assert problems({"type": bracket, "message": message}, "seed")
    assert problems({"type": "agent_end", "messages": [message]}, "seed")


@pytest.mark.parametrize("profile", PROFILES)
def test_role_system_is_no_output_of_any_profile(profile: Profile) -> None:
    assert problems({"type": "message_end", "message": {"role": "system", "content": "x", "timestamp": 1}}, profile)


STEPS: list[Json] = [
    {"type": "text_start"},
    {"type": "text_delta", "delta": ""},
    {"type": "text_end", "content": ""},
    {"type": "thinking_start"},
    {"type": "thinking_delta", "delta": "x"},
    {"type": "thinking_end", "content": "x"},
    {"type": "toolcall_start", "id": "c1", "toolName": "read"},
    {"type": "toolcall_delta", "delta": "{"},
    {"type": "toolcall_end", "toolCall": CALL},
]


def update(step: Json, profile: Profile) -> Json:
    """Write a step as a profile does."""
    step = {"contentIndex": 0, **step}
    match profile:
        case "1.5":
            return {"type": "message_update", "usage": USAGE, "assistantMessageEvent": step}
        case "pi":
            whole = {**step, "partial": ASSISTANT}
            return {"type": "message_update", "message": ASSISTANT, "usage": USAGE, "assistantMessageEvent": whole}
        case "seed":
            known = {key: value for key, value in step.items() if key not in {"id", "toolName"}}
            whole = {**known, "partial": ASSISTANT}
            return {"type": "message_update", "message": ASSISTANT, "assistantMessageEvent": whole}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["type"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_step_is_valid_in_its_own_profile_alone(step: Json, profile: Profile) -> None:
    """R-PRO-01 to R-PRO-03."""
    for writer in PROFILES:
        assert (writer == profile) == (problems(update(step, writer), profile) == [])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", ["start", "done", "error", "image_start", None])
def test_other_steps_are_never_written(profile: Profile, kind: Json) -> None:
    """`start`, `done` and `error` are published, and were never written inside of an update."""
    assert problems(update({"type": kind, "reason": "stop"}, profile), profile)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["type"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_step_without_one_of_its_fields_is_found(step: Json, profile: Profile) -> None:
    whole = update(step, profile)
    for key in whole["assistantMessageEvent"]:
        changed = {name: value for name, value in whole["assistantMessageEvent"].items() if name != key}
        assert problems({**whole, "assistantMessageEvent": changed}, profile), key
    assert problems({**whole, "assistantMessageEvent": {**whole["assistantMessageEvent"], "contentIndex": -1}}, profile)


@pytest.mark.parametrize(
    "changed",
    [
        {"result": None},
        {"result": None, "willRetry": False},
        {"aborted": True},
        {"errorMessage": "e"},
        {"result": None, "aborted": True, "errorMessage": "e", "willRetry": False},
        {"result": None, "aborted": True},
        {"reason": "threshold"},
        {"reason": "manual"},
    ],
)
def test_a_compaction_ends_in_exactly_one_way(changed: Json) -> None:
    """A result, or aborted, or an error; and only a compacted overflow is tried again."""
    (end,) = [record for record in RECORDS if record["type"] == "compaction_end"]

    for profile in PROFILES:
        without_usage = {key: value for key, value in COMPACTION.items() if key != "usage"}
        own = {**end, "result": without_usage} if profile == "seed" else end
        if profile == "seed":
            del own["entryId"]
        assert [] == problems(own, profile)
        assert problems({**own, **changed}, profile)


@pytest.mark.parametrize("way", [{"aborted": True}, {"aborted": False, "errorMessage": "Compaction failed: no"}])
def test_a_compaction_without_a_result_says_null(way: Json) -> None:
    record = {"type": "compaction_end", "reason": "manual", "result": None, "willRetry": False, **way}

    for profile in PROFILES:
        assert [] == problems(record, profile)
        del (without := dict(record))["result"]
        assert ["result: Field required"] == problems(without, profile)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "auto_retry_start", "attempt": 4, "maxAttempts": 3, "delayMs": 1, "errorMessage": "e"},
        {"type": "auto_retry_start", "attempt": 0, "maxAttempts": 3, "delayMs": 1, "errorMessage": "e"},
        {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 0.5, "errorMessage": "e"},
        {"type": "auto_retry_end", "success": True, "attempt": 1, "finalError": "e"},
        {"type": "auto_retry_end", "success": False, "attempt": 1},
        {"type": "bash_execution_update", "delta": ""},
        {"type": "bash_execution_update", "delta": "x", "id": None},
        {"type": "session_info_changed", "name": ""},
        {"type": "extension_ui_request", "id": "u", "method": "input", "title": "t", "timeout": 0},
        {"type": "extension_ui_request", "id": "u", "method": "editor", "title": "t", "timeout": 5},
        {"type": "extension_ui_request", "id": "u", "method": "custom", "title": "t"},
        {"type": "extension_ui_request", "id": "", "method": "setTitle", "title": "t"},
        {"type": "extension_ui_request", "method": "setTitle", "title": "t"},
        {"type": "turn_end", "message": None, "toolResults": []},
        {"type": "turn_end", "message": USER, "toolResults": []},
        {"type": "turn_end", "message": ASSISTANT, "toolResults": [USER]},
        {"type": "entry_appended", "entry": {"type": "custom", "id": "e1"}},
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "", "args": {}},
        {"type": "agent_start", "id": "c1"},
    ],
    ids=lambda record: str(record["type"]),
)
def test_what_a_record_must_not_say_is_found(record: Json) -> None:
    assert problems(record)


def test_an_entry_of_a_session_file_may_hold_anything_more() -> None:
    """Entries of other programs and generations are passed on as they are."""
    assert [] == problems({"type": "entry_appended", "entry": {**ENTRY, "customType": "t", "data": {"any": [None]}}})


@pytest.mark.parametrize(
    "record", [{}, {"type": None}, {"type": ["agent_start"]}, {"type": "agent_stop"}, {"type": {}}]
)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_has_no_type_of_the_profile_is_no_record(record: Json, profile: Profile) -> None:
    assert [f"type: {record.get('type')!r} is no record of profile {profile}"] == problems(record, profile)


def test_a_problem_is_reported_with_its_path_in_the_record() -> None:
    """Not with the names of alternatives, nor with what those say that were not meant."""
    wrong = {**USER, "content": [USER["content"][0], {"type": "text", "text": 5, "size": 1}]}

    assert {
        "messages[1].content[1].text: Input should be a valid string",
        "messages[1].content[1].size: Extra inputs are not permitted",
        "messages[1].content: Input should be a valid string",
    } == set(problems({"type": "agent_end", "messages": [USER, wrong], "willRetry": False}))


def test_a_fault_in_every_message_is_not_reported_a_thousand_times() -> None:
    assert 20 == len(problems({"type": "agent_end", "messages": [{**USER, "x": 1}] * 1000, "willRetry": False}))


def test_a_choice_has_a_kind_for_each_option() -> None:
    """R-UI-06."""
    record: Json = {"type": "extension_ui_request", "id": "d1", "method": "select", "title": "t", "options": ["a", "b"]}

    assert [] == problems({**record, "optionKinds": ["allow_once", "reject_always"]})
    assert problems({**record, "optionKinds": ["allow_once"]})
    assert problems({**record, "optionKinds": ["allow_once", "reject_always"]}, "seed")
    assert problems({**record, "optionKinds": ["allow_once", "maybe"]})
