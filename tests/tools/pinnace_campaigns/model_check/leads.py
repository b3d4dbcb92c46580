"""Variants of the model in which a client goes to one state first and then sends given commands there, in one breath.

Random walks hardly ever send, say, a setting while a compaction runs; with these each command meets each state. Text
only: must not know how it is searched.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


class Lead(NamedTuple):
    """How a state is reached: what is sent, and how the model answers until then."""

    state: str
    sent: tuple[str, ...]
    answer: str = "llm_stop"


LEADS: Final = (
    Lead("run_idle", ()),
    Lead("run_preflight", ("prompt",)),
    Lead("run_llm", ("prompt",)),
    Lead("run_tools", ("prompt",), "llm_tool_calls"),
    Lead("run_retrying", ("prompt",), "llm_transient"),
    Lead("run_compacting_overflow", ("prompt",), "llm_overflow"),
    Lead("run_compacting_manual", ("compact",)),
)
# A name, and the option that the rows look at.
GROUPS: Final[tuple[tuple[str, ...], ...]] = (
    ("set_auto_retry", "set_auto_compaction", "set_queue_mode 1", "hello", "steer"),
    ("set_model", "get_state", "clear_queue", "abort_retry", "follow_up"),
    ("prompt", "prompt 1", "prompt 2", "bash", "abort_bash"),
    ("compact", "compact", "steer", "hello", "abort"),
    ("abort 1", "abort 2", "set_auto_retry", "set_auto_compaction", "set_queue_mode 1"),
    ("abort", "set_model", "get_state", "clear_queue", "abort_retry"),
    ("abort", "steer", "follow_up", "prompt 1", "hello"),
    ("abort", "prompt", "bash", "abort_bash", "compact"),
    ("abort", "new_session", "set_auto_retry", "get_state", "abort"),
    ("new_session", "set_auto_retry", "set_auto_compaction", "set_queue_mode 1", "set_model"),
    ("new_session", "prompt", "steer", "follow_up", "clear_queue"),
    ("new_session", "compact", "bash", "abort_bash", "new_session"),
    ("new_session", "prompt 1", "hello", "get_state", "abort_retry"),
    ("new_session", "prompt 2", "abort", "steer", "get_state"),
    ("bash", "new_session", "bash", "abort_bash"),
    ("compact", "set_auto_retry", "set_auto_compaction", "set_queue_mode 1", "set_model"),
    ("compact", "prompt", "follow_up", "clear_queue", "prompt 1"),
    ("compact", "bash", "new_session", "abort 1", "get_state"),
)


def variants(text: str) -> Iterator[tuple[str, int]]:
    """Return the model with each lead and group, and how many commands are sent."""
    for lead in LEADS:
        for group in GROUPS:
            yield led(text, lead, group), len(lead.sent) + len(group)


def led(text: str, lead: Lead, group: Sequence[str]) -> str:
    """Let a client go to a state and send there what is given."""
    count = len(lead.sent)
    is_there = f"(RUN == {lead.state} || sent > {count})"
    holds = f"(sent >= {count} && sent < N && IO == io_open && (CALM || fresh) && {is_there})"
    lines: list[str] = []
    is_report = is_command = False
    for line in text.split("\n"):
        if line.startswith("inline command()"):
            is_command = True
            lines += _command([*lead.sent, *group])
        if is_command:
            is_command = not line.startswith("fi }")
            continue
        is_report = (is_report or line.strip() == "/* jobs, shells */") and line.strip() != "fi;"
        if is_report and line.startswith("   :: "):
            trigger = line.rpartition("t = t_")[2]
            chosen = "" if not trigger.startswith("llm_") or trigger == lead.answer else "sent == N && "
            line = f"   :: !{holds} && {chosen}{line.removeprefix('   :: ')}"
        elif line.startswith("   :: sent < N && IO == io_open && (CALM || fresh)"):
            line = line.replace("(CALM || fresh)", f"(CALM || fresh) && (sent < {count} || {is_there})")
        lines.append(line)
    return "\n".join(lines)


def _command(sent: Sequence[str]) -> Iterator[str]:
    yield "inline command() {"
    yield "if"
    for number, each in enumerate(sent, 1):
        name, _, option = each.partition(" ")
        yield f":: sent == {number} -> t = t_{name}; o = {option or 0}"
    yield "fi }"
