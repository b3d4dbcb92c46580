"""Judges several agents, ours among them, and writes the page that is shipped: docs/judged.html, with docs/judged.md.

    scripts/peers judged
    .venv/bin/python tests/benchmarks/judge_agents.py [--time 10m] [--jobs 2] [--seed N] [--keep DIR] [--only pp,omp]

Each agent gets a run of `pinnace-conform` of its own, one after the other, as a user would start it; the reports stay
in `--keep`, and an agent whose report is there is not judged again. What is shipped is made of the reports: long texts
of records are cut, since nobody reads them, they are others', and the page has to be small; folders of this machine are
left out. Only cases that did not pass are told with their records. Must not know how the judge works.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[2]
MOST_CHARACTERS: Final = 110
SHOWN_CHARACTERS: Final = 80
# Of several cases that show the same so many are told with their records; of the others the page tells the verdict.
MOST_ALIKE: Final[Mapping[str, int]] = {"FAIL": 2, "CRASH": 2, "HANG": 2, "NON-STRICT": 1}
VERDICTS: Final = tuple("PASS INFORMATIONAL NON-STRICT FAIL CRASH HANG INCONCLUSIVE UNIMPLEMENTED NOT-RUN".split())
_CASE_FOLDER: Final = re.compile(r"/[^\s\"'\\]*/conform-[^/\s\"']+/case-\d+")


class Agent(NamedTuple):
    """One row."""

    name: str
    command: Sequence[str]
    adapter: str = "pi"


_NODE: Final = ".tools/node22/bin/node"
AGENTS: Final = (
    Agent("pinnace", (".venv/bin/pinnace",)),
    Agent("pi 0.80.2", (_NODE, ".tools/pi-0.80.2/node_modules/.bin/pi")),
    Agent("pi 1.5.2", (_NODE, ".tools/pi-1.5.2/package/dist/bundle/cli.js")),
    Agent("pp 0.2.2", (".tools/pp-0.2.2/bin/pp",)),
    Agent("omp 18.2.3", (".tools/omp-18.2.3/bin/omp",), "omp"),
    Agent("aelix 0.1.0b2", (".tools/aelix-0.1.0b2/bin/aelix",), "aelix"),
)


def judge(agent: Agent, folder: Path, options: Sequence[str]) -> None:
    """Judge one agent, unless its report is there; its exit code says nothing new."""
    if (folder / "report.json").exists():
        return
    program = str(Path(sys.executable).with_name("pinnace-conform"))
    command = [program, "--adapter", agent.adapter, *options, "--report", "json", "--out", str(folder)]
    sys.stderr.write(f"{agent.name}\n")
    subprocess.run([*command, "--", *agent.command], cwd=REPOSITORY, check=False)


def shortened(value: Any) -> Any:
    """Cut long texts, at any depth."""
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{value[:SHOWN_CHARACTERS]}… ({len(value)} characters)"
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    return value


def shortened_line(line: str) -> str:
    """Cut a line as it was on the wire; one that was short stays byte for byte."""
    if len(line) <= MOST_CHARACTERS:
        return line
    try:
        return json.dumps(shortened(json.loads(line)), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return str(shortened(line))


def shipped(text: str, kept: Path) -> Mapping[str, Any]:
    """Make of a report what is shown."""
    text = _CASE_FOLDER.sub("~", text.replace(str(kept), ".conform").replace(str(REPOSITORY), "."))
    report: dict[str, Any] = json.loads(text)
    alike: dict[tuple[str, str], int] = {}
    for case in report["cases"]:
        findings = case.get("findings") or [{"source": "", "rules": []}]
        rules = "" if case["verdict"] == "NON-STRICT" else " ".join(findings[0]["rules"])
        kind = (case["verdict"], f"{findings[0]['source']} {rules}")
        alike[kind] = alike.get(kind, 0) + 1
        is_told = alike[kind] <= MOST_ALIKE.get(case["verdict"], 0)
        if not is_told:
            case.pop("processes", None)
            case.pop("scenario", None)
        for process in case.get("processes", ()):
            for step in process["steps"]:
                step["line"] = shortened_line(step["line"])
            process["end"]["stderr"] = shortened(process["end"].get("stderr", ""))
        case["transcript"] = [str(shortened(line)) for line in case.get("transcript", ())] if is_told else []
        if "scenario" in case:
            case["scenario"] = shortened(case["scenario"])
    return report


def table(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Write the summary: verdicts of each agent, then what each was found to do."""
    yield "# Judged agents"
    yield ""
    yield "Made by `tests/benchmarks/judge_agents.py`. The whole, with the records that prove each finding, is in"
    yield "[judged.html](judged.html); verdicts are of [the judge](conform.md). Each finding came again in every one of"
    yield "five fresh processes (three, where it is NON-STRICT: rules of this project that nobody else has promised)."
    yield ""
    yield f"| Agent | Generation | Seconds | {' | '.join(VERDICTS)} | generated |"
    yield "|---|---|---|" + "---|" * (len(VERDICTS) + 1)
    for name, report in reports.items():
        counts, kit = report["summary"]["verdicts"], report["kit"]
        generated = sum(each["examples"] for each in report["summary"]["campaigns"].values())
        cells = " | ".join(str(counts.get(each, 0)) for each in VERDICTS)
        yield f"| {name} | {report['agent']['generation']} | {kit['seconds']:.0f} | {cells} | {generated:,} |"
    for name, report in reports.items():
        yield ""
        yield f"## {name}"
        yield ""
        kit = report["kit"]
        yield f"Seed {kit['seed']}, {kit['jobs']} jobs, {kit['date']}."
        yield ""
        yield from findings(report)


def findings(report: Mapping[str, Any]) -> Iterator[str]:
    """List what an agent was found to do, each kind once, with the case that shows it."""
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    for case in report["cases"]:
        if case["verdict"] not in ("FAIL", "CRASH", "HANG"):
            continue
        # What accuses, not what only rules of this project forbid.
        for finding in [each for each in case["findings"] if each["level"] == "violation"][:1]:
            key = (case["verdict"], finding["source"], " ".join(finding["rules"]))
            text = re.sub(r"\s+", " ", str(shortened(finding["text"])))
            line, count = seen.get(key, (f"{text} (`{case['id']}`)", 0))
            seen[key] = line, count + 1
    if not seen:
        yield "Nothing."
    for (verdict, source, rules), (line, count) in seen.items():
        more = f"; {count - 1} more" if count > 1 else ""
        yield f"- **{verdict}** {source} ({rules}): {line}{more}"


def main() -> int:
    """Judge what is missing, then write both pages."""
    parser = argparse.ArgumentParser(description="Judge several agents and write docs/judged.html and docs/judged.md.")
    parser.add_argument("--time", default="10m", help="for each agent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=REPOSITORY / ".conform" / "agents", help="where reports stay")
    parser.add_argument("--only", help="agents, by the first word of their names")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", help="where the pages go")
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else [agent.name.split()[0] for agent in AGENTS]
    chosen = [agent for agent in AGENTS if agent.name.split()[0] in wanted or agent.name in wanted]
    options = ["--time", given.time, "--seed", str(given.seed), "--jobs", str(given.jobs)]
    reports: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        pages: list[str] = []
        for agent in chosen:
            kept = given.keep.resolve() / agent.name.replace(" ", "-")
            judge(agent, kept, options)
            reports[agent.name] = shipped((kept / "report.json").read_text(), kept)
            path = Path(folder) / f"{len(pages)}.json"
            path.write_text(json.dumps(reports[agent.name]))
            pages.append(f"{agent.name}={path}")
        program = str(Path(sys.executable).with_name("pinnace-conform"))
        subprocess.run([program, "page", *pages, "-o", str(given.out / "judged.html")], check=True)
    (given.out / "judged.md").write_text("\n".join(table(reports)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
