"""What extensions say: messages of their own, and words of the user.

Where a message goes depends on what the agent does when it is said: into a queue, behind the turn, to the next prompt,
or into the session at once. What is said while handlers of `agent_settled` run is kept until the last one is done
(R29). Must not know who says it. A11, A12.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.command_runs import RUNTIME
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_view import Content, CustomDraft, DeliverAs
from pinnace_agent.extensions.registrations import ErrorRecord
from pinnace_agent.run_log import RunLog
from pinnace_spec import errors
from pinnace_spec.messages import CustomMessage
from pinnace_statechart.triggers import Command

if TYPE_CHECKING:
    from pinnace_agent.extension_host.seat import ExtensionSeat


class Speech:
    """Takes what the extensions of one process say."""

    def __init__(self, seat: "ExtensionSeat") -> None:
        """Say nothing yet."""
        self._seat = seat
        self._kept: list[Callable[[], None]] | None = None
        self.next_turn: list[CustomMessage] = []
        """What goes with the next prompt of the user."""
        self.after_turn: list[CustomMessage] = []
        """What is appended once the turn is over."""
        self._commands: list[str] = []  # queued as follow-ups: run when the agent has settled

    @property
    def has_kept(self) -> bool:
        """Whether something is still to be said."""
        return bool(self._kept)

    def begin_settling(self) -> None:
        """Keep what is said from now on."""
        if self._kept is None:
            self._kept = []

    def end_settling(self) -> None:
        """Say what was kept, in order."""
        kept, self._kept = self._kept or [], None
        for say in kept:
            say()

    def run_queued_commands(self, *, aborted: bool) -> None:
        """Run the commands that were queued as follow-ups: the agent has settled. After an abort none is run."""
        if not (aborted or self._seat.host.idleness.is_idle):
            return  # something has begun meanwhile: what was queued behind the run is behind that, too
        texts, self._commands = self._commands, []
        for text in texts:
            if aborted:
                self._refused("send_user_message", f"{text.split()[0]} was queued and was not run: the run was aborted")
            else:
                self._run_command(text)

    def _run_command(self, text: str) -> None:
        host = self._seat.host
        request = host.requests.new()
        request.text = text
        request.on_refused = partial(self._refused, "send_user_message")
        host.submit(Command("extension_command", request.ref, text))

    def message(self, draft: CustomDraft, deliver_as: DeliverAs | None, *, triggers_turn: bool | None) -> None:
        """Put a message of an extension into the conversation."""
        if self._kept is not None:
            self._kept.append(partial(self.message, draft, deliver_as, triggers_turn=triggers_turn))
            return
        host = self._seat.host
        if host.is_closing:
            self._refused("send_message", errors.SHUTTING_DOWN)
            return
        message = custom_message(draft, host.session.now_ms())
        if deliver_as == "nextTurn":
            self.next_turn.append(message)
        elif host.idleness.is_at_work and triggers_turn is False:
            self.after_turn.append(message)
        elif host.idleness.is_at_work or triggers_turn:
            name = "follow_up" if deliver_as == "followUp" else "steer"
            request = host.requests.new()
            request.on_refused = partial(self._refused, "send_message")
            host.submit(Command(name, request.ref, text=_text(draft.content), custom=message))
        else:
            self._say_aside(message)

    def say_rest(self, log: RunLog | None) -> None:
        """Append what was to follow the turn: into the turn that begins, or beside runs if there is none."""
        messages, self.after_turn = self.after_turn, []
        for message in messages:
            if log is not None:
                log.add(message)
            else:
                self._say_aside(message)

    def _say_aside(self, message: CustomMessage) -> None:
        """Append a message that belongs to no run, and tell it."""
        host, runner = self._seat.host, self._seat.runner
        host.emitter.emit({"type": "message_start", "message": message})
        host.session.keep(message)
        host.emitter.emit({"type": "message_end", "message": message})
        if runner is not None:
            shown = cast("CustomMessage", frozen(message))  # cast: a copy of it
            runner.lane.put("message_start", lambda: ev.MessageStart(message=shown))
            runner.lane.put("message_end", lambda: ev.MessageEnd(message=shown))
            runner.tell_rest()

    def user_message(self, content: Content, deliver_as: DeliverAs | None, *, expands: bool | None) -> None:
        """Say something as the user. Without `expands`, only a command that is queued as a follow-up counts as one."""
        if self._kept is not None:
            self._kept.append(partial(self.user_message, content, deliver_as, expands=expands))
            return
        host, runner = self._seat.host, self._seat.runner
        if host.is_closing:
            self._refused("send_user_message", errors.SHUTTING_DOWN)
            return
        text = _text(content)
        images: tuple[object, ...] = ()
        if not isinstance(content, str):
            images = tuple(block for block in content if block["type"] == "image")
        is_queued = deliver_as == "followUp" and expands is not False
        if (expands or is_queued) and runner is not None and runner.commands.find(text) is not None:
            # DEVIATION D-50: a queued command is a command.
            if is_queued and not host.idleness.is_idle:
                self._commands.append(text)
            else:
                self._run_command(text)
            return
        request = host.requests.new()
        request.text = text
        request.on_refused = partial(self._refused, "send_user_message")
        unread = runner is not None and runner.has_handlers("input")
        if expands and not unread:
            text = host.expand(text)
        if host.idleness.is_idle or deliver_as is None:
            # Busy, and not told how to be queued: refused, as a client's would be.
            name = "prompt"
        else:
            name = "steer" if deliver_as == "steer" else "follow_up"
        host.submit(Command(name, request.ref, text, images, unread=unread))

    def _refused(self, event: str, problem: str) -> None:
        self._seat.tell(ErrorRecord(RUNTIME, event, problem))


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
