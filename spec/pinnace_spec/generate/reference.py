"""Writes the reference: the whole specification for people, rule by rule, without knowledge of Python or this program.

Everything in it comes from the sources; the words around it are here. Anchors are ids in lower case (`#r-que-07`), so
that other pages can link to a rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pinnace_spec import data
from pinnace_spec.generate.examples import Example, examples
from pinnace_spec.generate.promela.properties import PROPERTIES
from pinnace_spec.generate.rulebook import ORIGINS, Rule, by_chapter, read_sentences, row_name
from pinnace_spec.generate.schema.schema import schema
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.generate.witnesses import invariants
from pinnace_spec.profiles.generations import GENERATIONS, Kind, generation, lifetimes
from pinnace_spec.rules.errors import ErrorCode
from pinnace_spec.rules.scenario_index import scenarios_of
from pinnace_spec.statechart.transitions import STATES, Region, Transition

FIRST_PAGE: Final = """\
# The protocol: reference

A headless coding agent is controlled by a program: an editor, a chat, a build. The program starts the agent, writes
**commands** to its standard input and reads **records** from its standard output, one JSON object per line. Each
command gets one **response**; **events** report what happens in between.

```text
→ {"id":"1","type":"prompt","message":"Say hello"}
← {"id":"1","type":"response","command":"prompt","success":true}
← {"type":"agent_start"}
← … the answer, piece by piece …
← {"type":"agent_end","messages":[…]}
```

This page states everything that an agent guarantees in this exchange, as numbered rules. It is generated from the files
that the agent runs on and is judged by: the rules, the transitions of the statechart, the models of the records. So the
tests of the program check this page as well. It can be read without the source.

Terms:

- A **run** is the work on a prompt: one or more **turns**, each of them one answer of the model with the results of its
  tool calls.
- While the agent works, further messages can be **queued**: to *steer* (delivered before the model's next answer) or to
  *follow up* (delivered when the agent would otherwise stop).
- The agent has **settled** when nothing more happens without a new command.
- A **generation** is a range of releases of the original program with one protocol: 0.18, 0.5x, seed (the published
  protocol), 0.87, 1.5. This program speaks all of them; where they differ, a **profile** selects one.
- The **statechart** decides what every command does. Each of its regions (RUN, SESSION, SHELL, UI, IO) is in one state,
  and its **transitions** define what happens on each trigger."""

HOW_TO_READ: Final = """\
- **Level**: MUST, SHOULD or MAY, as in RFC 2119.
- **Origin**: *seed*, the published protocol requires it; *observed*, the original program behaves so; *ours*, the
  original leaves it open or gets it wrong. A violation of a rule of origin *ours* is reported for a third-party agent,
  and does not count as a failure.
- **Generations**: those that the rule applies to. `pi` is this program.
- **Transitions**: the implementation of the rule in the statechart. `run/llm/llm_stop[has_steering]` is region RUN in
  state `llm`, on the end of the answer, if a steering message is queued. Effects follow, in the order of their records.
- **Properties of the models**: they hold in every state that the model checker has visited, within bounds.
- **Witnesses**: what fails if the rule is violated. An invariant (`I-…`) is judged on every trace; a scenario is a
  script for any agent; a path names a test in the repository.
- **Deviation**: a difference from the original, on purpose.

`pinnace explain R-QUE-07` prints the same."""

NO_STATEMENT: Final = "This edition has no models."


STATEMENT = "model/STATEMENT.md"
APPENDICES = (
    "Commands and records",
    "Invariants",
    "Error codes",
    "Deviations",
    "Conversations",
    "The published protocol, sentence by sentence",
)
# Of a rule with more transitions than this the reference lists the states, not the effects.
_MAX_ROWS = 6
_MAX_SCENARIOS = 6


def reference(spec: Spec) -> str:
    """Return `reference.md`."""
    chapters = by_chapter(spec.rules.values())
    reported = examples()
    definitions = _definitions_by_rule(spec)
    sentences = _sentences_by_rule()
    lines = [f"<!-- {NOTE} -->", "", FIRST_PAGE, "", "## What is proved, and how far", "", *_statement(), ""]
    lines += ["## How to read a rule", "", HOW_TO_READ, "", "## Contents", "", *_contents(chapters), ""]
    for chapter, rules in chapters.items():
        lines += [f"## {chapter}", ""]
        for rule in rules:
            lines += [*_rule(spec, rule, reported, definitions.get(rule.id, ()), sentences.get(rule.id, ())), ""]
    lines += [*_records(), "", *_invariants(), "", *_codes(), "", *_deviations(spec), "", *_conversations(reported), ""]
    lines += _sentences()
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """Return what a heading is linked by: as GitHub makes it."""
    kept = "".join(each for each in heading.lower() if each.isalnum() or each in " -_")
    return kept.strip().replace(" ", "-")


def _link(name: str) -> str:
    return f"[{name}](#{anchor(name)})"


def _statement() -> Iterable[str]:
    """Give the statement of the models, one level deeper than where it was written."""
    if not data.has(STATEMENT):
        return [NO_STATEMENT]
    lines = data.text(STATEMENT).strip().splitlines()
    lines = lines[1:] if lines[0].startswith("# ") else lines
    lines = lines[1:] if not lines[0] else lines
    return [f"#{line}" if line.startswith("#") else line for line in lines]


def _contents(chapters: Mapping[str, Sequence[Rule]]) -> Iterable[str]:
    for chapter, rules in chapters.items():
        yield f"- {_link(chapter)}: " + ", ".join(_link(rule.id) for rule in rules)
    yield from (f"- {_link(each)}" for each in APPENDICES)
    yield "- Beside this page: the statechart [as a drawing](chart.svg), [as SCXML](chart.scxml), "
    yield "  [as Mermaid](chart.mmd); [command × state](matrix.md); the records [as JSON Schema](schema/), "
    yield "  [as AsyncAPI](asyncapi.yaml); [all names for programs](meta.json)"


def _rule(
    spec: Spec, rule: Rule, reported: Sequence[Example], definitions: Iterable[str], sentences: Iterable[int]
) -> Iterable[str]:
    yield f"### {rule.id}"
    yield ""
    yield f"**{rule.level}.** {rule.text}"
    yield ""
    yield f"- Origin: {rule.origin}, {ORIGINS[rule.origin]}."
    yield f"- Generations: {', '.join(rule.generations) if rule.generations else 'all'}."
    if numbers := ", ".join(f"[{number}](#sentence-{number})" for number in sentences):
        yield f"- Published sentences: {numbers}."
    if names := ", ".join(f"[{name}](schema/pi.json)" for name in definitions):
        yield f"- Records: {names}."
    if rows := spec.rows_of(rule.id):
        yield "- Transitions, each reached by the exhaustive search:"
        yield from _rows(rows)
    if searched := [each for each in PROPERTIES if rule.id in each.rules]:
        yield "- Properties of the models: " + " ".join(f"{each.text} (`{each.name}`)" for each in searched)
    if noticed := [*_noticed(rule)]:
        yield "- Witnesses: " + "; ".join(noticed) + "."
    for each in spec.deviations_of(rule.id):
        yield f"- Deviation {_link(each.id)}. The original: {each.original} **Here:** {each.ours}"
    if shown := ", ".join(f"[{each.title}](#{anchor(each.title)})" for each in reported if rule.id in each.rules):
        yield f"- Example: {shown}."


def _rows(rows: Sequence[Transition]) -> Iterable[str]:
    if len(rows) <= _MAX_ROWS:
        for row in rows:
            target = f" → **{row.target}**" if row.target not in {None, row.source} else ""
            yield f"  - `{row_name(row)}`: {', '.join(row.effects) or 'nothing'}{target}"
        return
    places: dict[tuple[Region, str, str], list[str]] = {}
    for row in rows:
        places.setdefault((row.region, row.trigger, row.guard), []).append(row.source)
    states: dict[tuple[Region, str, tuple[str, ...]], list[str]] = {}
    for (region, trigger, guard), sources in places.items():
        states.setdefault((region, guard, tuple(sources)), []).append(trigger)
    for (region, guard, found), triggers in states.items():
        where = "every state" if set(found) == set(STATES[region]) else ", ".join(found)
        when = f" when `{guard}`" if guard else ""
        yield f"  - {region.upper()} in {where}{when}: {', '.join(f'`{each}`' for each in triggers)}"


def _noticed(rule: Rule) -> Iterable[str]:
    known = invariants()
    for name in rule.witnesses("invariant"):
        yield f"[{name}](#{anchor(name)}) ({known[name].text.rstrip('.')})" if name in known else name
    yield from (f"[schema](schema/{name.partition('#')[0]})" for name in rule.witnesses("schema"))
    if heads := scenarios_of(rule.id):
        more = f" and {len(heads) - _MAX_SCENARIOS} more" if len(heads) > _MAX_SCENARIOS else ""
        yield f"scenarios {', '.join(f'`{head.id}`' for head in heads[:_MAX_SCENARIOS])}{more}"
    if tests := rule.witnesses("test"):
        yield ", ".join(f"`{name.removeprefix('tests/')}`" for name in tests)


def _records() -> Iterable[str]:
    yield f"## {APPENDICES[0]}"
    yield ""
    yield "The commands and records of each generation. The last column is this program in its profile `pi`."
    yield ""
    parts: tuple[tuple[str, Kind], ...] = (("Commands", "commands"), ("Records beside responses", "records"))
    for title, kind in parts:
        yield f"### {title}"
        yield ""
        yield f"| name | {' | '.join(GENERATIONS)} |"
        yield f"|---|{'---|' * len(GENERATIONS)}"
        for name in lifetimes(kind):
            marks = ("●" if name in getattr(generation(each), kind) else "" for each in GENERATIONS)
            yield f"| `{name}` | {' | '.join(marks)} |"
        yield ""


def _invariants() -> Iterable[str]:
    yield f"## {APPENDICES[1]}"
    yield ""
    yield "Each invariant must hold in every trace of any agent. An observer judges it from the records alone."
    for each in invariants().values():
        yield ""
        yield f"### {each.id}"
        yield ""
        yield f"{each.text} Rules: {', '.join(_link(rule) for rule in each.rules) or 'see those that name it'}."


def _codes() -> Iterable[str]:
    yield f"## {APPENDICES[2]}"
    yield ""
    yield "The values of `errorCode` in a response with `success: false` ([R-ERR-05](#r-err-05)): "
    yield ", ".join(f"`{code.value}`" for code in ErrorCode) + "."


def _deviations(spec: Spec) -> Iterable[str]:
    yield f"## {APPENDICES[3]}"
    yield ""
    yield "Where this program differs on purpose from the original."
    for each in spec.deviations.values():
        yield ""
        yield f"### {each.id}"
        yield ""
        yield f"The original: {each.original} Here: {each.ours} Rule: {_link(each.rule)}."


def _conversations(reported: Sequence[Example]) -> Iterable[str]:
    yield f"## {APPENDICES[4]}"
    yield ""
    yield "Recorded from this program. `→` is a line of the client, `←` one of the agent; long texts are cut at `…`."
    for example in reported:
        yield ""
        yield f"### {example.title}"
        yield ""
        yield example.about
        yield ""
        yield "```text"
        yield from (f"{'→' if step.is_in else '←'} {step.text}" if step.text else "" for step in example.steps)
        yield "```"


def _sentences() -> Iterable[str]:
    yield f"## {APPENDICES[5]}"
    yield ""
    yield "Every sentence of the published protocol and of two older releases, restated, with its rules."
    for document, sentences in read_sentences(data.table("seed_index.toml")).items():
        yield ""
        yield f"### {document.capitalize()}"
        yield ""
        yield "| | section | sentence | rules |"
        yield "|---|---|---|---|"
        for each in sentences:
            number = each["number"]
            mark = f'<a id="sentence-{number}"></a>{number}' if document == "published" else str(number)
            right = ", ".join(_link(rule) for rule in each.get("rules", ())) or f"none: {each['note']}"
            yield f"| {mark} | {each['section']} | {each['says'].replace('|', chr(92) + '|')} | {right} |"


def _sentences_by_rule() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in data.table("seed_index.toml")["published"]:
        for rule in each.get("rules", ()):
            found.setdefault(rule, []).append(each["number"])
    return found


def _definitions_by_rule(spec: Spec) -> dict[str, list[str]]:
    """Return which definitions of the published schema name a rule."""
    found: dict[str, list[str]] = {}
    for name, definition in schema("pi", spec)["$defs"].items():
        for rule in definition.get("x-rules", ()):
            found.setdefault(rule, []).append(name)
    return found
