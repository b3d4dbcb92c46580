"""Every example in the documents of three generations, judged by the published schema of its generation."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_spec.generate.schema import bundles
from pinnace_spec.profiles.generations import GenerationName
from pinnace_spec.profiles.profiles import PROFILES

# The edge of JSON.
Json = Any

FILE: dict[str, Json] = json.loads(Path(__file__).with_name("generation_examples.json").read_text(encoding="utf-8"))
DOCUMENTED: tuple[GenerationName, ...] = ("0.18", "0.5x", "seed")
# What is published and what no agent writes so: our own program, which is held to the closed schema, does not either.
NEVER_WRITTEN = ("'attachments' was unexpected", "'totalTokens' is a required property")


def filled(value: Json, shared: dict[str, Json]) -> Json:
    """Put the example of a shared type where a record only names the type."""
    if isinstance(value, dict):
        return {key: filled(each, shared) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, shared) for each in value]
    if isinstance(value, str) and value.startswith("<"):
        return shared[value.strip("<>")]
    return value


def examples(kind: str) -> Iterator[Json]:
    for generation in DOCUMENTED:
        for number, example in enumerate(FILE[generation][kind]):
            name = f"{generation}-{number}-{example.get('command') or example['type']}"
            yield pytest.param(generation, filled(example, FILE[generation]["types"]), id=name)


def shared_types() -> Iterator[Json]:
    for generation in DOCUMENTED:
        for name, example in FILE[generation]["types"].items():
            yield pytest.param(generation, name, example, id=f"{generation}-{name}")


@cache
def verdict(generation: GenerationName, *, is_open: bool = True) -> SchemaVerdict:
    """Two of the generations are no profiles of our program: their bundles are closed as documented."""
    return SchemaVerdict(bundles.foreign_bundle(generation) if is_open else bundles.bundle(generation))


@pytest.mark.parametrize(("generation", "record"), list(examples("records")))
def test_every_published_record_is_valid(generation: GenerationName, record: Json) -> None:
    assert [] == verdict(generation).output_problems(record)


@pytest.mark.parametrize(("generation", "command"), list(examples("commands")))
def test_every_published_command_is_valid(generation: GenerationName, command: Json) -> None:
    assert [] == verdict(generation, is_open=False).command_problems(command)
    assert [] == verdict(generation).command_problems(command)


@pytest.mark.parametrize(("generation", "name", "example"), list(shared_types()))
def test_every_published_type_is_valid(generation: GenerationName, name: str, example: Json) -> None:
    assert [] == verdict(generation).problems(name, example)


@pytest.mark.parametrize(("generation", "record"), list(examples("records")))
def test_what_is_published_has_no_field_that_the_closed_schema_lacks(generation: GenerationName, record: Json) -> None:
    """But two that no agent writes so, which the profile of our program does without."""
    problems = verdict(generation, is_open=False).output_problems(record)

    assert [] == [each for each in problems if generation not in PROFILES or not each.endswith((*NEVER_WRITTEN, ")"))]
    assert all(any(text in each for text in NEVER_WRITTEN) for each in problems)


@pytest.mark.parametrize("generation", DOCUMENTED)
def test_the_examples_have_every_record_and_command_of_the_documents(generation: GenerationName) -> None:
    """What is not among them has no example in its documents."""
    definitions = bundles.bundle(generation)["$defs"]
    commands = {each["type"] for each in FILE[generation]["commands"]}
    records = {each["type"] for each in FILE[generation]["records"]} - {"response"}
    undocumented = {
        "hook_ui_response",
        "hook_ui_request",
        "hook_error",
        "session_info_changed",
        "thinking_level_changed",
    }
    # Of later documents: what they have is informed of a generation only if a program of it was seen to do so.
    ours_again = {"clear_queue", "queue_message", "reset", "branch", "get_branch_messages", "set_queue_mode", "hello"}
    ours_again |= {"get_available_thinking_levels", "get_entries", "get_tree"}
    described = set(definitions["Command"]["discriminator"]["mapping"])

    assert commands == described - undocumented - (ours_again if generation in PROFILES else set())
    assert records == set(definitions["Output"]["discriminator"]["mapping"]) - undocumented - {"response"}
