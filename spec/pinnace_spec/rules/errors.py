"""The texts and codes of refusals and failures: what `error`, `errorCode` and failed tool results say.

Decides wording only, and is the one place for it; must not decide when a text applies. Texts that clients of
the protocol match are kept letter by letter, the others are ours. Source: R-ERR-01..R-ERR-05, R-PRM-04,
R-CMP-03, R-TOL-04.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES


class ErrorCode(StrEnum):
    """What went wrong, for programs: `errorCode` beside the text in `error`."""

    PARSE_ERROR = "parse_error"
    """The line is no JSON object, or over a limit."""
    INVALID_COMMAND = "invalid_command"
    """An object without a `type` that names a command."""
    UNKNOWN_COMMAND = "unknown_command"
    INVALID_FIELD = "invalid_field"
    NOT_IMPLEMENTED = "not_implemented"
    TOO_LATE = "too_late"
    """`hello` with a protocol after another command."""
    BUSY = "busy"
    QUEUE_FULL = "queue_full"
    """As many messages wait as may."""
    COMPACTING = "compacting"
    NOT_QUEUEABLE = "not_queueable"
    NO_MODEL = "no_model"
    NO_API_KEY = "no_api_key"
    AUTHENTICATION_FAILED = "authentication_failed"
    MODEL_NOT_FOUND = "model_not_found"
    TOOL_NOT_FOUND = "tool_not_found"
    PROVIDER_NOT_FOUND = "provider_not_found"
    ALREADY_COMPACTED = "already_compacted"
    NOTHING_TO_COMPACT = "nothing_to_compact"
    COMPACTION_CANCELLED = "compaction_cancelled"
    COMPACTION_IN_PROGRESS = "compaction_in_progress"
    COMPACTION_FAILED = "compaction_failed"
    ABORTED = "aborted"
    SHUTTING_DOWN = "shutting_down"
    ENTRY_NOT_FOUND = "entry_not_found"
    AGENT_NOT_FOUND = "agent_not_found"
    AGENT_REFUSED = "agent_refused"
    SESSION_NOT_FOUND = "session_not_found"
    SESSION_UNAVAILABLE = "session_unavailable"
    """The session can't be used so: in memory only, not saved yet, damaged, or another process writes it."""
    SESSION_NOT_SAVED = "session_not_saved"
    """The session file can't be written now: the disk is full, for example. What was there before is safe."""
    SHELL_UNAVAILABLE = "shell_unavailable"
    IO_ERROR = "io_error"
    """A file or folder could not be read or written."""
    INVALID_CONFIGURATION = "invalid_configuration"
    """A file of the user says what can't be used; the error names the file and the field."""
    REFUSED_BY_EXTENSION = "refused_by_extension"
    INTERNAL_ERROR = "internal_error"
    """Our fault; the process goes on, unless its statechart has failed (exit code 70)."""


class ProtocolError(Exception):
    """Base of what becomes a response with `success: false`. Never raised itself."""

    def __init__(self, text: str, code: ErrorCode) -> None:
        if type(self) is ProtocolError:
            raise TypeError("raise ClientError or InternalError")
        super().__init__(text)
        self.text = text
        self.code = code
        self.did_you_mean: str | None = None
        """The known name that is nearest to the one that was given, for `didYouMean`."""

    def __reduce__(self) -> tuple[object, ...]:
        # Copies and pickles carry every attribute, whatever the constructor of a subclass takes.
        return _made, (type(self), *self.args), vars(self)


def _made(kind: type[ProtocolError], *args: object) -> ProtocolError:
    return kind.__new__(kind, *args)


class ClientError(ProtocolError):
    """The client asked for what can't be done. Nothing was changed."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.INVALID_FIELD, did_you_mean: str | None = None) -> None:
        super().__init__(text, code)
        self.did_you_mean = did_you_mean


class InternalError(ProtocolError):
    """A fault of this program: logged with its traceback and answered."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ErrorCode.INTERNAL_ERROR)


# Lines (R-ERR-01). `parse` and `unknown` stand for a command that has no name.
PARSE_COMMAND: Final = "parse"
UNKNOWN_COMMAND: Final = "unknown"
PARSE_PREFIX: Final = "Failed to parse command: "
TYPE_MUST_BE_A_STRING: Final = "Invalid command: type must be a string"
NOT_AN_OBJECT: Final = "expected an object"


def parse_error(reason: str) -> str:
    """Word the refusal of a line that is no command."""
    return PARSE_PREFIX + reason


def record_too_long(max_bytes: int) -> str:
    """Word the refusal of a line over the limit (R-FRM-08)."""
    return parse_error(f"the record is longer than {max_bytes} bytes")


def unknown_command(command: str) -> str:
    """Word the refusal of a type that names no command."""
    return f"Unknown command: {command}"


def invalid_field(command: str, field: str, problem: str) -> str:
    """Word the refusal of a field: `problem` says what was expected (R-ERR-03)."""
    return f"Invalid {command} command: {field} {problem}"


# Texts to a run (R-PRM-04).
BUSY: Final = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
QUEUE_FULL: Final = (
    f"The queue is full: {MAX_QUEUED_MESSAGES:,} messages wait. "
    "Send the message again when some have been delivered, or remove them with clear_queue."
)
COMPACTING: Final = "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry."
RELOAD_BUSY: Final = "Wait for the current response to finish before reloading."
RELOAD_COMPACTING: Final = "Wait for the current compaction or tree navigation to finish before reloading."
NAVIGATION_BUSY: Final = "Wait for the current response to finish before navigating the session tree."
NAVIGATION_COMPACTING: Final = (
    "Wait for the current compaction or tree navigation to finish before navigating the session tree."
)
ABORTED_BEFORE_START: Final = "Aborted before it started"
SHUTTING_DOWN: Final = "Shutting down"
GIVE_A_KEY: Final = (
    "Set the variable of a provider, such as ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or store its key: "
    "pinnace auth login PROVIDER. pinnace auth status lists the providers with their variables."
)
# Clients match the first sentence; the rest helps a person.
NO_MODEL: Final = (
    "No model selected.\n\n"
    f"No model can be used without the key of its provider. {GIVE_A_KEY}\n\n"
    "Or describe your own server in models.json: pinnace --help shows how. --provider offline needs neither a key nor "
    "a network.\n\n"
    "In a running process, use reload and set_model."
)


def not_queueable(name: str) -> str:
    """Word the refusal to queue the command of an extension."""
    return f'Extension command "/{name}" cannot be queued. Use prompt() or execute the command when not streaming.'


def provider_is_gone(provider: str, model_id: str) -> str:
    """Say that the selected model has no provider any more."""
    return (
        f'The model {provider}/{model_id} is not available: the provider "{provider}" is not registered any more. '
        "Select another model with set_model, or load the extension that registers it."
    )


def no_api_key(provider: str, variable: str | None = None) -> str:
    """Say that no key is known, and where it may be given.

    Args:
        provider: Its id; `unknown` is that of a model that names none.
        variable: The environment variable that may hold the key; None: there is none.
    """
    if provider == "unknown":
        named, where, who = "the selected model", "Set the variable of its provider", "PROVIDER"
    else:
        named, who = provider, provider
        where = "Write it to models.json as apiKey" if variable is None else f"Set the variable {variable}"
    return (
        f"No API key found for {named}.\n\n"
        f"{where}, store the key with: pinnace auth login {who}, or pass --api-key. In a running process, use reload."
    )


def authentication_failed(provider: str) -> str:
    """Word that a provider refused credentials which were there."""
    return f'Authentication failed for "{provider}". Credentials may have expired or network is unavailable.'


def model_not_found(provider: str, model_id: str) -> str:
    """Word that no model of that name has credentials."""
    return f"Model not found: {provider}/{model_id}"


def unknown_tools(names: Sequence[str]) -> str:
    """Word that no tools have these names; none was selected."""
    return f"Tools not found: {', '.join(names)}. get_tools lists the tools that there are."


# Compaction (R-CMP-03).
ALREADY_COMPACTED: Final = "Already compacted"
NOTHING_TO_COMPACT: Final = "Nothing to compact (session too small)"
COMPACTION_CANCELLED: Final = "Compaction cancelled"
COMPACTION_IN_PROGRESS: Final = "Compaction already in progress"
EXTENSION_COMPACTION_INVALID: Final = (
    "The compaction of an extension has no summary, or keeps from no entry of the branch"
)
OVERFLOW_AGAIN: Final = (
    "Context overflow recovery failed after one compact-and-retry attempt. "
    "Try reducing context or switching to a larger-context model."
)


def compaction_failed(reason: str, message: str) -> str:
    """Word `compaction_end.errorMessage`; the response of `compact` carries `message` alone.

    Args:
        reason: `manual`, `threshold` or `overflow`.
        message: What went wrong.
    """
    match reason:
        case "manual":
            return f"Compaction failed: {message}"
        case "overflow":
            return f"Context overflow recovery failed: {message}"
        case _:
            return f"Auto-compaction failed: {message}"


# Sessions (R-SES-03).
SESSION_NAME_EMPTY: Final = "Session name cannot be empty"
FORK_INVALID_ENTRY: Final = "Invalid entry ID for forking"
CLONE_NO_ENTRY: Final = "Cannot clone session: no current entry selected"
EXPORT_IN_MEMORY: Final = "Cannot export in-memory session to HTML"
EXPORT_NOTHING: Final = "Nothing to export yet - start a conversation first"


SESSIONS_NOT_KEPT: Final = "This process keeps no sessions (--no-session), so it lists none"
NOT_ABSOLUTE: Final = "must be an absolute path"
NOT_WITH_ALL: Final = "must not be given with all"
NOT_A_CURSOR: Final = "must be the nextCursor of an earlier response"


def entry_not_found(entry_id: str) -> str:
    """Word that the session has no such entry."""
    return f"Entry not found: {entry_id}"


LOGIN_ABORTED: Final = "The login was ended before the user had confirmed it"
LOGIN_REPLACED: Final = "The login was ended by a later one of the same provider"
NO_KEY_FILE: Final = "This process has no auth.json, so nothing can be stored"
NOT_A_KEY: Final = "must be the key itself: one line of printable ASCII characters"
NEEDS_A_KEY: Final = "is required with the method key"
KEY_UNUSED: Final = "must not be given with this method"
LOGIN_IN_THE_WAY: Final = "must be true to lose the login that auth.json has for this provider"


def provider_not_found(provider: str) -> str:
    """Word that no provider has an id."""
    return f"Provider not found: {provider}"


def no_such_method(methods: Sequence[str]) -> str:
    """Word which ways to log in a provider offers."""
    return f"must be one of {', '.join(methods)} for this provider" if methods else "is not offered by this provider"


def agent_not_found(agent_id: str) -> str:
    """Word that no such sub-agent works."""
    return f"Sub-agent not found: {agent_id} (agentId: expected one that is running)"


NO_TEXT: Final = "must be a text that is not empty"
AGENT_NOT_BEGUN: Final = "The sub-agent was ended before it had begun"
NO_AGENTS: Final = "This agent starts no sub-agents"


def agent_not_started(agent_id: str) -> str:
    """Word that the session has started no such sub-agent."""
    return f"Sub-agent not found: {agent_id} (agentId: expected one that list_agents names)"


def agent_not_running(agent_id: str, state: str) -> str:
    """Word that a sub-agent does not work any more."""
    return f"Sub-agent not running: {agent_id} is {state} (agentId: expected one that is running)"


def session_not_found(path: str) -> str:
    """Word that there is no file; none is made (R-SES-03)."""
    return f"Session file not found: {path}"


def not_a_session(path: str) -> str:
    """Word that a file holds no session; it stays as it is."""
    return f"Not a session file: {path}"


def session_unreadable(path: str, reason: str) -> str:
    """Word that a session can't be opened."""
    return f"Session can't be opened: {path}: {reason}"


def session_read_only(path: str, reason: str) -> str:
    """Word that a session may be read and not appended to, and how to go on."""
    return f"Session can only be read: {path}: {reason}. Clone it, or start with --fork, to continue in a copy."


def not_exported(path: str, reason: str) -> str:
    """Word that an export can't be written."""
    return f"Cannot write {path}: {reason}"


def export_unavailable(package: str) -> str:
    """Word that a package which exports use is missing from the installation."""
    return f"Export to HTML needs a package that is not installed ({package}): install pinnace again from its sources"


def session_not_filled(reason: str) -> str:
    """Word that the extension which asked for a new session has failed to fill it; the former one is in force."""
    return f"The session was not replaced: its setup failed: {reason}"


def session_not_named(reason: str) -> str:
    """Word that it can't be saved which session a hosted agent continues with; the former one is in force."""
    return f"The session was not replaced: the host's file that names it can't be written: {reason}"


def session_not_copied(reason: str) -> str:
    """Word that a new session could not be written; the former one is in force."""
    return f"Failed to create forked session: {reason}"


# Profiles (R-HEL-01).
HELLO_TOO_LATE: Final = "The protocol can only be chosen by the first command"


# A run that did not end by itself: `errorMessage` of its assistant message, `finalError` of its retry.
REQUEST_ABORTED: Final = "Request was aborted"
RETRY_CANCELLED: Final = "Retry cancelled"
# Of answers that ended well and lack what they claim to hold: both are tried again by their words.
EMPTY_ANSWER: Final = "The answer ended without any content"
NO_ANNOUNCED_CALL: Final = "The answer ended without the tool call that its stop reason announces"
# Of an answer that failed by having no room: the provider has no words for it.
NO_ROOM_TO_ANSWER: Final = "The request filled the model's context window and left no room to answer"


def no_prices(provider: str, model_id: str) -> str:
    """Word that a limit of cost can't be enforced with a model (R-LIM-02)."""
    return (
        f"--max-cost (limits.maxCost) can't be enforced: {provider}/{model_id} has no prices. State its `cost` in "
        "models.json (zeros if it is free), choose another model, or do without the limit"
    )


def too_many_blocks(limit: int) -> str:
    """Word the failure of an answer that does not end (R-LIM-04)."""
    return (
        f"The model's answer has more than {limit} texts, thoughts and tool calls; "
        "it was cut off, and none of its calls was executed"
    )


def too_long_answer(limit: int) -> str:
    """Word the failure of an answer whose text does not end (R-LIM-04)."""
    return f"The model's answer has more than {limit:,} characters; it was cut off, and none of its calls was executed"


# Failed tool results, which the model reads (R-TOL-04).
OPERATION_ABORTED: Final = "Operation aborted"
SHELL_ABORTED: Final = "Command aborted"
TOOL_BLOCKED: Final = "Tool execution was blocked"
OUTSIDE_REFUSED: Final = (
    "The command was not run: nothing may run outside the sandbox in this session. Do not look for a way around it: "
    "continue without it, or say what the user should do."
)
# Of a command of the user's, where an extension gives no reason.
SHELL_BLOCKED: Final = "Command was blocked by an extension"


def tool_not_found(name: str) -> str:
    """Word the result of a call to a tool that is not there."""
    return f"Tool {name} not found"


def tool_call_cut(name: str) -> str:
    """Word the result of a call in an answer that the output limit cut: its arguments may be incomplete."""
    return (
        f'Tool call "{name}" was not executed: the response hit the output token limit, '
        "so its arguments may be truncated. Re-issue the tool call with complete arguments."
    )


def tool_not_executed(problem: str) -> str:
    """Word the result of a call that was not executed, since its result could not be saved (R-SES-08)."""
    return f"Not executed: {problem}"


def shell_timed_out(seconds: str) -> str:
    """Word the last line of a shell that ran out of time."""
    return f"Command timed out after {seconds} seconds"


def tool_timed_out(seconds: str) -> str:
    """Word the result of a call that took longer than calls may (R-LIM-03)."""
    return f"Tool timed out after {seconds} seconds"


def tool_abandoned(seconds: str) -> str:
    """Word the result of a call whose tool did not end when an abort cancelled it (R-ABT-02)."""
    return (
        f"{OPERATION_ABORTED}: the tool did not end within {seconds} seconds of the abort and is no longer waited for. "
        "It may still have effects; its result is discarded."
    )


def shell_exited(code: int) -> str:
    """Word the last line of a shell that failed."""
    return f"Command exited with code {code}"
