"""Makes the page of the reports of several agents: docs/judged.md, and build/judged.html with every case.

Both are made of the reports alone: long texts of records are cut, and folders of this machine are left out. Only cases
that did not pass are shown with their records. Must not know how the judge works.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pinnace_campaigns.judged.catalogue import REPOSITORY
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object

MOST_CHARACTERS: Final = 110
SHOWN_CHARACTERS: Final = 80
# Of several cases that show the same so many are shown with their records; of the others the verdict is.
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
_HEAD: Final = """\
# Judged agents

Written by one command, which installs the agents, judges them and also builds `build/judged.html`, every case with the
records that prove each finding:

```sh
python -P -m pinnace_campaigns.judged
```

[Conformance testing](conformance.md#verdicts) explains the verdicts. Each finding was reproduced in five fresh
processes (three, where it is NON-STRICT: only a rule of this project is violated). Agents by others are pointed at the
scripted model by the [adapters](conformance.md#adapters) that come with the judge, and at nothing else.

Each agent was judged with the same time, jobs and seed. When the time is over, failures are still repeated, and cases
that have not begun are NOT-RUN. The columns count cases, worst verdict first:

"""
_BEFORE_THE_TABLE: Final = """
R-QUE-03 is a rule of the [reference](../spec/reference.md), I-QUE-1 an invariant there, QUE/a-name a case; rules R-ACP
are of the [Agent Client Protocol](conformance.md#agents-of-the-agent-client-protocol), in each version that the agent
speaks.

"""
# Also cut short, as a model's arguments are while they arrive.
_CASE_FOLDER: Final = re.compile(r"/[^\s\"'\\]*/conform(-[^/\s\"'\\]*(/(case-\d+)?)?)?(?![\w-])")
_TOOLS: Final = re.compile(r"/[^\s\"'\\]*/\.tools/")


def shortened(value: Any) -> Any:
    """Cut long texts, at any depth."""
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{value[:SHOWN_CHARACTERS]}… ({len(value)} characters)"
    if (items := as_list(value)) is not None:
        return [shortened(each) for each in items]
    if (fields := as_object(value)) is not None:
        return {name: shortened(each) for name, each in fields.items()}
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
    text = _CASE_FOLDER.sub("~", text.replace(str(kept), ".conform"))
    # The tools may be another checkout's, behind links; the interpreter may be a user's own.
    tools = REPOSITORY / ".tools"
    text = _TOOLS.sub(".tools/", text.replace(str(tools.resolve()), str(tools)))
    for place in (str(Path(sys.executable).parent), str(REPOSITORY), sys.prefix, sys.base_prefix):
        text = text.replace(place, ".")
    report: dict[str, Any] = json.loads(text)
    alike: dict[tuple[str, str], int] = {}
    for case in report["cases"]:
        findings: list[dict[str, Any]] = case.get("findings") or [{"source": "", "rules": []}]
        rules = "" if case["verdict"] == "NON-STRICT" else " ".join(findings[0]["rules"])
        kind = (case["verdict"], f"{findings[0]['source']} {rules}")
        alike[kind] = alike.get(kind, 0) + 1
        is_shown = alike[kind] <= MOST_ALIKE.get(case["verdict"], 0)
        if not is_shown:
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
            [str(shortened(line)) for line in case.get("transcript", ())[:MOST_RECORDS]] if is_shown else []
        )
        if "scenario" in case:
            case["scenario"] = shortened(case["scenario"])
    return report


def table(reports: Mapping[str, Mapping[str, Any]], absent: Mapping[str, str]) -> Iterator[str]:
    """Write the summary: verdicts of each agent, then what each was found to do.

    Args:
        reports: By the names of the agents.
        absent: The agents without a report, and why there is none.
    """
    yield from _HEAD.splitlines()
    yield from (f"- **{verdict}**: {meaning}." for verdict, meaning in VERDICTS.items())
    yield "- **generated**: conversations that campaigns generated in the remaining time."
    yield from _BEFORE_THE_TABLE.splitlines()
    yield f"| Agent | Generation | Minutes | {' | '.join(VERDICTS)} | generated |"
    yield "|---|---|---|" + "---|" * (len(VERDICTS) + 1)
    for name, report in reports.items():
        counts, kit = report["summary"]["verdicts"], report["kit"]
        generated = sum(each["examples"] for each in report["summary"]["campaigns"].values())
        cells = " | ".join(str(counts.get(each, 0)) for each in VERDICTS)
        minutes = f"{kit['seconds'] / 60:.0f} of {kit['budget_s'] / 60:.0f}"
        yield f"| {name} | {report['agent']['generation']} | {minutes} | {cells} | {generated:,} |"
    if absent:
        yield from ("", "Not judged:", "", "| Agent | Reason |", "|---|---|")
        yield from (f"| {name} | {_cell(why)} |" for name, why in absent.items())
    # Failures first; agents with as many stay in their order.
    for name, report in sorted(reports.items(), key=lambda each: -len([*findings(each[1])])):
        yield ""
        yield f"## {name}"
        yield ""
        kit = report["kit"]
        seed = f"Seed {kit['seed']}, " if report["summary"]["campaigns"] else ""
        jobs = f"{kit['jobs']} job{'' if kit['jobs'] == 1 else 's'}"
        yield f"{seed}{jobs}, {kit['date']}, {kit['cpus']} processors{_loaded(kit)}."
        yield ""
        yield from [*findings(report)] or ["Nothing."]


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _loaded(kit: Mapping[str, Any]) -> str:
    return ", under more load than they could take" if kit["load"]["is_overloaded"] else ""


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


def write(reports: Mapping[str, Mapping[str, Any]], absent: Mapping[str, str], summary: Path, page: Path) -> None:
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
    summary.write_text("\n".join(table(reports, absent)) + "\n", encoding="utf-8")
