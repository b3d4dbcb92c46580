"""Says whether a soak was steady, and writes its page. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pinnace_campaigns.soak.samples import Sample
from pinnace_campaigns.soak.slopes import Slope, slope

WEEK_PROMPTS: Final = 50 * 24 * 7
"""A week's worth: fifty prompts an hour, three tool calls each, day and night."""
GROWTH_KIB: Final = 8 * 1024
"""What a week may add to the memory: an eighth of what ten such agents use idle is lost in the noise of any machine."""
DECISIVE_PROMPTS: Final = 2_000
"""Shorter runs say nothing about a week: only what they really add is judged."""
STDERR_BYTES: Final = 64 * 1024
"""What may be on stderr in the end: the traffic has nothing in it that is worth a line."""
_WARM_UP: Final = 1 / 3


class JudgedMatter(NamedTuple):
    """One thing that was judged."""

    what: str
    figures: str
    fault: str | None


def judge(samples: Sequence[Sample], long_outputs: int) -> list[JudgedMatter]:
    """Judge the later two thirds of a soak, the first being the filling of caches.

    Args:
        samples: At the end of each conversation.
        long_outputs: How many commands had an output that is kept in a file.
    """
    later = list(samples[int(len(samples) * _WARM_UP) :])
    rows = [
        _memory("resident memory", later, lambda each: each.resident_kib),
        _memory("proportional memory", later, lambda each: each.proportional_kib),
        _memory("private memory", later, lambda each: each.private_kib),
    ]
    descriptors = [each.descriptors for each in later]
    rows.append(_constant("open files", descriptors, spread=4))
    rows.append(_constant("threads", [each.threads for each in later], spread=4))
    last = samples[-1]
    rows.append(_exactly("child processes", [each.children for each in samples], 0))
    rows.append(_exactly("temporary files but for long outputs", [each.temporary for each in samples], 0))
    # A replaced session is closed beside the work that goes on.
    rows.append(
        _constant("leases and copies beside sessions", [each.other_session_files for each in samples], spread=4)
    )
    kept = f"{last.outputs} of {long_outputs}"
    rows.append(
        JudgedMatter("files with long outputs", kept, None if last.outputs == long_outputs else f"{kept} are there")
    )
    is_quiet = last.stderr_bytes <= STDERR_BYTES
    rows.append(JudgedMatter("stderr", f"{last.stderr_bytes} bytes", None if is_quiet else "more than is bounded"))
    return rows


def _memory(what: str, samples: Sequence[Sample], value: Callable[[Sample], int]) -> JudgedMatter:
    try:
        found = slope([each.prompts for each in samples], [value(each) for each in samples])
    except ValueError as error:
        return JudgedMatter(what, str(error), "too short a run")
    week = Slope(*(each * WEEK_PROMPTS for each in found))
    first, last = value(samples[0]), value(samples[-1])
    figures = (
        f"{first / 1024:.1f} to {last / 1024:.1f} MiB; a week adds {week.middle / 1024:+.2f} MiB "
        f"({week.lowest / 1024:+.2f} to {week.highest / 1024:+.2f})"
    )
    if samples[-1].prompts < DECISIVE_PROMPTS:
        # Caches still fill, and a slope of that would be multiplied by a week.
        is_much = last - first > GROWTH_KIB
        return JudgedMatter(
            what, f"{figures}; a run too short for that", "grows by more than a week may" if is_much else None
        )
    if week.lowest > GROWTH_KIB:
        return JudgedMatter(what, figures, f"grows by more than {GROWTH_KIB / 1024:.0f} MiB a week")
    if week.highest > GROWTH_KIB:
        figures += "; too few points to say that it is flat"
    return JudgedMatter(what, figures, None)


def _constant(what: str, values: Sequence[int], *, spread: int) -> JudgedMatter:
    first, last = values[0], values[-1]
    figures = f"{min(values)} to {max(values)}"
    return JudgedMatter(
        what, figures, None if last - first <= spread and max(values) - first <= 2 * spread else f"grew: {figures}"
    )


def _exactly(what: str, values: Sequence[int], wanted: int) -> JudgedMatter:
    worst = max(values)
    return JudgedMatter(what, str(worst), None if worst == wanted else f"{worst} instead of {wanted}")


def page(
    rows: Sequence[JudgedMatter], samples: Sequence[Sample], done: Mapping[str, int], about: Mapping[str, str]
) -> str:
    """Write the page of a soak: what was run, what was found, and the series."""
    last = samples[-1]
    lines = ["# Soak", "", *(f"- {name}: {text}" for name, text in about.items())]
    lines.append(f"- run: {last.time_s:.0f} s; {', '.join(f'{count:,} {name}' for name, count in done.items())}")
    lines.append(f"- of a week's worth ({WEEK_PROMPTS:,} prompts): {last.prompts / WEEK_PROMPTS:.0%}")
    lines += ["", "| What | Later two thirds | Verdict |", "|---|---|---|"]
    lines += [f"| {row.what} | {row.figures} | {row.fault or 'steady'} |" for row in rows]
    lines += ["", f"Sessions on the disk: {last.sessions}, {last.session_bytes / 2**20:.1f} MiB.", ""]
    lines += [
        "| Seconds | Prompts | Resident, KiB | Proportional | Private | Open files |",
        "|---|---|---|---|---|---|",
    ]
    shown = samples[:: max(1, len(samples) // 30)]
    lines += [
        f"| {each.time_s:.0f} | {each.prompts} | {each.resident_kib} | {each.proportional_kib} | {each.private_kib} "
        f"| {each.descriptors} |"
        for each in shown
    ]
    return "\n".join([*lines, ""])
