"""The reference: every rule in it, every link leads somewhere, and examples are what the program wrote."""

import json
import re
from collections import Counter

import pytest

from pinnace_spec import data
from pinnace_spec.generate.examples import Example, examples
from pinnace_spec.generate.reference import APPENDICES, anchor
from pinnace_spec.generate.rulebook import CHAPTERS
from pinnace_spec.generate.source import load
from pinnace_spec.generate.svg import svg
from pinnace_spec.generate.witnesses import invariants
from pinnace_spec.profiles.profiles import Profile
from pinnace_spec.records.outputs import validate_output

SPEC = load()
PAGE = data.text("reference.md")
HEADINGS = re.findall(r"^#{1,3} (.+)$", PAGE, flags=re.MULTILINE)
TOLD = examples()
EACH_EXAMPLE = pytest.mark.parametrize("example", TOLD, ids=lambda example: example.name)


def section(name: str) -> str:
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n##")[0]


def test_every_rule_deviation_and_invariant_has_its_place() -> None:
    for name in (*SPEC.rules, *SPEC.deviations, *invariants(), *CHAPTERS, *APPENDICES):
        assert HEADINGS.count(name) == 1, name


@pytest.mark.parametrize("name", SPEC.rules)
def test_a_rule_is_reported_with_level_origin_generations_and_what_notices(name: str) -> None:
    rule, text = SPEC.rules[name], section(name)

    assert f"**{rule.level}.** {rule.text}" in text
    assert f"- Origin: {rule.origin}, " in text
    assert f"- Generations: {', '.join(rule.generations) or 'all'}." in text
    assert "- Witnesses: " in text or "- Transitions, each reached" in text
    for each in SPEC.deviations_of(name):
        assert f"[{each.id}](#{each.id.lower()})" in text


def test_it_begins_with_what_it_is_and_what_is_proved() -> None:
    assert ["The protocol: reference", "What is proved, and how far"] == HEADINGS[:2]
    assert HEADINGS.index("How to read a rule") < HEADINGS.index("Contents") < HEADINGS.index(next(iter(CHAPTERS)))


def test_headings_have_anchors_of_their_own() -> None:
    assert [] == [name for name, count in Counter(map(anchor, HEADINGS)).items() if count > 1]


def test_every_link_leads_somewhere() -> None:
    anchors = {*map(anchor, HEADINGS), *re.findall(r'<a id="([^"]+)">', PAGE)}
    links = set(re.findall(r"\]\(([^)]+)\)", PAGE))

    assert [] == [link for link in links if link.startswith("#") and link[1:] not in anchors]
    files = {link for link in links if not link.startswith("#")}
    assert [] == [name for name in files if not (data.has(name) or data.names(name.rstrip("/")))]


@EACH_EXAMPLE
def test_an_example_is_about_rules_that_there_are(example: Example) -> None:
    assert example.rules
    assert set(example.rules) <= set(SPEC.rules)


@EACH_EXAMPLE
def test_what_an_example_shows_is_valid(example: Example) -> None:
    """It was recorded from the program; this would report if the records have changed since."""
    profile: Profile = "pi" if example.name == "01-prompt" else "1.5"
    for step in example.steps:
        if not step.is_in and isinstance(step.record, dict):
            assert [] == validate_output(step.record, profile)


@EACH_EXAMPLE
def test_an_example_says_nothing_of_the_machine_it_was_recorded_on(example: Example) -> None:
    text = data.text(f"examples/{example.name}.jsonl")

    assert [] == re.findall(r"/(?:home|tmp|root|Users|work)/[\w.-]+", text)
    assert set(re.findall(r"127\.0\.0\.1:\d+", text)) <= {"127.0.0.1:8080"}


def test_a_text_that_is_cut_says_so() -> None:
    whole = json.dumps([each.record for example in TOLD for each in example.steps if isinstance(each.record, dict)])

    assert "usage" in whole
    assert not any('"usage"' in each.text for example in TOLD for each in example.steps)
    assert any("…" in each.text for example in TOLD for each in example.steps)


def test_every_way_from_a_state_to_another_is_drawn() -> None:
    drawn = svg(SPEC)
    for row in SPEC.rows:
        assert f'id="state-{row.region}-{row.source}"' in drawn or row.region == "ui"
        if row.target not in {None, row.source} and not row.source.startswith("stopping.") and row.guard:
            assert row.guard in drawn
