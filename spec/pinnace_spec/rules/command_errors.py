"""Which error codes a command may be answered with, for people who write clients.

Decides nothing: the codes themselves are in `errors`, and a test holds recorded failures to this table. Must not know
pydantic.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_spec.rules.errors import ErrorCode as E

MEANINGS: Final[Mapping[E, str]] = {
    E.PARSE_ERROR: "The line is not a JSON object, or longer than a record may be.",
    E.INVALID_COMMAND: "The object has no `type` that is a string.",
    E.UNKNOWN_COMMAND: "No command has this `type`.",
    E.INVALID_FIELD: "A field is missing or has the wrong type; the text names it and what was expected.",
    E.NOT_IMPLEMENTED: "This installation lacks a package that the command needs; the text names it.",
    E.TOO_LATE: "`hello` chose a protocol after another command.",
    E.BUSY: "The agent is working: a prompt has no `streamingBehavior`, or the command needs an agent that rests.",
    E.QUEUE_FULL: "As many messages wait in the queues as may: `limits.queuedMessages` of `hello`.",
    E.COMPACTING: "A compaction, or a move to another entry, is in progress.",
    E.NOT_QUEUEABLE: "The command of an extension cannot be queued: send it as a prompt.",
    E.NO_MODEL: "No model is selected, or the model cannot be used: the text says why.",
    E.NO_API_KEY: "The selected model's provider has no key.",
    E.AUTHENTICATION_FAILED: "The provider refused the stored login.",
    E.MODEL_NOT_FOUND: "No model of this name has credentials.",
    E.TOOL_NOT_FOUND: "No tool has the name; the text lists those that are unknown. Nothing was changed.",
    E.ALREADY_COMPACTED: "Nothing was added since the last compaction.",
    E.NOTHING_TO_COMPACT: "The session is too small to be compacted.",
    E.COMPACTION_CANCELLED: "An `abort` or an extension cancelled the compaction.",
    E.COMPACTION_IN_PROGRESS: "Another compaction is in progress.",
    E.COMPACTION_FAILED: "The model did not return a summary; the text says why.",
    E.ABORTED: "An `abort` came before the command was begun.",
    E.SHUTTING_DOWN: "stdin has ended or a signal came before the command was begun.",
    E.ENTRY_NOT_FOUND: "The session has no such entry, or it is not a user's message.",
    E.SESSION_NOT_FOUND: "The file does not exist; none is made.",
    E.SESSION_UNAVAILABLE: "The session is in memory only, not saved yet, damaged, or written by another process.",
    E.SESSION_NOT_SAVED: "The session file cannot be written now; what was saved before is safe.",
    E.SHELL_UNAVAILABLE: "No shell could be started.",
    E.IO_ERROR: "A file or folder could not be read or written.",
    E.INVALID_CONFIGURATION: "A file of the user has a mistake; the text names file and field. Nothing was changed.",
    E.REFUSED_BY_EXTENSION: "An extension refused, or its answer could not be used.",
    E.INTERNAL_ERROR: "A fault of the agent. The process goes on.",
}
"""What each code means."""

OF_LINES: Final = (E.PARSE_ERROR, E.INVALID_COMMAND, E.UNKNOWN_COMMAND)
"""For lines that are no command."""

COMMON: Final = (E.INVALID_FIELD, E.INTERNAL_ERROR)
"""Any command may be answered with these."""

_QUEUED: Final = (E.QUEUE_FULL, E.NO_MODEL, E.NO_API_KEY, E.ABORTED, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION)
_SWITCH: Final = (E.SESSION_NOT_SAVED, E.IO_ERROR, E.REFUSED_BY_EXTENSION, E.SESSION_UNAVAILABLE, E.ABORTED)
_SAVED: Final = (E.SESSION_NOT_SAVED, E.SESSION_UNAVAILABLE, E.ABORTED)
_WAITS: Final = (E.ABORTED, E.SHUTTING_DOWN)

OF_COMMANDS: Final[Mapping[str, tuple[E, ...]]] = {
    "prompt": (E.BUSY, E.COMPACTING, *_QUEUED, E.AUTHENTICATION_FAILED, E.SESSION_UNAVAILABLE, E.SHUTTING_DOWN),
    "steer": (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN),
    "follow_up": (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN),
    "queue_message": (E.NOT_QUEUEABLE, *_QUEUED, E.SHUTTING_DOWN),
    "clear_queue": (E.SESSION_NOT_SAVED, *_WAITS),
    "abort": (),
    "abort_retry": (),
    "new_session": (*_SWITCH, E.SHUTTING_DOWN),
    "reset": (*_SWITCH, E.SHUTTING_DOWN),
    "switch_session": (E.SESSION_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN),
    "fork": (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN),
    "branch": (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN),
    "clone": (E.ENTRY_NOT_FOUND, *_SWITCH, E.SHUTTING_DOWN),
    "set_model": (E.MODEL_NOT_FOUND, E.NO_MODEL, *_SAVED, E.SHUTTING_DOWN),
    "cycle_model": (E.NO_MODEL, *_SAVED, E.SHUTTING_DOWN),
    "set_thinking_level": (*_SAVED, E.SHUTTING_DOWN),
    "cycle_thinking_level": (*_SAVED, E.SHUTTING_DOWN),
    "set_steering_mode": _WAITS,
    "set_follow_up_mode": _WAITS,
    "set_queue_mode": _WAITS,
    "set_auto_compaction": _WAITS,
    "set_auto_retry": _WAITS,
    "set_session_name": (*_SAVED, E.SHUTTING_DOWN),
    "compact": (
        E.ALREADY_COMPACTED,
        E.NOTHING_TO_COMPACT,
        E.COMPACTION_IN_PROGRESS,
        E.COMPACTION_CANCELLED,
        E.COMPACTION_FAILED,
        E.NO_MODEL,
        E.NO_API_KEY,
        E.SESSION_NOT_SAVED,
        E.REFUSED_BY_EXTENSION,
        *_WAITS,
    ),
    "bash": (E.SHELL_UNAVAILABLE, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION, *_WAITS),
    "abort_bash": (),
    "export_html": (E.SESSION_UNAVAILABLE, E.IO_ERROR, E.NOT_IMPLEMENTED, *_WAITS),
    "hello": (E.TOO_LATE,),
    "get_state": _WAITS,
    "get_messages": _WAITS,
    "get_available_models": _WAITS,
    "get_available_thinking_levels": _WAITS,
    "get_session_stats": _WAITS,
    "get_fork_messages": _WAITS,
    "get_branch_messages": _WAITS,
    "get_last_assistant_text": _WAITS,
    "get_commands": _WAITS,
    "get_entries": (E.ENTRY_NOT_FOUND, *_WAITS),
    "get_tree": _WAITS,
    "get_tools": _WAITS,
    "set_active_tools": (E.TOOL_NOT_FOUND, *_WAITS),
    "set_tool_approval": _WAITS,
    "set_label": (E.ENTRY_NOT_FOUND, *_SAVED, E.SHUTTING_DOWN),
    "navigate_tree": (
        *(E.BUSY, E.COMPACTING, E.ENTRY_NOT_FOUND, E.NO_MODEL, E.NO_API_KEY, E.AUTHENTICATION_FAILED),
        *(E.COMPACTION_FAILED, E.SESSION_NOT_SAVED, E.REFUSED_BY_EXTENSION),
    ),
    "reload": (E.BUSY, E.COMPACTING, E.INVALID_CONFIGURATION, *_WAITS),
    "list_sessions": (E.SESSION_UNAVAILABLE, *_WAITS),
    "get_queue": _WAITS,
    "extension_ui_response": (),
    "client_response": (),
}
"""For each command, those beside the common ones."""


def codes_of(command: str) -> tuple[E, ...]:
    """Return every code that a response to a command may have; those of lines where it is none."""
    own = OF_COMMANDS.get(command)
    return OF_LINES if own is None else (*own, *COMMON)
