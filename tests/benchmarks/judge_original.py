"""Judges release 0.87.1 of the original and says whether what is known to be wrong with it was found, and how small.

    .venv/bin/python tests/benchmarks/judge_original.py [--time 10m] [--seed N] [--keep DIR] [--out FILE.md]
    .venv/bin/python tests/benchmarks/judge_original.py --report DIR/report.json

Runs `pinnace-conform` as a user would, without a hint, and looks into its report; `--report` looks into one that is
there. What is known stands in `judge_original.toml`. For each item the smallest case that shows it is told. Exit code
1: an item was not found, or only in cases of more than three commands. Must not know how the judge works: it reads the
report alone, and a case that does not come again every time counts for nothing.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pinnace_spec.printable import printable

REPOSITORY: Final = Path(__file__).parents[2]
ORIGINAL: Final = (".tools/node22/bin/node", ".tools/pi-0.87.1/node_modules/.bin/pi")
# A bug that takes more to show was not made small.
MOST_COMMANDS: Final = 3
_TOLD: Final = ("FAIL", "CRASH", "HANG", "NON-STRICT")


class Find(NamedTuple):
    """A case that shows an item."""

    verdict: str
    source: str
    sent: tuple[str, ...]
    case: str
    again: int
    """In so many fresh processes, all that were tried."""

    @property
    def is_small(self) -> bool:
        """It takes no more commands than a bug may."""
        return len(self.sent) <= MOST_COMMANDS


def lines_of(client: Sequence[Any]) -> Iterator[str]:
    """List what a case sends, a line each, as JSON or as it is."""
    for step in client:
        if not isinstance(step, dict):
            continue
        sent = step.get("send")
        if sent is not None:
            for record in sent if isinstance(sent, list) else [sent]:
                yield record if isinstance(record, str) else json.dumps(record)
        raw = step.get("bytes")
        if isinstance(raw, dict) and "hex" in raw:
            raw = bytes.fromhex(raw["hex"]).decode(errors="surrogateescape")
        if isinstance(raw, str):
            yield from filter(str.strip, raw.split("\n"))


def kind_of(line: str) -> str:
    """Name the command of a line; the beginning of the line, as it can be printed, where it has none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    kind = record.get("type") if isinstance(record, dict) else None
    return kind if isinstance(kind, str) else printable(line[:24])


def _is_several(step: Mapping[str, Any]) -> bool:
    return isinstance(step.get("send"), list) and len(step["send"]) > 1


def shows(item: Mapping[str, Any], client: Sequence[Any], finding: Mapping[str, Any], lines: Sequence[str]) -> bool:
    """Say whether a finding of a case is what an item is about."""
    if not {finding["source"], *finding["rules"]} & set(item["sources"]) or finding["level"] == "information":
        return False
    if "text" in item and not re.search(item["text"], finding["text"]):
        return False
    if "line" in item and not any(re.search(item["line"], line) for line in lines):
        return False
    if item.get("one_write") and not any(isinstance(step, dict) and _is_several(step) for step in client):
        return False
    kinds = [kind for kind in map(kind_of, lines) if kind not in ("get_state", "get_messages")]
    return "commands" not in item or kinds in item["commands"]


def finds(item: Mapping[str, Any], report: Mapping[str, Any]) -> list[Find]:
    """List the cases that show an item, the smallest and the gravest first."""
    found: list[Find] = []
    for case in report["cases"]:
        again, of = case.get("reproduced") or (0, 0)
        if case["verdict"] not in _TOLD or again < of or "scenario" not in case:
            continue
        client = case["scenario"].get("client", ())
        lines = list(lines_of(client))
        sent = tuple(map(kind_of, lines))
        for finding in case["findings"]:
            if shows(item, client, finding, lines):
                verdict = case["verdict"] if finding["level"] == "violation" else "NON-STRICT"
                found.append(Find(verdict, finding["source"], sent, case["id"], again))
    return sorted(found, key=lambda find: (not find.is_small, _TOLD.index(find.verdict), -find.again, len(find.sent)))


def table(items: Mapping[str, Mapping[str, Any]], report: Mapping[str, Any]) -> tuple[list[str], int]:
    """Write the lines of a Markdown table; also say how many items were not found small."""
    lines = ["| | What is known | Found by | Verdict | Commands | Came again | Case |", "|---|---|---|---|---|---|---|"]
    missing = 0
    for name, item in items.items():
        best = next(iter(finds(item, report)), None)
        missing += best is None or not best.is_small
        told = "- | - | - | - | -"
        if best is not None:
            sent = ", ".join(f"`{each}`" for each in best.sent)
            again = f"{best.again} of {best.again}"
            told = f"{best.source} | {best.verdict} | {len(best.sent)}: {sent} | {again} | {best.case}"
        lines.append(f"| {name} | {item['what']} | {told} |")
    return lines, missing


def judge(time: str, seed: int, out: Path) -> Mapping[str, Any]:
    """Run the judge; return its report."""
    program = Path(sys.executable).with_name("pinnace-conform")
    options = ["--time", time, "--seed", str(seed), "--report", "html,json,md", "--out", str(out)]
    subprocess.run([program, *options, "--", *ORIGINAL], cwd=REPOSITORY, check=False)
    report: Mapping[str, Any] = json.loads((out / "report.json").read_text())
    return report


def main() -> int:
    """Judge, or read a report, and print."""
    parser = argparse.ArgumentParser(description="Does the judge find what is known to be wrong with 0.87.1?")
    parser.add_argument("--time", default="10m", help="of the judge's run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="read this report instead of judging")
    parser.add_argument("--keep", type=Path, help="keep reports and stored failures in this folder")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    items = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    with tempfile.TemporaryDirectory(prefix="pinnace-judge-") as folder:
        kept = given.keep or Path(folder)
        report = json.loads(given.report.read_text()) if given.report else judge(given.time, given.seed, kept)
    lines, missing = table(items, report)
    kit, campaigns = report["kit"], report["summary"]["campaigns"]
    generated = sum(each["examples"] for each in campaigns.values())
    lines += ["", f"Seed {kit['seed']}, {kit['seconds']:.0f} s, {kit['jobs']} jobs; {generated:,} generated cases."]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if given.out is not None:
        given.out.write_text(text)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
