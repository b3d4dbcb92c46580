"""Transitions of region RUN: prompts, queues, abort, retry, compaction and what ends a step.

Rows only; see `transitions` for how they are read. Must not know what a guard computes or what an effect writes.
"""

from typing import Final

from pinnace_spec.records.command_table import FLAGS, MODES, READS, SETTINGS
from pinnace_spec.statechart.names import (
    ALWAYS,
    BUSY,
    CANCELLABLE,
    COMPACTING,
    END,
    NON_COMMANDS,
    NOT_SWITCHING,
    RUN_COMMANDS,
    RUN_ENDS,
    RUN_START,
    RUN_STATES,
    STOPPING,
    WAITING,
    Transition,
    one,
    rows,
    stopping,
)

# What every accepted text does, queued or waiting for its first turn.
_QUEUE: Final = "enqueue resume_queue begin_streaming queue_update"
_MESSAGE_OK: Final = "end_message retry_ok reset_counters end_turn"
_MESSAGE_ERROR: Final = "end_message end_turn"
_WITHDRAW: Final = "withdraw_all cancel_commands pause_queue hold_saving"

_BARRIER: Final = (
    *rows(
        NOT_SWITCHING,
        tuple(c for c in WAITING if c in RUN_COMMANDS),
        "barrier",
        None,
        "defer_command",
        "C-9 R-ORD-01",
    ),
    *rows(
        ("switching",),
        tuple(c for c in (*WAITING, *READS) if c in RUN_COMMANDS),
        "",
        None,
        "defer_command",
        "C-9 C-11",
    ),
)

_TEXTS: Final = (
    # DEVIATION D-80: a queue has an end.
    *rows((*BUSY, *STOPPING), ("prompt", "steer", "follow_up"), "queue_full", None, "refuse_full", "R-QUE-11"),
    *rows(("idle",), ("steer", "follow_up"), "queue_full", None, "refuse_full", "R-QUE-11"),
    *one("idle", "prompt", "", "preflight", "take_prompt begin_streaming start_preflight", "R-PRM-01 R-PRM-05 C-8"),
    # A barrier, so that nothing overtakes the text.
    *rows(("idle",), ("steer", "follow_up"), "unsaved", None, "start_saving", "R-QUE-12"),
    *rows((*BUSY, *STOPPING), ("prompt", "steer", "follow_up"), "unsaved", None, "start_saving", "R-QUE-12 R-PRM-03"),
    # DEVIATION D-27: what would be lost is refused.
    *one("compacting.manual", "prompt", "", None, "refuse_compacting", "R-PRM-04"),
    # DEVIATION D-16: busy from admission on.
    *rows(tuple(s for s in BUSY if s != "compacting.manual"), ("prompt",), "", None, "refuse_busy", "R-PRM-04"),
    *rows(STOPPING, ("prompt",), "", None, "defer_command", "C-9"),
    # DEVIATION D-02: a text while idle starts a run.
    *rows(("idle",), ("steer", "follow_up"), "", "idle", f"{_QUEUE} accept_started", "R-QUE-07 C-4"),
    # A text of an extension, which no file has.
    *rows((*BUSY, *STOPPING), ("steer", "follow_up"), "", None, f"{_QUEUE} accept_queued", "R-QUE-01 C-1"),
    *rows(
        NOT_SWITCHING,
        ("clear_queue",),
        "",
        None,
        "withdraw_queues accept_cleared",
        "R-QUE-10",
    ),
)

# What becomes of a text that was being saved; a session is replaced only afterwards.
_SAVING: Final = (
    *one("idle", "save_ok", "withdrawn", None, "return_saved answer_aborts", "R-QUE-12 C-7"),
    *one("idle", "save_ok", "held", None, "queue_saved answer_aborts", "R-QUE-12 C-1"),
    *one(
        "idle", "save_ok", "", None, "resume_queue begin_streaming start_saved answer_aborts", "R-QUE-12 R-QUE-07 C-4"
    ),
    *one("idle", "save_failed", "", None, "refuse_unsaved settle answer_aborts", "R-QUE-12 C-8"),
    *rows(STOPPING, ("save_ok",), "withdrawn", None, "return_saved", "R-QUE-12 C-7"),
    *rows(STOPPING, ("save_ok",), "held", None, "queue_saved", "R-QUE-12 C-1"),
    *rows(
        (*BUSY, *STOPPING), ("save_ok",), "", None, "resume_queue begin_streaming queue_saved", "R-QUE-12 R-QUE-01 C-1"
    ),
    *rows((*BUSY, *STOPPING), ("save_failed",), "", None, "refuse_unsaved", "R-QUE-12"),
    # Before the first command, and after the session was replaced; nothing is delivered by itself, unless the process
    # was started so.
    *rows(RUN_STATES, ("queue_restored",), "continues", None, "restore_queue", "R-QUE-18"),
    *rows(RUN_STATES, ("queue_restored",), "", None, "pause_queue restore_queue", "R-QUE-13"),
    *rows(RUN_STATES, ("queue_announced",), "", None, "announce_queue", "R-QUE-13"),
)

_ABORT: Final = (
    *one("idle", "abort", "", "idle", f"withdraw_waiting admit_abort {END}", "C-6 C-9 R-ABT-01"),
    *one(
        "retrying",
        "abort",
        "",
        "idle",
        f"withdraw_waiting admit_abort cancel_timer retry_cancelled {END}",
        "C-6 C-9 R-ABT-01",
    ),
    *stopping(CANCELLABLE, "abort", "withdraw_waiting admit_abort cancel_job", "C-6 C-9 R-ABT-01"),
    *rows(STOPPING, ("abort",), "", None, "withdraw_waiting admit_abort", "C-7 C-9"),
    # Handlers that let a session begin may take for ever, and everything waits for them.
    *one("switching", "abort", "", None, "withdraw_waiting defer_command cut_start", "C-9"),
    *one(
        "retrying",
        "abort_retry",
        "",
        "idle",
        f"cancel_timer retry_cancelled skip_settle_hook settle accept {END}",
        "R-RTY-03 C-2",
    ),
    *rows(tuple(s for s in RUN_STATES if s != "retrying"), ("abort_retry",), "", None, "accept", "R-RTY-03"),
)

_SETTINGS: Final = (
    *rows(NOT_SWITCHING, SETTINGS, "", None, "perform", "R-SET-03"),
    *rows(NOT_SWITCHING, MODES, "", None, "set_mode accept", "R-QUE-06"),
    *rows(NOT_SWITCHING, FLAGS, "", None, "set_flag accept", "R-SET-03"),
    *rows(NOT_SWITCHING, READS, "", None, "answer", "C-11"),
    *rows(RUN_STATES, ("hello",), "", None, "answer", "R-HEL-01"),
    *rows(RUN_STATES, ("ui_surface_input",), "", None, "answer", "R-UI-09"),
    *rows(RUN_STATES, ("run_shortcut",), "", None, "answer", "R-UI-12"),
    *rows(RUN_STATES, ("login", "abort_login", "logout"), "", None, "answer", "R-KEY-04"),
    *rows(RUN_STATES, NON_COMMANDS, "", None, "refuse_line", "R-ERR-01 R-ERR-02"),
)

_COMPACT: Final = (
    *one("idle", "compact", "", "compacting.manual", "take_compact compaction_manual", "C-12"),
    *stopping(
        ("preflight", "persisting", "llm", "tools", "settling", "navigating"),
        "compact",
        "pend_compact cancel_job",
        "C-12",
    ),
    *one(
        "retrying",
        "compact",
        "",
        "idle",
        f"pend_compact note_cancel cancel_timer retry_cancelled {END}",
        "C-12",
    ),
    *rows(COMPACTING, ("compact",), "", None, "refuse_compaction_in_progress", "C-12"),
    *rows(STOPPING, ("compact",), "", None, "pend_compact", "C-9 C-12"),
)

# The session moves to another entry of its tree: only from rest, so that no branch is left in the middle of its work.
_NAVIGATION: Final = (
    *one("idle", "navigate_tree", "", "navigating", "take_navigation start_navigation", "R-SES-13"),
    *rows((*COMPACTING, "navigating"), ("navigate_tree",), "", None, "refuse_navigation_compacting", "R-SES-14"),
    *rows(
        tuple(s for s in BUSY if s not in {*COMPACTING, "navigating"}),
        ("navigate_tree",),
        "",
        None,
        "refuse_navigation_busy",
        "R-SES-14",
    ),
    *rows(STOPPING, ("navigate_tree",), "", None, "defer_command", "C-9"),
    # Handlers of extensions learn of the move after it, and before its response.
    *one("navigating", "navigation_ready", "", None, "move_leaf", "R-SES-13"),
    *one("navigating", "navigation_ok", "", "idle", f"answer_navigation {END}", "R-SES-13"),
    *one("navigating", "navigation_failed", "", "idle", f"refuse_navigation {END}", "R-SES-13"),
    # Of a job that has not seen that it is cancelled; its end is still to come.
    *one("stopping.navigating", "navigation_ready", "", None, "", "C-13"),
)

# The user's files are read again: only from rest, and everything waits meanwhile, but for answers to dialogs.
_RELOAD: Final = (
    *one("idle", "reload", "", "switching", "take_reload start_reload", "R-CFG-03"),
    *rows((*COMPACTING, "navigating"), ("reload",), "", None, "refuse_reload_compacting", "R-CFG-05"),
    *rows(
        tuple(s for s in BUSY if s not in {*COMPACTING, "navigating"}),
        ("reload",),
        "",
        None,
        "refuse_reload_busy",
        "R-CFG-05",
    ),
    *rows(STOPPING, ("reload",), "", None, "defer_command", "C-9"),
    # What calls a command, or a template, is known only now.
    *one("switching", "reload_ok", "", "idle", f"take_settings accept_reload reread_deferred {END}", "R-CFG-03"),
    *one("switching", "reload_failed", "", "idle", f"refuse_reload reread_deferred {END}", "R-CFG-04"),
)

_PREFLIGHT: Final = (
    # The text is in the session before its response is written, and on the disk if there is one.
    *one("preflight", "preflight_ok", "", "persisting", "flush_shells append_prompt start_sync", "R-PRM-02 R-SES-05"),
    *one(
        "persisting",
        "synced",
        "",
        "llm",
        f"accept_prompt resume_queue reset_counters {RUN_START} deliver_prompt deliver_steering call_model",
        "R-PRM-02 R-SES-05 C-1 C-5",
    ),
    *one("persisting", "sync_failed", "", "idle", f"drop_prompt refuse_prompt {END}", "R-SES-05 C-8"),
    *one("preflight", "preflight_refused", "", "idle", f"refuse_prompt {END}", "R-PRM-02 C-8"),
    *one("preflight", "preflight_handled", "", "idle", f"handle_prompt {END}", "R-PRM-02"),
    *one(
        "preflight",
        "threshold_due",
        "threshold_unchecked",
        "compacting.prompt",
        "check_threshold compaction_threshold",
        "C-14",
    ),
    *one("preflight", "threshold_due", "", None, "start_preflight", "C-14"),
)

_RUN: Final = (
    *one(
        "llm",
        "llm_tool_calls",
        "",
        "tools",
        "end_message retry_ok reset_counters call_tools",
        "R-RUN-02 R-RTY-02",
    ),
    *one(
        "llm",
        "llm_length",
        "",
        "llm",
        "end_message retry_ok reset_counters fail_calls end_turn start_turn deliver_steering call_model",
        "R-RUN-05 C-14",
    ),
    *one(
        "llm",
        "llm_stop",
        "has_steering",
        "llm",
        f"{_MESSAGE_OK} start_turn deliver_steering call_model",
        "R-QUE-03",
    ),
    *one(
        "llm",
        "llm_stop",
        "has_follow_up",
        "llm",
        f"{_MESSAGE_OK} start_turn deliver_follow_up call_model",
        "R-QUE-04",
    ),
    *one("llm", "llm_stop", "goes_on", "llm", f"{_MESSAGE_OK} start_turn call_model", "R-EXT-07"),
    *one(
        "llm",
        "llm_stop",
        "threshold_due",
        "compacting.threshold",
        f"{_MESSAGE_OK} end_run compaction_threshold",
        "R-CMP-01",
    ),
    *one("llm", "llm_stop", "", "idle", f"{_MESSAGE_OK} end_run {END}", "R-RUN-01 C-8"),
    *one(
        "llm",
        "llm_transient",
        "can_retry",
        "retrying",
        f"{_MESSAGE_ERROR} end_run_retrying start_retry",
        "R-RTY-01",
    ),
    *one(
        "llm",
        "llm_transient",
        "threshold_due",
        "compacting.threshold",
        f"{_MESSAGE_ERROR} end_run retry_failed compaction_threshold",
        "R-RTY-02 R-CMP-01",
    ),
    *one(
        "llm",
        "llm_overflow",
        "can_recover_overflow",
        "compacting.overflow",
        f"{_MESSAGE_ERROR} end_run retry_failed leave_failed compaction_overflow",
        "C-14 R-CMP-02",
    ),
    *one(
        "llm",
        "llm_overflow",
        "overflow_again",
        "idle",
        f"{_MESSAGE_ERROR} end_run retry_failed compaction_given_up {END}",
        "C-14 R-CMP-02",
    ),
    *rows(
        ("llm",),
        ("llm_transient", "llm_overflow", "llm_fatal"),
        "",
        "idle",
        f"{_MESSAGE_ERROR} end_run retry_failed {END}",
        "R-RTY-02 C-2",
    ),
    # A text of the user goes before what a tool wants.
    *one("tools", "tools_done", "ends_at_once", "idle", f"end_tools end_turn end_run {END}", "R-EXT-07 C-2"),
    *one(
        "tools",
        "tools_done",
        "",
        "llm",
        "end_tools end_turn start_turn deliver_steering call_model",
        "R-RUN-03 R-QUE-03",
    ),
    *rows(("llm", "tools"), ("job_failed",), "", "idle", f"fail_run retry_failed {END}", "R-RUN-06 C-15"),
    # DEVIATION D-26: the failure is visible until its request is sent again.
    *one("retrying", "delay_over", "", "llm", f"leave_failed {RUN_START} deliver_steering call_model", "R-RTY-01"),
)

_COMPACTION: Final = (
    *one("compacting.manual", "compaction_ok", "", "idle", f"compaction_done accept_compact {END}", "C-12"),
    *one("compacting.manual", "compaction_failed", "", "idle", f"compaction_fail refuse_compact {END}", "C-12"),
    *one("compacting.prompt", "compaction_ok", "", "preflight", "compaction_done start_preflight", "C-14"),
    *one("compacting.prompt", "compaction_failed", "", "preflight", "compaction_fail start_preflight", "C-14"),
    *one("compacting.threshold", "compaction_ok", "", "idle", f"compaction_done {END}", "C-2"),
    *one("compacting.threshold", "compaction_failed", "", "idle", f"compaction_fail {END}", "C-2"),
    *one(
        "compacting.overflow",
        "compaction_ok",
        "",
        "llm",
        "compaction_done_retrying start_run start_turn deliver_steering call_model",
        "R-CMP-02",
    ),
    *one("compacting.overflow", "compaction_failed", "", "idle", f"compaction_fail {END}", "C-2"),
)


def _stopped(state: str, reports: tuple[str, ...], closing: str) -> tuple[Transition, ...]:
    """Return the rows of a job's end after its cancellation, whatever it reports: that is the end (C-13)."""
    return rows((state,), ("job_ended", *reports), "", "idle", f"{closing} {END}", "C-13 C-15")


def _refused(state: str, reports: tuple[str, ...], closing: str, refusal: str) -> tuple[Transition, ...]:
    """As `_stopped`, where a command is refused: its error depends on why it was cancelled."""
    return (
        *rows((state,), reports, "input_open", "idle", f"{closing} {refusal}_aborted {END}", "C-13 C-15"),
        *rows((state,), reports, "", "idle", f"{closing} {refusal}_shutdown {END}", "C-13 C-15 C-16"),
    )


_STOPPING: Final = (
    *_refused(
        "stopping.preflight",
        ("job_ended", "preflight_ok", "preflight_refused", "preflight_handled", "threshold_due"),
        "",
        "refuse_prompt",
    ),
    *_refused("stopping.persisting", ("job_ended", "synced", "sync_failed"), "drop_prompt", "refuse_prompt"),
    *_stopped("stopping.run", ("job_failed", *RUN_ENDS), "close_run retry_cancelled"),
    # A compaction that was done when it was cancelled is reported as done.
    *one("stopping.compacting.manual", "compaction_ok", "", "idle", f"compaction_done accept_compact {END}", "C-13"),
    *_refused("stopping.compacting.manual", ("job_ended", "compaction_failed"), "close_compaction", "refuse_compact"),
    *_refused("stopping.compacting.prompt", ("compaction_ok",), "compaction_done", "refuse_prompt"),
    *_refused("stopping.compacting.prompt", ("job_ended", "compaction_failed"), "close_compaction", "refuse_prompt"),
    *rows(
        ("stopping.compacting.threshold", "stopping.compacting.overflow"),
        ("compaction_ok",),
        "",
        "idle",
        f"compaction_done {END}",
        "C-13",
    ),
    *_stopped("stopping.compacting.threshold", ("compaction_failed",), "close_compaction"),
    *_stopped("stopping.compacting.overflow", ("compaction_failed",), "close_compaction"),
    # A session that had moved when its handlers were cancelled has moved.
    *_stopped("stopping.navigating", ("navigation_ok", "navigation_failed"), "answer_navigation"),
    *_stopped("stopping.settling", ("job_failed", "settle_hook_ok", "settle_hook_goes_on"), ""),
)

_SWITCHING: Final = (
    *one("idle", "switch_confirmed", "", None, "", "C-10"),
    *stopping(CANCELLABLE, "switch_confirmed", "cancel_job", "C-10"),
    *one("retrying", "switch_confirmed", "", "idle", f"note_cancel cancel_timer retry_cancelled {END}", "C-10"),
    *rows(STOPPING, ("switch_confirmed",), "", None, "", "C-10"),
    *one(
        "switching",
        "switch_ok",
        "",
        "idle",
        f"replace_session settle accept_session reread_deferred {END}",
        "C-10 R-QUE-09",
    ),
    *one("switching", "switch_failed", "", "idle", f"refuse_session {END}", "C-10"),
)

_STOP: Final = (
    # DEVIATION D-06, D-07: everything is closed and answered before the process leaves.
    *one("idle", "stop_abort", "", "idle", f"{_WITHDRAW} note_cancel {END}", "C-16"),
    *one("retrying", "stop_abort", "", "idle", f"{_WITHDRAW} note_cancel cancel_timer retry_cancelled {END}", "C-16"),
    *stopping(CANCELLABLE, "stop_abort", f"{_WITHDRAW} cancel_job", "C-16"),
    *rows(STOPPING, ("stop_abort",), "", None, _WITHDRAW, "C-16"),
    # Commands that need only a session that has begun are answered then; without them its beginning is not awaited.
    *one(
        "switching",
        "stop_abort",
        "instant_waits",
        None,
        "withdraw_work cancel_commands pause_queue hold_saving",
        "C-16 R-EXT-08",
    ),
    *one(
        "switching",
        "stop_abort",
        "",
        None,
        f"{_WITHDRAW} cut_start",
        "C-16 R-EXT-08",
    ),
    *rows(RUN_STATES, ("stop_drain",), "", None, "", "C-17"),
)

# What a shell has said must not come between a tool call and its result.
_SHELLS: Final = (
    *rows(("idle", "compacting.manual"), ("shell_ended",), "", None, "record_shell", "R-BSH-03"),
    *rows(
        tuple(s for s in RUN_STATES if s not in {"idle", "compacting.manual"}),
        ("shell_ended",),
        "",
        None,
        "keep_shell",
        "R-BSH-03",
    ),
)

# The rest of every step (chart.md's "end of every step"), in this order, until nothing applies.
_ALWAYS: Final = (
    *one("idle", ALWAYS, "session_ready", "switching", "start_switch", "C-10"),
    *one("idle", ALWAYS, "compact_ready", "compacting.manual", "take_pending_compact compaction_manual", "C-12"),
    # In stopping and switching whatever waits keeps waiting: both are barriers to a line that is not empty.
    *rows(("idle", *BUSY), (ALWAYS,), "deferred_ready", None, "admit_deferred", "C-9 R-ORD-01"),
    *one(
        "idle",
        ALWAYS,
        "has_deliverable",
        "llm",
        "begin_streaming answer_aborts_now start_run start_turn deliver_continuation call_model",
        "C-2 C-3",
    ),
    *one("idle", ALWAYS, "settle_hook_due", "settling", "start_settle_hook", "R-EXT-05 C-8"),
    *one("idle", ALWAYS, "unsettled", None, "settle", "C-8"),
)

# Transitions that extensions cause; without extensions none of them is ever taken.
_READING: Final = (
    # A barrier, so that what comes after the text does not overtake it.
    *rows(("idle",), ("steer", "follow_up"), "unread", None, "start_reading", "R-EXT-04"),
    *rows((*BUSY, *STOPPING), ("prompt", "steer", "follow_up"), "unread", None, "start_reading", "R-EXT-04"),
    # What has come after the text waits for the end of the abort, and so does the text, before them.
    *rows(STOPPING, ("text_read",), "has_deferred", None, "defer_first", "R-EXT-04 C-9"),
    *rows(NOT_SWITCHING, ("text_read",), "", None, "admit_read", "R-EXT-04"),
    *rows(NOT_SWITCHING, ("text_handled",), "", None, "accept_handled", "R-EXT-04"),
    *rows(NOT_SWITCHING, ("text_failed",), "", None, "refuse_reading", "R-EXT-04"),
    *one("preflight", "prompt_read", "", None, "replace_prompt", "R-EXT-04"),
    # Of a job that has not seen that it is cancelled; its end is still to come.
    *one("stopping.preflight", "prompt_read", "", None, "", "C-13"),
)

_COMMANDS: Final = (
    *rows(NOT_SWITCHING, ("extension_command",), "", None, "start_command", "R-EXT-03"),
    # Nothing is busy any more when the process is on its way to its end.
    *rows(("idle", *STOPPING, "switching"), ("command_ended",), "closing", None, "refuse_command", "R-EXT-03 C-16"),
    *rows(RUN_STATES, ("command_ended",), "", None, "accept_command", "R-EXT-03"),
)

# The last word before the agent settles, once a run.
_SETTLING: Final = (
    *rows(("settling",), ("settle_hook_ok", "job_failed"), "", "idle", f"skip_settle_hook {END}", "R-EXT-05 C-8"),
    *one("settling", "settle_hook_goes_on", "", "llm", f"{RUN_START} deliver_steering call_model", "R-EXT-05"),
)

# Before the first command: everything waits meanwhile, but for answers to dialogs.
_INSTANCES: Final = (
    *one("idle", "begin_instance", "", "switching", "start_instance", "R-EXT-06"),
    # What calls a command is known only now.
    *one("switching", "instance_ready", "", "idle", f"reread_deferred {END}", "R-EXT-03 R-EXT-06"),
)

_EXTENSIONS: Final = (*_READING, *_COMMANDS, *_SETTLING, *_INSTANCES)

RUN_ROWS: Final = (
    *_BARRIER,
    *_EXTENSIONS,
    *_TEXTS,
    *_SAVING,
    *_ABORT,
    *_SETTINGS,
    *_COMPACT,
    *_NAVIGATION,
    *_RELOAD,
    *_PREFLIGHT,
    *_RUN,
    *_COMPACTION,
    *_STOPPING,
    *_SWITCHING,
    *_STOP,
    *_SHELLS,
    *_ALWAYS,
)
