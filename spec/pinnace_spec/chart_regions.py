"""Transitions of the regions beside RUN: session commands, shells, dialogs, the end of the process.

Rows only; see `chart` for how they are read. Must not know what a guard computes or what an effect writes.
"""

from typing import Final

from pinnace_spec.chart_names import ALWAYS, SESSION_COMMANDS, rows

_SESSION: Final = (
    *rows(("quiet",), SESSION_COMMANDS, "barrier", None, "join_line", "C-9", "session"),
    *rows(("quiet",), SESSION_COMMANDS, "", "asking", "start_ask", "C-10", "session"),
    # Asking is itself a barrier.
    *rows(("asking",), SESSION_COMMANDS, "", None, "join_line", "C-9", "session"),
    *rows(("quiet",), ("abort", "stop_abort", "stop_drain"), "", None, "", "C-9", "session"),
    *rows(("asking",), ("abort", "stop_abort"), "", "quiet", "withdraw_asking", "C-9 C-16", "session"),
    *rows(("asking",), ("stop_drain",), "", None, "", "C-17", "session"),
    *rows(("asking",), ("ask_yes",), "", "quiet", "approve_session", "C-10", "session"),
    *rows(("asking",), ("ask_no",), "", "quiet", "veto_session", "C-10", "session"),
    *rows(("asking",), ("ask_invalid",), "", "quiet", "refuse_asked", "C-10", "session"),
    *rows(("quiet", "asking"), ("instance_began",), "", None, "note_instance", "R-EXT-05", "session"),
)

_SHELL: Final = (
    *rows(("quiet", "running"), ("bash",), "barrier", None, "join_line", "C-9", "shell"),
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
    *rows(("quiet",), ("abort",), "", None, "default_dialogs", "R-UI-02 R-ABT-01", "ui"),
    # Nobody can answer any more.
    *rows(("quiet",), ("stop_abort", "stop_drain"), "", None, "close_dialogs", "R-UI-02 C-16 C-17", "ui"),
)

_IO: Final = (
    *rows(("open", "draining"), ("stop_abort",), "", "closing", "", "C-16 R-EOF-01", "io"),
    *rows(("open",), ("stop_drain",), "", "draining", "", "C-17 R-EOF-01", "io"),
    *rows(("draining",), ("stop_drain",), "", None, "", "C-17", "io"),
    *rows(("closing", "closed"), ("stop_abort", "stop_drain"), "", None, "", "C-16", "io"),
    *rows(("draining", "closing"), (ALWAYS,), "quiescent", "closed", "return_queue close", "R-EOF-01 C-16", "io"),
)

REGION_ROWS: Final = (*_SESSION, *_SHELL, *_UI, *_IO)
