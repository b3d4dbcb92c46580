"""Counts what tests or traces have reached of the specification: `python -P -m pinnace_spec.coverage FOLDER…`.

Kinds: rows of the chart, cells of command × state, record types, requests to the user by method, successes by command,
error codes; and which invariants were armed, since one that never was proves nothing. What was seen is read from files
`*.seen` that a run of the tests leaves (`PINNACE_COVERAGE` names their folder), and from recorded traces, of any agent.
Exits with 1 if something was not reached. Must not know who has seen it.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast, get_args

from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.generate.source import Spec, load
from pinnace_spec.observers import INVARIANTS
from pinnace_spec.records import ui_requests
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.commands import ALL_COMMANDS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.rules.errors import ErrorCode
from pinnace_spec.statechart.transitions import COMMANDS, REGIONS, STATES

SUFFIX: Final = ".seen"
ROWS, CELLS, RECORDS, METHODS, SUCCESSES, ERRORS = "rows", "cells", "records", "dialogs", "successes", "errors"
ARMED: Final = "invariants"
REQUIRED: Final = (ROWS, CELLS, RECORDS, METHODS, SUCCESSES, ERRORS)
"""Kinds of which nothing may be left out; invariants that were never armed are reported."""

_TITLES: Final[Mapping[str, str]] = {
    ROWS: "rows of the chart",
    CELLS: "cells (command × state)",
    RECORDS: "record types",
    METHODS: "requests to the user",
    SUCCESSES: "commands that succeed",
    ERRORS: "error codes",
    ARMED: "invariants armed",
}
# Of what was not reached: a longer list helps no reader.
_MAX_NAMED: Final = 40
# Errors of this program that no client can cause: each with its reason, which the table shows.
UNREACHABLE: Final[Mapping[str, str]] = {
    ErrorCode.NOT_IMPLEMENTED.value: "every command of the protocol is implemented",
}

Seen = Counter[tuple[str, str]]
"""Kind and name -> how often."""


class CoverageLine(NamedTuple):
    """One kind: what there is, and what of it was not reached."""

    kind: str
    total: int
    missing: tuple[str, ...]

    @property
    def reached(self) -> int:
        """How many were reached."""
        return self.total - len(self.missing)


def targets(spec: Spec) -> dict[str, tuple[str, ...]]:
    """Return everything that can be reached, by kind."""
    methods: tuple[type, ...] = get_args(get_args(ui_requests.AnyUiRequest)[0])
    return {
        ROWS: tuple(row_name(row) for row in spec.rows),
        CELLS: tuple(
            f"{region}/{state}/{name}" for region in REGIONS for state in STATES[region] for name in COMMANDS[region]
        ),
        RECORDS: ("response", *EVENTS["pi"]),
        METHODS: tuple(get_args(each.__annotations__["method"])[0] for each in methods),
        SUCCESSES: tuple(name for name in ALL_COMMANDS if name not in CLIENT_ANSWERS),
        ERRORS: tuple(code.value for code in ErrorCode if code.value not in UNREACHABLE),
        ARMED: INVARIANTS,
    }


def seen_in_record(record: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Return what a record of stdout reaches."""
    kind = record.get("type")
    if not isinstance(kind, str):
        return
    yield RECORDS, kind
    if kind == "extension_ui_request":
        yield METHODS, str(record.get("method"))
    if kind == "response" and record.get("success") is True:
        yield SUCCESSES, str(record.get("command"))
    if kind == "response" and record.get("success") is False and "errorCode" in record:
        yield ERRORS, str(record["errorCode"])


def table(seen: Seen, spec: Spec) -> list[CoverageLine]:
    """Compare what was seen with what there is. A cell is reached when one of its rows is."""
    found = set(seen)
    found |= {(CELLS, name.partition("[")[0]) for kind, name in seen if kind == ROWS}
    return [
        CoverageLine(kind, len(names), tuple(name for name in names if (kind, name) not in found))
        for kind, names in targets(spec).items()
    ]


def is_complete(lines: Iterable[CoverageLine]) -> bool:
    """Whether everything that must be reached was."""
    return not any(line.missing for line in lines if line.kind in REQUIRED)


def printed(lines: Sequence[CoverageLine]) -> str:
    """Return the table for people, with what was not reached."""
    out = [f"{'reached of the specification':<28}{'':>6}{'of':>6}"]
    for line in lines:
        share = f"{100 * line.reached // line.total} %" if line.total else ""
        out.append(f"  {_TITLES[line.kind]:<26}{line.reached:>6}{line.total:>6}{share:>7}")
    for line in lines:
        if line.missing:
            word = "not reached" if line.kind in REQUIRED else "never armed"
            more = f", and {len(line.missing) - _MAX_NAMED} more" if len(line.missing) > _MAX_NAMED else ""
            out.append(f"{word}: {', '.join(line.missing[:_MAX_NAMED])}{more}")
    out += [f"can not be reached: {name} ({why})" for name, why in UNREACHABLE.items()]
    return "\n".join(out) + "\n"


def read(folders: Iterable[Path]) -> Seen:
    """Return what the files in these folders have seen, or these files.

    Raises:
        ValueError: A file is neither a list of what was seen nor a trace.
    """
    seen: Seen = Counter()
    for each in folders:
        for path in sorted(each.rglob("*")) if each.is_dir() else [each]:
            if path.suffix == SUFFIX:
                seen.update(_read_seen(path))
            elif path.suffix == ".jsonl":
                seen.update(_read_trace(path))
    return seen


def _read_seen(path: Path) -> Seen:
    seen: Seen = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, name, count = cast("tuple[str, str, int]", json.loads(line))
        seen[kind, name] += count
    return seen


def _read_trace(path: Path) -> Seen:
    """Read a trace and let the observers see it, for what they are armed by."""
    from pinnace_spec.observers import judge
    from pinnace_spec.observers.trace_file import read_trace
    from pinnace_spec.profiles.generations import GENERATIONS, generation

    trace = read_trace(path.read_text(encoding="utf-8", errors="surrogateescape"))
    seen: Seen = Counter()
    for step in trace.steps:
        if step.direction == "out" and step.record is not None:
            seen.update(seen_in_record(step.record))
    spoken = next((name for name in GENERATIONS if name == trace.head.get("generation")), "pi")
    report = judge(trace.steps, trace.end, generation(spoken), trace.checks)
    seen.update({(ARMED, name): count for name, count in report.armed.items() if count})
    return seen


def main(arguments: Sequence[str]) -> int:
    """Print the table of these folders and files; return the exit code."""
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -P -m pinnace_spec.coverage FOLDER…\n")
        return 2
    try:
        lines = table(read(map(Path, arguments)), load())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(printed(lines))
    return 0 if is_complete(lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
