"""The JSON Schema bundles, one a profile: every command, answer and record, and the unions that a stream consists of.

`seed`, `1.5` and `pi` say what our program writes, closed; in `seed` and `1.5` `x-foreign` notes what other agents of
that generation write otherwise. The others are projected from everything that is known, by the dates of
`profiles.toml`. Who judges by them reads `bundles`. Beside the standard's keywords: `x-direction` (in: to the agent),
`x-since`, `x-until` (releases of the original), `x-origin` (ours: this program's alone), `x-rules`, `x-undocumented`
(written before it was documented).
"""

import copy
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from pinnace_spec.generate.rulebook import Rule
from pinnace_spec.generate.schema.dating import differences, mark, project
from pinnace_spec.generate.schema.field_meanings import describe
from pinnace_spec.generate.schema.json_schema import PREFIX, Schema, one_of, pascal, reached, ref, walk
from pinnace_spec.generate.schema.model_schema import input_definitions, output_definitions
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.profiles.generations import GENERATIONS, Generation, GenerationName, generation
from pinnace_spec.profiles.profiles import PROFILES, Profile
from pinnace_spec.records import other_records
from pinnace_spec.records.command_table import OWN_COMMANDS
from pinnace_spec.records.commands import MODELS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.responses import DATA, FAILURES, MAY_LACK_DATA

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

ROOTS: Final = ("Command", "Output")

_QUOTED: Final = re.compile(r"`([\w.]+)")
_WORD: Final = re.compile(r"[a-z_]+")
_RULE: Final = re.compile(r"\b[RC]-(?:[A-Z]+-)?\d+\b")


def bundles(spec: Spec) -> Mapping[str, str]:
    """Return every file of `schema/`."""
    return {f"{name}.json": bundle(name, spec) for name in GENERATIONS}


def bundle(name: GenerationName, spec: Spec) -> str:
    """Return the text of one bundle."""
    return json.dumps(schema(name, spec), indent=1, ensure_ascii=False) + "\n"


def schema(name: GenerationName, spec: Spec) -> Schema:
    """Return one bundle."""
    it = generation(name)
    profile: Profile | None = next((each for each in PROFILES if each == name), None)
    if profile is None:
        definitions = _generation_definitions(it)
    else:
        definitions = _own_definitions(profile)
        if not it.is_ours:
            theirs = _generation_definitions(it)
            differences(definitions, theirs)
    mark(definitions)
    describe(definitions)
    _mark_rules(definitions, spec, name)
    return {
        "$schema": DIALECT,
        "$id": f"urn:pinnace:protocol:{name}",
        "$comment": NOTE,
        "title": f"The protocol, {'profile' if profile else 'generation'} {name}",
        "description": it.about,
        "x-release": it.release,
        "anyOf": [ref(root) for root in ROOTS],
        "$defs": {each: definitions[each] for each in _order(definitions)},
    }


def _own_definitions(profile: Profile) -> dict[str, Schema]:
    """What our program takes and writes in a profile."""
    answers = DATA[profile]
    outputs = output_definitions(EVENTS[profile], answers, FAILURES[profile], MAY_LACK_DATA)
    models = {name: model for name, model in MODELS.items() if profile != "seed" or name not in OWN_COMMANDS}
    definitions = outputs | input_definitions(models)
    _add_unions(definitions, models, EVENTS[profile], answers)
    return reached(definitions, ROOTS)


def _generation_definitions(it: Generation) -> dict[str, Schema]:
    """What agents of a generation take and write, as documents and programs show it."""
    definitions = copy.deepcopy(everything())
    records = [name for name in {**EVENTS["pi"], **other_records.EVENTS} if name in it.written]
    commands = [name for name in {**MODELS, **other_records.COMMANDS} if name in it.commands]
    project(definitions, it)
    _add_unions(definitions, commands, records, [name for name in commands if name in DATA["pi"]])
    for name in it.written - it.records:
        definitions[pascal(name)]["x-undocumented"] = True
    return reached(definitions, ROOTS)


def everything() -> dict[str, Schema]:
    """Everything that any agent of any generation takes and writes."""
    records = {**EVENTS["pi"], **other_records.EVENTS}
    holder = {"system_holder": other_records.SystemHolder}
    outputs = output_definitions({**records, **holder}, DATA["pi"], FAILURES["pi"], MAY_LACK_DATA)
    for name, fields in other_records.FIELDS.items():
        outputs[name]["properties"] |= copy.deepcopy(dict(fields))
    roles = {key: to.removeprefix(PREFIX) for key, to in outputs["Message"]["discriminator"]["mapping"].items()}
    outputs["Message"] = one_of({**roles, "system": "SystemMessage"}, "role")
    outputs["StopReason"]["enum"] += ["pending", "deferred"]
    return outputs | input_definitions({**MODELS, **other_records.COMMANDS})


def _add_unions(
    definitions: dict[str, Schema], commands: Iterable[str], records: Iterable[str], answers: Iterable[str]
) -> None:
    for name in commands:
        definitions[f"{pascal(name)}Command"]["x-direction"] = "in"
    for name in records:
        definitions[pascal(name)]["x-direction"] = "out"
    successes = {name: f"{pascal(name)}Response" for name in answers}
    for name in (*successes.values(), "Failure"):
        definitions[name]["x-direction"] = "out"
    definitions["Command"] = {
        "description": "What a client may write: one line on stdin.",
        **one_of({name: f"{pascal(name)}Command" for name in commands}, "type"),
    }
    definitions["Response"] = {
        "description": "The answer to a command: the success of that command, or a failure.",
        **one_of(successes, "command"),
    }
    definitions["Response"]["oneOf"].append(ref("Failure"))
    definitions["Output"] = {
        "description": "What an agent may write: one line on stdout.",
        **one_of({**{name: pascal(name) for name in records}, "response": "Response"}, "type"),
    }


def _mark_rules(definitions: Mapping[str, Schema], spec: Spec, name: GenerationName) -> None:
    """Name the rules of each definition: cited in its texts, witnessed by it, about its record, or in its rows."""
    found: dict[str, set[str]] = {each: set() for each in definitions}
    for each, definition in definitions.items():
        texts = [inner["description"] for inner in walk(definition) if isinstance(inner.get("description"), str)]
        found[each].update(rule for text in texts for rule in _RULE.findall(text))
    for rule in spec.rules.values():
        if not rule.generations or name in rule.generations:
            for each in _spoken_of(rule, definitions):
                found[each].add(rule.id)
    for kind, each in _mapping(definitions["Command"]).items():
        found[each].update(rule for row in spec.rows if row.trigger == kind for rule in row.rules)
    for each, rules in found.items():
        if rules:
            definitions[each]["x-rules"] = sorted(rules)


def _spoken_of(rule: Rule, definitions: Mapping[str, Schema]) -> set[str]:
    """Return the definitions that a rule names as a witness, and those of the commands and records in its text."""
    witnesses = {witness.partition(f"json{PREFIX}")[2] for witness in rule.witness}
    words = {word.split(".")[0] for word in _QUOTED.findall(rule.text)}
    words |= {word for word in _WORD.findall(rule.text) if "_" in word}
    named = {
        name for union in ("Command", "Output") for kind, name in _mapping(definitions[union]).items() if kind in words
    }
    return (witnesses | named) & set(definitions)


def _mapping(union: Schema) -> dict[str, str]:
    return {kind: to.removeprefix(PREFIX) for kind, to in union["discriminator"]["mapping"].items()}


def _order(definitions: Mapping[str, Schema]) -> list[str]:
    """The unions first, then commands, answers, records, and what they share."""

    def rank(name: str) -> tuple[int, str]:
        if name in {"Command", "Output", "Response"}:
            return 0, name
        direction = definitions[name].get("x-direction")
        group = 4 if direction is None else 1 if direction == "in" else 2 if name.endswith("Response") else 3
        return group, name

    return sorted(definitions, key=rank)
