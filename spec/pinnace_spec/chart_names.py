"""Names of the statechart: regions, states, triggers, and the shape of a row.

Decides which region answers which command and which commands wait behind a barrier (C-9). Must not know any transition:
those are in `chart_run` and `chart_regions`, joined by `chart`.
"""

from typing import Final, Literal, NamedTuple

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


class Row(NamedTuple):
    """One transition: `effects` in the order of what they write, `rules` the rules that it carries out."""

    region: Region
    source: str
    trigger: str
    guard: str
    target: str | None
    effects: tuple[str, ...]
    rules: tuple[str, ...]


COMPACTING: Final = ("compacting.manual", "compacting.threshold", "compacting.overflow")
# Busy: a text needs a behaviour and is queued. A job or the retry timer runs in each of them.
BUSY: Final = ("preflight", "llm", "tools", "retrying", *COMPACTING, "settling")
# A job runs that can be cancelled; its end is a trigger of its own (cancelling is not ending).
CANCELLABLE: Final = ("preflight", "llm", "tools", *COMPACTING, "settling")
RUN_STATES: Final = ("idle", *BUSY, "aborting", "switching")
NOT_SWITCHING: Final = RUN_STATES[:-1]

# RUN has no job any more: the order is C-6 and C-8. What starts next is decided by the `always` rows.
END: Final = "end_job flush_shells settle answer_aborts"
RUN_START: Final = "start_run start_turn"

STATES: Final[dict[Region, tuple[str, ...]]] = {
    "io": ("open", "draining", "closing", "closed"),
    "session": ("quiet", "asking"),
    "ui": ("quiet",),
    "shell": ("quiet", "running"),
    "run": RUN_STATES,
}

READS: Final = (
    "get_state",
    "get_messages",
    "get_available_models",
    "get_available_thinking_levels",
    "get_session_stats",
    "get_fork_messages",
    "get_branch_messages",
    "get_last_assistant_text",
    "get_commands",
    "get_entries",
    "get_tree",
    "export_html",
)
# Take effect at once and are seen by the next request or the next delivery.
SETTINGS: Final = (
    "set_model",
    "cycle_model",
    "set_thinking_level",
    "cycle_thinking_level",
    "set_session_name",
)
FLAGS: Final = ("set_auto_compaction", "set_auto_retry")
MODES: Final = ("set_steering_mode", "set_follow_up_mode", "set_queue_mode")
# Carried out in the step that admits them: no job, nothing to wait for.
INSTANT: Final = (*READS, *SETTINGS, *FLAGS, *MODES, "clear_queue")
SESSION_COMMANDS: Final = ("new_session", "switch_session", "fork", "clone", "branch")
# Lines that name no command: answered in every state, never waiting.
NON_COMMANDS: Final = ("malformed", "unknown")

RUN_COMMANDS: Final = (
    "prompt",
    "extension_command",  # a prompt whose text calls one
    "steer",
    "follow_up",
    "abort",
    "abort_retry",
    "clear_queue",
    "compact",
    *SETTINGS,
    *FLAGS,
    *MODES,
    *READS,
    "hello",
    *NON_COMMANDS,
)
# Which region answers a command. `abort` is also offered to the session region, which withdraws what it asks about.
COMMANDS: Final[dict[Region, tuple[str, ...]]] = {
    "io": (),
    "session": SESSION_COMMANDS,
    "ui": ("extension_ui_response",),
    "shell": ("bash", "abort_bash"),
    "run": RUN_COMMANDS,
}
# Commands that wait in the line behind a barrier; all others overtake it (C-9).
WAITING: Final = (
    "prompt",
    "extension_command",
    "steer",
    "follow_up",
    "clear_queue",
    "compact",
    *SETTINGS,
    *FLAGS,
    *MODES,
    *SESSION_COMMANDS,
    "bash",
)

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
    "own_read",
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
    "boundary_ok",
    "boundary_goes_on",
    "job_ended",
    "job_failed",
    "switch_ok",
    "switch_failed",
    "instance_ready",
    "ask_yes",
    "ask_no",
    "ask_invalid",
    "text_read",
    "text_handled",
    "text_failed",
)
HAPPENINGS: Final = (
    *JOB_TRIGGERS,
    "begin_instance",
    "instance_began",
    "session_approved",
    "shell_ended",
    "command_ended",
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
) -> tuple[Row, ...]:
    """One row for each source and trigger; `effects` and `rules` are names with spaces between."""
    return tuple(
        Row(region, source, trigger, guard, target, tuple(effects.split()), tuple(rules.split()))
        for source in sources
        for trigger in triggers
    )


def one(source: str, trigger: str, guard: str, target: str | None, effects: str, rules: str) -> tuple[Row, ...]:
    """Return the one row of a source and a trigger in region RUN."""
    return rows((source,), (trigger,), guard, target, effects, rules)
