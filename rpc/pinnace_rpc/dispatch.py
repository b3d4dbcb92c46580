"""From a line to a trigger, and from an effect to a response.

The only place where an exception becomes a response, since the id is known here, always. Each record of the client gets
a number of arrival; inside the agent the number stands for it until it is answered, exactly once. What a command does
is the chart's and the host's to know. Rules R-RSP-01, R-ERR-01 to R-ERR-04, R-HEL-01.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.host import Host
from pinnace_agent.output import OutputTail
from pinnace_agent.processes.registry import commands_at_once
from pinnace_agent.refusals import refusal
from pinnace_agent.session.replacement import (
    BranchSession,
    CloneSession,
    ForkSession,
    NewSession,
    SessionRequest,
    SwitchSession,
)
from pinnace_agent.shells import CANCELLED, ShellJob
from pinnace_rpc.exports import Exports
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.projection import Disposition, make_projection
from pinnace_rpc.queries import QUERIES, get_state
from pinnace_rpc.release import program_version
from pinnace_rpc.session_queries import get_entries
from pinnace_rpc.settings_commands import SETTINGS
from pinnace_spec import errors
from pinnace_spec.flat_commands import COMMAND_NAMES
from pinnace_spec.framing import MAX_RECORD_BYTES
from pinnace_spec.limits import PUBLISHED
from pinnace_spec.profiles import CLIENT_PROFILES, ClientProfile
from pinnace_spec.records import CommandError, parse_command
from pinnace_spec.wire import JsonValue, WireError, decode_line
from pinnace_statechart import effects as fx
from pinnace_statechart.triggers import Command, Happening

if TYPE_CHECKING:  # pydantic: loaded by the first command that the table does not take
    from pinnace_spec import commands as cmd

_log = logging.getLogger("pinnace.dispatch")

# Never answered, whatever stands in it: nobody waits for an answer to an answer (R-UI-01).
UNANSWERED: Final = "extension_ui_response"
_TEXTS: Final = frozenset({"prompt", "steer", "follow_up", "extension_command"})
# The oldest generation's names, by what they are called today.
ALIASES: Final[Mapping[str, str]] = {"queue_message": "steer", "reset": "new_session"}


@dataclass(slots=True)
class Pending:
    """A record that is not answered yet. `name` is what the client called it; `id` is absent when it gave none."""

    name: str
    id: JsonValue = None
    has_id: bool = False
    command: "cmd.AnyCommand | None" = None
    error: errors.ClientError | None = None


class Dispatcher:
    """Takes lines, answers commands. Implements the agent's `Responder` and `CommandBook`."""

    def __init__(self, outbox: Outbox, closed: Callable[[], None]) -> None:
        """Answer into `outbox`; `closed` is called when the chart says that all is done. `host` is to be set first."""
        self.host: Host | None = None
        self.exports = Exports()
        self._outbox = outbox
        outbox.projection.on_dialog = self._decline
        self._closed = closed
        self._pending: dict[int, Pending] = {}
        self._last_ref = 0
        self._first_command: int | None = None  # a line that is no command does not count

    @property
    def _agent(self) -> Host:
        assert self.host is not None
        return self.host

    def receive(self, line: bytes) -> None:
        """Take one line. Never waits and never raises for anything that a line may hold."""
        try:
            command = parse_command(decode_line(line))
        except WireError as error:
            refused = errors.ClientError(errors.parse_error(error.text), errors.ErrorCode.PARSE_ERROR)
            self._refuse_line(Pending(errors.PARSE_COMMAND, error=refused), "malformed")
            return
        except CommandError as error:
            if error.command == UNANSWERED:
                return
            pending = Pending(error.command, error.id, error.has_id, error=error)
            self._refuse_line(pending, "malformed" if error.command == errors.PARSE_COMMAND else "unknown")
            return
        except Exception as error:  # what reads a wrong command can't be loaded: no descriptor is left, for example
            _log.exception("a line could not be read")
            defect = errors.ClientError(f"Internal error: {error}", errors.ErrorCode.INTERNAL_ERROR)
            self._refuse_line(Pending(errors.PARSE_COMMAND, error=defect), "malformed")
            return
        self._admit(command)

    def receive_too_long(self) -> None:
        """Take a line that was longer than the limit and is gone."""
        text = errors.record_too_long(MAX_RECORD_BYTES)
        refused = errors.ClientError(text, errors.ErrorCode.PARSE_ERROR)
        self._refuse_line(Pending(errors.PARSE_COMMAND, error=refused), "malformed")

    def _refuse_line(self, pending: Pending, name: str) -> None:
        self._submit(Command(name, self._number(pending)))

    def _admit(self, command: "cmd.AnyCommand") -> None:
        pending = Pending(command.command_name, command.id, command.has_id, command)
        self._submit(_trigger(command, self._number(pending)))

    def _number(self, pending: Pending) -> int:
        self._last_ref += 1
        self._pending[self._last_ref] = pending
        if self._first_command is None and pending.name != errors.PARSE_COMMAND:
            self._first_command = self._last_ref
        return self._last_ref

    def _submit(self, trigger: Command) -> None:
        try:
            if trigger.text:
                trigger = self._read(trigger)
            self._agent.submit(trigger)
        except Exception as error:  # the client must get its answer, whatever defect this is
            _log.exception("%s failed", trigger.name)
            if trigger.ref in self._pending:
                self._fail(trigger.ref, errors.InternalError(f"Internal error: {error}"))

    def _read(self, trigger: Command) -> Command:
        """Find out what a text means before the chart sees it, so that queue, session and model have the same text."""
        return trigger._replace(unread=True) if self._agent.is_starting else self._classified(trigger)

    def _classified(self, trigger: Command) -> Command:
        agent = self._agent
        extensions = agent.extensions
        if extensions is not None and extensions.commands.find(trigger.text) is not None:
            if trigger.name == "prompt":
                return trigger._replace(name="extension_command")
            text = errors.not_queueable(trigger.text[1:].partition(" ")[0])
            self._pending[trigger.ref].error = errors.ClientError(text, errors.ErrorCode.NOT_QUEUEABLE)
            return Command("unknown", trigger.ref)
        if extensions is not None and extensions.has_handlers("input"):
            return trigger._replace(unread=True)
        # What it names is a small regular file: to read it takes less time than to reserve a place for it.
        return trigger._replace(text=agent.expand(trigger.text))

    def read_again(self, command: Command) -> Command:
        """Return a text that waits as it is to be understood now; other commands as they are."""
        if command.name not in _TEXTS:
            return command
        pending = self._pending[command.ref]
        text = cast("cmd.Prompt", pending.command).message  # the model of this name, or one with the same field
        name = ALIASES.get(pending.name, pending.name)
        return self._classified(command._replace(name=name, text=text, unread=False))

    # What the agent answers.

    def accept(self, effect: fx.Accept) -> None:
        """Answer with success, in the shape of the command's generation."""
        text = self._agent.sessions.text_of(effect.ref)
        self._succeed(effect.ref, _accept_data(self._pending[effect.ref].name, effect, text))

    def accept_compact(self, ref: int, result: Mapping[str, object]) -> None:
        """Answer a `compact` with what it has made."""
        self._succeed(ref, result)

    def refuse(self, effect: fx.Refuse) -> None:
        """Answer with an error."""
        if effect.reason == "line":
            error = self._pending[effect.ref].error
            assert error is not None
            self._fail(effect.ref, error)
        else:
            self._fail(effect.ref, refusal(effect))

    def answer(self, effect: fx.Answer) -> None:
        """Answer a read."""
        ref = effect.ref
        pending = self._pending[ref]
        if pending.name == "get_state":
            self._answer(ref, lambda: get_state(self._agent, effect.view))
        elif pending.name == "hello":
            hello = cast("cmd.Hello", pending.command)  # the model of this name
            self._answer(ref, lambda: self._hello(ref, hello))
        elif pending.name == "get_entries":
            reading = cast("cmd.GetEntries", pending.command)  # likewise
            self._answer(ref, lambda: get_entries(self._agent, reading))
        elif pending.name == "export_html":
            self._export(ref, cast("cmd.ExportHtml", pending.command))  # likewise
        else:
            self._answer(ref, lambda: QUERIES[pending.name](self._agent))

    def _export(self, ref: int, command: "cmd.ExportHtml") -> None:
        """Begin an export of the session as it is now; it is answered when the page is there."""

        def ended(outcome: str | errors.ProtocolError) -> None:
            if isinstance(outcome, str):
                self._succeed(ref, {"path": outcome})
            else:
                self._fail(ref, outcome)

        try:
            self.exports.start(self._agent, command.outputPath, ended)
        except errors.ClientError as error:
            self._fail(ref, error)

    def perform(self, ref: int) -> None:
        """Carry out a settings command and answer it."""
        pending = self._pending[ref]
        self._answer(ref, lambda: SETTINGS[pending.name](self._agent, pending.command))

    def _answer(self, ref: int, work: Callable[[], Mapping[str, object] | None]) -> None:
        """Answer with the data of `work`, or with what it raises: the client must get its answer, whatever that is."""
        name = self._pending[ref].name
        try:
            data = work()
            if data is None and name.startswith("cycle_"):
                self._write(ref, {"success": True, "data": None})
            else:
                self._succeed(ref, data)
        except errors.ClientError as error:
            self._fail(ref, error)
        except Exception as error:  # our fault: logged, told, and the process goes on
            _log.exception("%s failed", name)
            self._fail(ref, errors.InternalError(f"Internal error: {error}"))

    def answer_shell(self, ref: int) -> None:
        """Answer a `bash`."""
        shell = self._agent.shells.get(ref)
        if shell is not None and shell.failure is not None:
            self._fail(ref, errors.ClientError(shell.failure, shell.failure_code))
        else:
            result = shell.result if shell is not None else None
            self._succeed(ref, CANCELLED if result is None else result)

    def resolve_dialog(self, ref: int) -> None:
        """Hand an answer to the dialog that waits for it, if one does; it is never answered itself."""
        pending = self._pending.pop(ref)
        if self._agent.seat is None:
            return
        response = cast("cmd.ExtensionUiResponse", pending.command)  # the model of this name
        told = {"value": response.value, "confirmed": response.confirmed, "cancelled": response.cancelled}
        said = {name: value for name, value in told.items() if value is not None}
        self._agent.seat.answer({"id": response.id, **said})

    def close(self) -> None:
        """All is answered and closed, but for the exports that go on."""
        self.exports.when_done(self._closed)

    # What the agent asks about a command.

    def start_shell(self, ref: int) -> None:
        """Start the shell command of a `bash`."""
        pending = self._pending[ref]
        command = cast("cmd.Bash", pending.command)  # the model of this name
        agent = self._agent
        shell = ShellJob(
            ref=ref,
            command=command.command,
            exclude_from_context=command.excludeFromContext,
            session=agent.session,
            output=OutputTail(sanitise=True),
            request_id=pending.id,
        )
        agent.shells.start(shell, lambda ended: agent.submit(Happening("shell_ended", ref=ended)))

    @property
    def is_command_in_hand(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._pending)

    def command_text(self, ref: int) -> str:
        """Return the text of a prompt that calls a command."""
        return cast("cmd.Prompt", self._pending[ref].command).message  # the model of this name

    def compact_instructions(self, ref: int) -> str | None:
        """Return what a `compact` asks the summary to look at."""
        return cast("cmd.Compact", self._pending[ref].command).customInstructions  # the model of this name

    def session_request(self, ref: int) -> SessionRequest:
        """Say what a session command asks for."""
        pending = self._pending[ref]
        command = pending.command  # each the model of its name
        match pending.name:
            case "new_session":
                return NewSession(cast("cmd.NewSession", command).parentSession)
            case "switch_session":
                return SwitchSession(cast("cmd.SwitchSession", command).sessionPath)
            case "fork":
                return ForkSession(cast("cmd.Fork", command).entryId)
            case "branch":
                return BranchSession(cast("cmd.Branch", command).entryIndex)
            case "clone":
                return CloneSession()
            case _:  # `reset`
                return NewSession(None)

    # Responses.

    def _hello(self, ref: int, command: "cmd.Hello") -> Mapping[str, object]:
        if command.protocol is not None:
            if ref != self._first_command:
                raise errors.ClientError(errors.HELLO_TOO_LATE, errors.ErrorCode.TOO_LATE)
            self._outbox.projection = make_projection(command.protocol)
            self._outbox.projection.on_dialog = self._decline
        return {
            "name": "pinnace",
            "version": program_version(),
            "protocols": CLIENT_PROFILES,
            "protocol": self._profile,
            "commands": COMMAND_NAMES,
            "events": self._outbox.projection.event_names,
            "limits": {**PUBLISHED, "shells": commands_at_once()},
        }

    def _decline(self, request_id: str) -> None:
        """Decline a dialog that its generation can't show to a user: an extension must not wait for ever."""
        if self._agent.seat is not None:
            self._agent.seat.answer({"id": request_id, "cancelled": True})

    @property
    def _profile(self) -> ClientProfile:
        return self._outbox.projection.profile

    def _succeed(self, ref: int, data: Mapping[str, object] | None) -> None:
        self._write(ref, {"success": True} if data is None else {"success": True, "data": data})

    def _fail(self, ref: int, error: errors.ProtocolError) -> None:
        self._write(ref, {"success": False, "error": error.text, "errorCode": error.code})

    def _write(self, ref: int, outcome: Mapping[str, object]) -> None:
        pending = self._pending[ref]
        head: dict[str, object] = {"id": pending.id} if pending.has_id else {}
        head |= {"type": "response", "command": pending.name}
        try:
            self._outbox.put({**head, **outcome})
        except Exception as error:  # what can't be encoded is answered as a defect
            _log.exception("the answer to %s can't be encoded", pending.name)
            text, code = f"Internal error: {error}", errors.ErrorCode.INTERNAL_ERROR
            self._outbox.put({**head, "success": False, "error": text, "errorCode": code})
        del self._pending[ref]


def _trigger(command: "cmd.AnyCommand", ref: int) -> Command:
    name = ALIASES.get(command.command_name, command.command_name)
    match command.command_name:  # each has the model of its name
        case "prompt":
            prompt = cast("cmd.Prompt", command)
            return Command(name, ref, prompt.message, prompt.content_images, behavior=prompt.streamingBehavior)
        case "steer" | "follow_up" | "queue_message":
            text = cast("cmd.Steer", command)
            return Command(name, ref, text.message, text.content_images)
        case "abort":
            return Command(name, ref, queue=cast("cmd.Abort", command).queue)
        case "set_steering_mode" | "set_follow_up_mode" | "set_queue_mode":
            return Command(name, ref, mode=cast("cmd.SetQueueMode", command).mode)
        case "set_auto_compaction" | "set_auto_retry":
            return Command(name, ref, enabled=cast("cmd.SetAutoRetry", command).enabled)
        case _:
            return Command(name, ref)


def _accept_data(name: str, effect: fx.Accept, text: str | None) -> Mapping[str, object] | None:
    cleared = effect.cleared and {"steering": effect.cleared[0], "followUp": effect.cleared[1]}
    if effect.cancelled is not None:
        if name == "reset":
            return None
        data: dict[str, object] = {}
        if name != "branch" or effect.cancelled:  # the oldest generation has the text alone
            data["cancelled"] = effect.cancelled
        if name in {"fork", "branch"}:
            data["text"] = text or ""
        return {**data, "cleared": cleared} if cleared else data
    if cleared:
        return cleared if name == "clear_queue" else {"cleared": cleared}
    if effect.disposition and name != "queue_message":
        return Disposition(disposition=effect.disposition)
    return None
