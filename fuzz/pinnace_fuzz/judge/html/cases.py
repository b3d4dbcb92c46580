"""Shows one case: its findings, the transcript that proves them, the statechart, and how to reproduce it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinnace_fuzz.judge.html.chart import Chart
from pinnace_fuzz.judge.html.lanes import lanes
from pinnace_fuzz.judge.html.markup import EMPTY, Html, chip, join, prose, tag
from pinnace_fuzz.judge.html.path import IDLE, Visit, visits
from pinnace_fuzz.judge.html.reading import Case, Finding, Report, inner, words
from pinnace_fuzz.judge.html.verdicts import BAD, badge, ending

LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    "violation": ("fail", "violation"),
    "nonstrict": ("lax", "not strict"),
    "information": ("info", "worth a look"),
}
# A longer path is less readable than the transcript.
_MAX_VISITS: Final = 40
_PIPED: Final = re.compile(r"^(?:printf|echo) ")


class CaseWriter:
    """Writes the cases of a page."""

    def __init__(self, sentences: Mapping[str, str], chart: Chart) -> None:
        """Take what every case needs.

        Args:
            sentences: The statement of each invariant.
            chart: The drawing of the chart.
        """
        self._sentences = sentences
        self._chart = chart
        self.styles: list[str] = []
        """What lights up the path of each case that was written."""

    def article(self, case: Case, report: Report, *, is_named: bool) -> Html:
        """Write a case; `is_named`: with the name of the agent."""
        kept = case.reproduced[1] > 0
        again = f"{case.reproduced[0]} of {case.reproduced[1]}"
        known = case.id in known_failures(report)
        head = tag(
            "summary",
            badge(case.verdict),
            tag("h3", tag("span", case.id, class_="id"), tag("span", case.title, class_="title")),
            tag(
                "span",
                chip("who", report.name) if is_named else None,
                chip("again", again, title=f"came again in {again} fresh processes") if kept else None,
                chip("off", "expected", title="the baseline expects it") if known else None,
                chip("off", "not scored", title=case.not_scored) if case.not_scored else None,
                ending(case.shutdown),
                class_="chips",
            ),
        )
        return tag(
            "details",
            head,
            tag("div", *self._body(case, report), class_="inside"),
            class_="case",
            id=case.key,
            data_v=case.verdict,
            data_area=" ".join(sorted({case.area, *map(area_of, concerned(case))})),
            data_agent=report.number,
        )

    def _body(self, case: Case, report: Report) -> Iterator[Html]:
        facts = [
            ("Case", f"{case.kind or 'case'}{f', {case.place}' if case.place else ''}"),
            ("Took", f"{case.seconds:.2f} s"),
            (
                "Came again",
                f"in {case.reproduced[0]} of {case.reproduced[1]} fresh processes" if case.reproduced[1] else "",
            ),
            ("Cells", ", ".join(f"{state} × {command}" for state, command in case.cells)),
            ("End", case.shutdown_text),
            ("Not scored", case.not_scored),
        ]
        shown = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value]
        yield tag("dl", *shown, class_="facts")
        if case.why:
            yield tag("p", case.why, class_="because")
        if case.findings:
            yield tag("ul", *self._findings(case, report), class_="findings")
        for number, process in enumerate(case.processes):
            key = f"{case.key}-{number}"
            proof = {step for each in case.findings if each.process == number for step in each.steps}
            visited = visits(process.lines)
            several = len(case.processes) > 1
            yield tag("h4", f"Transcript of process {number + 1}" if several else "Transcript")
            yield self._path(visited, key)
            yield lanes(process, proof, visited, key)
        yield _again(case)
        if case.scenario:
            source = json.dumps(case.scenario, indent=2, ensure_ascii=False)
            yield tag("details", tag("summary", "What was played"), tag("pre", source, tabindex="0"), class_="more")

    def _findings(self, case: Case, report: Report) -> Iterator[Html]:
        """Explain the findings, similar ones together."""
        heaps: dict[tuple[str, str, tuple[str, ...]], list[Finding]] = {}
        for finding in case.findings:
            heaps.setdefault((finding.level, finding.source, finding.rules), []).append(finding)
        order = list(LEVELS)
        for (level, source, rules), heap in sorted(
            heaps.items(), key=lambda each: order.index(each[0][0]) if each[0][0] in LEVELS else len(order)
        ):
            kind, word = LEVELS.get(level, ("open", level or "?"))
            because = list(self._because(source, rules, report))
            yield tag(
                "li",
                *(
                    tag("p", chip(kind, word), " ", tag("b", source), " ", each.text, _proof(each, case))
                    for each in heap
                ),
                tag("dl", *because) if because else None,
            )

    def _because(self, source: str, rules: Sequence[str], report: Report) -> Iterator[Html]:
        for name in dict.fromkeys([source, *rules]):
            if sentence := self._sentences.get(name):
                yield _definition(name, sentence, "invariant")
            elif rule := report.rules.get(name):
                note = ", ".join(filter(None, [rule.level, f"origin: {rule.origin}" if rule.origin else ""]))
                yield _definition(name, rule.text, note)
            elif name != source:
                yield _definition(name, "", "")

    def _path(self, visited: Sequence[Visit], key: str) -> Html:
        if len(visited) < 2 or not self._chart.is_drawn:
            return EMPTY
        self.styles.append(self._chart.lit(key, visited))
        steps = [
            tag("a", visit.state, href=f"#{key}-{visit.number}") if visit.number else tag("span", IDLE)
            for visit in visited[:_MAX_VISITS]
        ]
        if len(visited) > _MAX_VISITS:
            steps.append(tag("span", f"… {len(visited) - _MAX_VISITS} more"))
        named = " → ".join(visit.state for visit in visited[:_MAX_VISITS])
        arrow = tag("span", "→", class_="arrow")
        summary = tag("summary", tag("b", "Through the chart "), tag("span", f"{len(visited)} states"))
        route = tag("p", *[part for each in steps for part in (arrow, each)][1:], class_="route")
        picture = self._chart.picture(key, f"The statechart with the path {named}")
        frame = tag("div", picture, class_="frame", tabindex="0", role="group", aria_label="The statechart")
        note = tag("p", "As the records show; a state that no record shows is not on the path.", class_="soft")
        return join([route, tag("details", summary, frame, note, class_="more")])


def area_of(name: str) -> str:
    """Return the area of a rule or an invariant: `QUE` of `R-QUE-03`."""
    parts = name.split("-")
    return parts[1] if len(parts) > 2 else parts[0]


def concerned(case: Case) -> set[str]:
    """Return the rules that a case lists or that its findings violate."""
    return {name for names in (case.rules, *(each.rules for each in case.findings)) for name in names}


def known_failures(report: Report) -> frozenset[str]:
    """Return the ids of the cases whose failure the baseline expects."""
    return frozenset(words(inner(report.summary, "baseline"), "known"))


def is_listed(case: Case) -> bool:
    """Say whether a case has something to show."""
    return case.verdict not in ("PASS", "NOT-RUN") or case.counts or bool(case.findings)


def _again(case: Case) -> Html:
    lines = [line for line in case.reproduction.splitlines() if line]
    if not lines and not case.stored:
        return EMPTY
    parts: list[Html] = []
    for number, line in enumerate(lines):
        title = "The bytes alone" if _PIPED.match(line) else "With the kit"
        parts.append(tag("p", title, class_="soft"))
        button = tag("button", "Copy", type="button", class_="copy", data_for=f"{case.key}-sh{number}", hidden=True)
        code = tag("pre", tag("code", line), id=f"{case.key}-sh{number}", tabindex="0")
        parts.append(tag("div", code, button, class_="shell"))
    if case.stored:
        parts.append(tag("p", "Replay file: ", tag("code", case.stored), class_="soft"))
    heading = "See it again" if case.verdict in BAD else "See it"
    return join([tag("h4", heading), *parts])


def _proof(finding: Finding, case: Case) -> Html:
    if not finding.steps or finding.process >= len(case.processes):
        return EMPTY
    links = [tag("a", str(step), href=f"#{case.key}-{finding.process}-{step}") for step in finding.steps[:20]]
    return tag("span", " Proof: record ", *_listed(links), class_="soft")


def _definition(name: str, sentence: str, note: str) -> Html:
    small = tag("small", f" {note}") if note else None
    return tag("div", tag("dt", name), tag("dd", prose(sentence), small))


def _listed(links: Sequence[Html]) -> Iterator[Html]:
    for number, link in enumerate(links):
        if number:
            yield Html(", ")
        yield link
