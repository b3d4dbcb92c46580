"""Responses: published examples, the data of every command, and what no answer may say."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.records import objects
from pinnace_spec.data import text as published
from pinnace_spec.profiles.profiles import DEFAULT_PROFILE, PROFILES, Profile
from pinnace_spec.records.command_table import CLIENT_ANSWERS, OWN_COMMANDS
from pinnace_spec.records.commands import ALL_COMMANDS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.outputs import validate_output
from pinnace_spec.records.responses import DATA, MAY_LACK_DATA
from pinnace_spec.rules.errors import ErrorCode

# The edge of JSON: examples are changed at any place.
Json = Any

EXAMPLES: dict[str, Json] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
RECORDS: list[Json] = [*EXAMPLES["seed records"], *EXAMPLES["0.18 records"]]
PUBLISHED: list[Json] = [record for record in RECORDS if record["type"] == "response"]


def recorded_data(command: str) -> Json:
    text = published(f"examples/commands/{command}.jsonl")
    records = [json.loads(line).get("record", {}) for line in text.splitlines()]
    return next(each["data"] for each in records if each.get("command") == command and each["success"])


MODEL: Json = next(record["data"] for record in PUBLISHED if record["command"] == "set_model" and record["success"])
USER: Json = {"role": "user", "content": [{"type": "text", "text": "hello"}], "timestamp": 1}
SUMMARY: Json = {"role": "compactionSummary", "summary": "s", "tokensBefore": 1, "timestamp": 1}
USAGE: Json = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3} | {
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
}
TOKENS: Json = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "total": 10}
STATUS: Json = {"saved": False, "problem": "p", "unsavedEntries": 1, "foreignEntries": 1, "damagedLines": 1} | {
    "orphans": 1,
    "tornTail": True,
    "damagedCopy": "/a.damaged",
}
SERVER: Json = {"name": "s", "state": "failed", "source": "user", "transport": "stdio", "tools": 1, "error": "e"}
LEFT_OUT: Json = {"path": "/a/gate.py", "reason": "r"}
STATE: Json = (
    {
        "model": MODEL,
        "thinkingLevel": "max",
        "isStreaming": True,
        "isCompacting": False,
        "steeringMode": "all",
    }
    | {
        "followUpMode": "all",
        "sessionFile": "/a",
        "sessionId": "s",
        "sessionName": "n",
        "autoCompactionEnabled": True,
    }
    | {
        "messageCount": 5,
        "pendingMessageCount": 1,
        "isBashRunning": False,
        "queueMode": "all",
        "queuedMessageCount": 1,
        "queuePaused": True,
    }
    | {"sessionStatus": STATUS, "pid": 1, "cwd": "/a", "projectTrusted": False, "toolApproval": "ask"}
    | {"extensionsAtWork": ["/a/clock.py"]}
    | {"mcpServers": [SERVER]}
    | {"warnings": [{"kind": "models", "text": "t", "remedy": "r", "source": "/a/models.json"}]}
    | {"extensionsLeftOut": [LEFT_OUT]}
    | {"itemRenderers": [{"kind": "call", "name": "todo", "framed": True}]}
    | {"interrupted": {"entryId": "e1", "text": "t", "during": "tools", "cutCalls": [{"id": "c1", "name": "bash"}]}}
)
COUNTS: Json = {"userMessages": 1, "assistantMessages": 2, "toolCalls": 3, "toolResults": 3, "totalMessages": 6} | {
    "tokens": TOKENS,
    "cost": 0.5,
}
MISSED: Json = {"missCount": 1, "missedTokens": 2000, "missedCost": 0.1}
STATS: Json = {"sessionFile": "/a", "sessionId": "s", **COUNTS, "session": COUNTS} | {
    "contextUsage": {"tokens": 50, "contextWindow": 100, "percent": 50},
    "cacheMisses": {**MISSED, "reasons": [{**MISSED, "reason": "expired"}]},
    "cacheWarming": {"requests": 2, "tokens": TOKENS, "cost": 0.1},
}
COMPACTION: Json = {
    "summary": "s",
    "firstKeptEntryId": "e1",
    "tokensBefore": 5,
    "estimatedTokensAfter": 2,
    "details": {},
}
SOURCE: Json = {"path": "/a", "source": "local", "scope": "user", "origin": "top-level", "baseDir": "/"}
COMMAND: Json = {
    "name": "n",
    "description": "d",
    "source": "prompt",
    "location": "user",
    "path": "/a",
    "sourceInfo": SOURCE,
}
ENTRY: Json = {
    "type": "custom",
    "id": "e1",
    "parentId": None,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "customType": "t",
}
NODE: Json = {"entry": ENTRY, "children": [], "label": "l", "labelTimestamp": "2026-01-01T00:00:00.000Z"}
QUEUED: Json = {"steering": ["a"], "followUp": []}
HELLO: Json = {"name": "pinnace", "version": "1", "protocols": ["pi", "seed", "1.5"], "protocol": "pi"} | {
    "commands": ["prompt"],
    "events": ["agent_start"],
    "limits": {"recordBytes": 5, "nesting": 5},
    "mcp": {"installed": True, "servers": 1},
}
REPLACED: Json = {"cancelled": False, "cleared": QUEUED}
LISTED: Json = {"id": "s", "path": "/a", "cwd": "/", "name": "n", "created": "t", "modified": 1, "messageCount": 1}
SAVED: Json = {**LISTED, "firstMessage": "f", "parentSession": "/b"}
WAITING: Json = {"messageId": "m", "kind": "steer", "text": "t", "imageCount": 1}
# Data of every command that has some, with every field that profile `pi` may write in it.
VALID: dict[str, Json] = {
    "prompt": {"disposition": "started"},
    "steer": {"disposition": "queued"},
    "follow_up": {"disposition": "handled"},
    "clear_queue": QUEUED,
    "abort": {"cleared": QUEUED},
    "new_session": REPLACED,
    "switch_session": REPLACED,
    "clone": REPLACED,
    "fork": {**REPLACED, "text": "t"},
    "branch": {"text": "t"},
    "get_fork_messages": {"messages": [{"entryId": "e1", "text": "t"}]},
    "get_branch_messages": {"messages": [{"entryIndex": 0, "text": "t"}]},
    "get_state": STATE,
    "get_messages": {"messages": [USER, SUMMARY]},
    "get_last_assistant_text": {"text": "t"},
    "get_session_stats": STATS,
    "get_commands": {"commands": [COMMAND]},
    "get_entries": {"entries": [ENTRY], "leafId": "e1"},
    "get_tree": {"tree": [{**NODE, "children": [NODE]}], "leafId": "e1"},
    "set_model": MODEL,
    "cycle_model": {"model": MODEL, "thinkingLevel": "off", "isScoped": False},
    "get_available_models": {"models": [MODEL]},
    "cycle_thinking_level": {"level": "off"},
    "get_available_thinking_levels": {"levels": ["off", "high"]},
    "compact": {**COMPACTION, "usage": USAGE},
    "bash": {"output": "o", "exitCode": 0, "cancelled": False, "truncated": True, "fullOutputPath": "/a"},
    "export_html": {"path": "/a"},
    "hello": HELLO,
    "get_queue": {"messages": [WAITING], "paused": True, "returned": [{**WAITING, "reason": "abort", "by": "b"}]},
    "list_sessions": {"sessions": [SAVED], "nextCursor": "c"},
    "navigate_tree": {"cancelled": False, "aborted": True, "leafId": "e1", "editorText": "t", "summaryEntry": ENTRY},
    "get_completions": {"completions": [{"value": "staging", "label": "Staging", "description": "For tests"}]},
    "get_tools": {"tools": [{"name": "n", "description": "d", "parameters": {}, "sourceInfo": SOURCE, "active": True}]},
}
# Of other commands, their recorded example.
RECORDED: dict[str, Json] = {
    name: recorded_data(name) for name, data in DATA["pi"].items() if data is not None and name not in VALID
}
WITHOUT_DATA = sorted(name for name, data in DATA["pi"].items() if data is None)
# What is open on purpose, or a shape of `messages` that its own tests go through.
OPEN = {"details", "parameters", "entry", "entries", "model", "models", "messages", "usage", "summaryEntry"}
OPTIONAL = (
    {
        "cleared",
        "sessionFile",
        "extensionsAtWork",
        "mcpServers",
        "warnings",
        "extensionsLeftOut",
        "itemRenderers",
        "remedy",
        "source",
        "error",
        "interrupted",
        "sessionName",
        "contextUsage",
        "description",
        "location",
        "path",
        "baseDir",
        "label",
    }
    | {"labelTimestamp", "usage", "fullOutputPath", "parentSession", "nextCursor", "by", "returned"}
    | {"aborted", "editorText", "summaryEntry"}
    | set(STATUS) - {"saved"}
)
NULLABLE = {"text", "leafId", "model", "details", "parentId"}


def success(command: str, *data: Json) -> Json:
    return {"type": "response", "id": "c1", "command": command, "success": True, **({"data": data[0]} if data else {})}


def problems(record: Json, profile: Profile = "pi") -> list[str]:
    return validate_output(record, profile)


@pytest.mark.parametrize("record", PUBLISHED, ids=lambda record: record["command"])
def test_every_published_example_is_valid_in_its_generation(record: Json) -> None:
    assert [] == problems(record, "seed")


@pytest.mark.parametrize("record", PUBLISHED, ids=lambda record: record["command"])
@pytest.mark.parametrize("profile", ["pi", "1.5"])
def test_later_profiles_only_add_to_what_is_published(record: Json, profile: Profile) -> None:
    assert all(problem.endswith(": Field required") for problem in problems(record, profile))


def test_every_command_but_the_answer_to_a_dialog_has_a_success() -> None:
    """R-UI-01."""
    for profile in PROFILES:
        own = OWN_COMMANDS if profile == "seed" else ()
        assert set(ALL_COMMANDS) - {*CLIENT_ANSWERS, *own} == set(DATA[profile])


@pytest.mark.parametrize("command", [*VALID, *RECORDED])
@pytest.mark.parametrize("profile", ["pi", "1.5"])
def test_data_with_every_field_is_valid(command: str, profile: Profile) -> None:
    assert [] == problems(success(command, {**VALID, **RECORDED}[command]), profile)


@pytest.mark.parametrize("command", VALID)
def test_an_unknown_key_anywhere_in_data_is_found(command: str) -> None:
    for number, _ in enumerate(objects(VALID[command], OPEN)):
        data = copy.deepcopy(VALID[command])
        list(objects(data, OPEN))[number]["unheard"] = 1
        assert any("unheard: Extra" in problem for problem in problems(success(command, data))), number


@pytest.mark.parametrize("command", VALID)
def test_null_is_found_unless_it_means_something(command: str) -> None:
    for number, example in enumerate(objects(VALID[command], OPEN)):
        for key in example:
            data = copy.deepcopy(VALID[command])
            list(objects(data, OPEN))[number][key] = None
            is_nullable = key in NULLABLE and (command, key) not in {
                ("fork", "text"),
                ("branch", "text"),
                ("get_fork_messages", "text"),
                ("get_branch_messages", "text"),
                ("get_state", "text"),
                ("get_queue", "text"),
                ("cycle_model", "model"),
                ("navigate_tree", "leafId"),
            }
            assert is_nullable == (problems(success(command, data)) == []), key


@pytest.mark.parametrize("command", sorted(set(VALID) - {"set_model"}))
def test_a_field_that_lacks_is_found_unless_it_may_be_absent(command: str) -> None:
    for number, example in enumerate(objects(VALID[command], OPEN)):
        for key in example:
            data = copy.deepcopy(VALID[command])
            del list(objects(data, OPEN))[number][key]
            is_required = key not in OPTIONAL or (command, key) in {
                ("abort", "cleared"),
                ("export_html", "path"),
            }
            is_required |= any(example is each for each in (SOURCE, SERVER, LEFT_OUT)) and key in ("path", "source")
            is_required |= (command, key) in {
                ("get_tools", "description"),
                ("list_sessions", "path"),
                ("get_commands", "source"),
            }
            is_required &= (command, key) not in {("list_sessions", "name"), ("navigate_tree", "leafId")}
            assert is_required == (problems(success(command, data)) != []), key


@pytest.mark.parametrize("command", VALID)
@pytest.mark.parametrize("data", [None, [], "x", 1, {}])
def test_data_of_the_wrong_kind_is_found(command: str, data: Json) -> None:
    if not (command.startswith("cycle_") and data is None):
        assert problems(success(command, data))


@pytest.mark.parametrize("command", sorted(set(VALID) - MAY_LACK_DATA))
def test_data_that_lacks_is_found(command: str) -> None:
    assert ["data: Field required"] == problems(success(command))


@pytest.mark.parametrize("command", WITHOUT_DATA)
def test_data_of_a_command_without_is_found(command: str) -> None:
    assert [] == problems(success(command))
    for data in (None, {}, {"disposition": "started"}):
        assert ["data: Extra inputs are not permitted"] == problems(success(command, data))


def test_an_abort_that_cleared_nothing_has_no_data() -> None:
    for profile in PROFILES:
        assert [] == problems(success("abort"), profile)
        assert [] == problems(success("abort", {"cleared": {"steering": [], "followUp": []}}), profile)


@pytest.mark.parametrize("command", ["cycle_model", "cycle_thinking_level"])
def test_null_says_that_there_is_nothing_to_choose_from(command: str) -> None:
    for profile in PROFILES:
        assert [] == problems(success(command, None), profile)


@pytest.mark.parametrize("command", ["prompt", "steer", "follow_up"])
def test_seed_does_not_report_what_became_of_a_text(command: str) -> None:
    assert [] == problems(success(command), "seed")
    assert problems(success(command, {"disposition": "started"}), "seed")


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("get_commands", VALID["get_commands"]),
        ("compact", VALID["compact"]),
        ("get_messages", VALID["get_messages"]),
    ],
)
def test_seed_does_not_have_what_its_clients_do_not_know(command: str, data: Json) -> None:
    """R-PRO-02."""
    assert problems(success(command, data), "seed")


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("get_state", {"queueMode": "one-at-a-time"}),
        ("get_state", {"queuedMessageCount": 2}),
        ("get_state", {"messageCount": -1}),
        ("get_state", {"thinkingLevel": "ultra"}),
        ("get_state", {"sessionName": ""}),
        ("get_session_stats", {"tokens": {**TOKENS, "total": 11}}),
        ("get_session_stats", {"contextUsage": {"tokens": None, "contextWindow": 100, "percent": 1}}),
        ("get_session_stats", {"contextUsage": {"tokens": 5, "contextWindow": 0, "percent": 1}}),
        ("get_session_stats", {"cost": "0.5"}),
        ("bash", {"cancelled": True}),
        ("bash", {"exitCode": 1.0}),
        ("get_last_assistant_text", {"text": ""}),
        ("get_available_thinking_levels", {"levels": []}),
        ("prompt", {"disposition": "refused"}),
        ("hello", {"commands": ["nope"]}),
        ("hello", {"events": ["nope"]}),
        ("hello", {"protocol": "2"}),
        ("hello", {"protocols": ["seed"]}),
    ],
)
def test_what_data_must_not_say_is_found(command: str, changed: Json) -> None:
    assert [] == problems(success(command, VALID[command]))
    assert problems(success(command, {**VALID[command], **changed}))


def test_a_cancelled_shell_has_no_exit_code() -> None:
    cancelled = {"output": "", "cancelled": True, "truncated": False}

    assert [] == problems(success("bash", cancelled))
    assert ["data: exitCode exactly if not cancelled"] == problems(success("bash", {**cancelled, "cancelled": False}))


def test_after_a_compaction_no_one_knows_how_full_the_context_is() -> None:
    usage = {"tokens": None, "contextWindow": 100, "percent": None}

    assert [] == problems(success("get_session_stats", {**STATS, "contextUsage": usage}))


def test_hello_may_name_every_command_and_every_event() -> None:
    data = {**HELLO, "commands": list(ALL_COMMANDS), "events": list(EVENTS["pi"])}

    for profile in PROFILES:
        assert [] == problems(success("hello", data), profile)


@pytest.mark.parametrize("identity", ["c1", "", 7, 1.5, None])
def test_a_response_has_the_id_of_its_command_whatever_it_was(identity: Json) -> None:
    assert [] == problems({**success("set_auto_retry"), "id": identity})


@pytest.mark.parametrize("identity", [True, [], {"a": 1}])
def test_a_response_has_no_id_that_no_command_can_have(identity: Json) -> None:
    """R-ID-01."""
    assert problems({**success("set_auto_retry"), "id": identity})


FAILURE: Json = {"type": "response", "command": "prompt", "success": False, "error": "e", "errorCode": "busy"}


@pytest.mark.parametrize("code", list(ErrorCode))
@pytest.mark.parametrize("profile", PROFILES)
def test_a_failure_says_why_twice(code: ErrorCode, profile: Profile) -> None:
    """R-ERR-05; the published form has no code, and takes none."""
    refused = ["errorCode: Extra inputs are not permitted"]
    assert (refused if profile == "seed" else []) == problems({**FAILURE, "errorCode": str(code)}, profile)
    without = {key: value for key, value in FAILURE.items() if key != "errorCode"}
    assert ([] if profile == "seed" else ["errorCode: Field required"]) == problems(without, profile)


@pytest.mark.parametrize("command", ["parse", "unknown", "nope", "", "\ud800"])
def test_a_failure_names_what_the_client_wrote_whatever_it_was(command: str) -> None:
    assert [] == problems({**FAILURE, "command": command})


NO_FAILURES: list[Json] = [
    {"error": ""},
    {"error": None},
    {"error": {"message": "e"}},
    {"errorCode": "nope"},
    {"errorCode": None},
    {"data": {}},
    {"success": None},
    {"success": 0},
    {"success": "false"},
    {"command": None},
    {"command": ["prompt"]},
]


@pytest.mark.parametrize("changed", NO_FAILURES)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_failure_must_not_say_is_found(changed: Json, profile: Profile) -> None:
    right = {key: value for key, value in FAILURE.items() if profile != "seed" or key != "errorCode"}
    assert [] == problems(right, profile)
    assert problems({**right, **changed}, profile)


@pytest.mark.parametrize(
    "changed", [{"error": "e"}, {"errorCode": "busy"}, {"success": 1}, {"command": None}, {"x": 1}]
)
def test_what_a_success_must_not_say_is_found(changed: Json) -> None:
    assert problems({**success("set_auto_retry"), **changed})


@pytest.mark.parametrize("command", ["parse", "unknown", "nope", ["prompt"], None])
def test_only_commands_succeed(command: Json) -> None:
    assert [f"command: no success of {command!r} is described"] == problems({**success("x"), "command": command})


@pytest.mark.parametrize("is_success", [True, False])
def test_an_answer_to_a_dialog_is_never_answered(is_success: bool) -> None:
    """R-UI-01."""
    record = {**(success("x") if is_success else FAILURE), "command": "extension_ui_response"}

    assert ["command: extension_ui_response is never answered"] == problems(record)


def test_the_default_profile_is_one() -> None:
    assert "pi" == DEFAULT_PROFILE
    assert DEFAULT_PROFILE in PROFILES
