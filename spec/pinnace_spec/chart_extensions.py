"""Transitions of region RUN that extensions cause: texts that they read, their commands, their word before settling.

Rows only; see `chart` for how they are read. Without extensions none of them is ever taken.
"""

from typing import Final

from pinnace_spec.chart_names import BUSY, END, NOT_SWITCHING, RUN_START, RUN_STATES, one, rows

_READING: Final = (
    # A barrier, so that what comes after the text does not overtake it.
    *rows(("idle",), ("steer", "follow_up"), "unread", None, "start_reading", "R-EXT-04"),
    *rows((*BUSY, "aborting"), ("prompt", "steer", "follow_up"), "unread", None, "start_reading", "R-EXT-04"),
    # What has come after the text waits for the end of the abort, and so does the text, before them.
    *one("aborting", "text_read", "line_waits", None, "lead_line", "R-EXT-04 C-9"),
    *rows(NOT_SWITCHING, ("text_read",), "", None, "admit_read", "R-EXT-04"),
    *rows(NOT_SWITCHING, ("text_handled",), "", None, "accept_handled", "R-EXT-04"),
    *rows(NOT_SWITCHING, ("text_failed",), "", None, "refuse_reading", "R-EXT-04"),
    *one("preflight", "own_read", "", None, "replace_own", "R-EXT-04"),
    # Of a job that has not seen that it is cancelled; its end is still to come.
    *one("aborting", "own_read", "", None, "", "C-13"),
)

_COMMANDS: Final = (
    *rows(NOT_SWITCHING, ("extension_command",), "", None, "start_command", "R-EXT-03"),
    *rows(RUN_STATES, ("command_ended",), "", None, "end_command", "R-EXT-03"),
)

# The last word before the agent settles, once a run.
_SETTLING: Final = (
    *rows(("settling",), ("boundary_ok", "job_failed"), "", "idle", f"skip_boundary {END}", "R-EXT-05 C-8"),
    *one("settling", "boundary_goes_on", "", "llm", f"{RUN_START} deliver_steering call_model", "R-EXT-05"),
)

# Before the first command, and for a reload: everything waits meanwhile, but for answers to dialogs.
_INSTANCES: Final = (
    *one("idle", "begin_instance", "", "switching", "start_instance", "R-EXT-06"),
    # What calls a command is known only now.
    *one("switching", "instance_ready", "", "idle", f"reread_line {END}", "R-EXT-03 R-EXT-06"),
)

EXTENSION_ROWS: Final = (*_READING, *_COMMANDS, *_SETTLING, *_INSTANCES)
