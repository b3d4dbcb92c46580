"""The figures at the head of the page: of each agent, of its run and of the machine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_fuzz.judge.html.reading import AgentReport, Fields, amount, inner, objects, whole, word, words
from pinnace_fuzz.judge.html.verdicts import counted, ranked

_EXITS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("good", "conformant"),
    1: ("bad", "breaks rules"),
    2: ("odd", "stale baseline"),
}


def exit_of(report: AgentReport) -> tuple[str, str]:
    """Return the class and the meaning of the exit code of a run."""
    code = whole(report.summary, "exit_code")
    return ("odd", "") if code is None else _EXITS.get(code, ("odd", f"exit code {code}"))


def shares(counts: Mapping[str, int]) -> Iterator[tuple[str, float, float]]:
    """Yield each verdict, the worst first, with the place and the width of its part of a bar, in percent."""
    place = 0.0
    for verdict in ranked(counts):
        width = 100 * counts[verdict] / sum(counts.values())
        yield verdict, place, width
        place += width


def facts(report: AgentReport) -> Iterator[tuple[str, str]]:
    """Yield names and values; an empty value is not shown."""
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
    campaigns = inner(report.summary, "campaigns")
    yield "Generated", ", ".join(f"{name} {whole(inner(campaigns, name), 'examples') or 0}" for name in campaigns)
    yield "Machine", f"{word(kit, 'system')}, {whole(kit, 'cpus') or '?'} processors, Python {word(kit, 'python')}"
    yield "Load", _load(report)


def _load(report: AgentReport) -> str:
    """Say whether the machine had time: only then a missed deadline is the agent's."""
    load = inner(report.kit, "load")
    open_ones = report.verdict_counts["INCONCLUSIVE"]
    without = f"; {counted(open_ones, 'case')} without verdict" if open_ones else ""
    if not load:
        return f"judged case by case{without}"
    state = "overloaded" if load.get("is_overloaded") is True else "quiet enough"
    return f"{state}: the tester was at most {amount(load, 'late_s'):.2f} s late{without}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Reach(NamedTuple):
    """What a run has reached of the table state x command, and what it never saw."""

    cells: int
    all_cells: int
    never: Sequence[str]
    silent: Sequence[str]
    states: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]
    """Each command with its number of cases in each state."""


def reached(coverage: Fields) -> Reach | None:
    """Return what was reached; None: the report has no such table."""
    states, commands = words(coverage, "states"), words(coverage, "commands")
    if not states or not commands:
        return None
    cases = {
        (word(each, "state"), word(each, "command")): whole(each, "cases") or 0 for each in objects(coverage, "cells")
    }
    return Reach(
        whole(coverage, "cells_reached") or 0,
        whole(coverage, "cells_all") or 0,
        words(coverage, "records_never"),
        [name for name, value in inner(coverage, "armed").items() if value == 0],
        states,
        [(command, [cases.get((state, command), 0) for state in states]) for command in commands],
    )
