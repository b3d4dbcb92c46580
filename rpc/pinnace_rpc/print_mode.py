"""Modes text and json: prompts from the command line, their answer or their records on stdout, then the end.

A client of its own process: prompts go through the same dispatcher as those of mode rpc, and what comes out is looked
at on its way. Each prompt is sent when the one before has settled. Nothing is ever asked. The records of mode json are
the events of mode rpc, in the chosen profile, after the header of the session; responses are left out.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

import trio

from pinnace_agent.control_text import ControlTextFilter
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.json_edge import as_object
from pinnace_agent.session import Session
from pinnace_rpc import stdio
from pinnace_rpc.options import Options, StartupError
from pinnace_rpc.outbox import Projection
from pinnace_rpc.process import AgentProcess
from pinnace_rpc.projection import make_projection
from pinnace_rpc.prompt_input import Prompt, read_prompts
from pinnace_rpc.startup import prepare
from pinnace_spec.limits import LimitName
from pinnace_spec.messages import Message
from pinnace_spec.profiles import ClientProfile
from pinnace_spec.wire import encode_record

Record = Mapping[str, object]

EXIT_FAILED = 1
_FLAGS: Mapping[LimitName, str] = {
    "maxTurns": "--max-turns",
    "maxCost": "--max-cost",
    "maxRunSeconds": "--max-run-seconds",
}
_DIALOGS = frozenset({"select", "confirm", "input", "editor"})
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
    stdout = stdio.take_stdout()
    listener = Listener(make_projection(options.protocol), is_silent=options.mode == "text")
    process = AgentProcess(prepared, listener)
    process.outbox.on_record = observe
    talk = Talk(process, listener, options, is_at_terminal=is_at_terminal)
    process.run(stdout, talk.hold, otherwise=lambda: talk.exit_code)
    if process.startup_failure is not None:
        raise process.startup_failure
    return process.exit_code(talk.exit_code)


class Listener:
    """Looks at what is written, and lets through what the mode shows."""

    def __init__(self, shown: Projection, *, is_silent: bool) -> None:
        """Hear nothing yet.

        Args:
            shown: How records are written.
            is_silent: Nothing is.
        """
        self.profile: ClientProfile = shown.profile
        self.event_names = shown.event_names
        self.has_whole_updates = shown.has_whole_updates
        self.message: Message | None = None  # the last one that has ended
        self.refusal: str | None = None  # why the last prompt was not taken
        self.was_aborted = False
        self.limit: LimitName | None = None  # what has ended the last run
        self.on_dialog: Callable[[str], None] | None = None  # takes the id of what somebody would have to answer
        self._shown = shown
        self._is_silent = is_silent
        self._heard = trio.Event()

    def expect(self) -> None:
        """Forget what became of the last prompt: another one is about to be sent."""
        self.message, self.refusal = None, None
        self._heard = trio.Event()

    async def outcome(self) -> None:
        """Wait until the prompt has settled, or was refused."""
        await self._heard.wait()

    def line(self, record: Record) -> bytes | None:
        """Encode a record that is shown."""
        match record["type"]:
            case "response":
                if not record["success"]:
                    self.refusal = str(record["error"])
                    self._heard.set()
                elif _is_handled(record):
                    self._heard.set()
                return None
            case "message_end":
                self.message = cast(Message, record["message"])  # the field of that record
            case "agent_settled":
                self.was_aborted = bool(record["aborted"])
                self.limit = cast("LimitName | None", record.get("limit"))  # likewise
                self._heard.set()
            case "auto_retry_start":
                # Seconds pass before anything else is known.
                _tell_retry(record)
            case "extension_error":
                # There is no such record in the original's, and nobody else who could be told.
                _tell_error(record)
                return None
            case "extension_ui_request":
                # Nobody is there: it gets its default at once, and what is only shown is not.
                if self.on_dialog is not None and record["method"] in _DIALOGS:
                    self.on_dialog(str(record["id"]))
                return None
            case _:
                pass
        return None if self._is_silent else self._shown.line(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` if it is shown; nothing is empty."""
        return b"" if self._is_silent else self._shown.update_line(event, builder)


class Talk:
    """The conversation of one process with its command line."""

    def __init__(
        self, process: AgentProcess, listener: Listener, options: Options, *, is_at_terminal: bool = False
    ) -> None:
        """Say nothing yet. What goes to a terminal must not control it."""
        self.exit_code = 0
        self._process = process
        self._listener = listener
        self._options = options
        self._is_at_terminal = is_at_terminal

    async def hold(self) -> None:
        """Send all prompts, print what is to be printed, and end the process."""
        try:
            await self._hold()
        except StartupError as error:
            self._fail(str(error))
        self._process.stop()

    async def _hold(self) -> None:
        options, profile = self._options, self._process.prepared.profile
        host = self._process.dispatcher.host
        seat = None if host is None else host.seat
        if seat is not None:
            await seat.ready.wait()
            if seat.failure is not None:
                return
        messages, files = options.messages, options.files
        if seat is not None and seat.given_back:
            from pinnace_rpc.mode_choice import with_given_back

            messages, files = with_given_back(options, seat.given_back)
        prompts = await read_prompts(messages, files, resizes_images=profile.resizes_images)
        if options.mode == "json":
            self._process.outbox.put_line(session_header(self._process.prepared.session))
        if not prompts:
            _tell("no prompt was given, on the command line or on stdin")
        for prompt in prompts:
            await self._say(prompt)
            if seat is not None:
                # An extension may have begun something that goes on, also a command that no prompt waits for.
                await seat.wait_for_idle(for_commands=True)
            if self._process.is_stopping:
                return
            if self._listener.refusal is not None:
                self._fail(self._listener.refusal)
                return
            if self._listener.was_aborted:
                break
        self._finish()

    async def _say(self, prompt: Prompt) -> None:
        self._listener.expect()
        record = {"type": "prompt", "message": prompt.text, "images": prompt.images}
        self._process.dispatcher.receive(encode_record(record))
        await self._listener.outcome()

    def _finish(self) -> None:
        """Print the answer, or say why there is none."""
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

    def _shown(self, text: str) -> str:
        """Return a text as it is, or for a terminal without what would control it."""
        return clean(text) if self._is_at_terminal else text

    def _fail(self, text: str) -> None:
        self.exit_code = EXIT_FAILED
        _tell(text)


def _is_handled(record: Record) -> bool:
    """Tell whether an extension has dealt with a prompt, so that nothing settles."""
    data = as_object(record.get("data"))
    return data is not None and data.get("disposition") == "handled"


def _tell_retry(record: Record) -> None:
    _tell(str(record["errorMessage"]))
    delay_s = cast(int, record["delayMs"]) / 1000  # the field of that record, as the next two
    _tell(f"trying again in {delay_s:g} s (retry {record['attempt']} of {record['maxAttempts']})")


def _tell_error(record: Record) -> None:
    _tell(f"Extension error ({record['extensionPath']}): {record['error']}")


def session_header(session: Session) -> bytes:
    """Return the line that a session's file begins with, or would."""
    file = session.file
    if file is not None:
        if file.header is not None:
            return file.header
        from pinnace_agent.session.reading import read_header

        with suppress(OSError), file.path.open("rb") as opened:
            if (header := read_header(opened.read(_HEADER_BYTES))) is not None:
                return encode_record(header)
    from pinnace_agent.session.library import header_line

    return header_line(session.id, session.cwd, session.now_ms(), session.parent_session)


def clean(text: str) -> str:
    """Leave out of a text what would control a terminal."""
    return ControlTextFilter().feed(text)


def _tell(text: str) -> None:
    sys.stderr.write("".join(f"pinnace: {line}\n" for line in clean(text).rstrip().split("\n")))
    sys.stderr.flush()
