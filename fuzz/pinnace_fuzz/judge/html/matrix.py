"""The matrix agents x rules: the evidence of each agent's cases for each rule, and the table that shows it.

A passed case is evidence for the rules that it lists; a finding is evidence against the rules that it names, in any
case. A case that failed for another reason is no evidence for its other rules.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.cases import area_of, is_listed, known_failures
from pinnace_fuzz.judge.html.markup import Html, chip, join, prose, tag
from pinnace_fuzz.judge.html.reading import Case, Finding, Report, Rule
from pinnace_fuzz.judge.html.verdicts import (
    BAD,
    badge,
    chapter_of,
    ending,
    look,
    rank,
    sign,
    tally,
    worst,
    worst_shutdown,
)

_LEVELS: Final[Mapping[str, str]] = {"nonstrict": "NON-STRICT", "information": "INFORMATIONAL"}
_MAX_GOOD: Final = 60
_PLAIN: Final = re.compile(r"[A-Z][A-Za-z0-9-]*")


class Evidence(NamedTuple):
    """The evidence of a case for a rule."""

    case: Case
    verdict: str
    counts: bool


class Cell(NamedTuple):
    """The evidence of all cases of an agent for a rule."""

    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """The worst of them."""
        return worst(each.verdict for each in self.evidence)

    @property
    def counts(self) -> bool:
        """It is not just expected, and not just for information."""
        verdict = self.verdict
        return verdict not in BAD or any(each.counts for each in self.evidence if each.verdict == verdict)

    @property
    def shutdown(self) -> str:
        """The worst end."""
        return worst_shutdown(each.case.shutdown for each in self.evidence if each.verdict != "NOT-RUN")


class RuleEvidence(NamedTuple):
    """A rule with its evidence for each agent."""

    name: str
    key: str
    """Names it on the page."""
    area: str
    rule: Rule
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> str:
        """The worst verdict of any agent."""
        return worst(cell.verdict for cell in self.cells)

    @property
    def differs(self) -> bool:
        """Agents that were judged by this rule have kept to it differently."""
        return len({cell.verdict for cell in self.cells} - {"NOT-RUN"}) > 1


def rows(reports: Sequence[Report]) -> list[RuleEvidence]:
    """Return the rules that any case is about, sorted by area and number."""
    tables = [_cells(report) for report in reports]
    names = sorted({name for table in tables for name in table}, key=lambda name: (area_of(name), _natural(name)))
    found: list[RuleEvidence] = []
    for number, name in enumerate(names):
        key = f"r-{name if _PLAIN.fullmatch(name) else number}"
        rule = next((each.rules[name] for each in reports if name in each.rules), Rule("", "", ""))
        found.append(
            RuleEvidence(name, key, area_of(name), rule, tuple(Cell(tuple(table.get(name, ()))) for table in tables))
        )
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts C-2 before C-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", name)]


def _cells(report: Report) -> Mapping[str, list[Evidence]]:
    found: dict[str, list[Evidence]] = defaultdict(list)
    known = known_failures(report)
    for case in report.cases:
        counts = case.counts and case.id not in known
        for name, verdict in _said(case).items():
            found[name].append(Evidence(case, verdict, counts))
    return found


def _said(case: Case) -> Mapping[str, str]:
    """Return the verdict of one case on every rule that it concerns."""
    listed = [name for name in case.rules if not name.startswith("I-")]
    accused: dict[str, str] = {}
    for finding in case.findings:
        # A finding stays visible although no rule was selected.
        named = [name for name in finding.rules if not name.startswith("I-")]
        for name in named or listed or [finding.source or "other"]:
            accused[name] = worst([_weight(finding, case), accused.get(name, "NOT-RUN")])
    left = case.verdict
    if accused:
        left = "NOT-RUN" if case.verdict in BAD else "PASS"
        if case.verdict not in BAD and case.verdict not in _LEVELS.values():
            left = case.verdict
    return {**dict.fromkeys(listed or ([] if accused else [case.id]), left), **accused}


def _weight(finding: Finding, case: Case) -> str:
    if finding.level in _LEVELS:
        return _LEVELS[finding.level]
    if case.verdict not in BAD:
        return case.verdict
    source = finding.source.removeprefix("I-").upper()
    return source if source in BAD else "FAIL"


def broken(found: Sequence[RuleEvidence], at: int) -> tuple[int, int]:
    """Return how many rules the agent at this place breaks, of how many that it was judged by."""
    judged = [row.cells[at].verdict for row in found if row.cells[at].verdict != "NOT-RUN"]
    return sum(verdict in BAD for verdict in judged), len(judged)


def table(reports: Sequence[Report], found: Sequence[RuleEvidence]) -> Html:
    """Write the matrix: the rules that an agent breaks come first, by the worst of their verdicts."""
    width = 1 + 2 * len(reports)
    tops = [
        tag(
            "th",
            tag("a", report.name, href=f"#agent-{report.number}"),
            tag("small", report.version),
            tag("small", "breaks {} of {}".format(*broken(found, at))),
            scope="colgroup",
            colspan=2,
        )
        for at, report in enumerate(reports)
    ]
    subs = [tag("th", name, scope="col") for _ in reports for name in ("verdict", "end")]
    head = tag("thead", tag("tr", tag("th", "Rule", scope="col", rowspan=2), *tops), tag("tr", *subs, class_="sub"))
    groups: dict[str, list[RuleEvidence]] = defaultdict(list)
    for row in found:
        groups[row.worst].append(row)
    bodies = [_group(verdict, groups[verdict], reports, width) for verdict in sorted(groups, key=rank)]
    caption = tag("caption", "Agents and rules: the worst verdict of all cases that concern a rule", class_="hear")
    columns = join(tag("colgroup", class_="agent", span=2) for _ in reports)
    whole = tag("table", caption, tag("colgroup"), columns, head, *bodies, id="matrix")
    return tag("div", whole, class_="wide", tabindex="0", role="region", aria_label="Agents and rules")


def _group(verdict: str, found: Sequence[RuleEvidence], reports: Sequence[Report], width: int) -> Html:
    counts = [
        tag("td", tally(Counter(row.cells[at].verdict for row in found if row.cells[at].evidence)), colspan=2)
        for at in range(len(reports))
    ]
    plural = "rule" if len(found) == 1 else "rules"
    at_worst = " at worst" if len(reports) > 1 else ""
    title = tag("th", badge(verdict), " ", tag("small", f"{len(found)} {plural}{at_worst}"), scope="rowgroup")
    inner = [part for row in found for part in _row(row, reports, width)]
    return tag("tbody", tag("tr", title, *counts, class_="area"), *inner)


def _row(row: RuleEvidence, reports: Sequence[Report], width: int) -> Iterator[Html]:
    key = row.key
    name = tag("button", row.name, type="button", class_="open", aria_expanded="true", aria_controls=f"{key}-more")
    chapter = tag("small", chapter_of(row.area))
    head = tag("th", name, " ", chapter, tag("span", prose(row.rule.text), class_="text"), scope="row")
    cells = [cell for at, each in enumerate(row.cells) for cell in _pair(each, row, reports[at])]
    verdicts = [cell.verdict for cell in row.cells]
    yield tag(
        "tr",
        head,
        *cells,
        class_="rule",
        id=key,
        data_area=row.area,
        data_v=" ".join(verdicts),
        data_differs=row.differs,
    )
    inside = tag("td", _drill(row, reports), colspan=width)
    yield tag("tr", inside, class_="drill", id=f"{key}-more")


def _pair(cell: Cell, row: RuleEvidence, report: Report) -> Iterator[Html]:
    if not cell.evidence:
        nothing = tag("span", "no case", class_="hear")
        yield tag("td", nothing, class_="nothing")
        yield tag("td", class_="nothing")
        return
    target = f"#{row.key}-{report.number}"
    how = f"cell {look(cell.verdict).kind}{'' if cell.counts else ' off'}"
    yield tag("td", tag("a", sign(cell.verdict), href=target), class_=how)
    yield tag("td", ending(cell.shutdown) if cell.verdict != "NOT-RUN" else None, class_="how")


def _drill(row: RuleEvidence, reports: Sequence[Report]) -> Html:
    notes = [chip("tone", word) for word in (row.rule.level, row.rule.origin and f"origin: {row.rule.origin}") if word]
    text = tag("p", prose(row.rule.text) or "No rule of the specification has this name.", " ", join(notes))
    parts = [
        tag(
            "section",
            tag("h4", report.name, " ", badge(cell.verdict)),
            *_evidence(cell),
            id=f"{row.key}-{report.number}",
            tabindex="-1",
        )
        for report, cell in zip(reports, row.cells, strict=True)
    ]
    return tag("div", text, tag("div", *parts, class_="sides"), class_="drilled")


def _evidence(cell: Cell) -> Iterable[Html]:
    ordered = sorted(cell.evidence, key=lambda each: (rank(each.verdict), each.case.id))
    shown = [each for each in ordered if is_listed(each.case)]
    items: list[Html] = []
    for each in shown:
        m, k = each.case.reproduced
        again = chip("again", f"{m} of {k}") if k else None
        items.append(
            tag(
                "li",
                sign(each.verdict),
                " ",
                tag("a", each.case.id, href=f"#{each.case.key}"),
                " ",
                again,
                tag("span", each.case.title, class_="title"),
                class_=None if each.counts or each.verdict not in BAD else "off",
            )
        )
    if items:
        yield tag("ul", *items)
    for verdict in ("PASS", "NOT-RUN"):
        names = [each.case.id for each in ordered if not is_listed(each.case) and each.verdict == verdict]
        if names:
            rest = f" and {len(names) - _MAX_GOOD} more" if len(names) > _MAX_GOOD else ""
            yield tag("p", sign(verdict), " ", ", ".join(names[:_MAX_GOOD]), rest, class_="soft")
    if not cell.evidence:
        yield tag("p", "No case was run.", class_="soft")
