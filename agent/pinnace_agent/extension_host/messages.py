"""Messages that extensions send: custom ones, and messages in the user's name.

Where a message goes depends on what the agent does when it is sent: into a queue, behind the turn, to the next prompt,
or into the session at once. Messages that are sent while handlers of `agent_settled` run are kept until the last
handler is done.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.ports.host_view import Content, CustomDraft, DeliverAs
from pinnace_agent.extensions.registration.registrations import ErrorRecord
from pinnace_agent.extensions.runtime.commands import RUNTIME
from pinnace_agent.session.identity import new_message_id
from pinnace_spec.records.messages import CustomMessage
from pinnace_spec.rules import errors
from pinnace_statechart.triggers import Command

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.runs import RecordedRun
    from pinnace_agent.extension_host.ports import InstanceHost


class MessageInjector:
    """Takes the messages of the extensions of one process."""

    def __init__(self, host: "InstanceHost") -> None:
        """Begin without a message."""
        self._host = host
        self._agent = host.agent
        self._kept: list[Callable[[], None]] | None = None  # while handlers of `agent_settled` run
        self.next_turn: list[CustomMessage] = []
        """Messages that follow the next prompt of the user."""
        self.after_turn: list[CustomMessage] = []
        """Messages that are appended once the turn is over."""
        self._commands: list[str] = []  # queued as follow-ups: run when the agent has settled

    def begin_settling(self) -> None:
        """Keep messages from now on."""
        if self._kept is None:
            self._kept = []

    def end_settling(self) -> None:
        """Send the messages that were kept, in order."""
        kept, self._kept = self._kept or [], None
        for send in kept:
            send()

    def run_queued_commands(self, *, aborted: bool) -> None:
        """Run the commands that were queued as follow-ups: the agent has settled. After an abort none is run."""
        if not (aborted or self._agent.idle.is_idle):
            return  # another run has begun: commands that were queued behind the former run wait for it, too
        texts, self._commands = self._commands, []
        for text in texts:
            if aborted:
                self._refused("send_user_message", f"{text.split()[0]} was queued and was not run: the run was aborted")
            else:
                self._run_command(text)

    def _run_command(self, text: str) -> None:
        agent = self._agent
        request = agent.internal_commands.new()
        request.text = text
        request.on_refused = partial(self._refused, "send_user_message")
        agent.submit(Command("extension_command", request.ref, text))

    def message(self, draft: CustomDraft, deliver_as: DeliverAs | None, *, triggers_turn: bool | None) -> None:
        """Put a message of an extension into the conversation."""
        if self._kept is not None:
            self._kept.append(partial(self.message, draft, deliver_as, triggers_turn=triggers_turn))
            return
        agent = self._agent
        if agent.is_closing:
            self._refused("send_message", errors.SHUTTING_DOWN)
            return
        message = custom_message(draft, agent.session.now_ms())
        if deliver_as == "nextTurn":
            self.next_turn.append(message)
        elif agent.idle.is_switching and not triggers_turn:
            self._append_aside(message)  # no run is open that it could steer, and it must not begin one
        elif agent.idle.is_at_work and triggers_turn is False:
            self.after_turn.append(message)
        elif agent.idle.is_at_work or triggers_turn:
            name = "follow_up" if deliver_as == "followUp" else "steer"
            request = agent.internal_commands.new()
            request.on_refused = partial(self._refused, "send_message")
            agent.submit(Command(name, request.ref, text=_text(draft.content), custom=message))
        else:
            self._append_aside(message)

    def append_rest(self, run: "RecordedRun | None") -> None:
        """Append the messages that follow a turn: to the turn that begins, or beside runs if there is none."""
        messages, self.after_turn = self.after_turn, []
        for message in messages:
            if run is not None:
                run.add(message)
            else:
                self._append_aside(message)

    def _append_aside(self, message: CustomMessage) -> None:
        """Append a message that belongs to no run, and emit its records."""
        agent, runner = self._agent, self._host.runner
        entry_id = agent.session.reserve_entry_id()
        agent.emitter.emit({"type": "message_start", "entryId": entry_id, "message": message})
        agent.session.keep(message, entry_id=entry_id)
        agent.emitter.emit({"type": "message_end", "entryId": entry_id, "message": message})
        if runner is not None:
            shown = cast("CustomMessage", frozen(message))  # cast: a copy of it
            runner.lane.put("message_start", lambda: ev.MessageStart(message=shown))
            runner.lane.put("message_end", lambda: ev.MessageEnd(message=shown))
            runner.drain_later()

    def user_message(self, content: Content, deliver_as: DeliverAs | None, *, expands: bool | None) -> None:
        """Send a message as the user. Without `expands`, only a command that is queued as a follow-up counts as one."""
        if self._kept is not None:
            self._kept.append(partial(self.user_message, content, deliver_as, expands=expands))
            return
        agent, runner = self._agent, self._host.runner
        if agent.is_closing:
            self._refused("send_user_message", errors.SHUTTING_DOWN)
            return
        text = _text(content)
        images: tuple[object, ...] = ()
        if not isinstance(content, str):
            images = tuple(block for block in content if block["type"] == "image")
        is_queued = deliver_as == "followUp" and expands is not False
        if (expands or is_queued) and runner is not None and runner.commands.find(text) is not None:
            # DEVIATION D-50: a queued command is a command.
            if is_queued and not agent.idle.is_idle:
                self._commands.append(text)
            else:
                self._run_command(text)
            return
        request = agent.internal_commands.new()
        request.text = text
        request.on_refused = partial(self._refused, "send_user_message")
        unread = runner is not None and runner.has_handlers("input")
        if expands and not unread:
            text = agent.expand(text)
        if agent.idle.is_idle or deliver_as is None:
            # Busy, and without a queue: refused, like a client's.
            name = "prompt"
        else:
            name = "steer" if deliver_as == "steer" else "follow_up"
        agent.submit(Command(name, request.ref, text, images, unread=unread, message_id=new_message_id(), saved=True))

    def _refused(self, event: str, problem: str) -> None:
        self._host.report(ErrorRecord(RUNTIME, event, problem))


def custom_message(draft: CustomDraft, timestamp_ms: int) -> CustomMessage:
    """Make the message of a draft."""
    message: CustomMessage = {
        "role": "custom",
        "customType": draft.custom_type,
        "content": draft.content,
        "display": draft.display,
        "timestamp": timestamp_ms,
    }
    if draft.details is not None:
        message["details"] = draft.details
    return message


def _text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
