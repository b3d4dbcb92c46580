"""The index of the published protocol and of older ones: every sentence has its rules, or a note why it has none."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pinnace_spec import data
from pinnace_spec.generate.rulebook import read_sentences
from pinnace_spec.generate.source import load

INDEX: Mapping[str, Sequence[Mapping[str, Any]]] = read_sentences(data.table("seed_index.toml"))
RULES = load().rules


def problems(index: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Say what is wrong with an index."""
    found: list[str] = []
    for document, sentences in index.items():
        if [each.get("number") for each in sentences] != list(range(1, len(sentences) + 1)):
            found.append(f"{document}: numbers have a gap or are out of order")
        for each in sentences:
            name = f"{document} {each.get('number')}"
            if not (each.get("section") and each.get("says")):
                found.append(f"{name}: says nothing")
            if bool(each.get("rules")) == bool(each.get("note")):
                found.append(f"{name}: neither rules nor a note, or both")
            if extra := each.keys() - {"number", "section", "says", "rules", "note"}:
                found.append(f"{name}: unknown keys {sorted(extra)}")
            found += [f"{name}: no such rule: {rule}" for rule in each.get("rules", ()) if rule not in RULES]
    return found


GENERATIONS = {"published": "seed", "oldest": "0.18", "older": "0.5x"}
OF_ALL_PROFILES = frozenset({"R-PRO-02"})
"""Rules of this program alone, about what it writes in each profile."""


def out_of_place(index: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Name the rules that an agent of the document's generation need not keep."""
    return [
        f"{document} {each['number']}: {rule} is not of {GENERATIONS[document]}"
        for document, sentences in index.items()
        for each in sentences
        for rule in each.get("rules", ())
        if rule not in OF_ALL_PROFILES
        and GENERATIONS[document] not in (RULES[rule].generations or [GENERATIONS[document]])
    ]


def test_the_rules_of_a_sentence_hold_for_its_generation() -> None:
    assert [] == out_of_place(INDEX)
    assert out_of_place({"oldest": [{**GOOD, "rules": ["R-QUE-01"]}]}) == ["oldest 1: R-QUE-01 is not of 0.18"]


def test_every_sentence_has_rules_that_exist_or_a_note() -> None:
    assert [] == problems(INDEX)


def test_the_documents_are_those_whose_commands_are_promised() -> None:
    assert ["published", "oldest", "older"] == list(INDEX)
    assert len(INDEX["published"]) > 250
    assert len(INDEX["oldest"]) > 140
    assert len(INDEX["older"]) > 250


def test_a_section_is_in_one_piece() -> None:
    """In the order of the document: no section is come back to."""
    for sentences in INDEX.values():
        sections = [each["section"] for each in sentences]
        pieces = [name for name, before in zip(sections, ["", *sections], strict=False) if name != before]

        assert len(pieces) == len(set(pieces))


def test_every_rule_that_is_said_to_be_published_keeps_a_sentence() -> None:
    kept = {rule for sentences in INDEX.values() for each in sentences for rule in each.get("rules", ())}

    assert set() == {rule.id for rule in RULES.values() if rule.origin == "seed"} - kept


GOOD = {"number": 1, "section": "s", "says": "it", "rules": ["R-FRM-01"]}
BROKEN = {
    "a gap": [GOOD, {**GOOD, "number": 3}],
    "twice": [GOOD, GOOD],
    "empty": [{**GOOD, "rules": []}],
    "rules and a note": [{**GOOD, "note": "why"}],
    "a rule that there is not": [{**GOOD, "rules": ["R-FRM-99"]}],
    "no words": [{**GOOD, "says": ""}],
    "a misspelt key": [{**GOOD, "rule": ["R-FRM-01"]}],
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_reported(broken: str) -> None:
    assert [] == problems({"d": [GOOD]})
    assert problems({"d": BROKEN[broken]})


def test_a_sentence_that_repeats_a_published_one_is_that_one() -> None:
    index: dict[str, list[Mapping[str, Any]]] = {"published": [GOOD], "older": [{"number": 4, "published": 1}]}
    assert read_sentences(index) == {"published": [GOOD], "older": [{**GOOD, "number": 4}]}
    with pytest.raises(KeyError):
        read_sentences({**index, "older": [{"number": 4, "published": 2}]})
