"""The AsyncAPI document: its structure, what it points to, and what the official schema says of it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from pinnace_spec import data
from pinnace_spec.generate.schema import bundles
from pinnace_spec.generate.schema.asyncapi import asyncapi, document, to_yaml
from pinnace_spec.generate.source import load
from pinnace_spec.records.commands import ALL_COMMANDS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.responses import DATA

# The edge of YAML.
Json = Any

OFFICIAL = Path(__file__).parents[3] / ".tools" / "asyncapi" / "schemas" / "3.0.0.json"


@pytest.fixture(scope="module")
def api() -> Json:
    """Reads the published text, as a tool would."""
    return YAML(typ="safe").load(data.text("asyncapi.yaml"))


def resolved(api: Json, pointer: str) -> Json:
    place = api
    for part in pointer.removeprefix("#/").split("/"):
        place = place[part]
    return place


def references(value: Json) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [each for inner in value.values() for each in references(inner)]
    return [each for inner in value for each in references(inner)] if isinstance(value, list) else []


def test_the_text_says_what_the_document_does() -> None:
    """The writer of YAML is our own: a reader that is not must get the same value."""
    assert document(load()) == YAML(typ="safe").load(asyncapi(load()))


@pytest.mark.parametrize(
    "text",
    ["true", "no", "1.0", "1e3", "~", "a: b", "# no", "- x", "'", '"', "\u2028", "", " x", "x ", "@at", "{}", "\\"],
)
def test_no_text_is_read_as_something_else(text: str) -> None:
    value = {text or "empty": [text, {"key": text}, {"list": [text]}]}

    assert value == YAML(typ="safe").load(to_yaml(value))


def test_every_reference_inside_the_document_leads_somewhere(api: Json) -> None:
    inner = [each for each in references(api) if each.startswith("#")]

    assert inner
    assert all(isinstance(resolved(api, each), dict) for each in inner)


def test_every_payload_is_a_definition_of_the_bundle(api: Json) -> None:
    definitions = bundles.bundle("pi")["$defs"]
    payloads = [message["payload"]["schema"]["$ref"] for message in api["components"]["messages"].values()]

    assert all(each.startswith("./schema/pi.json#/$defs/") for each in payloads)
    assert {each.rsplit("/", 1)[1] for each in payloads} == set(api["components"]["messages"]) <= set(definitions)


def test_stdin_takes_every_command_and_stdout_every_answer_and_record(api: Json) -> None:
    definitions = bundles.bundle("pi")["$defs"]
    taken = set(definitions["Command"]["discriminator"]["mapping"].values())
    answers = {*definitions["Response"]["discriminator"]["mapping"].values(), "#/$defs/Failure"}
    records = set(definitions["Output"]["discriminator"]["mapping"].values()) - {"#/$defs/Response"}

    assert len(ALL_COMMANDS) == len(taken)
    assert {each.rsplit("/", 1)[1] for each in taken} == set(api["channels"]["stdin"]["messages"])
    assert {each.rsplit("/", 1)[1] for each in answers | records} == set(api["channels"]["stdout"]["messages"])


def test_there_is_an_operation_for_each_command_with_its_answer_and_one_for_what_happens(api: Json) -> None:
    operations = api["operations"]

    assert {*ALL_COMMANDS, "events"} == set(operations)
    assert len(EVENTS["pi"]) == len(operations["events"]["messages"])
    assert {name for name, each in operations.items() if "reply" in each} == set(DATA["pi"])
    for name in DATA["pi"]:
        reply = [each["$ref"].rsplit("/", 1)[1] for each in operations[name]["reply"]["messages"]]
        definition = bundles.bundle("pi")["$defs"][reply[0]]
        assert (name, "Failure") == (definition["properties"]["command"]["const"], reply[1])


def test_what_has_an_id_says_where(api: Json) -> None:
    definitions = bundles.bundle("pi")["$defs"]
    for name, message in api["components"]["messages"].items():
        assert ("correlationId" in message) == ("id" in definitions[name].get("properties", {})), name


def test_the_agent_receives_on_stdin_and_sends_on_stdout(api: Json) -> None:
    sides = {(each["action"], each["channel"]["$ref"]) for each in api["operations"].values()}

    assert {("receive", "#/channels/stdin"), ("send", "#/channels/stdout")} == sides


@pytest.fixture(scope="module")
def official() -> Draft7Validator:
    """The schema of AsyncAPI itself, as its makers publish it."""
    if not OFFICIAL.is_file():
        pytest.skip("no .tools/asyncapi: run scripts/peers")
    return Draft7Validator(json.loads(OFFICIAL.read_text(encoding="utf-8")))


@pytest.mark.peer
def test_the_official_schema_finds_the_document_valid(official: Draft7Validator, api: Json) -> None:
    assert [] == [f"{list(each.path)}: {each.message[:200]}" for each in official.iter_errors(api)]


@pytest.mark.peer
@pytest.mark.parametrize("path", ["info/title", "operations/prompt/action", "operations/prompt/channel"])
def test_the_official_schema_finds_what_is_missing(official: Draft7Validator, api: Json, path: str) -> None:
    changed = copy.deepcopy(api)
    *parents, last = path.split("/")
    del resolved(changed, "/".join(parents))[last]

    assert list(official.iter_errors(changed))
