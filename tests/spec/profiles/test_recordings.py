"""Records that releases of the original have written, judged by the published schema of their generation.

One record of each kind that was recorded, with long texts cut. What differs from its generation's documents is listed
in `program_deviations.toml`, and nothing else differs.
"""

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.trials.schema_verdict import SchemaVerdict
from pinnace_spec.generate.schema import bundles
from pinnace_spec.generate.schema.bundles import Schema, definition_of, foreign_bundle
from pinnace_spec.profiles.generations import GenerationName, generation

# The edge of JSON.
Json = Any

REPOSITORY = Path(__file__).parents[3]
DATA = REPOSITORY / "tests" / "data"
DEVIATIONS: dict[str, Json] = tomllib.loads(
    (REPOSITORY / "spec" / "program_deviations.toml").read_text(encoding="utf-8")
)
# The oldest one was built from the tag of its sources: its package is not to be had.
RECORDED: dict[GenerationName, str] = {
    "0.18": "0.18.0",
    "0.5x": "0.58.3",
    "seed": "0.80.2",
    "0.87": "0.87.1",
    "1.5": "1.5.2",
}
# No scenario made the program write them, in any release.
NEVER_RECORDED = {
    *("bash_execution_update", "extension_error", "session_info_changed", "thinking_level_changed"),
    *("summarization_retry_scheduled", "summarization_retry_attempt_start", "summarization_retry_finished"),
    *("auto_retry_start", "auto_retry_end", "extension_ui_request", "entry_appended"),
}


@cache
def recorded(name: GenerationName) -> list[Json]:
    path = DATA / f"records-of-pi-{RECORDED[name]}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@cache
def verdict(name: GenerationName) -> SchemaVerdict:
    return SchemaVerdict(foreign_bundle(name))


def problems(name: GenerationName, record: Json, judge: SchemaVerdict | None = None) -> Iterator[tuple[str, str]]:
    """Give each problem with the definition that has it; places in lists are left out."""
    definition = definition_of(record, foreign_bundle(name)) or ""
    for each in (judge or verdict(name)).output_problems(record):
        yield definition, re.sub(r"\[\d+\]", "[]", each)


def listed(name: GenerationName, problem: tuple[str, str], deviations: dict[str, Json]) -> list[str]:
    """Return the deviations that explain a problem."""
    return [
        key
        for key, each in deviations.items()
        if name in each["generations"] and problem == (each["definition"], each["problem"])
    ]


def unexplained(deviations: dict[str, Json]) -> list[tuple[GenerationName, tuple[str, str]]]:
    found = [(name, problem) for name in RECORDED for each in recorded(name) for problem in problems(name, each)]
    return [(name, problem) for name, problem in found if not listed(name, problem, deviations)]


def stale(deviations: dict[str, Json]) -> list[tuple[str, str]]:
    seen = {
        (key, name)
        for name in RECORDED
        for each in recorded(name)
        for problem in problems(name, each)
        for key in listed(name, problem, deviations)
    }
    return [(key, name) for key, each in deviations.items() for name in each["generations"] if (key, name) not in seen]


def test_what_the_program_wrote_is_valid_in_its_generation_or_a_listed_deviation() -> None:
    assert [] == unexplained(DEVIATIONS)


def test_every_listed_deviation_was_recorded() -> None:
    assert [] == stale(DEVIATIONS)


def test_a_deviation_that_is_not_listed_is_found() -> None:
    without = {key: each for key, each in DEVIATIONS.items() if key != "P-06"}

    assert [("seed", ("CompactionEnd", "record: 'result' is a required property"))] == unexplained(without)


def test_a_deviation_that_nothing_needs_is_found() -> None:
    more = {**DEVIATIONS, "P-99": {**DEVIATIONS["P-06"], "generations": ["1.5"]}}

    assert [("P-99", "1.5")] == stale(more)


def test_every_deviation_says_both_sides_and_its_evidence() -> None:
    for key, each in DEVIATIONS.items():
        assert re.fullmatch(r"P-\d\d", key)
        assert {"generations", "definition", "problem", "documented", "written", "evidence"} == set(each)
        assert all(each.values()), key


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_release_is_the_one_that_stands_for_its_generation(name: GenerationName) -> None:
    assert RECORDED[name] == generation(name).release


@pytest.mark.parametrize("name", RECORDED)
def test_every_record_type_of_a_generation_was_recorded(name: GenerationName) -> None:
    types = {each["type"] for each in recorded(name)}

    assert generation(name).written - types <= NEVER_RECORDED


def test_a_record_type_that_was_recorded_is_not_excused_everywhere() -> None:
    seen = {each["type"] for name in RECORDED for each in recorded(name)}
    never = {"extension_error", "session_info_changed"} | {name for name in NEVER_RECORDED if name.startswith("summ")}

    assert NEVER_RECORDED - seen == never


def changes(definition: Schema) -> Iterator[tuple[str, Schema]]:
    """Give the definition with one of its fields of another type; once for each field."""
    for field in definition.get("properties", {}):
        changed = copy.deepcopy(definition)
        changed["properties"][field] = {"type": "null"}
        yield field, changed


@pytest.mark.parametrize("name", RECORDED)
def test_a_change_of_one_field_that_was_recorded_is_found(name: GenerationName) -> None:
    """Each field of each record, of another type, makes a recorded record invalid: the check bites everywhere."""
    whole = foreign_bundle(name)
    by_definition: dict[str, list[Json]] = {}
    for each in recorded(name):
        if (key := definition_of(each, whole)) and not list(problems(name, each)):
            by_definition.setdefault(key, []).append(each)

    for key, records in by_definition.items():
        for field, changed in changes(whole["$defs"][key]):
            judge = SchemaVerdict({"$defs": {**whole["$defs"], key: changed}})
            holders = [each for each in records if each.get(field) is not None]
            assert all(judge.problems(key, each) for each in holders), (key, field)


def test_a_generation_before_its_time_is_found() -> None:
    """What a later release writes is no record of an earlier generation: dates make a difference."""
    later = SchemaVerdict(bundles.foreign_bundle("seed"))
    settled = next(each for each in recorded("0.87") if each["type"] == "agent_settled")
    update = next(each for each in recorded("0.87") if each["type"] == "message_update")

    assert ["no record of this bundle: type 'agent_settled', command None"] == later.output_problems(settled)
    assert "record: 'message' is a required property" in later.output_problems(update)
