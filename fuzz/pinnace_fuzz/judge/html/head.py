"""The head of the page: the agent, the run, the machine, and the figures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinnace_fuzz.judge.html.markup import EMPTY, Html, join, tag
from pinnace_fuzz.judge.html.matrix import RuleEvidence, broken
from pinnace_fuzz.judge.html.reading import Fields, Report, amount, inner, objects, whole, word, words
from pinnace_fuzz.judge.html.verdicts import look, rank, tally

_EXITS: Final[Mapping[int, str]] = {
    0: "conformant",
    1: "breaks rules",
    2: "stale baseline",
}


def cards(reports: Sequence[Report], found: Sequence[RuleEvidence]) -> Html:
    """Write a card for each agent."""
    return tag("div", *(_card(report, at, found) for at, report in enumerate(reports)), class_="cards")


def _card(report: Report, at: int, found: Sequence[RuleEvidence]) -> Html:
    cases = Counter(case.verdict for case in report.cases)
    rules = Counter(row.cells[at].verdict for row in found if row.cells[at].evidence)
    code = whole(report.summary, "exit_code")
    bad, judged = broken(found, at)
    words_ = _EXITS.get(code, f"exit code {code}") if code is not None else ""
    kind = "good" if code == 0 else "bad" if code == 1 else "odd"
    return tag(
        "article",
        tag("h2", report.name, " ", tag("small", report.version)),
        tag("p", tag("span", words_, class_=f"chip end {kind}"), f" {bad} of {judged} rules broken", class_="sum"),
        tag("p", _bar(rules), class_="bar"),
        tag("p", tag("span", "Rules", class_="soft"), tally(rules), class_="tally"),
        tag("p", tag("span", "Cases", class_="soft"), tally(cases), class_="tally"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(report) if value)),
        _reached(report.coverage),
        class_="card",
        id=f"agent-{report.number}",
    )


def _bar(counts: Mapping[str, int]) -> Html:
    """Draw the shares of the verdicts."""
    total = sum(counts.values())
    if not total:
        return EMPTY
    parts: list[Html] = []
    x = 0.0
    for verdict in sorted(counts, key=rank):
        width = 100 * counts[verdict] / total
        if width:
            parts.append(
                tag("rect", x=f"{x:.2f}%", y="0", width=f"{width:.2f}%", height="100%", class_=look(verdict).kind)
            )
        x += width
    words_ = ", ".join(f"{counts[each]} {each}" for each in sorted(counts, key=rank) if counts[each])
    return tag("svg", *parts, width="100%", height="10", role="img", aria_label=words_)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    agent, kit = report.agent, report.kit
    ours = ", held to this project's own rules too" if agent.get("is_ours") is True else ""
    yield "Generation", f"{word(agent, 'generation')}{ours}"
    yield "Adapter", word(agent, "adapter")
    yield "Command", " ".join(words(agent, "command"))
    yield "Date", word(kit, "date")
    yield "Kit", word(kit, "version")
    seed = whole(kit, "seed")
    yield "Seed", "" if seed is None else str(seed)
    yield (
        "Time",
        f"{_time(amount(kit, 'seconds'))} of {_time(amount(kit, 'budget_s'))}, {whole(kit, 'jobs') or 1} at a time",
    )
    chosen = [f"only {', '.join(words(kit, 'only'))}"] if words(kit, "only") else []
    chosen += [f"without {', '.join(words(kit, 'skip'))}"] if words(kit, "skip") else []
    yield "Chosen", "; ".join(chosen)
    yield "Strict", "yes: violations of recommendations fail as well" if kit.get("strict") is True else ""
    generated = [
        f"{name} {whole(value, 'examples') or 0}" for name, value in _inner_objects(inner(report.summary, "campaigns"))
    ]
    yield "Generated", ", ".join(generated)
    yield "Machine", f"{word(kit, 'system')}, {whole(kit, 'cpus') or '?'} processors, Python {word(kit, 'python')}"
    yield "Load", _load(report)


def _load(report: Report) -> str:
    """Say whether the machine had time: only then a missed deadline is the agent's."""
    load = inner(report.kit, "load")
    open_ones = sum(1 for case in report.cases if case.verdict == "INCONCLUSIVE")
    without = f"; {open_ones} cases without verdict" if open_ones else ""
    if not load:
        return f"judged case by case{without}"
    state = "overloaded" if load.get("is_overloaded") is True else "quiet enough"
    return f"{state}: the tester was at most {amount(load, 'late_s'):.2f} s late{without}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _inner_objects(source: Fields) -> Iterator[tuple[str, Fields]]:
    for name in source:
        yield name, inner(source, name)


def _reached(coverage: Fields) -> Html:
    """Show what a run has reached of the table state x command, and what it never saw."""
    states, commands = words(coverage, "states"), words(coverage, "commands")
    if not states or not commands:
        return EMPTY
    cases = {
        (word(each, "state"), word(each, "command")): whole(each, "cases") or 0 for each in objects(coverage, "cells")
    }
    head = tag("tr", tag("td"), *(tag("th", tag("span", state), scope="col") for state in states))
    body = [
        tag("tr", tag("th", command, scope="row"), *(_reach(cases.get((state, command), 0)) for state in states))
        for command in commands
    ]
    never = words(coverage, "records_never")
    silent = [name for name, value in inner(coverage, "armed").items() if value == 0]
    grid = tag("table", tag("thead", head), tag("tbody", *body), class_="reach")
    return tag(
        "details",
        tag(
            "summary",
            f"Reached {whole(coverage, 'cells_reached') or 0} of {whole(coverage, 'cells_all') or 0} cells",
        ),
        tag("p", f"Records never written: {', '.join(never) or 'none'}.", class_="soft"),
        tag("p", f"Invariants never armed, which prove nothing: {', '.join(silent) or 'none'}.", class_="soft"),
        tag("div", grid, class_="wide", tabindex="0", role="region", aria_label="States and commands reached"),
        class_="more",
    )


def _reach(cases: int) -> Html:
    if not cases:
        return tag("td")
    return tag("td", str(cases), class_="some" if cases < 5 else "many")


def lead(reports: Sequence[Report], found: Sequence[RuleEvidence]) -> Html:
    """Say in a sentence what the page is about."""
    cases = sum(len(each.cases) for each in reports)
    differ = sum(1 for row in found if row.differs)
    agents = f"{len(reports)} agents" if len(reports) > 1 else "One agent"
    parts = [f"{agents}, {len(found)} rules, {cases} cases."]
    if len(reports) > 1:
        parts.append(f" On {differ} rules the agents differ.")
    parts.append(" Rules that an agent breaks come first.")
    return tag("p", join(parts), " Judged by the records on stdin and stdout alone.", class_="lead")
