"""Transitions of region RUN: prompts, queues, abort, retry, compaction and what ends a step.

Rows only; see `chart` for how they are read. Must not know what a guard computes or what an effect writes.
"""

from typing import Final

from pinnace_spec.chart_extensions import EXTENSION_ROWS
from pinnace_spec.chart_names import (
    ALWAYS,
    BUSY,
    CANCELLABLE,
    COMPACTING,
    END,
    FLAGS,
    MODES,
    NON_COMMANDS,
    NOT_SWITCHING,
    READS,
    RUN_COMMANDS,
    RUN_ENDS,
    RUN_START,
    RUN_STATES,
    SETTINGS,
    WAITING,
    one,
    rows,
)

# What every accepted text does, queued or waiting for its first turn.
_QUEUE: Final = "enqueue release_hold open_period queue_update"
_MESSAGE_OK: Final = "end_message retry_ok reset_counters end_turn"
_MESSAGE_ERROR: Final = "end_message end_turn"
_WITHDRAW: Final = "announce_queue withdraw_all cancel_commands hold"
_CLOSING: Final = "close_run retry_cancelled close_compaction drop_own refuse_own refuse_compact"

_BARRIER: Final = (
    *rows(
        NOT_SWITCHING,
        tuple(c for c in WAITING if c in RUN_COMMANDS),
        "barrier",
        None,
        "join_line",
        "C-9 R-ORD-01",
    ),
    *rows(
        ("switching",),
        tuple(c for c in (*WAITING, *READS) if c in RUN_COMMANDS),
        "",
        None,
        "join_line",
        "C-9 C-11",
    ),
)

_TEXTS: Final = (
    # DEVIATION D-80: a queue has an end.
    *rows((*BUSY, "aborting"), ("prompt", "steer", "follow_up"), "queue_full", None, "refuse_full", "R-QUE-11"),
    *rows(("idle",), ("steer", "follow_up"), "queue_full", None, "refuse_full", "R-QUE-11"),
    *one("idle", "prompt", "", "preflight", "take_own open_period start_preflight", "R-PRM-01 R-PRM-05 C-8"),
    *rows(BUSY, ("prompt",), "has_behavior", None, f"{_QUEUE} accept_queued", "R-PRM-03 C-1"),
    # DEVIATION D-27: what would be lost is refused.
    *one("compacting.manual", "prompt", "", None, "refuse_compacting", "R-PRM-04"),
    # DEVIATION D-16: busy from admission on.
    *rows(tuple(s for s in BUSY if s != "compacting.manual"), ("prompt",), "", None, "refuse_busy", "R-PRM-04"),
    *one("aborting", "prompt", "has_behavior", None, f"{_QUEUE} accept_queued", "R-PRM-03 C-7"),
    *one("aborting", "prompt", "", None, "join_line", "C-9"),
    # DEVIATION D-02: a text while idle starts a run.
    *rows(("idle",), ("steer", "follow_up"), "", "idle", f"{_QUEUE} accept_started", "R-QUE-07 C-4"),
    *rows((*BUSY, "aborting"), ("steer", "follow_up"), "", None, f"{_QUEUE} accept_queued", "R-QUE-01 C-1"),
    *rows(
        NOT_SWITCHING,
        ("clear_queue",),
        "",
        None,
        "withdraw_queues accept_cleared",
        "R-QUE-10",
    ),
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
    *rows(CANCELLABLE, ("abort",), "", "aborting", "withdraw_waiting admit_abort cancel_job", "C-6 C-9 R-ABT-01"),
    *one("aborting", "abort", "", None, "withdraw_waiting admit_abort", "C-7 C-9"),
    # Handlers that let a session begin may take for ever, and everything waits for them.
    *one("switching", "abort", "", None, "withdraw_waiting join_line cut_start", "C-9"),
    *one(
        "retrying",
        "abort_retry",
        "",
        "idle",
        f"cancel_timer retry_cancelled skip_boundary settle accept {END}",
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
    *rows(RUN_STATES, NON_COMMANDS, "", None, "refuse_line", "R-ERR-01 R-ERR-02"),
)

_COMPACT: Final = (
    *one("idle", "compact", "", "compacting.manual", "take_compact compaction_manual", "C-12"),
    *rows(("preflight", "llm", "tools", "settling"), ("compact",), "", "aborting", "pend_compact cancel_job", "C-12"),
    *one(
        "retrying",
        "compact",
        "",
        "idle",
        f"pend_compact note_cancel cancel_timer retry_cancelled {END}",
        "C-12",
    ),
    *rows(COMPACTING, ("compact",), "", None, "refuse_compaction_in_progress", "C-12"),
    *one("aborting", "compact", "", None, "pend_compact", "C-9 C-12"),
)

_PREFLIGHT: Final = (
    # The text is in the session before its response is written, and on the disk if there is one.
    *one("preflight", "preflight_ok", "", None, "flush_shells append_own start_sync", "R-PRM-02 R-SES-05"),
    *one(
        "preflight",
        "synced",
        "",
        "llm",
        f"accept_own release_hold reset_counters {RUN_START} deliver_own deliver_steering call_model",
        "R-PRM-02 R-SES-05 C-1 C-5",
    ),
    *one("preflight", "sync_failed", "", "idle", f"drop_own refuse_own {END}", "R-SES-05 C-8"),
    *one("preflight", "preflight_refused", "", "idle", f"refuse_own {END}", "R-PRM-02 C-8"),
    *one("preflight", "preflight_handled", "", "idle", f"handle_own {END}", "R-PRM-02"),
    *one(
        "preflight",
        "threshold_due",
        "threshold_unchecked",
        "compacting.threshold",
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
    *one(
        "compacting.threshold",
        "compaction_ok",
        "has_own",
        "preflight",
        "compaction_done start_preflight",
        "C-14",
    ),
    *one(
        "compacting.threshold",
        "compaction_failed",
        "has_own",
        "preflight",
        "compaction_fail start_preflight",
        "C-14",
    ),
    *one("compacting.threshold", "compaction_ok", "", "idle", f"compaction_done {END}", "C-2"),
    *one("compacting.threshold", "compaction_failed", "", "idle", f"compaction_fail {END}", "C-2"),
    *one(
        "compacting.overflow",
        "compaction_ok",
        "",
        "llm",
        "compaction_done start_run start_turn deliver_steering call_model",
        "R-CMP-02",
    ),
    *one("compacting.overflow", "compaction_failed", "", "idle", f"compaction_fail {END}", "C-2"),
)

_ABORTING: Final = (
    *one(
        "aborting",
        "compaction_ok",
        "",
        "idle",
        f"compaction_done accept_compact retry_cancelled refuse_own {END}",
        "C-13 C-15",
    ),
    *rows(
        ("aborting",),
        (
            "job_ended",
            "job_failed",
            "compaction_failed",
            "preflight_ok",
            "preflight_refused",
            "preflight_handled",
            "threshold_due",
            "synced",
            "sync_failed",
            "boundary_ok",
            "boundary_goes_on",
            *RUN_ENDS,
        ),
        "",
        "idle",
        f"{_CLOSING} {END}",
        "C-13 C-15",
    ),
)

_SWITCHING: Final = (
    *one("idle", "session_approved", "", None, "", "C-10"),
    *rows(CANCELLABLE, ("session_approved",), "", "aborting", "cancel_job", "C-10"),
    *one("retrying", "session_approved", "", "idle", f"note_cancel cancel_timer retry_cancelled {END}", "C-10"),
    *one("aborting", "session_approved", "", None, "", "C-10"),
    *one(
        "switching",
        "switch_ok",
        "",
        "idle",
        f"replace_session settle accept_session reread_line {END}",
        "C-10 R-QUE-09",
    ),
    *one("switching", "switch_failed", "", "idle", f"refuse_session {END}", "C-10"),
)

_STOP: Final = (
    # DEVIATION D-06, D-07: everything is closed and answered before the process leaves.
    *one("idle", "stop_abort", "", "idle", f"{_WITHDRAW} {END}", "C-16"),
    *one("retrying", "stop_abort", "", "idle", f"{_WITHDRAW} note_cancel cancel_timer retry_cancelled {END}", "C-16"),
    *rows(CANCELLABLE, ("stop_abort",), "", "aborting", f"{_WITHDRAW} cancel_job", "C-16"),
    *one("aborting", "stop_abort", "", None, _WITHDRAW, "C-16"),
    # What needs no more than a session that has begun is answered when it has; otherwise nobody needs it to begin.
    *one(
        "switching",
        "stop_abort",
        "instant_waits",
        None,
        "announce_queue withdraw_work cancel_commands hold",
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

# The rest of every step (chart.md's "end of every step"), in this order, until nothing applies.
_ALWAYS: Final = (
    *one("idle", ALWAYS, "session_ready", "switching", "start_switch", "C-10"),
    *one("idle", ALWAYS, "compact_ready", "compacting.manual", "take_pending_compact compaction_manual", "C-12"),
    # In aborting and switching whatever waits keeps waiting: both are barriers to a line that is not empty.
    *rows(("idle", *BUSY), (ALWAYS,), "line_ready", None, "take_line", "C-9 R-ORD-01"),
    *one(
        "idle",
        ALWAYS,
        "owed",
        "llm",
        "open_period start_run start_turn deliver_continuation call_model",
        "C-2 C-3",
    ),
    *one("idle", ALWAYS, "boundary_due", "settling", "start_boundary", "R-EXT-05 C-8"),
    *one("idle", ALWAYS, "unsettled", None, "settle", "C-8"),
)

RUN_ROWS: Final = (
    *_BARRIER,
    *EXTENSION_ROWS,
    *_TEXTS,
    *_ABORT,
    *_SETTINGS,
    *_COMPACT,
    *_PREFLIGHT,
    *_RUN,
    *_COMPACTION,
    *_ABORTING,
    *_SWITCHING,
    *_STOP,
    *_ALWAYS,
)
