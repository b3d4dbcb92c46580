"""Writes a comparison of reports for people: lines for a terminal, and Markdown for a pull request."""

from collections.abc import Iterator

from pinnace_fuzz.judge.html.reading import AgentReport
from pinnace_fuzz.judge.reports.comparing import STATUSES, Compared, Comparison, Status
from pinnace_fuzz.judge.reports.markdown import code
from pinnace_spec.printable import printable


def text(comparison: Comparison) -> str:
    """Write a comparison, a line for each finding; what is new comes first."""
    lines = [f"{status.upper():<6} {_line(each)}" for status in STATUSES for each in comparison.of(status)]
    lines += [f"the runs differ: {printable(each)}" for each in comparison.differs]
    return "\n".join([*lines, f"{_agents(comparison)}: {_counts(comparison)}"])


def markdown(comparison: Comparison) -> str:
    """Write a comparison; what is neither new nor flaky is folded."""
    return "\n".join(_markdown(comparison)) + "\n"


def _markdown(comparison: Comparison) -> Iterator[str]:
    has_new = bool(comparison.of("new"))
    yield f"### Conformance: {'new findings' if has_new else 'no new finding'}"
    yield ""
    yield f"{code(_agents(comparison))}: {_counts(comparison)}."
    for each in comparison.differs:
        yield ""
        yield f"The runs differ: {code(each)}."
    for status in STATUSES:
        found = comparison.of(status)
        if not found:
            continue
        is_folded = status not in ("new", "flaky")
        yield ""
        yield f"<details><summary>{_title(status, found)}</summary>" if is_folded else f"**{_title(status, found)}**"
        yield ""
        yield from (f"- {code(each.case)} {_fault(each)}: {code(each.text)}" for each in found)
        if is_folded:
            yield ""
            yield "</details>"


def _title(status: Status, found: list[Compared]) -> str:
    meaning = STATUSES[status]
    return f"{meaning[0].upper()}{meaning[1:]} ({len(found)})"


def _fault(each: Compared) -> str:
    return code(each.identity.fault)


def _line(each: Compared) -> str:
    rules = f" ({', '.join(each.rules)})" if each.rules else ""
    often = f" [{each.seen[0]} of {each.seen[1]}]" if each.seen[1] > 1 else ""
    return printable(f"{each.case} {each.identity.fault.partition(' ')[0]}{rules}: {each.text}{often}")


def _counts(comparison: Comparison) -> str:
    counts = [f"{len(found)} {STATUSES[each]}" for each in STATUSES if (found := comparison.of(each)) or each == "new"]
    return ", ".join(counts)


def _agents(comparison: Comparison) -> str:
    old = list(dict.fromkeys(_named(each) for each in comparison.old))
    return printable(f"{', '.join(old)} → {_named(comparison.new)}")


def _named(report: AgentReport) -> str:
    return f"{report.name} {report.version}".strip()
