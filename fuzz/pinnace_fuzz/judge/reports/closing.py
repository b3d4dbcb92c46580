"""The end of a run on the terminal, at most a screen: the verdict, the worst three findings, what to run next. Pure."""

import shlex
from collections.abc import Iterator
from typing import Final

from pinnace_fuzz.judge.adapter_names import option_of
from pinnace_fuzz.judge.html.reading import AgentReport, inner, whole, word, words
from pinnace_fuzz.judge.reports.found import Found, findings
from pinnace_fuzz.judge.results import ACP_KIND, HARNESS_EXIT, NOTHING_JUDGED_EXIT
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.printable import printable

MAX_LINES: Final = 20
_WORST: Final = 3
_WIDTH: Final = 110


def closing(report: AgentReport) -> str:
    """Write it. Commands are not cut: they are to be copied."""
    expected = set(report.known_failures)
    found = [each for each in findings(report) if each.tier != "ours" and each.case.id not in expected]
    lines = [_verdict(report, found)]
    for number, each in enumerate(found[:_WORST], 1):
        lines.append(_cut(f"{number}. {each.case.verdict} {each.case.id}: {each.finding.source}: {each.finding.text}"))
        if each.cited is not None:
            lines.append(_cut(f"   {each.rule} ({each.cited.level}): {each.cited.text}"))
    lines += _kept(report)
    lines += [f"next: {each}" for each in _next(report, found)]
    return "\n".join(lines)


def _verdict(report: AgentReport, found: list[Found]) -> str:
    if found:
        count = f"{len(found)} findings" if len(found) > 1 else "1 finding"
        worst = f"; the worst {_WORST}" if len(found) > _WORST else ""
        return f"NOT CONFORMANT: {count}{worst}:"
    match whole(report.summary, "exit_code"):
        case code if code == HARNESS_EXIT:
            return "NO VERDICT: the judge itself failed in a campaign"
        case code if code == NOTHING_JUDGED_EXIT:
            return "NO VERDICT: nothing was judged"
        case _:
            known = len(report.known_failures)
            return f"CONFORMANT BUT FOR {known} expected failures" if known else "CONFORMANT, as far as it was judged"


def _kept(report: AgentReport) -> Iterator[str]:
    """Say what is kept of each tier of a set of requirements."""
    requirements = report.requirements
    if not requirements:
        return
    yield f"requirements {word(requirements, 'set')} of {word(requirements, 'protocol')}:"
    for tier, value in inner(requirements, "tiers").items():
        each = as_object(value) or {}
        kept, count, broken = whole(each, "kept") or 0, whole(each, "scenarios") or 0, len(words(each, "broken"))
        yield f"  {tier}: {kept} of {count} scenarios kept, {broken} broken, {count - kept - broken} not judged"
    if changed := len(words(requirements, "changed")):
        yield f"  {changed} scenarios have changed since the set was frozen, and are not judged by it"


def _next(report: AgentReport, found: list[Found]) -> Iterator[str]:
    agent = shlex.join(words(report.agent, "command"))
    is_acp = any(case.kind == ACP_KIND for case in report.cases)
    program = ("pinnace-conform acp" if is_acp else "pinnace-conform") + option_of(word(report.agent, "adapter"))
    if found:
        # The last line of a reproduction is a command of the judge: it repeats the worst finding alone.
        yield (
            printable(found[0].case.reproduction.splitlines()[-1])
            if found[0].case.reproduction
            else f"{program} -- {agent}"
        )
        if not is_acp:
            yield printable(f"{program} --reproduce found -- {agent}   (a script for each finding)")
    elif not is_acp and not inner(report.summary, "campaigns"):
        yield printable(f"{program} --time 10m -- {agent}   (all scenarios, and generated cases)")
    else:
        yield printable(f"{program} --report json,sarif -- {agent}   (for compare and code scanning)")


def _cut(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
