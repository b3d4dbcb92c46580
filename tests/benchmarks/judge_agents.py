"""Judges several agents, ours among them, and writes docs/judged.md and the page with all records, build/judged.html.

    scripts/peers judged
    .venv/bin/python tests/benchmarks/judge_agents.py [--at-once 2] [--jobs 1] [--seed N] [--keep DIR] [--only pp,omp]

Each agent gets a run of `pinnace-conform` of its own, as a user would start it: ten minutes each, with the same jobs
and seed, or else the page would compare times. `--at-once` lets so many agents be judged beside each other; the machine
needs a processor for each of their jobs. The reports stay in `--keep`, one folder an agent; what was interrupted is
begun again for that agent alone, and an agent whose report is there is not judged again, unless it was judged with
other options. Only docs/judged.md is committed; the page of several megabytes is built. Both are made of the reports:
long texts of records are cut, and folders of this machine are left out. Only cases that did not pass are told with
their records. Must not know how the judge works.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[2]
MOST_CHARACTERS: Final = 110
SHOWN_CHARACTERS: Final = 80
# Of several cases that show the same so many are told with their records; of the others the page tells the verdict.
MOST_ALIKE: Final[Mapping[str, int]] = {"FAIL": 2, "CRASH": 2, "HANG": 2, "NON-STRICT": 1}
# Of a conversation of thousands of records: the first ones, and what the first findings name.
MOST_FINDINGS: Final = 20
MOST_RECORDS: Final = 200
VERDICTS: Final[Mapping[str, str]] = {
    "CRASH": "the process was gone",
    "HANG": "it no longer answered",
    "FAIL": "it broke a rule",
    "NON-STRICT": "it broke only what this project recommends, or has set where the protocol is silent; does not count",
    "UNIMPLEMENTED": "it does not know a command of its generation",
    "INCONCLUSIVE": "a deadline was missed on an overloaded machine, or a failure never came again",
    "INFORMATIONAL": "nothing was wrong, something is worth a look",
    "PASS": "nothing was wrong",
    "NOT-RUN": "the case is not of its generation, or it or its adapter lacks what the case needs",
}
"""What each says of a case, the worst first."""
# Also cut short, as a model's arguments are while they arrive.
_CASE_FOLDER: Final = re.compile(r"/[^\s\"'\\]*/conform(-[^/\s\"'\\]*(/(case-\d+)?)?)?(?![\w-])")


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


def judge(agent: Agent, keep: Path, options: Sequence[str]) -> Path | None:
    """Judge one agent, unless its report with these options is there; return its folder, or None if there is no agent.

    Its exit code says nothing new. An interrupted run leaves nothing that counts.
    """
    folder = keep / agent.name.replace(" ", "-")
    asked = folder / "options.json"
    if (folder / "report.json").exists() and asked.exists() and json.loads(asked.read_text()) == [*options]:
        sys.stderr.write(f"{agent.name}: judged already, in {folder}\n")
        return folder
    if missing := [each for each in agent.command if "/" in each and not (REPOSITORY / each).exists()]:
        sys.stderr.write(f"{agent.name}: not judged, {missing[0]} is not there (scripts/peers judged)\n")
        return None
    shutil.rmtree(folder, ignore_errors=True)
    program = str(Path(sys.executable).with_name("pinnace-conform"))
    command = [program, "--adapter", agent.adapter, *options, "--report", "json", "--out", str(folder)]
    sys.stderr.write(f"{agent.name}: begins\n")
    with tempfile.TemporaryFile() as told:
        done = subprocess.run([*command, "--", *agent.command], cwd=REPOSITORY, stdout=told, check=False)
    if not (folder / "report.json").exists():
        sys.stderr.write(f"{agent.name}: no report; pinnace-conform ended with {done.returncode}\n")
        return None
    asked.write_text(json.dumps([*options]))
    sys.stderr.write(f"{agent.name}: judged\n")
    return folder


def judge_all(agents: Sequence[Agent], keep: Path, options: Sequence[str], at_once: int) -> dict[str, Path]:
    """Judge agents, so many at a time; return the folders of those that have a report, in the order of the agents."""
    with ThreadPoolExecutor(at_once) as pool:
        folders = list(pool.map(lambda agent: judge(agent, keep, options), agents))
    return {agent.name: folder for agent, folder in zip(agents, folders, strict=True) if folder is not None}


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
    # The tools may be another checkout's, behind a link; the interpreter may be a user's own.
    places = (str(REPOSITORY), str((REPOSITORY / ".tools").resolve().parent), sys.base_prefix)
    for place in places:
        text = text.replace(place, ".")
    text = _CASE_FOLDER.sub("~", text.replace(str(kept), ".conform"))
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
        case["findings"] = case.get("findings", [])[:MOST_FINDINGS]
        named = {number for finding in case["findings"] for number in finding["steps"]}
        for process in case.get("processes", ()):
            process["steps"] = [each for each in process["steps"] if each["n"] <= MOST_RECORDS or each["n"] in named]
            for step in process["steps"]:
                step["line"] = shortened_line(step["line"])
            process["end"]["stderr"] = shortened(process["end"].get("stderr", ""))
        case["transcript"] = (
            [str(shortened(line)) for line in case.get("transcript", ())[:MOST_RECORDS]] if is_told else []
        )
        if "scenario" in case:
            case["scenario"] = shortened(case["scenario"])
    return report


def table(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Write the summary: verdicts of each agent, then what each was found to do."""
    yield "# Judged agents"
    yield ""
    yield "Written by `tests/benchmarks/judge_agents.py`, which also builds `build/judged.html`: every case, with"
    yield "the records that prove each finding. [Conformance testing](conformance.md#last-runs) has the commands, and"
    yield "explains the verdicts. Each finding was reproduced in five fresh processes (three, where it is NON-STRICT:"
    yield "only a rule of this project is violated)."
    yield ""
    yield "Each agent was judged with the same time, jobs and seed. The columns count cases, worst verdict first:"
    yield ""
    yield from (f"- **{verdict}**: {meaning}." for verdict, meaning in VERDICTS.items())
    yield "- **generated**: conversations that campaigns generated in the remaining time."
    yield ""
    yield "R-QUE-03 is a rule of the [reference](../spec/reference.md), I-QUE-1 an invariant there, QUE/a-name a case."
    yield ""
    yield f"| Agent | Generation | Minutes | {' | '.join(VERDICTS)} | generated |"
    yield "|---|---|---|" + "---|" * (len(VERDICTS) + 1)
    for name, report in reports.items():
        counts, kit = report["summary"]["verdicts"], report["kit"]
        generated = sum(each["examples"] for each in report["summary"]["campaigns"].values())
        cells = " | ".join(str(counts.get(each, 0)) for each in VERDICTS)
        minutes = f"{kit['seconds'] / 60:.0f} of {kit['budget_s'] / 60:.0f}"
        yield f"| {name} | {report['agent']['generation']} | {minutes} | {cells} | {generated:,} |"
    # Failures first; agents with as many stay in their order.
    for name, report in sorted(reports.items(), key=lambda each: -len([*findings(each[1])])):
        yield ""
        yield f"## {name}"
        yield ""
        kit = report["kit"]
        yield f"Seed {kit['seed']}, {kit['jobs']} job{'' if kit['jobs'] == 1 else 's'}, {kit['date']}."
        yield ""
        yield from [*findings(report)] or ["Nothing."]


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
    for (verdict, source, rules), (line, count) in seen.items():
        more = f"; {count - 1} more" if count > 1 else ""
        yield f"- **{verdict}** {source} ({rules}): {line}{more}"


def write(reports: Mapping[str, Mapping[str, Any]], summary: Path, page: Path) -> None:
    """Write the summary, and the page of all cases by the judge's own program."""
    page.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        pages: list[str] = []
        for name, report in reports.items():
            path = Path(folder) / f"{len(pages)}.json"
            path.write_text(json.dumps(report))
            pages.append(f"{name}={path}")
        program = str(Path(sys.executable).with_name("pinnace-conform"))
        subprocess.run([program, "page", *pages, "-o", str(page)], check=True)
    summary.write_text("\n".join(table(reports)) + "\n")


def main() -> int:
    """Judge what is missing, then write both pages."""
    parser = argparse.ArgumentParser(description="Judge several agents and write docs/judged.md and build/judged.html.")
    parser.add_argument("--time", default="10m", help="for each agent (default: 10m)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="so many agents beside each other (default: 1)")
    parser.add_argument("--jobs", type=int, help="cases of an agent at a time (default: 2, of several at once: 1)")
    parser.add_argument("--keep", type=Path, default=REPOSITORY / ".conform" / "agents", help="where reports stay")
    parser.add_argument("--only", help="agents, by the first word of their names")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", help="where judged.md goes")
    parser.add_argument(
        "--page", type=Path, default=REPOSITORY / "build" / "judged.html", help="the page with all records"
    )
    given = parser.parse_args()
    wanted = given.only.split(",") if given.only else [agent.name.split()[0] for agent in AGENTS]
    chosen = [agent for agent in AGENTS if agent.name.split()[0] in wanted or agent.name in wanted]
    jobs = given.jobs or (2 if given.at_once == 1 else 1)
    options = ["--time", given.time, "--seed", str(given.seed), "--jobs", str(jobs)]
    folders = judge_all(chosen, given.keep.resolve(), options, given.at_once)
    if not folders:
        sys.stderr.write("nothing was judged: no page is written\n")
        return 1
    reports = {name: shipped((kept / "report.json").read_text(), kept) for name, kept in folders.items()}
    write(reports, given.out / "judged.md", given.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
