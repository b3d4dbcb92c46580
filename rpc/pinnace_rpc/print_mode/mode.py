"""Modes text and json: prompts from the command line, their answer or their records on stdout, then the end.

A client of its own process: prompts go through the same dispatcher as those of mode rpc, and what comes out is looked
at on its way. Each prompt is sent when the one before has settled. Nothing is ever asked. The records of mode json are
the events of mode rpc, in the chosen profile, between the header of the session and the result; responses are left out.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import trio

from pinnace_agent.core.control_text import clean_text
from pinnace_agent.core.json_access import as_object
from pinnace_agent.engine.status_records import WARNED_EVENTS
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.session.conversation import Session
from pinnace_rpc.options.options import Options, StartupError
from pinnace_rpc.print_mode.prompt_input import PromptInput, read_prompts
from pinnace_rpc.results.collector import ResultCollector, observed, unanswered
from pinnace_rpc.server import stdio
from pinnace_rpc.server.outbox import Projection
from pinnace_rpc.server.process import ProcessRun
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.startup import StartedAgent, prepare
from pinnace_spec.printable import printable_lines
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.messages import AssistantMessage, Message
from pinnace_spec.rules.limits import LimitName
from pinnace_spec.wire.json_text import encode_record

Record = Mapping[str, object]

EXIT_FAILED = 1
CONTINUE: Final = "Continue where you were interrupted."
"""Sent in the place of a prompt that the session has and that has no complete answer."""
_FLAGS: Mapping[LimitName, str] = {
    "maxTurns": "--max-turns",
    "maxCost": "--max-cost",
    "maxRunSeconds": "--max-run-seconds",
}
# As much of a session's file as its header may take.
_HEADER_BYTES = 64 * 1024


def run(options: Options) -> int:
    """Ask, print, and return the exit code.

    Raises:
        StartupError: The configuration can't be used; nothing was written to stdout.
    """
    observe = stdio.configure_logging(options)
    prepared = prepare(options)
    is_at_terminal = os.isatty(1)
    if (problem := stdio.wrong_direction()) is not None:
        raise StartupError(problem)
    _report_queue(prepared.session)
    progress = StderrProgress(str(Path.cwd())) if sys.stderr.isatty() else None
    if progress is not None and (options.session_id is not None or options.continues):
        progress.session(prepared.session)
    stdout = stdio.take_stdout()
    listener = RecordListener(make_projection(options.protocol), is_silent=options.mode == "text", progress=progress)
    collector, on_record = observed(options, observe)
    has_log = observe is not None
    process = ProcessRun(prepared, listener, on_record=on_record, has_log=has_log, observer=collector)
    talk = PrintConversation(process, listener, options, collector, is_at_terminal=is_at_terminal)
    process.run(stdout, talk.hold, otherwise=lambda: talk.exit_code)
    if process.startup_failure is not None:
        raise process.startup_failure
    return process.exit_code(talk.exit_code)


def _report_queue(session: "Session") -> None:
    """Report messages that the session has queued: only a client of the protocol can have them delivered."""
    if not session.tree.kinds.get("custom"):
        return
    from pinnace_agent.session.queue.history import QueueHistory  # not at start: for sessions that are continued

    if count := len(QueueHistory(session).queued):
        what = "1 message is" if count == 1 else f"{count} messages are"
        sys.stderr.write(f"pinnace: {what} queued in this session, and stay so; --mode rpc delivers them\n")


class RecordListener:
    """A projection that observes records, and writes those that the mode shows."""

    def __init__(self, shown: Projection, *, is_silent: bool, progress: "StderrProgress | None" = None) -> None:
        """Begin before the first record.

        Args:
            shown: How records are written.
            is_silent: No record is written.
            progress: Shows what happens before the answer; None: stderr is not a terminal.
        """
        self.profile: ClientProfile = shown.profile
        self.event_names = shown.event_names
        self.has_whole_updates = shown.has_whole_updates
        self.message: Message | None = None  # the last one that has ended
        self.refusal: str | None = None  # why the last prompt was rejected
        self.was_aborted = False
        self.limit: LimitName | None = None  # the limit that ended the last run
        self.repeated: str | None = None  # what became of the last prompt, if the session knew it
        # The command line sends prompts, not a client of that generation.
        self.unknown_names = shown.unknown_names - {"messageId"}
        self._shown = shown
        self._is_silent = is_silent
        self._progress = progress
        self._settled_or_ended = trio.Event()

    def expect(self) -> None:
        """Reset the outcome: another prompt is about to be sent."""
        self.message, self.refusal, self.repeated = None, None, None
        self._settled_or_ended = trio.Event()

    async def outcome(self) -> None:
        """Wait until the prompt has settled, or was refused."""
        await self._settled_or_ended.wait()

    def line(self, record: Record) -> bytes | None:
        """Encode a record that is shown."""
        if self._progress is not None:
            self._progress.take(record)
        match record["type"]:
            case "response":
                if not record["success"]:
                    self.refusal = str(record["error"])
                    self._settled_or_ended.set()
                    return None
                match _disposition(record):
                    case "handled":
                        self._settled_or_ended.set()
                    case "duplicate":
                        data = as_object(record["data"]) or {}
                        self.repeated = str(data["state"])
                        self._settled_or_ended.set()
                    case _:
                        pass
                return None
            case "message_end":
                self.message = cast(Message, record["message"])  # the field of that record
            case "agent_settled":
                self.was_aborted = bool(record["aborted"])
                self.limit = cast("LimitName | None", record.get("limit"))  # likewise
                self._settled_or_ended.set()
            case "auto_retry_start":
                # Seconds pass before anything else is known.
                _report_retry(record)
            case "extension_error":
                # The original has no such record, and no other reader could report it. The agent has warned of those.
                if record["event"] not in WARNED_EVENTS:
                    _report_error(record)
                return None
            case "extension_ui_request":
                # No client is there: the outbox declines dialogs at once, and notifications are not shown.
                return None
            case _:
                pass
        return None if self._is_silent else self._shown.line(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` if it is shown; nothing is empty."""
        return b"" if self._is_silent else self._shown.update_line(event, builder)


class StderrProgress:
    """What a person at a terminal sees before the answer: a line on stderr for each step that takes time."""

    def __init__(self, cwd: str) -> None:
        """Show paths relative to the working folder."""
        self._cwd = cwd

    def session(self, session: Session) -> None:
        """Say whether a session is continued: a misspelt id makes a new one."""
        continued = f"continues session {session.id} ({session.message_count} messages)"
        _report(continued if session.is_continued else f"new session {session.id}")

    def take(self, record: Record) -> None:
        """Show a record that begins a step, or reports its failure."""
        match record["type"]:
            case "tool_execution_start":
                from pinnace_rpc.acp.translation.tool_calls import title  # not at start: for terminals alone

                name = str(record["toolName"])
                shown = title(name, as_object(record["args"]) or {}, self._cwd)
                _report_line(name if shown == name else f"{name}: {shown}")
            case "tool_execution_end" if record["isError"]:
                _report_line(f"{record['toolName']} has failed")
            case "compaction_start":
                _report_line("compacting the conversation")
            case _:
                pass


class PrintConversation:
    """The conversation of one process with its command line."""

    def __init__(
        self,
        process: ProcessRun,
        listener: RecordListener,
        options: Options,
        collector: ResultCollector,
        *,
        is_at_terminal: bool = False,
    ) -> None:
        """Begin before the first prompt. Output to a terminal is cleaned of control sequences."""
        self.exit_code = 0
        self._process = process
        self._listener = listener
        self._options = options
        self._collector = collector
        self._is_at_terminal = is_at_terminal

    async def hold(self, agent: StartedAgent) -> None:
        """Send all prompts, print the answer, and end the process."""
        try:
            await self._hold(agent)
        except StartupError as error:
            self._collector.fail(error)
            self._fail(str(error), error.exit_code)
        self._process.stop(agent)

    async def _hold(self, agent: StartedAgent) -> None:
        options, profile = self._options, self._process.prepared.profile
        extensions = agent.extensions.manager
        if extensions is not None:
            await extensions.ready.wait()
            if extensions.failure is not None:
                return
        messages, files = options.messages, options.files
        if extensions is not None and extensions.given_back:
            from pinnace_rpc.options.arguments import with_given_back

            messages, files = with_given_back(options, extensions.given_back)
        prompts = await read_prompts(messages, files, resizes_images=profile.resizes_images)
        if options.mode == "json":
            self._process.outbox.put_line(session_header(self._process.prepared.session))
            self._collector.follow_header()
        if not prompts:
            _report("no prompt was given, on the command line or on stdin")
        ids = self._message_ids(len(prompts))
        for prompt, message_id in zip(prompts, ids, strict=True):
            await self._say(agent, prompt, message_id)
            if self._listener.repeated is not None:
                await self._continue(agent, message_id, ids)
            if extensions is not None:
                # An extension may have begun work that continues, also a command that no prompt waits for.
                await extensions.wait_for_idle(for_commands=True)
            if self._process.is_stopping:
                return
            if self._listener.refusal is not None:
                self._fail(self._listener.refusal)
                return
            if self._listener.was_aborted:
                break
        self._finish()

    def _message_ids(self, count: int) -> list[str | None]:
        """Return the ids of the prompts: the given one, then the same with the prompt's number."""
        given = self._options.message_id
        if given is None:
            return [None] * count
        return [given if number == 1 else f"{given}/{number}" for number in range(1, count + 1)]

    async def _continue(self, agent: StartedAgent, message_id: str | None, ids: list[str | None]) -> None:
        """Continue after a prompt that the session has: its process may have ended before the answer was complete."""
        session, queue = agent.interpreter.session, agent.interpreter.queue
        if self._listener.repeated == "returned":
            self._listener.refusal = (
                f"the message {message_id} was returned to a client before it was delivered, so it does not run; "
                "give another --message-id"
            )
            self._collector.refuse(self._listener.refusal)
            return
        if self._listener.repeated == "handled":
            return
        following = ids[ids.index(message_id) + 1 :]
        if following and queue.fate_of(following[0] or "") is not None:
            return
        newest = next(session.newest_first(), None)
        if newest is None or newest["role"] != "assistant" or not _is_complete(newest):
            await self._say(agent, PromptInput(CONTINUE))
            return
        self._listener.message = newest
        self._collector.repeated(newest)

    async def _say(self, agent: StartedAgent, prompt: PromptInput, message_id: str | None = None) -> None:
        self._listener.expect()
        record: dict[str, object] = {"type": "prompt", "message": prompt.text, "images": prompt.images}
        if message_id is not None:
            record["messageId"] = message_id
        agent.dispatcher.receive(encode_record(record))
        await self._listener.outcome()

    def _finish(self) -> None:
        """Print the answer, or report why there is none."""
        options, message = self._options, self._listener.message
        if self._listener.limit is not None:
            self._fail(f"ended by {_FLAGS[self._listener.limit]}, or the setting limits.{self._listener.limit}")
            return
        if message is None or message["role"] != "assistant":
            return
        reason = message["stopReason"]
        if options.mode == "text" and reason not in {"error", "aborted"}:
            texts = (f"{block['text']}\n" for block in message["content"] if block["type"] == "text")
            self._process.outbox.put_text(self._shown("".join(texts)))
        if options.mode == "json" and not options.fails_on_error:
            return
        if reason in {"error", "aborted"}:
            self._fail(message.get("errorMessage") or f"the request ended with {reason}")
        elif reason == "length":
            self._fail("the answer was cut: the model has reached its output limit")
        elif (problem := unanswered(message)) is not None:
            self._fail(problem)

    def _shown(self, text: str) -> str:
        """Return a text, for a terminal without control sequences."""
        return clean_text(text) if self._is_at_terminal else text

    def _fail(self, text: str, code: int = EXIT_FAILED) -> None:
        self.exit_code = code
        _report(text)


def _is_complete(answer: AssistantMessage) -> bool:
    return answer["stopReason"] in {"stop", "length"} and unanswered(answer) is None


def _disposition(record: Record) -> object:
    """Return what the agent does with a prompt; after `handled` and `duplicate` no `agent_settled` follows."""
    return (as_object(record.get("data")) or {}).get("disposition")


def _report_retry(record: Record) -> None:
    _report(str(record["errorMessage"]))
    delay_s = cast(int, record["delayMs"]) / 1000  # the field of that record, as the next two
    _report(f"trying again in {delay_s:g} s (retry {record['attempt']} of {record['maxAttempts']})")


def _report_line(text: str) -> None:
    """Report on one line of the terminal."""
    from shutil import get_terminal_size

    from pinnace_rpc.options.shown.tables import in_one_line, shortened

    _report(shortened(in_one_line(clean_text(text)), max(20, get_terminal_size().columns - len("pinnace: ") - 1)))


def _report_error(record: Record) -> None:
    _report(f"Extension error ({record['extensionPath']}): {record['error']}")


def session_header(session: Session) -> bytes:
    """Return the line that a session's file begins with, or would."""
    file = session.file
    if file is not None:
        if file.header is not None:
            return file.header
        from pinnace_agent.session.store.reading import read_header

        with suppress(OSError), file.path.open("rb") as opened:
            if (header := read_header(opened.read(_HEADER_BYTES))) is not None:
                return encode_record(header)
    from pinnace_agent.session.library import header_line

    return header_line(session.id, session.cwd, session.now_ms(), session.parent_session)


def _report(text: str) -> None:
    sys.stderr.write("".join(f"pinnace: {line}\n" for line in printable_lines(clean_text(text)).rstrip().split("\n")))
    sys.stderr.flush()
