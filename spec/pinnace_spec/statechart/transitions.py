"""The statechart as a table of transitions. Names only, no behaviour.

Five orthogonal regions, each a flat machine, with one extended state (queues, deferred commands, flags):

- **run**: the conversation. preflight (a prompt is checked), persisting (its message is saved), llm and tools (a run is
  open), retrying (the delay), compacting.prompt (a prompt waits for it), settling (the settle hook), navigating,
  stopping.X (the cancelled job of state X unwinds; stopping.run: of llm and tools), switching (of the session).
- **session**: confirming while extensions are asked about a session command. RUN continues meanwhile.
- **shell**: running `bash` commands of the client, which never block RUN.
- **ui**: quiet; answers to dialogs.
- **io**: open, draining or closing (stdin ended or a signal arrived), closed.

A transition is taken when its region is in `source`, its `trigger` arrives and its `guard` (a name; empty: always)
holds; those of a state are tried in order. Without a `target` the state stays. `effects` are names of effects or of
actions, in the order of their records. `always` is tried after every other trigger until nothing applies (SCXML:
eventless).

The table is total: each command has a transition without a guard in each state of the region that answers it;
rejections are transitions too. WARNING: guards, effects and actions are bound by name in the statechart package, and
a test compares both sets; a new name here needs a body there.

This module must not know what a guard computes, what an effect writes, or that there is a clock.
"""

from typing import Final

from pinnace_spec.statechart.names import (
    ALWAYS,
    COMMANDS,
    INITIAL,
    INTERNAL_EVENTS,
    JOB_TRIGGERS,
    REGIONS,
    SESSION_COMMANDS,
    STATES,
    Region,
    Transition,
    rows,
)
from pinnace_spec.statechart.run import RUN_ROWS

__all__ = [
    "ALWAYS",
    "CHART",
    "COMMANDS",
    "INITIAL",
    "INTERNAL_EVENTS",
    "JOB_TRIGGERS",
    "REGIONS",
    "STATES",
    "Region",
    "Transition",
]

# The regions beside RUN: session commands, shells, dialogs, the end of the process.
_SESSION: Final = (
    *rows(("quiet",), SESSION_COMMANDS, "barrier", None, "defer_command", "C-9", "session"),
    *rows(("quiet",), SESSION_COMMANDS, "", "confirming", "start_confirmation", "C-10", "session"),
    # Asking is itself a barrier.
    *rows(("confirming",), SESSION_COMMANDS, "", None, "defer_command", "C-9", "session"),
    *rows(("quiet",), ("abort", "stop_abort", "stop_drain"), "", None, "", "C-9", "session"),
    *rows(("confirming",), ("abort", "stop_abort"), "", "quiet", "withdraw_confirmation", "C-9 C-16", "session"),
    *rows(("confirming",), ("stop_drain",), "", None, "", "C-17", "session"),
    *rows(("confirming",), ("ask_yes",), "", "quiet", "confirm_switch", "C-10", "session"),
    *rows(("confirming",), ("ask_no",), "", "quiet", "veto_switch", "C-10", "session"),
    *rows(("confirming",), ("ask_invalid",), "", "quiet", "refuse_unconfirmed", "C-10", "session"),
    *rows(("quiet", "confirming"), ("instance_began",), "", None, "note_instance", "R-EXT-05", "session"),
)

_SHELL: Final = (
    *rows(("quiet", "running"), ("bash",), "barrier", None, "defer_command", "C-9", "shell"),
    *rows(("quiet", "running"), ("bash",), "", "running", "start_shell", "R-BSH-01", "shell"),
    *rows(("quiet",), ("abort_bash",), "", None, "withdraw_bash accept", "R-BSH-02 C-9", "shell"),
    *rows(("running",), ("abort_bash",), "", None, "withdraw_bash kill_shells accept", "R-BSH-02 C-9", "shell"),
    *rows(("running",), ("shell_ended",), "last_shell", "quiet", "end_shell", "R-BSH-03", "shell"),
    *rows(("running",), ("shell_ended",), "", None, "end_shell", "R-BSH-03", "shell"),
    *rows(("quiet",), ("stop_abort", "stop_drain"), "", None, "", "C-16", "shell"),
    *rows(("running",), ("stop_abort",), "", None, "kill_shells", "C-16", "shell"),
    *rows(("running",), ("stop_drain",), "", None, "", "C-17", "shell"),
)

_UI: Final = (
    *rows(("quiet",), ("extension_ui_response",), "", None, "resolve_dialog", "R-UI-01", "ui"),
    *rows(("quiet",), ("client_response",), "", None, "resolve_request", "R-FIL-02", "ui"),
    *rows(("quiet",), ("abort",), "", None, "default_dialogs", "R-UI-02 R-ABT-01", "ui"),
    # No client can answer any more.
    *rows(("quiet",), ("stop_abort", "stop_drain"), "", None, "close_dialogs", "R-UI-02 C-16 C-17", "ui"),
)

_IO: Final = (
    # The last report of what stays queued.
    *rows(("open", "draining"), ("stop_abort",), "", "closing", "announce_queue", "C-16 R-EOF-01", "io"),
    *rows(("open",), ("stop_drain",), "", "draining", "", "C-17 R-EOF-01", "io"),
    *rows(("draining",), ("stop_drain",), "", None, "", "C-17", "io"),
    *rows(("closing", "closed"), ("stop_abort", "stop_drain"), "", None, "", "C-16", "io"),
    # The client has not been informed yet of what stays queued.
    *rows(("draining",), (ALWAYS,), "quiescent", "closed", "announce_queue close", "R-EOF-01 C-17", "io"),
    *rows(("closing",), (ALWAYS,), "quiescent", "closed", "close", "R-EOF-01 C-16", "io"),
)

_REGIONS: Final = (*_SESSION, *_SHELL, *_UI, *_IO)

CHART: Final[tuple[Transition, ...]] = (*RUN_ROWS, *_REGIONS)
