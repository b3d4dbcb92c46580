"""The scenarios of the specification are as their format says; both readers of the format agree on what is wrong."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pinnace_fuzz.judge.coverage import command_names, other_state_names, state_names
from pinnace_fuzz.judge.playing.surroundings import file_faults
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.files import ScenarioError, load, read_file
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Answered, Cell, FileCheck, Send
from pinnace_spec import data
from pinnace_spec.records.command_table import OWN_COMMANDS, READS

SCHEMA = json.loads(data.text("scenarios/schema.json"))
OK: dict[str, Any] = {"id": "AB/c", "title": "T.", "rules": ["R-ID-01"], "client": [{"quiet": True}]}


def faults(source: object) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(source)]


def test_every_scenario_is_as_the_schema_says() -> None:
    wrong = {scenario.id: found for scenario in load() if (found := faults(scenario.source))}

    assert {} == wrong


def test_every_rule_that_a_scenario_names_exists() -> None:
    rules = data.table("rules.toml").keys()
    named = {rule for scenario in load() for rule in scenario.rules if rule.startswith("R-")}

    assert set() == named - rules


def test_every_cell_is_one_of_the_chart() -> None:
    states = {*state_names(), *other_state_names()}
    commands = set(command_names())
    cells = {cell for scenario in load() for cell in scenario.cells}

    assert set() == {cell for cell in cells if cell.state not in states or cell.command not in commands}


def test_a_set_of_commands_stands_for_each_of_them(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    client = [
        {"send": [{"commands": "own reads"}, {"id": "x", "type": "abort"}]},
        {"answered": [{"commands": "own reads"}]},
    ]
    expect = [{"commands": "own reads"}, {"commands": "own reads", "behind": "x"}]
    cell = [{"state": "idle", "commands": "own reads"}]
    file.write_text(json.dumps({**OK, "client": client, "expect": expect, "cell": cell}), encoding="utf-8")
    own = [name for name in READS if name in OWN_COMMANDS]

    [found] = read_file(file, {})

    sent, answered = found.client
    assert isinstance(sent, Send)
    assert [*own, "abort"] == [record["type"] for record in sent.records]
    assert {"id": "get_queue", "type": "get_queue", "returned": True} in sent.records
    assert Answered(tuple(own)) == answered
    assert (*(f"resp({name},ok)" for name in own), *(f"resp(x,ok) ... resp({name},ok)" for name in own)) == found.expect
    assert [Cell("idle", name) for name in own] == list(found.cells)


def test_a_set_of_commands_that_there_is_not_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(json.dumps({**OK, "client": [{"send": [{"commands": "writes"}]}]}), encoding="utf-8")

    with pytest.raises(
        ScenarioError, match=r"a\.yaml:1: client\.0\.send\.commands: 'writes' is none of reads, own reads"
    ):
        read_file(file, {})


WRONG: dict[str, dict[str, Any]] = {
    "an id without an area": {"id": "c"},
    "no rules": {"rules": []},
    "a rule that is none": {"rules": ["QUE"]},
    "an unknown field": {"expects": "agent_end"},
    "an unknown capability": {"needs": ["magic"]},
    "an unknown generation": {"since": "new"},
    "no steps": {"client": []},
    "a step of two kinds": {"client": [{"open": "g", "reached": "g"}]},
    "an unknown step": {"client": [{"sleep": 1}]},
    "a record that is none": {"client": [{"send": "x"}]},
    "hexadecimal and text": {"client": [{"bytes": {"hex": "00", "text": "x"}}]},
    "an unknown signal": {"client": [{"signal": "STOP"}]},
    "a lock of several files": {"client": [{"lock": ["a", "b"]}]},
    "a file moved to nowhere": {"client": [{"move": ["a"]}]},
    "so many descendants at most": {"client": [{"children": {"max": 1}}]},
    "an unknown field of a line": {"llm": [{"txt": "x"}]},
    "a cut of an unknown kind": {"llm": [{"text": "x", "cut": "slowly"}]},
    "state that is a list": {"state": []},
    "an exit that is a text": {"exit": "0"},
    "a cell without a command": {"cell": {"state": "idle"}},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_reader_and_schema_refuse(change: dict[str, Any]) -> None:
    source = {**OK, **change}

    assert faults(source)
    with pytest.raises(FieldError):
        read_scenario(source)


@pytest.mark.parametrize("text", ["agent_stat", "user(", "a |", "resp(a,maybe)", "agent_end{3,1}"])
def test_an_expression_that_can_never_match_is_refused(text: str) -> None:
    with pytest.raises(FieldError):
        read_scenario({**OK, "expect": text})


def test_an_error_names_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("scenarios:\n- id: AB/c\n  title: T.\n  rules: [R-ID-01]\n  client:\n  - quiet\n  - sleep: 3\n")

    with pytest.raises(ScenarioError, match=r"^some\.yaml:7: scenarios\.0\.client\.1: expected one of send, "):
        read_file(file, {})


def test_a_table_of_rows_makes_one_scenario_each(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(
        "scenarios:\n- id: AB/x-${name}\n  title: T.\n  rules: [R-ID-01]\n"
        "  each: [{name: a, record: {type: abort}}, {name: b, record: {type: compact}}]\n"
        "  client: [{send: '${record}'}]\n"
    )

    assert [("AB/x-a", "abort"), ("AB/x-b", "compact")] == [
        (each.id, each.source["client"][0]["send"]["type"]) for each in read_file(file, {})
    ]


def test_a_setup_comes_first_and_its_finish_last(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(
        "setups:\n  busy: {needs: [llm], llm: [{text: a}], client: [{mark: first}], finish: [{mark: last}]}\n"
        "scenarios:\n- {id: AB/c, title: T., rules: [R-ID-01], begin: busy, needs: [bash], llm: [{text: b}],"
        " client: [{mark: own}]}\n"
    )
    (found,) = read_file(file, {})

    assert ["first", "own", "last"] == [step["mark"] for step in found.source["client"]]
    assert ["a", "b"] == [line["text"] for line in found.source["llm"]]
    assert {"llm", "bash"} == set(found.needs)


def test_a_hole_that_nothing_fills_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("id: AB/c\ntitle: T.\nrules: [R-ID-01]\nclient: [{mark: '${nothing}'}]\n")

    with pytest.raises(ScenarioError, match="nothing gives a value"):
        read_file(file, {})


def test_a_scenario_that_brings_extensions_says_so() -> None:
    """The invariants then know that more may act than the client and the model."""
    brought: dict[str, Any] = {"files": {"agent/extensions/asks.py": ""}}
    written: dict[str, Any] = {"client": [{"write": {"work/.pi/extensions/asks.ts": ""}}]}
    others: dict[str, Any] = {"files": {"agent/extensions.md": "", "work/extensions/a.py": ""}}

    assert [True, True, False] == [read_scenario({**OK, **each}).has_extensions for each in (brought, written, others)]


@pytest.mark.parametrize("wanted", [{"a": {"$save": "s"}}, {"a": [{"$ref": "s"}]}, {"a": {"$len": 1, "b": 2}}])
@pytest.mark.parametrize("place", ["wait", "state", "gives", "the end"])
def test_what_stands_for_no_value_is_refused(wanted: dict[str, Any], place: str) -> None:
    """Such an expectation would never be met, and the agent would be blamed."""
    step: dict[str, Any] = (
        {"ask": {"id": "a", "type": "get_state"}, "gives": wanted} if place == "gives" else {place: wanted}
    )

    with pytest.raises(FieldError, match="each alone in its object"):
        read_scenario({**OK, "state": wanted} if place == "the end" else {**OK, "client": [step]})


def test_no_extension_of_a_scenario_has_a_key_twice() -> None:
    """The second registration replaces the first, and scenarios that mean the first fail."""
    for scenario in load():
        for name, text in scenario.files.items():
            keys = re.findall(r"\.shortcut\(\"([^\"]+)\"", text)
            assert len(set(keys)) == len(keys), f"{scenario.id}: {name}: {keys}"


def test_a_file_is_there_at_once_or_in_the_moment_that_others_have(tmp_path: Path) -> None:
    path, check = tmp_path / "page", FileCheck("page", has=("words",))
    later = threading.Timer(0.1, path.write_text, ["words"])
    later.start()

    assert ["page is not there"] == file_faults(path, check)
    assert [] == file_faults(path, check, 10)
