"""The store of failures: each is a trace that can be judged again, with the case that led to it in its head.

`FOLDER/<invariant>/<hash>.jsonl`. It heals itself: what no longer fails when it is replayed is deleted.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pinnace_fuzz.judge.results import CaseResult, Finding
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.observers.trace_file import NotATrace, read_trace, write_trace
from pinnace_spec.profiles.generations import Generation

FOLDER = "failures"


class StoreError(ValueError):
    """A file is not a stored failure."""


class StoredFailure(NamedTuple):
    """A failure as it was stored."""

    path: Path
    scenario: Scenario
    kind: str
    signatures: frozenset[str]
    text: str


def digest(source: Mapping[str, Any]) -> str:
    """Name a case by its content, not by its id."""
    played = {key: value for key, value in source.items() if key not in ("id", "title", "rules")}
    return hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()[:12]


def save(result: CaseResult, finding: Finding, root: Path, generation: Generation) -> Path:
    """Store a failing case under the invariant that it breaks; return the file."""
    name = re.sub(r"[^\w.\-]", "_", finding.source)
    path = root / FOLDER / name / f"{digest(result.scenario.source)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    log = result.logs[min(finding.process, len(result.logs) - 1)]
    head = {
        "generation": generation.name,
        "case": result.scenario.source,
        "kind": result.kind,
        "signatures": sorted({each.signature for each in result.findings if each.level == "violation"}),
        "finding": finding.text,
        "reproduced": list(result.reproduced),
    }
    path.write_text("".join(write_trace(log.steps, log.end, **head)), encoding="utf-8")
    return path


def read(path: Path) -> StoredFailure:
    """Read a stored failure.

    Raises:
        StoreError: It is none.
    """
    try:
        head = read_trace(path.read_text(encoding="utf-8")).head
        scenario = read_scenario(head["case"])
    except (OSError, NotATrace, KeyError, FieldError) as error:
        raise StoreError(f"{path}: no stored failure: {error}") from None
    signatures = frozenset(cast("list[str]", head.get("signatures", [])))
    return StoredFailure(path, scenario, str(head.get("kind", "")), signatures, str(head.get("finding", "")))


def all_stored(root: Path) -> list[Path]:
    """Return every stored failure."""
    return sorted((root / FOLDER).rglob("*.jsonl"))
