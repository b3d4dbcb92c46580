"""Names of the statechart: regions, states, triggers, and the shape of a row.

What a region answers, and what waits behind a barrier (C-9), follows from the declarations of the commands, by way of
`records.command_table`. Must not know any transition: those are in `run` and `transitions`.
"""

from typing import Final, Literal, NamedTuple

from pinnace_spec.records.command_table import (
    ALIASES,
    CLIENT_ANSWERS,
    FLAGS,
    MODES,
    OVERTAKING,
    READS,
    SETTINGS,
    SHELL_COMMANDS,
    TEXT_COMMANDS,
    WORK_COMMANDS,
)
from pinnace_spec.records.command_table import SESSION_COMMANDS as ALL_SESSION_COMMANDS

Region = Literal["io", "session", "ui", "shell", "run"]

# A trigger that several regions know is offered to them in this order: what waits is answered before what works ends.
REGIONS: Final[tuple[Region, ...]] = ("io", "session", "ui", "shell", "run")

INITIAL: Final[dict[Region, str]] = {
    "io": "open",
    "session": "quiet",
    "ui": "quiet",
    "shell": "quiet",
    "run": "idle",
}

ALWAYS: Final = "always"


class Transition(NamedTuple):
    """One transition: `effects` in the order of what they write, `rules` the rules that it carries out."""

    region: Region
    source: str
    trigger: str
    guard: str
    target: str | None
    effects: tuple[str, ...]
    rules: tuple[str, ...]


# What a client asked for; before a prompt is sent; behind a run; and since the provider refused the context.
COMPACTING: Final = ("compacting.manual", "compacting.prompt", "compacting.threshold", "compacting.overflow")
# Busy: a text needs a behaviour and is queued. A job or the retry timer runs in each of them.
BUSY: Final = ("preflight", "persisting", "llm", "tools", "retrying", *COMPACTING, "settling", "navigating")
# A job runs that can be cancelled; its end is a trigger of its own (cancelling is not ending).
CANCELLABLE: Final = ("preflight", "persisting", "llm", "tools", *COMPACTING, "settling", "navigating")
# Where such a job unwinds once it is cancelled: a state says what is left to close.
STOPPING_OF: Final[dict[str, str]] = {
    state: "stopping.run" if state in {"llm", "tools"} else f"stopping.{state}" for state in CANCELLABLE
}
STOPPING: Final = tuple(dict.fromkeys(STOPPING_OF.values()))
# Between agent_start and agent_end.
RUN_OPEN: Final = ("llm", "tools", "stopping.run")
RUN_STATES: Final = ("idle", *BUSY, *STOPPING, "switching")
NOT_SWITCHING: Final = RUN_STATES[:-1]

# RUN has no job any more: the order is C-6 and C-8. What starts next is decided by the `always` rows.
END: Final = "end_job flush_shells settle answer_aborts"
RUN_START: Final = "start_run start_turn"

STATES: Final[dict[Region, tuple[str, ...]]] = {
    "io": ("open", "draining", "closing", "closed"),
    "session": ("quiet", "confirming"),
    "ui": ("quiet",),
    "shell": ("quiet", "running"),
    "run": RUN_STATES,
}

# Carried out in the step that admits them: no job, nothing to wait for.
INSTANT: Final = (*READS, *SETTINGS, *FLAGS, *MODES, "clear_queue")
SESSION_COMMANDS: Final = tuple(name for name in ALL_SESSION_COMMANDS if name not in ALIASES)
# Answered as cancelled, not with an error, when an abort or the end of the process withdraws them.
VETOABLE: Final = (*SESSION_COMMANDS, "navigate_tree")
# Lines that name no command: answered in every state, never waiting.
NON_COMMANDS: Final = ("malformed", "unknown")

RUN_COMMANDS: Final = (
    *(name for name in TEXT_COMMANDS if name not in ALIASES),
    "extension_command",  # a prompt whose text calls one
    *WORK_COMMANDS,
    *SETTINGS,
    *FLAGS,
    *MODES,
    *READS,
    *NON_COMMANDS,
)

# Which region answers a command. `abort` is also offered to the session region, which withdraws what it asks about.
COMMANDS: Final[dict[Region, tuple[str, ...]]] = {
    "io": (),
    "session": SESSION_COMMANDS,
    "ui": CLIENT_ANSWERS,
    "shell": SHELL_COMMANDS,
    "run": RUN_COMMANDS,
}
# Commands that wait in the line behind a barrier; all others overtake it (C-9).
WAITING: Final = tuple(
    name
    for name in (*RUN_COMMANDS, *SESSION_COMMANDS, *SHELL_COMMANDS)
    if name not in (*OVERTAKING, *READS, *NON_COMMANDS)
)

# Those of them that a step does not carry out: an agent that ends takes none (R-EOF-03).
WORKING: Final = tuple(name for name in WAITING if name not in INSTANT)

RUN_ENDS: Final = (
    "llm_tool_calls",
    "llm_length",
    "llm_stop",
    "llm_transient",
    "llm_overflow",
    "llm_fatal",
    "tools_done",
)
JOB_TRIGGERS: Final = (
    "prompt_read",
    "preflight_ok",
    "preflight_refused",
    "preflight_handled",
    "threshold_due",
    "synced",
    "sync_failed",
    *RUN_ENDS,
    "delay_over",
    "compaction_ok",
    "compaction_failed",
    "settle_hook_ok",
    "settle_hook_goes_on",
    "navigation_ready",
    "navigation_ok",
    "navigation_failed",
    "job_ended",
    "job_failed",
    "switch_ok",
    "switch_failed",
    "instance_ready",
    "reload_ok",
    "reload_failed",
    "ask_yes",
    "ask_no",
    "ask_invalid",
    "text_read",
    "text_handled",
    "text_failed",
    "save_ok",
    "save_failed",
)
INTERNAL_EVENTS: Final = (
    *JOB_TRIGGERS,
    "begin_instance",
    "instance_began",
    "switch_confirmed",
    "shell_ended",
    "command_ended",
    "queue_restored",
    "queue_announced",
    "stop_abort",
    "stop_drain",
)


def rows(
    sources: tuple[str, ...],
    triggers: tuple[str, ...],
    guard: str,
    target: str | None,
    effects: str,
    rules: str,
    region: Region = "run",
) -> tuple[Transition, ...]:
    """One row for each source and trigger; `effects` and `rules` are names with spaces between."""
    does, by = tuple(effects.split()), tuple(rules.split())
    return tuple(
        [Transition(region, source, trigger, guard, target, does, by) for source in sources for trigger in triggers]
    )


def stopping(sources: tuple[str, ...], trigger: str, effects: str, rules: str) -> tuple[Transition, ...]:
    """Return the row of each source whose job is cancelled, to the state in which that job unwinds."""
    return tuple(row for source in sources for row in one(source, trigger, "", STOPPING_OF[source], effects, rules))


def one(source: str, trigger: str, guard: str, target: str | None, effects: str, rules: str) -> tuple[Transition, ...]:
    """Return the one row of a source and a trigger in region RUN."""
    return rows((source,), (trigger,), guard, target, effects, rules)
