"""The summary of a batch: `summary.json` for programs and `index.html` for people. Read from the results, line by line.

The page needs no network and no other file; it links to those of sessions. All text is escaped; its script only filters
the rows that are there.
"""

import html
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pinnace_rpc.batch.records import has_passed, open_private

_TEXT_CHARACTERS: Final = 160
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --good: #2e7d32; }
@media (prefers-color-scheme: dark) { :root { --bad: #ef9a9a; --good: #a5d6a7; } }
body { font: 14px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 80rem; padding: 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; }
.facts { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: 0 0 1rem; padding: 0; list-style: none; }
.facts b { font-variant-numeric: tabular-nums; }
.form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .5rem 0; }
input, select { font: inherit; padding: .2rem .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; position: sticky; top: 0; background: Canvas; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { min-width: 16rem; max-width: 32rem; overflow-wrap: anywhere; }
td:first-child { white-space: nowrap; }
.failed { color: var(--bad); } .passed { color: var(--good); }
"""
_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="POLICY">
<title>Batch</title>
<style>STYLE</style></head><body>
"""
_SCRIPT: Final = """
const text = document.getElementById("text"), state = document.getElementById("state");
const rows = [...document.querySelectorAll("tbody tr")], shown = document.getElementById("shown");
function filter() {
  const word = text.value.toLowerCase(); let count = 0;
  for (const row of rows) {
    row.hidden = !((!state.value || row.dataset.state === state.value) && row.textContent.toLowerCase().includes(word));
    count += !row.hidden;
  }
  shown.textContent = count + " of " + rows.length + " tasks";
}
text.addEventListener("input", filter); state.addEventListener("change", filter); filter();
"""


class BatchSummary:
    """The totals of a batch."""

    def __init__(self, tasks: int) -> None:
        """Begin with nothing; `tasks` is how many there are to be."""
        self.tasks = tasks
        self.passed = 0
        self.cost = 0.0
        self.tokens = 0
        self.duration_ms = 0
        self.states: Counter[str] = Counter()

    def add(self, line: Mapping[str, Any]) -> None:
        """Count the result of a task."""
        self.passed += has_passed(line)
        self.cost += line["cost"]
        self.tokens += line["usage"]["total"]
        self.duration_ms += line["durationMs"]
        self.states[state_of(line)] += 1

    def record(self) -> dict[str, Any]:
        """Return the content of `summary.json`."""
        ended = self.states.total()
        return {
            "version": 1,
            "tasks": self.tasks,
            "ended": ended,
            "passed": self.passed,
            "failed": ended - self.passed,
            "states": dict(sorted(self.states.items())),
            "cost": self.cost,
            "tokens": self.tokens,
            "agentMs": self.duration_ms,
        }


def state_of(line: Mapping[str, Any]) -> str:
    """Return the reason of a result, or that its verification failed."""
    return "verify_failed" if line["reason"] == "completed" and not has_passed(line) else str(line["reason"])


def write_summary(folder: Path, tasks: int, lines: Iterable[Mapping[str, Any]]) -> BatchSummary:
    """Write both files, each whole or not at all."""
    summary = BatchSummary(tasks)
    rows = folder / ".rows.new"
    with open(rows, "w", encoding="utf-8", opener=open_private) as file:
        for line in lines:
            summary.add(line)
            file.write(_row(line, folder))
    _replace(folder / "summary.json", iter([json.dumps(summary.record(), indent=1) + "\n"]))
    with rows.open(encoding="utf-8") as file:
        _replace(folder / "index.html", _page(summary, file))
    rows.unlink()
    return summary


def _page(summary: BatchSummary, rows: Iterable[str]) -> Iterator[str]:
    record = summary.record()
    policy = f"default-src 'none'; style-src '{_hash_of(_STYLE)}'; script-src '{_hash_of(_SCRIPT)}'; base-uri 'none'"
    yield _HEAD.replace("POLICY", policy).replace("STYLE", _STYLE)
    yield f"<h1>Batch: {record['passed']} of {record['tasks']} tasks passed</h1>\n<ul class=facts>"
    facts = {"failed": record["failed"], "not run": record["tasks"] - record["ended"], "tokens": record["tokens"]}
    for name, value in facts.items():
        yield f"<li><b>{value:,}</b> {name}</li>"
    yield f"<li><b>${record['cost']:.4f}</b></li><li><b>{record['agentMs'] / 1000:,.0f} s</b> of agents</li></ul>\n"
    yield "<div class=form><label>Search <input id=text type=search></label> "
    yield "<label>State <select id=state><option value=''>all</option>"
    yield from (f"<option>{html.escape(name)}</option>" for name in record["states"])
    yield "</select></label> <output id=shown></output></div>\n<div class=wide><table><thead><tr><th>Task"
    yield "<th>State<th class=n>Attempt<th class=n>Turns<th class=n>Tokens<th class=n>Cost<th class=n>Seconds"
    yield "<th>Answer, or error"
    yield "</thead><tbody>\n"
    yield from rows
    yield f"</tbody></table></div>\n<script>{_SCRIPT}</script></body></html>\n"


def _hash_of(text: str) -> str:
    """Return how a policy names an inline script or style, the only ones that the page allows."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _row(line: Mapping[str, Any], folder: Path) -> str:
    state = state_of(line)
    name = html.escape(line["id"])
    if line["session"] is not None:
        file = str(line["session"]["file"])
        page = file.removesuffix(".jsonl") + ".html"
        links = [(page, name), (file, "jsonl")] if (folder / page).exists() else [(file, name)]
        name = " ".join(f'<a href="{html.escape(target)}">{word}</a>' for target, word in links)
    text: str = line["text"] if line["error"] is None else line["error"]["message"]
    if state == "verify_failed":
        text = line["verify"]["output"]
    shown = " ".join(text.split())[:_TEXT_CHARACTERS]
    look = "passed" if has_passed(line) else "failed"
    numbers = (line["attempt"], line["turns"], f"{line['usage']['total']:,}", f"${line['cost']:.4f}")
    cells = "".join(f"<td class=n>{number}" for number in (*numbers, f"{line['durationMs'] / 1000:.1f}"))
    return (
        f'<tr data-state="{html.escape(state)}"><td>{name}<td class={look}>{html.escape(state)}{cells}'
        f"<td class=text>{html.escape(shown)}</tr>\n"
    )


def _replace(path: Path, pieces: Iterator[str]) -> None:
    beside = path.with_name(f".{path.name}.new")
    with open(beside, "w", encoding="utf-8", opener=open_private) as file:
        file.writelines(pieces)
    beside.replace(path)
