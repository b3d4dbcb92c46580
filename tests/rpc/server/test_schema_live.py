"""What our own agent writes, judged by the published schema, closed, in each profile; and that this judgement bites."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.generate.schema import bundles
from pinnace_spec.generate.schema.bundles import Schema, definition_of
from pinnace_spec.generate.schema.json_schema import target
from pinnace_spec.profiles.profiles import PROFILES, Profile
from pinnace_spec.records.events import EVENTS

# The edge of JSON.
Record = Mapping[str, Any]
Held = tuple[Profile, list[Record]]

# A conversation that reaches fewer has lost something.
MANY_FIELDS = 200

CALL = {"name": "bash", "args": {"command": "echo out; echo more"}, "pieces": 2}
SCRIPT: list[Mapping[str, Any]] = [
    {"reasoning": ["hm", "m"], "tool_calls": [CALL]},
    {"text": ["one ", "two"]},
    {"error": {"status": 529}},
    {"text": ["again"]},
    {"text": ["SUMMARY"]},
    {"error": {"status": 400}},
]
# Read in every profile, before there is anything and after there is.
READS = (
    "get_state",
    "get_messages",
    "get_last_assistant_text",
    "get_session_stats",
    "get_commands",
    "get_entries",
    "get_tree",
    "get_available_models",
    "get_available_thinking_levels",
    "get_fork_messages",
    "get_branch_messages",
)


def conversation(agent: AgentStarter, profile: Profile) -> list[Record]:
    """Hold a conversation with all that can be asked, refused answers among it; return every record."""
    settings = {"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 1}}
    pi = agent(SCRIPT, protocol=profile, has_session=True, settings=settings)
    pi.request({"id": "h", "type": "hello"})
    for command in READS:
        pi.request({"type": command})
    pi.request({"type": "set_session_name", "name": "a name"})
    pi.request({"type": "set_model", "provider": "fake", "modelId": "m2"})
    pi.request({"type": "set_thinking_level", "level": "high"})
    for command in ("cycle_model", "cycle_thinking_level", "abort_retry", "abort_bash"):
        pi.request({"type": command})
    for mode in ("set_steering_mode", "set_follow_up_mode", "set_queue_mode"):
        pi.request({"type": mode, "mode": "one-at-a-time"})
    for switch in ("set_auto_retry", "set_auto_compaction"):
        pi.request({"type": switch, "enabled": True})
    pi.request({"type": "bash", "command": "echo said"})
    pi.request({"type": "bash", "command": "exit 3", "excludeFromContext": True})
    pi.request({"type": "no such"})
    pi.request({"type": "set_model", "provider": "no", "modelId": "no"})
    say(pi, {"type": "prompt", "message": "one"})
    say(pi, {"type": "steer", "message": "two"})
    pi.request({"type": "clear_queue"})
    pi.request({"type": "compact"})
    pi.request({"type": "compact"})
    say(pi, {"type": "follow_up", "message": "three"})
    for command in READS:
        pi.request({"type": command})
    pi.request({"type": "abort", "queue": "clear"})
    last = pi.request({"type": "get_fork_messages"})["data"]["messages"][-1]["entryId"]
    pi.request({"type": "fork", "entryId": last})
    pi.request({"type": "clone"})
    pi.request({"type": "new_session"})
    pi.request({"type": "reset"})
    return [each.record for each in pi.records]


def say(pi: HomedAgent, command: Mapping[str, object]) -> None:
    """Send a text and wait for the end of what it starts, as every profile tells it."""
    mark = pi.mark()
    pi.request(command)
    pi.wait({"type": "agent_end"}, since=mark)


@pytest.fixture(scope="module", params=PROFILES)
def held(request: pytest.FixtureRequest, module_agent: AgentStarter) -> Held:
    """A profile, and a conversation in it."""
    return request.param, conversation(module_agent, request.param)


def test_every_record_is_valid(held: Held) -> None:
    """R-PRO-01."""
    profile, records = held
    verdict = SchemaVerdict(bundles.bundle(profile))

    assert [] == [(each, problem) for each in records for problem in verdict.output_problems(each)]


def test_almost_every_type_of_the_profile_was_written(held: Held) -> None:
    """So that what follows says something.

    The rest needs extensions, a client that draws or serves files, a full context, a run that is cut short, or MCP
    servers.
    """
    profile, records = held
    written = {str(each["type"]) for each in records}
    rest = {
        "extension_error",
        "extension_ui_request",
        "extension_ui_resolved",
        "client_request",
        "mcp_status",
        "subagent_event",
        "warning",
        "login_start",
        "login_end",
        "entry_appended",
        "ui_surface_open",
        "ui_surface_draw",
        "ui_input",
        "ui_surface_close",
        "ui_theme",
        "ui_display",
        "ui_tools_expanded",
        "bash_execution_update",
        "session_info_changed",
        "session_changed",
    }

    assert set(EVENTS[profile]) - written <= rest


def mutants(schema: Schema) -> Iterator[tuple[str, str, Schema]]:
    """Give the bundle with one field renamed: what was allowed is unknown, what was needed is gone."""
    for name, definition in schema["$defs"].items():
        for field in definition.get("properties", {}):
            changed = copy.deepcopy(definition)
            changed["properties"]["renamed"] = changed["properties"].pop(field)
            if field in changed.get("required", ()):
                changed["required"] = ["renamed" if each == field else each for each in changed["required"]]
            yield name, field, {**schema, "$defs": {**schema["$defs"], name: changed}}


def used(record: Any, schema: Any, definitions: Mapping[str, Schema], found: set[tuple[str, str]]) -> None:
    """Collect the fields of definitions that a record has; of alternatives, of each that could be meant."""
    name = target(schema)
    if name is not None:
        definition = definitions[name]
        if isinstance(record, dict) and "properties" in definition:
            found.update((name, field) for field in record if field in definition["properties"])
        used(record, definition, definitions, found)
    for key in ("oneOf", "anyOf"):
        for each in schema.get(key, ()):
            if not list(_refused(each, record, definitions)):
                used(record, each, definitions, found)
    if isinstance(record, list) and "items" in schema:
        for each in record:
            used(each, schema["items"], definitions, found)
    if isinstance(record, dict) and isinstance(schema.get("properties"), dict):
        for field, value in record.items():
            if field in schema["properties"]:
                used(value, schema["properties"][field], definitions, found)


def _refused(schema: Schema, value: object, definitions: Mapping[str, Schema]) -> Iterator[object]:
    return cast("Iterator[object]", Draft202012Validator({**schema, "$defs": definitions}).iter_errors(value))


def test_a_field_that_is_named_otherwise_makes_a_live_record_invalid(held: Held) -> None:
    """Of every field that was written, wherever it stands: nothing in the schema that was reached is idle."""
    profile, records = held
    whole = bundles.bundle(profile)
    by_field: dict[tuple[str, str], Record] = {}
    for record in records:
        found: set[tuple[str, str]] = set()
        used(record, {"$ref": f"#/$defs/{definition_of(record, whole)}"}, whole["$defs"], found)
        for key in found:
            if key not in by_field or len(str(record)) < len(str(by_field[key])):
                by_field[key] = record

    reached = [(name, field, mutant) for name, field, mutant in mutants(whole) if (name, field) in by_field]
    alive = [
        (name, field)
        for name, field, mutant in reached
        if not SchemaVerdict(mutant).problems(str(definition_of(by_field[name, field], whole)), by_field[name, field])
    ]

    assert len(reached) > MANY_FIELDS
    assert [] == alive
