"""The program's log: a file of JSON lines (`--log-file`, PINNACE_LOG), and what `--verbose` adds to stderr.

Each line of the file is an object: `time` (UTC), `level`, `logger`, `pid`, `event`, the fields of the event, and
`traceback` of a defect. INFO has the start and the end, the session, commands by type with their outcome, requests to
models with status and duration, retries, compactions and failures; DEBUG (`--verbose`) has tools, queues and reads as
well. Texts of users, models and tools and the arguments of tools are never logged; failures are logged with the
redacted texts that clients get. Values of variables that look like keys are redacted in every line.

Loaded only where there is a log.
"""

import logging
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Any, Final, cast

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.redaction.secrets import Secrets
from pinnace_rpc.options.options import LOG_VARIABLE, Options, UsageRefused
from pinnace_rpc.options.release import program_version
from pinnace_rpc.server.queries import shown_model
from pinnace_spec.records.messages import Model
from pinnace_spec.wire.json_text import encode_record

Record = Mapping[str, object]

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
"""A file that would grow beyond it is renamed to `<file>.1`."""
KEPT_FILES: Final = 3
"""How many renamed files are kept."""

_log = logging.getLogger("pinnace.journal")

_LIKE_SECRETS: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_MIN_SECRET_CHARS: Final = 8
# The fields of each record that have no content of the conversation.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "response": ("id", "command", "success", "error", "errorCode", "didYouMean"),
    "tool_execution_start": ("toolCallId", "toolName"),
    "tool_execution_end": ("toolCallId", "toolName", "isError", "durationMs"),
    "auto_retry_start": ("attempt", "maxAttempts", "delayMs", "errorCode", "status", "attempts"),
    "auto_retry_end": ("success", "attempt", "finalError", "errorCode", "status", "attempts"),
    "agent_end": ("willRetry",),
    "agent_settled": ("aborted", "reason", "limit"),
    "compaction_start": ("reason",),
    "compaction_end": ("reason", "aborted", "willRetry", "errorMessage"),
    "extension_error": ("extensionPath", "event", "error"),
    "thinking_level_changed": ("level",),
}
_OF_ANSWERS: Final = (
    *("provider", "model", "stopReason", "errorMessage", "errorCode", "status", "attempts", "usage"),
    "responseModel",
)
_AT_INFO: Final = frozenset(
    {"agent_start", "agent_settled", "auto_retry_start", "auto_retry_end", "compaction_start", "compaction_end"}
)
_READS: Final = "get_"


class JsonLines(logging.Formatter):
    """Makes a line of a log record."""

    def __init__(self, secrets: Secrets) -> None:
        """Redact these in every line."""
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        text = encode_record({**line, **{name: value for name, value in _details(record).items() if name not in line}})
        return self._secrets.hide(REDACTOR.line(text).decode().rstrip("\n"))


class _Words(logging.Formatter):
    """As on stderr without a log, with the details after the event."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        words = [super().format(record), *(f"{name}={value}" for name, value in _details(record).items())]
        return self._secrets.hide(" ".join(words))


class LogFile(RotatingFileHandler):
    """Writes to a file that only its owner can read. A failed write is reported once, on stderr."""

    _has_failed = False

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises:
            OSError: It can't be opened for appending, or is a pipe, a socket or a folder.
        """
        super().__init__(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES, encoding="utf-8", errors="replace")

    def _open(self) -> TextIOWrapper:
        # Without waiting: a named pipe without a reader would block the start.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        if not (stat.S_ISREG(mode := os.fstat(descriptor).st_mode) or stat.S_ISCHR(mode)):
            os.close(descriptor)
            raise OSError(None, "it is not a regular file")
        return open(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:  # of the standard library
        """Report that a line could not be written, once."""
        if not self._has_failed:
            self._has_failed = True
            sys.stderr.write(f"pinnace: the log file {self.baseFilename} can't be written: {sys.exc_info()[1]}\n")


def begin_log(
    options: Options, environ: Mapping[str, str], path: str | None, stderr: logging.Handler
) -> Callable[[Record], None]:
    """Send the program's log where the options require it, and return the function that logs records of the protocol.

    Args:
        options: Of the process.
        environ: Its environment.
        path: Of the log file; None: there is none.
        stderr: Writes lines to stderr.

    Raises:
        UsageRefused: The file can't be opened.
    """
    secrets = Secrets(options.api_key, dict(_secret_variables(environ)))
    logger = logging.getLogger("pinnace")
    stderr.setFormatter(_Words(secrets))
    stderr.setLevel(logging.DEBUG if options.verbose else logging.WARNING)
    if not options.verbose:
        # Clients show these: they are not logged a second time.
        stderr.addFilter(lambda record: record.name != _log.name)
    logger.handlers[:] = [stderr]
    if path is not None:
        try:
            handler = LogFile(os.path.expanduser(path))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageRefused(f"--log-file or {LOG_VARIABLE}: {path} can't be written: {reason}") from None
        handler.setFormatter(JsonLines(secrets))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if options.verbose else logging.INFO)
    details = {"version": program_version(), "mode": options.mode, "protocol": options.protocol, "cwd": os.getcwd()}
    _log.info("start", extra={"details": details | {"python": sys.version.split()[0], "argc": len(sys.argv)}})
    return log_record


def log_session(path: str | None, session_id: str, model: Model | None) -> None:
    """Log the session and the model of the process."""
    name = None if model is None else f"{model['provider']}/{model['id']}"
    address = None if model is None else shown_model(model)["baseUrl"]
    details = {"sessionId": session_id, "sessionFile": path, "model": name, "baseUrl": address}
    _log.info("session", extra={"details": details})


def log_refusal(text: str, code: int) -> None:
    """Log that the process does not start, if a log was begun: a forked process has this module in any case."""
    if not _log.isEnabledFor(logging.INFO):  # stderr has the text
        return
    _log.error("refused to start", extra={"details": {"error": text, "exitCode": code}})


def log_end(code: int) -> None:
    """Log the end of the process."""
    _log.info("end", extra={"details": {"exitCode": code}})


def log_record(record: Record) -> None:
    """Log a record of the protocol without the content of the conversation."""
    kind = str(record["type"])
    level = logging.INFO if kind in _AT_INFO else logging.DEBUG
    details = _only(record, _FIELDS.get(kind, ()))
    match kind:
        case "response":
            if not record["success"]:
                level = logging.WARNING
            elif not str(record["command"]).startswith(_READS):
                level = logging.INFO
        case "message_end":
            message = cast(Record, record["message"])  # the field of that record
            details["role"] = message["role"]
            if message["role"] == "assistant":
                level = logging.WARNING if message["stopReason"] == "error" else logging.INFO
                details |= _only(message, _OF_ANSWERS)
        case "queue_update":
            # cast: the fields of that record
            details = {name: len(cast(list[object], record[name])) for name in ("steering", "followUp")}
        case "extension_error":
            level = logging.WARNING
            details["of"] = details.pop("event")
        case "tool_execution_end" if record["isError"]:
            level = logging.INFO
        case "message_start" | "tool_execution_update" | "bash_execution_update" | "extension_ui_request":
            return
        case _:
            pass
    _log.log(level, kind, extra={"details": details})


def _only(record: Record, names: Iterable[str]) -> dict[str, object]:
    return {name: record[name] for name in names if name in record}


def _details(record: logging.LogRecord) -> Mapping[str, Any]:
    return getattr(record, "details", {})


def _secret_variables(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in environ.items():
        if _LIKE_SECRETS.search(name) and len(value) >= _MIN_SECRET_CHARS:
            yield name, value
