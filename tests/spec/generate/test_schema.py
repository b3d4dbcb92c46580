"""The published schemas: what they are as documents, and that they say the same as the models that they are made of."""

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_spec.generate.schema import bundles
from pinnace_spec.generate.schema import schema as publisher
from pinnace_spec.generate.schema.bundles import Schema
from pinnace_spec.generate.schema.field_meanings import MEANINGS
from pinnace_spec.generate.schema.json_schema import PREFIX, target, walk
from pinnace_spec.generate.source import load
from pinnace_spec.profiles.generations import GENERATIONS, GenerationName, generation
from pinnace_spec.profiles.profiles import PROFILES, Profile
from pinnace_spec.records.command_table import CLIENT_ANSWERS, OWN_COMMANDS
from pinnace_spec.records.commands import ALL_COMMANDS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.outputs import validate_output
from pinnace_spec.records.parsing import CommandError, parse_command
from pinnace_spec.records.responses import DATA

# The edge of JSON: examples are changed at any place.
Json = Any

EXAMPLES: dict[str, Json] = json.loads(
    (Path(__file__).parents[1] / "records" / "examples.json").read_text(encoding="utf-8")
)


def kind(record: Json) -> str:
    reported = (str(record[key]) for key in ("type", "command", "method", "success") if key in record)
    return "-".join([*reported, record.get("assistantMessageEvent", {}).get("type", "")])


# One of each kind: what is changed in the others is the same.
RECORDS: list[Json] = list(
    {kind(each): each for each in [*EXAMPLES["seed records"], *EXAMPLES["0.18 records"]]}.values()
)
COMMANDS: list[Json] = EXAMPLES["seed commands"]
WRONG: tuple[Json, ...] = (None, 1.5, -1, True, "", "other", [], {}, [1], {"type": "other"})
# What only a validator of a model can say: sums, comparisons, names that a table has.
UNSAID = (
    "total must be the sum of the four",
    "attempt is more than maxAttempts",
    "must say what their newer names say",
    "not in the specification",
    "must be one of protocols",
)


@cache
def verdict(profile: Profile) -> SchemaVerdict:
    return SchemaVerdict(bundles.bundle(profile))


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_bundle_is_json_schema(name: GenerationName) -> None:
    Draft202012Validator.check_schema(bundles.bundle(name))
    Draft202012Validator.check_schema(bundles.foreign_bundle(name))


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_bundle_refers_to_nothing_that_it_lacks_and_has_nothing_that_nothing_refers_to(name: GenerationName) -> None:
    whole = bundles.bundle(name)
    pointed = {target(each) for each in walk(whole)} - {None}
    mapped = {to for each in walk(whole) for to in each.get("mapping", {}).values()}

    assert set(whole["$defs"]) == pointed
    assert {to.removeprefix(PREFIX) for to in mapped} <= set(whole["$defs"])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_every_command_answer_and_record(profile: Profile) -> None:
    definitions = bundles.bundle(profile)["$defs"]

    own = set(OWN_COMMANDS) if profile == "seed" else set[str]()

    assert set(ALL_COMMANDS) - own == set(definitions["Command"]["discriminator"]["mapping"])
    assert set(DATA[profile]) == set(definitions["Response"]["discriminator"]["mapping"])
    assert {*EVENTS[profile], "response"} == set(definitions["Output"]["discriminator"]["mapping"])


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_record_says_its_direction_and_since_when(name: GenerationName) -> None:
    definitions = bundles.bundle(name)["$defs"]
    records = [key for union in ("Command", "Output") for key in mapped(definitions[union]) if key != "Response"]

    for key in records:
        definition = definitions[key]
        assert {"in": True, "out": False}[definition["x-direction"]] == key.endswith("Command"), key
        assert "x-since" in definition or definition["x-origin"] == "ours", key
        assert definition["description"], key
    assert all(definitions[key]["x-direction"] == "out" for key in mapped(definitions["Response"]))


def mapped(union: Schema) -> list[str]:
    return [to.removeprefix(PREFIX) for to in union["discriminator"]["mapping"].values()]


def objects(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, definition in schema["$defs"].items():
        for each in walk(definition):
            if each.get("type") == "object" and isinstance(each.get("properties"), dict):
                yield name, each


def test_what_is_written_is_closed_and_what_is_read_is_open() -> None:
    for name in GENERATIONS:
        for key, each in objects(bundles.bundle(name)):
            is_input = key.endswith("Command") or key in {"InputImage", "Attachment", "ContextItem", "SurfaceItem"}
            is_closed = each.get("additionalProperties") is False
            assert is_closed == (not is_input and key != "SessionEntry"), (name, key)


def test_an_opened_bundle_is_closed_nowhere() -> None:
    for name in GENERATIONS:
        opened = bundles.foreign_bundle(name)
        assert [] == [each for each in walk(opened) if each.get("additionalProperties") is False]
        assert [] == [each for each in walk(opened) if "x-foreign" in each]


def test_opening_changes_nothing_in_place() -> None:
    before = copy.deepcopy(bundles.bundle("1.5"))
    bundles.opened(bundles.bundle("1.5"))

    assert before == bundles.bundle("1.5")


@pytest.mark.parametrize("name", ["seed", "1.5"])
def test_opened_a_profile_says_what_its_generation_does(name: GenerationName) -> None:
    """Fields of ours are neither required nor known, and what only the original has is there."""
    closed, opened = bundles.bundle(name)["$defs"], bundles.foreign_bundle(name)["$defs"]
    it = generation(name)

    assert it.commands == set(opened["Command"]["discriminator"]["mapping"])
    assert {*it.written, "response"} == set(opened["Output"]["discriminator"]["mapping"])
    assert it.roles == set(opened["Message"]["discriminator"]["mapping"])
    assert it.stop_reasons == set(opened["StopReason"]["enum"])
    assert ("isBashRunning" in closed["State"]["properties"]) == (name != "seed")
    assert "isBashRunning" not in {**opened["State"]["properties"], **dict.fromkeys(opened["State"]["required"])}


def test_the_data_of_an_answer_is_typed_by_its_command() -> None:
    answer = {"type": "response", "command": "bash", "success": True, "data": {"level": "high"}}

    assert [] == verdict("pi").output_problems({**answer, "command": "cycle_thinking_level"})
    assert "data: 'output' is a required property" in verdict("pi").output_problems(answer)


def test_a_rule_is_named_where_it_is_witnessed() -> None:
    spec = load()
    rule = next(iter(spec.rules.values()))
    changed = spec._replace(rules={rule.id: rule._replace(witness=("schema/pi.json#/$defs/QueueUpdate",))})

    assert [rule.id] == publisher.schema("pi", changed)["$defs"]["QueueUpdate"]["x-rules"]
    assert "R-LIM-01" in publisher.schema("pi", changed)["$defs"]["AgentSettled"]["x-rules"]


def variants(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Give the value with one thing in it changed: gone, added, or something else."""
    if path:
        for wrong in WRONG:
            if wrong != value:
                yield path, wrong
    if isinstance(value, dict):
        yield (*path, "unheardOf"), 1
        members = cast("dict[str, Json]", value)
        for key, each in members.items():
            yield (*path, key), ...
            yield from variants(each, (*path, key))
    elif isinstance(value, list) and value:
        yield from variants(value[0], (*path, 0))


def changed(record: Json, path: tuple[str | int, ...], value: Json) -> Json:
    result = copy.deepcopy(record)
    place = result
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


@pytest.mark.parametrize("record", RECORDS, ids=kind)
def test_the_schema_and_the_models_agree_on_every_change_of_one_field(record: Json) -> None:
    """A second opinion: jsonschema knows the bundle alone, pydantic the models alone."""
    for path, value in variants(record):
        other = changed(record, path, value)
        by_models = [each for each in validate_output(other, "pi") if not each.endswith(UNSAID)]
        by_schema = verdict("pi").output_problems(other)
        assert bool(by_models) == bool(by_schema), (path, value, by_models, by_schema)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: str(each["type"]))
def test_the_schema_and_the_reader_of_commands_agree(command: Json) -> None:
    for path, value in variants(command):
        if path == ("type",) or is_beyond_the_schema(command, path, value):
            continue
        other = changed(command, path, value)
        assert is_read(other) == (verdict("pi").command_problems(other) == []), (path, value)


def is_beyond_the_schema(command: Mapping[str, Json], path: tuple[str | int, ...], value: Json) -> bool:
    """Base64 is only named by a schema; nobody judges the answer to a dialog."""
    return path[-1] in {"data", "content"} or command["type"] in CLIENT_ANSWERS


def is_read(command: Json) -> bool:
    try:
        parse_command(command)
    except CommandError:
        return False
    return True


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_field_of_a_command_a_response_and_a_record_says_what_it_means(name: GenerationName) -> None:
    definitions = bundles.bundle(name)["$defs"]
    silent = [
        f"{each}.{field}"
        for each, definition in definitions.items()
        for field, value in definition.get("properties", {}).items()
        if not value.get("description", "").strip()
    ]

    assert [] == silent


def test_every_meaning_is_of_a_field_that_there_is() -> None:
    fields = {
        known
        for name in GENERATIONS
        for each, definition in bundles.bundle(name)["$defs"].items()
        for field in definition.get("properties", {})
        for known in (field, f"{each}.{field}")
    }

    assert [] == sorted(MEANINGS.keys() - fields)
