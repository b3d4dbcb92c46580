"""Any session exports, whatever its fields hold: every field of every kind of line, with every type of JSON."""

import copy
import json
from collections.abc import Callable, Iterator
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_agent.export.exporting import export_lines
from pinnace_agent.export.page import page
from pinnace_agent.export.source import read_source

Line = dict[str, Any]
Place = tuple[str | int, ...]

# Each type of JSON, with those values of it that are something else to who reads them.
VALUES: list[object] = [None, True, -1, 2**63, 1e308, "", "\ud800\x00", [], [[]], [{"type": []}], {}, {"content": 1}]


def places(value: object, before: Place = ()) -> Iterator[Place]:
    """Give the place of each value within a value."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in members:
        yield (*before, key)
        yield from places(each, (*before, key))


def put(line: Line, place: Place, value: object) -> Line:
    """Return the line with another value in a place."""
    changed = target = copy.deepcopy(line)
    for key in place[:-1]:
        target = target[key]  # type: ignore[index]  # `places` has gone there
    target[place[-1]] = value  # type: ignore[index]
    return changed


def without(line: Line, place: Place) -> Line:
    """Return the line without a value."""
    changed = target = copy.deepcopy(line)
    for key in place[:-1]:
        target = target[key]  # type: ignore[index]  # `places` has gone there
    del target[place[-1]]  # type: ignore[arg-type]
    return changed


def mutants(line: Line) -> Iterator[Line]:
    """Give the line with each of its fields changed to each value, and without it."""
    for place in places(line):
        yield without(line, place)
        for value in VALUES:
            yield put(line, place, value)


def mutants_without_a_field(line: Line) -> Iterator[Line]:
    """Give the line without one of its fields and with another one changed to what is no key of a table.

    What is shown of one field often depends on whether another one is there.
    """
    parts: list[Place] = [(), ("message",)] if isinstance(line.get("message"), dict) else [()]
    for part in parts:
        names = [place[-1] for place in places(line) if place[:-1] == part]
        for missing, changed in permutations(names, 2):
            yield put(without(line, (*part, missing)), (*part, changed), [])


@pytest.fixture
def lines(writer: Any, fill: Callable[..., None]) -> list[Line]:
    """The lines of a session that has one of everything."""
    fill(writer, lambda: "word")
    lines: list[Line] = writer.lines
    lines[0]["parentSession"] = "/a.jsonl"
    # As `fill` has texts where a type of its own means something.
    message = next(line["message"] for line in lines if line.get("message", {}).get("role") == "assistant")
    message["stopReason"] = "error"
    message["durationMs"] = 3
    return lines


def exported(path: Path, lines: list[Line]) -> None:
    """Export these lines as a page and as a session file."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    source = read_source(str(path), "/")
    assert "".join(page(source)).rstrip().endswith("</html>")
    export_lines(source, str(path.with_name("out.jsonl")), cwd="/", env={})


def test_every_line_with_any_field_changed_exports(lines: list[Line], tmp_path: Path) -> None:
    """All mutants of the lines stand in one session, beside each other."""
    changed = list(lines)
    for line in lines[1:]:
        for number, mutant in enumerate(chain(mutants(line), mutants_without_a_field(line))):
            if mutant.get("id") == line["id"]:
                mutant["id"] = f"{line['id']}-{number}"
            changed.append(mutant)

    exported(tmp_path / "session.jsonl", changed)


def test_any_header_exports(lines: list[Line], tmp_path: Path) -> None:
    for value in VALUES:
        fields = dict.fromkeys(("timestamp", "cwd", "parentSession", "other"), value)
        exported(tmp_path / "session.jsonl", [{**lines[0], **fields}, lines[3]])
        exported(tmp_path / "session.jsonl", [{**lines[0], "version": value}, lines[3]])


@settings(WITH_FIXTURES, max_examples=25)
@given(data=st.data())
def test_a_session_with_several_fields_changed_exports(lines: list[Line], tmp_path: Path, data: st.DataObject) -> None:
    changed = [lines[0], *data.draw(st.lists(st.sampled_from(lines[1:]), min_size=1, max_size=6))]
    for index in range(1, len(changed)):
        line = changed[index]
        for _ in range(data.draw(st.integers(0, 2))):
            if found := list(places(line)):
                line = put(line, data.draw(st.sampled_from(found)), data.draw(st.sampled_from(VALUES)))
        changed[index] = line

    exported(tmp_path / "session.jsonl", changed)
