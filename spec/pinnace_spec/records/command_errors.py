"""Which error codes a command may be answered with, for people who write clients.

Decides nothing: the codes themselves are in `errors`, those of a command beside its fields (`records.commands`), and a
test holds recorded failures to them.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_spec.records.commands import MODELS
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
    E.AUTHENTICATION_FAILED: "The provider refused the stored login, or the one that was asked for; the text says why.",
    E.MODEL_NOT_FOUND: "No model of this name has credentials.",
    E.TOOL_NOT_FOUND: "No tool has the name; the text lists those that are unknown. Nothing was changed.",
    E.PROVIDER_NOT_FOUND: "No provider has this id, and nothing is stored for it.",
    E.ALREADY_COMPACTED: "Nothing was added since the last compaction.",
    E.NOTHING_TO_COMPACT: "The session is too small to be compacted.",
    E.COMPACTION_CANCELLED: "An `abort` or an extension cancelled the compaction.",
    E.COMPACTION_IN_PROGRESS: "Another compaction is in progress.",
    E.COMPACTION_FAILED: "The model did not return a summary; the text says why.",
    E.ABORTED: "An `abort` came before the command was begun, or a login was ended (`abort_login`).",
    E.SHUTTING_DOWN: "The process began to end before the command was begun: stdin has ended, or a signal came.",
    E.ENTRY_NOT_FOUND: "The session has no such entry, or it is not a user's message.",
    E.AGENT_NOT_FOUND: "The session has started no such sub-agent, or it has ended.",
    E.AGENT_REFUSED: "The sub-agent may not be started, or not so; the text names the argument or the limit.",
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

OF_COMMANDS: Final[Mapping[str, tuple[E, ...]]] = {name: model.errors for name, model in MODELS.items()}
"""For each command, those beside the common ones."""


def codes_of(command: str) -> tuple[E, ...]:
    """Return every code that a response to a command may have; those of lines where it is none."""
    own = OF_COMMANDS.get(command)
    return OF_LINES if own is None else (*own, *COMMON)
