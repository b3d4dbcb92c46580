"""Translates lines into triggers, and effects into responses.

The only place where an exception becomes a response, since the id is known here. Each record of the client gets a
number of arrival; inside the agent the number identifies it until it is answered, exactly once. `OpenCommands` is built
before the agent, which answers them; `Dispatcher` after it, which submits them. Rules R-RSP-01, R-ERR-01 to R-ERR-04,
R-HEL-01, R-FIL-02.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import trio

from pinnace_agent.engine.client_bash import CANCELLED, ShellRequest
from pinnace_agent.engine.status_records import refusal
from pinnace_agent.session.identity import new_message_id
from pinnace_agent.session.queue.durable_queue import CommandIdentity, MessageFate
from pinnace_agent.session.queue.operations import CLEAR_QUEUE
from pinnace_agent.session.replacement import (
    BranchSession,
    CloneSession,
    EmptySession,
    ForkSession,
    MoveRequest,
    SessionRequest,
    SwitchSession,
)
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import Disposition
from pinnace_rpc.server.queries import QUERIES, Read
from pinnace_rpc.server.settings_commands import SETTINGS
from pinnace_rpc.server.slow_reads import SLOW_READS, SlowReads
from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.command_table import ALIASES, CLIENT_ANSWERS, TEXT_COMMANDS
from pinnace_spec.records.parsing import CommandError, parse_command
from pinnace_spec.rules import errors
from pinnace_spec.statechart.names import WORKING
from pinnace_spec.wire.framing import MAX_RECORD_BYTES
from pinnace_spec.wire.json_text import JsonValue, WireError, decode_line
from pinnace_statechart import effects as fx
from pinnace_statechart.triggers import Command

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.shells import ShellCommand
    from pinnace_agent.engine.ports import AgentReads, CommandSink, MessageReader
    from pinnace_agent.session.store.save_error import SaveError
    from pinnace_rpc.server.agent_messages import GivenMessages
    from pinnace_rpc.server.completing import Completing
    from pinnace_rpc.server.logins import LoginCommand, Logins
    from pinnace_rpc.server.started_agents import StartedAgents
    from pinnace_spec.records import commands as cmd

_log = logging.getLogger("pinnace.dispatch")

_TEXTS: Final = frozenset({*TEXT_COMMANDS, "extension_command"})
_LATER: Final = frozenset({"message_agent", "start_agent", "wait_agent"})
"""Settings that are answered later, while others go on."""

Outcome = Mapping[str, object]
"""A response without its id and its command: `success`, and data or an error."""
OnOutcome = Callable[[Outcome], None]


@dataclass(slots=True)
class PendingRecord:
    """A record that is not answered yet. `name` is what the client called it; `id` is absent when it gave none."""

    name: str
    id: JsonValue = None
    has_id: bool = False
    command: "cmd.AnyCommand | None" = None
    error: errors.ClientError | None = None
    message_id: str | None = None
    """What the client calls the message that it sends, until it is answered."""


class OpenCommands:
    """The commands of the client that are not answered yet. Implements the agent's `Responder` and `CommandStore`."""

    def __init__(
        self, outbox: Outbox, closed: Callable[[], None], on_first: "Callable[[], None] | None" = None
    ) -> None:
        """Answer into `outbox`.

        Args:
            outbox: Takes the responses.
            closed: Called when everything is answered and closed.
            on_first: Called after the first response.
        """
        self._on_first = on_first
        self.slow_reads = SlowReads()
        self._completing: Completing | None = None
        self._logins: Logins | None = None
        self._given: GivenMessages | None = None
        self._started: StartedAgents | None = None
        self.is_ending = False
        """Whether the agent has begun to end, other than in a drain: it begins no work."""
        self.defect: str | None = None
        """The error with which every command is answered after the statechart has failed; None: it has not."""
        self.first_message = trio.Event()
        """A prompt, or another message that a run may follow, has been read."""
        self._outbox = outbox
        self._closed = closed
        self._pending: dict[int, PendingRecord] = {}
        self._messages: dict[str, list[OnOutcome]] = {}  # of open commands, by id: what their repetitions wait for
        self._last_ref = 0
        self._first_command: int | None = None  # a line that is no command does not count

    def add(self, pending: PendingRecord) -> int:
        """Register a command, and return its number."""
        self._last_ref += 1
        self._pending[self._last_ref] = pending
        if self._first_command is None and pending.name != errors.PARSE_COMMAND:
            self._first_command = self._last_ref
        return self._last_ref

    def begin_message(self, ref: int, message_id: str) -> None:
        """Remember what message a command sends, until it is answered."""
        self._messages[message_id] = []
        self._pending[ref].message_id = message_id

    def waits_for_first(self, message_id: str, answer: "OnOutcome") -> bool:
        """Call `answer` with the outcome of the open command that has sent a message; return whether there is one."""
        waiting = self._messages.get(message_id)
        if waiting is None:
            return False
        waiting.append(answer)
        return True

    @property
    def has_open(self) -> bool:
        """Whether a command of the client is unanswered."""
        return bool(self._pending)

    # The meaning of messages.

    def read(self, trigger: Command, agent: "MessageReader") -> Command:
        """Return a message as it is submitted: it calls a command, awaits handlers of `input`, or is expanded."""
        self.first_message.set()
        instance = None if agent.extensions is None else agent.extensions.instance
        if instance is not None and instance.has_command(trigger.text):
            if trigger.name == "prompt":
                return trigger._replace(name="extension_command")
            text = errors.not_queueable(trigger.text[1:].partition(" ")[0])
            self._pending[trigger.ref].error = errors.ClientError(text, errors.ErrorCode.NOT_QUEUEABLE)
            return Command("unknown", trigger.ref)
        if instance is not None and instance.reads_input:
            return trigger._replace(unread=True)
        # It names at most a small regular file: to read that takes less time than to reserve a place for the message.
        return trigger._replace(text=agent.expand(trigger.text))

    def read_again(self, command: Command, agent: "MessageReader") -> Command:
        """Return a deferred message as it is read now; other commands as they are."""
        if command.name not in _TEXTS:
            return command
        pending = self._pending[command.ref]
        text = cast("cmd.Prompt", pending.command).message  # the model of this name, or one with the same field
        name = ALIASES.get(pending.name, pending.name)
        return self.read(command._replace(name=name, text=text, unread=False), agent)

    # Responses that the agent requests.

    def accept(self, effect: fx.Accept, text: str | None) -> None:
        """Answer with success, in the shape of the command's generation."""
        self._succeed(effect.ref, _accept_data(self._pending[effect.ref].name, effect, text))

    def accept_repeated(self, ref: int, fate: MessageFate, failure: "SaveError | None") -> None:
        """Answer a message that the session knows: nothing is done with it again. `failure`: why it may be lost."""
        if failure is not None:
            self._fail(ref, errors.ClientError(failure.text, errors.ErrorCode.SESSION_NOT_SAVED))
            return
        data = {"disposition": "duplicate", "state": fate.state}
        self._succeed(ref, data if fate.entry_id is None else {**data, "entryId": fate.entry_id})

    def answer_as_first(self, ref: int, outcome: Outcome) -> None:
        """Answer a repeated message as the command that has sent it first was answered."""
        if ref in self._pending:
            self._write(ref, outcome)

    def accept_result(self, ref: int, result: Mapping[str, object]) -> None:
        """Answer a `compact` or a `navigate_tree` with its result."""
        self._succeed(ref, result)

    def refuse(self, effect: fx.Refuse) -> None:
        """Answer with an error."""
        if effect.reason == "line":
            error = self._pending[effect.ref].error
            self._fail(effect.ref, error or errors.InternalError("Internal error: the line has no error"))
        else:
            self._fail(effect.ref, refusal(effect))

    def answer(self, effect: fx.Answer, agent: "AgentReads") -> None:
        """Answer a read."""
        ref = effect.ref
        pending = self._pending[ref]
        read = Read(agent, effect.view, pending.command)
        if pending.name in QUERIES:
            self._answer(ref, partial(QUERIES[pending.name], read))
        elif pending.name in SLOW_READS:
            self._read_slowly(ref, agent, partial(SLOW_READS[pending.name], read))
        elif pending.name == "get_completions":
            asked = cast("cmd.GetCompletions", pending.command)  # the model of this name
            if self._completing is None:
                from pinnace_rpc.server.completing import Completing  # with the first question

                self._completing = Completing()
            self._completing.start(agent, asked, partial(self._end_read, ref))
        elif pending.name in {"login", "abort_login", "logout"}:
            if self._logins is None:
                from pinnace_rpc.server.logins import Logins  # with the first one

                self._logins = Logins(self.slow_reads)
            command = cast("LoginCommand", pending.command)  # the models of these names
            self._logins.perform(agent, command, partial(self._end_read, ref))
        elif pending.name == "ui_surface_input":
            from pinnace_rpc.server.extension_input import take_surface_input  # of clients that draw

            given = cast("cmd.UiSurfaceInput", pending.command)  # the model of this name
            self._answer(ref, lambda: take_surface_input(given, agent))
        elif pending.name == "run_shortcut":
            from pinnace_rpc.server.extension_input import run_shortcut  # of clients with keys

            key = cast("cmd.RunShortcut", pending.command).key  # the model of this name
            self._answer(ref, lambda: run_shortcut(key, agent))
        else:
            from pinnace_rpc.server.hello import answer_hello  # the older clients have none

            hello = cast("cmd.Hello", pending.command)  # the only one that is left
            is_first = ref == self._first_command
            self._answer(ref, lambda: answer_hello(hello, agent, self._outbox, is_first=is_first))

    def _read_slowly(
        self, ref: int, agent: "AgentReads", begin: Callable[[], Callable[[], Mapping[str, object]]]
    ) -> None:
        """Begin a read of the state as it is now, which is answered when its thread has ended."""
        try:
            self.slow_reads.start(agent.jobs, self._pending[ref].name, begin(), partial(self._end_read, ref))
        except errors.ClientError as error:
            self._fail(ref, error)

    def _end_read(self, ref: int, outcome: Mapping[str, object] | errors.ProtocolError | None) -> None:
        """Answer a command that others have gone on beside."""
        if ref not in self._pending:
            return  # refused meanwhile, since the statechart has failed
        if isinstance(outcome, errors.ProtocolError):
            self._fail(ref, outcome)
        else:
            self._succeed(ref, outcome)

    def perform(self, ref: int, agent: "AgentReads") -> None:
        """Execute a settings command and answer it."""
        pending = self._pending[ref]
        if pending.name in _LATER:
            try:
                self._begin(ref, pending, agent)
            except errors.ClientError as error:
                self._fail(ref, error)
            except Exception as error:  # a defect of ours, as in `_answer`
                _log.exception("%s failed", pending.name)
                self._fail(ref, errors.InternalError(f"Internal error: {error}"))
        else:
            agent.sessions.queue.when_left(ref, partial(self._change, ref, agent))

    def _change(self, ref: int, agent: "AgentReads") -> None:
        if ref in self._pending:  # else it was refused meanwhile, since the statechart has failed
            pending = self._pending[ref]
            self._answer(ref, lambda: SETTINGS[pending.name](agent, pending.command))

    def _begin(self, ref: int, pending: PendingRecord, agent: "AgentReads") -> None:
        """Begin a command about a sub-agent that is answered later.

        Raises:
            ClientError: It is refused at once.
        """
        answer = partial(self._end_read, ref)
        if pending.name == "message_agent":
            if self._given is None:
                from pinnace_rpc.server.agent_messages import GivenMessages  # with the first one

                self._given = GivenMessages()
            self._given.give(agent, ref, cast("cmd.MessageAgent", pending.command), answer)
            return
        if self._started is None:
            from pinnace_rpc.server.started_agents import StartedAgents  # likewise

            self._started = StartedAgents(agent, is_ending=self.is_ending)
        if pending.name == "start_agent":
            self._started.start(ref, cast("cmd.StartAgent", pending.command), answer)
        else:
            self._started.wait(cast("cmd.WaitAgent", pending.command), answer)

    def _answer(self, ref: int, work: Callable[[], Mapping[str, object] | None]) -> None:
        """Answer with the data that `work` returns, or with the error that it raises: every command is answered."""
        name = self._pending[ref].name
        try:
            data = work()
            if data is None and name.startswith("cycle_"):
                self._write(ref, {"success": True, "data": None})
            else:
                self._succeed(ref, data)
        except errors.ClientError as error:
            self._fail(ref, error)
        except Exception as error:  # a defect of ours: logged and answered, and the process continues
            _log.exception("%s failed", name)
            self._fail(ref, errors.InternalError(f"Internal error: {error}"))

    def answer_shell(self, ref: int, shell: "ShellCommand | None") -> None:
        """Answer a `bash`."""
        if shell is not None and shell.failure is not None:
            self._fail(ref, errors.ClientError(shell.failure, shell.failure_code))
        else:
            result = shell.result if shell is not None else None
            self._succeed(ref, CANCELLED if result is None else result)

    def dialog_response(self, ref: int) -> Mapping[str, object]:
        """Return the response to a dialog, which is never answered itself."""
        pending = self._pending.pop(ref)
        response = cast("cmd.ExtensionUiResponse", pending.command)  # the model of this name
        fields = {"value": response.value, "confirmed": response.confirmed, "cancelled": response.cancelled}
        answer = {"id": response.id} | {name: value for name, value in fields.items() if value is not None}
        if self._logins is not None:
            self._logins.take_dialog_answer(answer)
        return answer

    def file_response(self, ref: int) -> Mapping[str, object]:
        """Return the answer to a request for a file, which is never answered itself."""
        answer = cast("cmd.ClientResponse", self._pending.pop(ref).command)  # the model of this name
        return {
            "id": answer.id,
            "success": answer.success,
            "content": answer.content,
            "error": answer.error,
            "errorCode": answer.errorCode,
        }

    def refuse_all(self, text: str) -> None:
        """Answer every open command with an internal error: the statechart has failed, and the process ends."""
        self.defect = text
        self.hurry()
        for ref, pending in tuple(self._pending.items()):
            if pending.name in CLIENT_ANSWERS:
                del self._pending[ref]
            else:
                self.fail_open(ref, errors.InternalError(text))

    def hurry(self) -> None:
        """Begin no work any more, and give reads that others go on beside a moment to end."""
        self.is_ending = True
        self.slow_reads.hurry()
        if self._started is not None:
            self._started.hurry()
        self._end_waiting()

    def _end_waiting(self) -> None:
        """Answer what waits for others than the agent."""
        if self._completing is not None:
            self._completing.end()
        if self._logins is not None:
            self._logins.end()

    def close(self) -> None:
        """Everything is answered and closed, but for the slow reads that still run, and agents that clients started."""
        self._end_waiting()
        closed = partial(self.slow_reads.when_done, self._closed)
        if self._started is None:
            closed()
        else:
            self._started.when_over(closed)

    def fail_open(self, ref: int, error: errors.ProtocolError) -> None:
        """Answer a command with an error, unless it is answered."""
        if ref in self._pending:
            self._fail(ref, error)

    # Fields of commands that the agent reads.

    def shell_request(self, ref: int) -> ShellRequest:
        """Return the shell command of a `bash`."""
        pending = self._pending[ref]
        command = cast("cmd.Bash", pending.command)  # the model of this name
        return ShellRequest(command.command, command.excludeFromContext, pending.id)

    def identity_of(self, ref: int) -> CommandIdentity | None:
        """Return by what a command is recognised when it is repeated; None: it has neither `by` nor an id."""
        pending = self._pending[ref]
        if (by := getattr(pending.command, "by", None)) is not None:
            return CommandIdentity(by, is_lasting=True)
        if pending.id is None or pending.id == "":
            return None
        identity = pending.id if isinstance(pending.id, str) else json.dumps(pending.id)
        return CommandIdentity(identity, is_lasting=False)

    def is_withdrawal(self, ref: int) -> bool:
        """Return whether a command is a `clear_queue`."""
        return self._pending[ref].name == CLEAR_QUEUE

    def command_text(self, ref: int) -> str:
        """Return the text of a prompt that calls a command."""
        return cast("cmd.Prompt", self._pending[ref].command).message  # the model of this name

    def message_name(self, ref: int) -> str | None:
        """Return what the client calls the message that a command sends; None: it has not named it."""
        return self._pending[ref].message_id

    def compact_instructions(self, ref: int) -> str | None:
        """Return the instructions of a `compact` for its summary."""
        return cast("cmd.Compact", self._pending[ref].command).customInstructions  # the model of this name

    def session_request(self, ref: int) -> SessionRequest:
        """Return what a session command requests."""
        pending = self._pending[ref]
        command = pending.command  # each the model of its name
        match pending.name:
            case "new_session":
                return EmptySession(cast("cmd.NewSession", command).parentSession)
            case "switch_session":
                return SwitchSession(cast("cmd.SwitchSession", command).sessionPath)
            case "fork":
                return ForkSession(cast("cmd.Fork", command).entryId)
            case "branch":
                return BranchSession(cast("cmd.Branch", command).entryIndex)
            case "clone":
                return CloneSession()
            case _:  # `reset`
                return EmptySession(None)

    def move_request(self, ref: int) -> MoveRequest:
        """Return where a `navigate_tree` leads."""
        command = cast("cmd.NavigateTree", self._pending[ref].command)  # the model of this name
        return MoveRequest(command.entryId, command.summarize, command.instructions)

    # Responses.

    @property
    def unknown_names(self) -> frozenset[str]:
        """Commands and fields of commands that the client's generation does not have."""
        return self._outbox.projection.unknown_names

    @property
    def _profile(self) -> ClientProfile:
        return self._outbox.projection.profile

    def _succeed(self, ref: int, data: Mapping[str, object] | None) -> None:
        self._write(ref, {"success": True} if data is None else {"success": True, "data": data})

    def _fail(self, ref: int, error: errors.ProtocolError) -> None:
        outcome: dict[str, object] = {"success": False, "error": error.text, "errorCode": error.code}
        if error.did_you_mean is not None:
            outcome["didYouMean"] = error.did_you_mean
        self._write(ref, outcome)

    def _write(self, ref: int, outcome: Outcome) -> None:
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
        if pending.message_id is not None:
            for answer in self._messages.pop(pending.message_id):
                answer(outcome)
        if (on_first := self._on_first) is not None:
            self._on_first = None
            on_first()


class Dispatcher:
    """Takes lines of the client, and submits their commands."""

    def __init__(self, commands: "OpenCommands", agent: "CommandSink") -> None:
        """Submit to an agent, which answers `commands`."""
        self._commands = commands
        self._agent = agent

    def receive(self, line: bytes) -> None:
        """Take one line. Never waits; raises for no content of a line."""
        try:
            command = parse_command(decode_line(line), self._commands.unknown_names)
        except WireError as error:
            refused = errors.ClientError(errors.parse_error(error.text), errors.ErrorCode.PARSE_ERROR)
            self._refuse_line(PendingRecord(errors.PARSE_COMMAND, error=refused), "malformed")
            return
        except CommandError as error:
            if error.command in CLIENT_ANSWERS:
                return  # never answered, even if it is invalid: it is an answer itself (R-UI-01, R-FIL-02)
            pending = PendingRecord(error.command, error.id, error.has_id, error=error)
            self._refuse_line(pending, "malformed" if error.command == errors.PARSE_COMMAND else "unknown")
            return
        except Exception as error:  # the module for invalid commands can't be loaded, for example
            _log.exception("a line could not be read")
            defect = errors.ClientError(f"Internal error: {error}", errors.ErrorCode.INTERNAL_ERROR)
            self._refuse_line(PendingRecord(errors.PARSE_COMMAND, error=defect), "malformed")
            return
        self._admit(command)

    def receive_too_long(self) -> None:
        """Refuse a line that exceeded the limit and was discarded."""
        text = errors.record_too_long(MAX_RECORD_BYTES)
        refused = errors.ClientError(text, errors.ErrorCode.PARSE_ERROR)
        self._refuse_line(PendingRecord(errors.PARSE_COMMAND, error=refused), "malformed")

    def _refuse_line(self, pending: PendingRecord, name: str) -> None:
        self._submit(Command(name, self._commands.add(pending)))

    def _admit(self, command: "cmd.AnyCommand") -> None:
        pending = PendingRecord(command.command_name, command.id, command.has_id, command)
        trigger = _trigger(command, self._commands.add(pending))
        # A message to a sub-agent has an id, too, which is the sub-agent's: the trigger has none.
        self._submit(trigger, trigger.message_id if getattr(command, "messageId", None) is not None else "")

    def _submit(self, trigger: Command, message_id: str = "") -> None:
        """Submit a command; `message_id` is what a client gave its message, so that it may be a repetition."""
        if (defect := self._commands.defect) is not None:
            self._commands.refuse_all(defect)
            return
        try:
            if message_id:
                if self._commands.waits_for_first(message_id, partial(self._repeat, trigger.ref, message_id)):
                    return
                if (fate := self._agent.fate_of(message_id)) is not None:
                    self._agent.sessions.queue.when_saved(
                        trigger.ref, partial(self._commands.accept_repeated, trigger.ref, fate)
                    )
                    return
            if self._commands.is_ending and trigger.name in WORKING:
                # The statechart knows no command behind the end of stdin, and this end has come while that is open.
                self._commands.refuse(fx.Refuse(trigger.ref, "shutdown"))
                return
            if message_id:
                self._commands.begin_message(trigger.ref, message_id)
            if trigger.name == CLEAR_QUEUE and self._agent.returns_again(trigger.ref):
                return
            if trigger.text:
                # Before the statechart takes it, so that queue, session and model have the same text.
                is_starting = self._agent.is_starting
                trigger = trigger._replace(unread=True) if is_starting else self._commands.read(trigger, self._agent)
            self._agent.submit(trigger)
        except Exception as error:  # a defect: the client must get its answer
            _log.exception("%s failed", trigger.name)
            self._commands.fail_open(trigger.ref, errors.InternalError(f"Internal error: {error}"))

    def _repeat(self, ref: int, message_id: str, outcome: Outcome) -> None:
        """Answer a repetition of a message when its first command is answered.

        Not before: a success would accept a message that an abort, or a full disk, may yet have refused.
        """
        data = cast("Mapping[str, object]", outcome.get("data") or {})  # cast: of a message it is an object
        fate = None
        if data.get("disposition") in ("started", "queued"):
            # What is withdrawn in the step that has accepted it is in no queue by now.
            fate = self._agent.fate_of(message_id) or MessageFate("queued")
        if fate is None:  # refused, or an extension has handled it
            self._commands.answer_as_first(ref, outcome)
        else:
            self._agent.sessions.queue.when_saved(ref, partial(self._commands.accept_repeated, ref, fate))


def _trigger(command: "cmd.AnyCommand", ref: int) -> Command:
    name = ALIASES.get(command.command_name, command.command_name)
    match command.command_name:  # each has the model of its name
        case "prompt":
            prompt = cast("cmd.Prompt", command)
            prompt_id, behavior = prompt.messageId or new_message_id(), prompt.streamingBehavior
            return Command(name, ref, prompt.message, prompt.content_blocks, behavior=behavior, message_id=prompt_id)
        case "steer" | "follow_up":
            text = cast("cmd.Steer", command)
            message_id = text.messageId or new_message_id()
            return Command(name, ref, text.message, text.content_blocks, message_id=message_id)
        case "queue_message":
            oldest = cast("cmd.QueueMessage", command)
            return Command(name, ref, oldest.message, oldest.content_blocks, message_id=new_message_id())
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
        if name == "navigate_tree":  # withdrawn before it was begun
            return {"cancelled": True, "aborted": True}
        if name in {"fork", "branch"}:
            data["text"] = text or ""
        return {**data, "cleared": cleared} if cleared else data
    if cleared:
        return cleared if name == "clear_queue" else {"cleared": cleared}
    if effect.disposition and name != "queue_message":
        return Disposition(disposition=effect.disposition)
    return None
