"""The report as Markdown for a comment on a pull request: the verdict, and each finding once with how to reproduce it.

Short enough for a comment on GitHub and GitLab, whatever was found. What an agent has written is code.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pinnace_fuzz.judge.html.reading import AgentReport, read_report, word
from pinnace_fuzz.judge.reports.found import Found, findings
from pinnace_fuzz.judge.reports.json_report import JudgedRun, as_json
from pinnace_fuzz.judge.reports.markdown import block, code
from pinnace_fuzz.judge.results import NOTHING_JUDGED_EXIT, ORDER
from pinnace_spec.printable import printable_lines

# GitHub takes 65,536 characters, GitLab more.
MAX_CHARACTERS: Final = 60_000
_MAX_TEXT: Final = 400
_MAX_REPRODUCTION: Final = 2_000


def text(run: JudgedRun) -> str:
    """Write a run."""
    return page(read_report(as_json(run), 1))


def page(report: AgentReport) -> str:
    """Write a report."""
    found = findings(report)
    bad = [each for each in found if each.tier != "ours"]
    counts = Counter(case.verdict for case in report.cases)
    verdicts = ", ".join(f"{counts[each]} {each}" for each in reversed(ORDER) if counts[each])
    agent = f"{code(f'{report.name} {report.version}'.strip())}, generation {word(report.agent, 'generation')}"
    parts = [f"### Conformance: {_verdict(report, bad)}\n\n{agent}: {verdicts}.\n"]
    size = len(parts[0])
    for number, each in enumerate(bad):
        part = "\n".join(_finding(each)) + "\n"
        if size + len(part) > MAX_CHARACTERS:
            parts.append(f"\n{len(bad) - number} more findings are in the report.\n")
            break
        parts.append(part)
        size += len(part)
    if ours := len(found) - len(bad):
        parts.append(f"\n{ours} further findings concern recommendations of this project only, and do not count.\n")
    return "".join(parts)


def _verdict(report: AgentReport, bad: list[Found]) -> str:
    if bad:
        return f"{len(bad)} finding{'s' if len(bad) > 1 else ''}"
    return "nothing was judged" if report.summary.get("exit_code") == NOTHING_JUDGED_EXIT else "no finding"


def _finding(found: Found) -> Iterator[str]:
    finding = found.finding
    yield ""
    what = code(_cut(finding.text, _MAX_TEXT))
    yield f"- **{found.case.verdict}** {code(found.case.id)} {code(finding.source)}: {what}"
    if found.cited is not None:
        yield f"  <br>{found.rule} ({found.cited.level}): {found.cited.text}"
    if found.case.reproduction:
        yield "  <details><summary>Reproduce</summary>"
        yield ""
        reproduction = _cut(printable_lines(found.case.reproduction), _MAX_REPRODUCTION)
        yield from (f"  {line}" for line in block(reproduction, "sh").split("\n"))
        yield ""
        yield "  </details>"


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[:size]}…"
