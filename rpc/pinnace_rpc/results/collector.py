"""Makes the result of a process from the records that it emits: an observer, which decides nothing about a run.

What is known by a record is taken from it; the rest (the session, the signal, a defect) is asked for once, at the end.
The result describes the last prompt: a later one that succeeds replaces an earlier failure in mode rpc. Usage and
counts are those of the process. Must not know modes. Rule R-RES-01.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.files.atomic_file import replace_file
from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.llm.failures import provider_words
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.totals import TokenTotals, add_tokens
from pinnace_rpc.options.options import Options, StartupError, UsageRefused
from pinnace_spec.batch.results import (
    DETAILED_EXIT_CODES,
    EXIT_RETRYABLE,
    LIMIT_REASONS,
    ResultError,
    ResultReason,
    ResultRecord,
    empty_result,
)
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.command_table import TEXT_COMMANDS
from pinnace_spec.records.messages import AssistantMessage, FailureCode, Usage
from pinnace_spec.rules.errors import EMPTY_ANSWER, NO_ANNOUNCED_CALL, ErrorCode
from pinnace_spec.rules.limits import LimitName
from pinnace_spec.wire.json_text import encode_record

if TYPE_CHECKING:
    from pinnace_agent.session.conversation import Session

_log = logging.getLogger("pinnace.result")

Record = Mapping[str, object]
OnRecord = Callable[[Record], None]

DENIED: Final = "no_user"
"""`details.denied` of a tool call that had no user to approve it."""

_REASONS_OF_FAILURES: Final[Mapping[FailureCode, ResultReason]] = {
    "no_model": "no_model",
    "unsupported_api": "no_model",
    "no_credentials": "no_key",
    "not_saved": "session_error",
}
_REASONS_OF_REFUSALS: Final[Mapping[str, ResultReason]] = {
    ErrorCode.NO_MODEL: "no_model",
    ErrorCode.NO_API_KEY: "no_key",
    ErrorCode.AUTHENTICATION_FAILED: "no_key",
    ErrorCode.SESSION_NOT_SAVED: "session_error",
    ErrorCode.SESSION_UNAVAILABLE: "session_error",
    ErrorCode.SESSION_NOT_FOUND: "session_error",
    ErrorCode.REFUSED_BY_EXTENSION: "extension_error",
    ErrorCode.ABORTED: "aborted",
    ErrorCode.SHUTTING_DOWN: "aborted",
    ErrorCode.INTERNAL_ERROR: "internal",
}
_TRANSIENT: Final[frozenset[FailureCode]] = frozenset(
    {"unreachable", "connection_lost", "timeout", "rate_limited", "server_error"}
)
_WITH_RESULT: Final[frozenset[ClientProfile]] = frozenset({"pi", "1.5"})


class LineSink(Protocol):
    """Where the last record of mode json goes."""

    def put_line(self, line: bytes) -> None:
        """Write a line."""
        ...


class EndedProcess(Protocol):
    """The process at its end."""

    @property
    def outbox(self) -> "LineSink":
        """Writes records to stdout."""
        ...

    @property
    def session(self) -> "Session":
        """The current session."""
        ...

    @property
    def signal_number(self) -> int | None:
        """The signal that ended it; None: none did."""
        ...

    @property
    def has_defect(self) -> bool:
        """Whether the statechart has failed."""
        ...

    @property
    def startup_failure(self) -> StartupError | None:
        """Why it could not start with its extensions."""
        ...


class PromptVerdict(NamedTuple):
    """How the last prompt has ended."""

    reason: ResultReason = "completed"
    is_retryable: bool = False
    error: ResultError | None = None


class ResultCollector:
    """The result of one process, as far as it is known."""

    def __init__(self, options: Options) -> None:
        """Begin at the start of the process; its options say where the result goes, and which exit codes are used."""
        self._options = options
        self._is_last_record = False
        self._begun = time.monotonic()
        self._tokens: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
        self._cost = 0.0
        self._turns = 0
        self._tool_calls = 0
        self._answer: AssistantMessage | None = None
        self._is_handled = False  # the last prompt was a command of an extension, and no answer followed
        self._failure: PromptVerdict | None = None
        self._limit: LimitName | None = None
        self._is_aborted = False
        self._has_denied_call = False
        self._result: ResultRecord | None = None

    def follow_header(self) -> None:
        """Write the result to stdout, too, where the profile has it: the header of mode json was written."""
        self._is_last_record = self._options.protocol in _WITH_RESULT

    def take(self, record: Record) -> None:
        """Take a record, before it is written."""
        match record["type"]:
            case "response":
                self._take_response(record)
            case "message_end":
                self._take_message(cast("Record", record["message"]))  # the field of that record
            case "turn_end":
                self._turns += 1
            case "tool_execution_end":
                self._tool_calls += 1
                result = as_object(record.get("result")) or {}
                details = as_object(result.get("details")) or {}
                self._has_denied_call = self._has_denied_call or details.get("denied") == DENIED
            case "compaction_end":
                usage = (as_object(record.get("result")) or {}).get("usage")
                self._spend(cast("Usage | None", usage))
            case "agent_settled":
                self._is_aborted = bool(record["aborted"])
                self._limit = cast("LimitName | None", record.get("limit"))  # likewise
            case _:
                pass

    def repeated(self, answer: AssistantMessage | None) -> None:
        """Take the answer that the session has to a prompt that was sent before, and is not run again."""
        self._answer = answer

    def refuse(self, text: str) -> None:
        """Take why a prompt that was sent before does not run."""
        self._failure = PromptVerdict("usage", error=_error(text))

    def fail(self, error: StartupError) -> None:
        """Take a failure that no record reports: a file of the command line that can't be read, for example."""
        self._failure = failed_start(error)

    def exit_code(self, code: int, process: EndedProcess) -> int:
        """Return the exit code of the process; `code` is the one without `--exit-codes detailed`."""
        return detailed_exit_code(self._verdict(process), code) if self._options.has_detailed_exit_codes else code

    def finish(self, code: int, process: EndedProcess) -> None:
        """Write the result, once; later calls do nothing. `code` is the exit code."""
        if self._result is not None:
            return
        verdict, answer, session = self._verdict(process), self._answer, process.session
        model, file = session.model, session.path
        self._result = {
            **_empty_result(verdict, code),
            "text": "" if answer is None else _text(answer),
            "stopReason": None if answer is None else answer["stopReason"],
            "turns": self._turns,
            "toolCalls": self._tool_calls,
            "durationMs": round((time.monotonic() - self._begun) * 1000),
            "usage": {**self._tokens},
            "cost": self._cost,
            "model": None if model is None else {"provider": model["provider"], "id": model["id"]},
            "session": {
                "id": session.id,
                "file": file if session.file is not None and session.file.exists else None,
                "continued": session.is_continued,
            },
            "limit": self._limit if verdict.reason in LIMIT_REASONS.values() else None,
        }
        line = encode_record(self._result)
        if self._is_last_record:
            process.outbox.put_line(line)
        if self._options.result_file is not None:
            write_result(self._options.result_file, line)

    def _take_response(self, record: Record) -> None:
        if record.get("command") not in TEXT_COMMANDS:
            return
        self._failure, self._limit, self._is_aborted = None, None, False
        if record["success"]:
            self._has_denied_call = False
            self._is_handled = (as_object(record.get("data")) or {}).get("disposition") == "handled"
            return
        code = record.get("errorCode")
        reason: ResultReason = _REASONS_OF_REFUSALS.get(str(code), "usage")
        error: ResultError = {
            "code": code if isinstance(code, str) else None,
            "message": str(record["error"]),
            "status": None,
        }
        self._failure = PromptVerdict(reason, code in {ErrorCode.BUSY, ErrorCode.SESSION_NOT_SAVED}, error)

    def _take_message(self, message: Record) -> None:
        if message["role"] == "assistant":
            self._answer = cast(AssistantMessage, message)  # of that role
            self._is_handled = False
        if message["role"] in {"assistant", "toolResult"}:
            self._spend(cast("Usage | None", message.get("usage")))

    def _spend(self, usage: Usage | None) -> None:
        if usage is not None:
            add_tokens(self._tokens, usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"])
            self._cost += usage["cost"]["total"]

    def _verdict(self, process: EndedProcess) -> PromptVerdict:
        if self._result is not None:
            return PromptVerdict(self._result["reason"], self._result["retryable"], self._result["error"])
        if process.has_defect:
            return PromptVerdict(
                "internal", error=_error("the agent's statechart has failed", ErrorCode.INTERNAL_ERROR)
            )
        if process.signal_number is not None:
            return PromptVerdict("interrupted", True, _error(f"ended by signal {process.signal_number}"))
        if process.startup_failure is not None:
            return failed_start(process.startup_failure)
        if self._failure is not None:
            return self._failure
        if self._limit is not None:
            return PromptVerdict(
                LIMIT_REASONS[self._limit], error=_error(f"the run has reached its limit {self._limit}")
            )
        return self._verdict_on_answer()

    def _verdict_on_answer(self) -> PromptVerdict:
        answer = None if self._is_handled else self._answer
        if answer is not None and answer["stopReason"] == "error":
            return _failed_answer(answer)
        if self._is_aborted or (answer is not None and answer["stopReason"] == "aborted"):
            return PromptVerdict("aborted", error=_error("the run was aborted"))
        if answer is not None and answer["stopReason"] == "length":
            return PromptVerdict(
                "output_limit", error=_error("the answer was cut: the model has reached its output limit")
            )
        if self._has_denied_call:
            text = "a tool call needed the user's approval, and there was no user to ask"
            return PromptVerdict("tool_denied", error=_error(text))
        if answer is not None and (problem := unanswered(answer)) is not None:
            return PromptVerdict("empty_answer", True, _error(problem))
        return PromptVerdict()


def unanswered(answer: AssistantMessage) -> str | None:
    """Return why an answer that ended without an error is no answer; None: it is one.

    An answer that calls tools is one: its calls were executed, and a tool may end the run. Rule R-RES-03.
    """
    if any(block["type"] == "toolCall" for block in answer["content"]):
        return None
    if answer["stopReason"] == "toolUse":
        return "the model announced a tool call and made none"
    return "the model's answer is empty" if answer["stopReason"] == "stop" and not _text(answer).strip() else None


def observed(options: Options, log: Callable[[Record], None] | None) -> "tuple[ResultCollector, OnRecord]":
    """Return a collector, and what passes each record to it and to the log.

    Raises:
        UsageRefused: The file of the result can't be written.
    """
    if options.result_file is not None and (problem := _problem_of(options.result_file)) is not None:
        raise UsageRefused(problem)
    collector = ResultCollector(options)

    def take(record: Record) -> None:
        collector.take(record)
        if log is not None:
            log(record)

    return collector, take


def detailed_exit_code(verdict: PromptVerdict, code: int) -> int:
    """Return the exit code of `--exit-codes detailed`; a signal keeps its own."""
    if verdict.reason == "model_error" and verdict.is_retryable:
        return EXIT_RETRYABLE
    return DETAILED_EXIT_CODES.get(verdict.reason, code)


def failed_start(error: StartupError) -> PromptVerdict:
    """Return the verdict on a process that can't start."""
    return PromptVerdict(error.reason, error.is_retryable, _error(str(error)))


def report_failed_start(options: Options, error: StartupError) -> int:
    """Write the result of a process that can't start, and return its exit code."""
    verdict = failed_start(error)
    code = detailed_exit_code(verdict, error.exit_code) if options.has_detailed_exit_codes else error.exit_code
    if options.result_file is not None:
        write_result(options.result_file, encode_record(_empty_result(verdict, code)))
    return code


def write_usage_error(path: str, text: str, code: int) -> None:
    """Write the result of a command line that was refused."""
    write_result(path, encode_record(_empty_result(PromptVerdict("usage", error=_error(text)), code)))


def _empty_result(verdict: PromptVerdict, code: int) -> ResultRecord:
    return empty_result(verdict.reason, code, verdict.error, is_retryable=verdict.is_retryable)


def _failed_answer(answer: AssistantMessage) -> PromptVerdict:
    code, status, text = answer.get("errorCode"), answer.get("status"), answer.get("errorMessage", "")
    error: ResultError = {"code": code, "message": text, "status": status}
    if code is not None and (reason := _REASONS_OF_FAILURES.get(code)) is not None:
        return PromptVerdict(reason, code == "not_saved", error)
    if provider_words(text) in {EMPTY_ANSWER, NO_ANNOUNCED_CALL}:
        return PromptVerdict("empty_answer", True, error)
    kind = classify_failure(text, answer["provider"], FailureSigns(status=status)).kind
    return PromptVerdict("model_error", code in _TRANSIENT or kind is OutcomeKind.TRANSIENT, error)


def _error(text: str, code: str | None = None) -> ResultError:
    return {"code": code, "message": text, "status": None}


def _text(answer: AssistantMessage) -> str:
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


def write_result(path: str, line: bytes) -> None:
    """Write a result without keys, whole or not at all.

    A failure is logged: the exit code is that of the work, as it is without the file. Blocks for one small file.
    """
    if REDACTOR.is_active:
        line = REDACTOR.line(line)
    try:
        replace_file(Path(path).absolute(), (line,), folder_flush="best effort")
    except OSError as error:
        _log.error("--result-file: %s can't be written: %s", path, error.strerror or error)


def _problem_of(path: str) -> str | None:
    """Return why a result can't be written there, as far as that is known before the work; None: it can."""
    place = Path(path).absolute()
    if not place.parent.is_dir():
        return f"--result-file: the folder {place.parent} does not exist"
    return f"--result-file: {place} is not a regular file" if place.exists() and not place.is_file() else None
