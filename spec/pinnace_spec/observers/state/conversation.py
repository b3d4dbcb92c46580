"""The messages of the context, as the records before have reported them.

Pure. A part of the fold (`fold`). Remembers every message, since `get_messages` shows every message. Records do not
show which of them remain after a compaction, a fork, a move or another session: then the next `get_messages` is
trusted. Judges nothing. Rules R-BSH-03, R-CMP-01, R-RTY-01, R-MSG-01.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, Sent, SentCommands
from pinnace_spec.observers.verdicts import Record, Step

_CHANGERS: Final = SESSION_COMMANDS | {"navigate_tree"}


@dataclass(slots=True, eq=False)
class Reported:
    """One message, and the step that reported it."""

    message: Record
    number: int
    is_optional: bool = False
    """A failure that was tried again: it leaves the context, sooner or later."""


class Compacted(NamedTuple):
    """What a compaction left."""

    number: int
    summary: str

    def is_user_message(self, message: Record) -> bool:
        """Return whether a message shows the summary as the user's: the published protocol lists no role for it."""
        return message.get("role") == "user" and bool(self.summary) and self.summary in edge.words(message)


Knowledge = Literal["all", "tail", "nothing"]
"""The whole context is reported; the part after a summary; nothing that can be compared."""


@dataclass(slots=True)
class Conversation:
    """The reported messages of the context."""

    knowledge: Knowledge = "all"
    reported: list[Reported] = field(default_factory=list[Reported])
    shells: list[Reported] = field(default_factory=list[Reported])
    """Results of the client's `bash`, whose place in the context the agent chooses."""
    compacted: Compacted | None = None
    is_straight: bool = True
    """The session has never been compacted, forked or replaced: its file has the messages of its context."""
    has_retried: bool = False
    """The file has a failure that was taken out of the context."""
    has_user_summary: bool = False
    """The first message that was shown is a summary under the role of the user."""
    _replaced: int = 0

    def advance(self, step: Step, commands: SentCommands) -> None:
        """Take a step that `commands` has taken."""
        if step.direction == "in" or step.record is None:
            return
        if commands.answered is not None:
            is_leaving = commands.are_open(SESSION_COMMANDS)
            self._answer(commands.answered, step.number, step.record, is_leaving=is_leaving)
            return
        match edge.out_kind(step):
            case "message_end":
                self.reported.append(Reported(edge.inner(step.record, "message"), step.number))
            case "auto_retry_start":
                self._drop_failure()
            case "compaction_start" if step.record.get("reason") == "overflow":
                self._drop_failure()
            case "compaction_end":
                result = step.record.get("result")
                if edge.is_object(result):
                    self._compact(step.number, edge.text(edge.as_record(result), "summary"))
            case "entry_appended":
                # An extension may have added a message.
                self.knowledge = "nothing"
            case "session_changed" if step.record.get("by") != "client" or not commands.are_open(_CHANGERS):
                # Of a command of this client the response is trusted: it is known what that has left.
                self.knowledge, self.compacted, self.is_straight, self.shells = "nothing", None, False, []
            case _:
                pass

    def learn(self, messages: list[Record], number: int) -> None:
        """Take the agent's messages as the context."""
        first: Record = messages[0] if messages else {}
        if self.compacted is not None:
            self.has_user_summary = self.compacted.is_user_message(first)
        elif not (self.reported and edge.is_equal(self.reported[0].message, first)):
            self.has_user_summary = False
        self.knowledge, self.compacted = "all", None
        # A missing result comes with the next message; an equal one may have been there before.
        entered = _shells(messages) - _shells([reported.message for reported in self.reported])
        self.reported = [Reported(message, number) for message in messages]
        waiting: list[Reported] = []
        for shell in self.shells:
            key = _shell_key(shell.message)
            if entered[key] > 0:
                entered[key] -= 1
            else:
                waiting.append(shell)
        self.shells = waiting

    def _drop_failure(self) -> None:
        for reported in reversed(self.reported):
            if reported.message.get("role") == "assistant":
                reported.is_optional = edge.text(reported.message, "stopReason") in {"error", "length"}
                self.has_retried |= reported.is_optional
                return

    def _compact(self, number: int, summary: str) -> None:
        self.compacted, self.is_straight = Compacted(number, summary), False
        if self.knowledge == "all":
            self.knowledge = "tail"
        for shell in self.shells:
            shell.is_optional = True  # it may be in the summary

    def _answer(self, sent: Sent, number: int, record: Record, *, is_leaving: bool) -> None:
        if not sent.is_success:
            return
        data = edge.inner(record, "data")
        if sent.kind == "bash":
            shell = {"role": "bashExecution", "command": sent.record.get("command"), "output": data.get("output")}
            # A `bash` that was begun in a former session is recorded there; one that never began, nowhere.
            is_unborn = data.get("cancelled") is True and not data.get("output") and data.get("exitCode") is None
            is_elsewhere = sent.number < self._replaced or is_leaving
            self.shells.append(Reported(shell, number, is_optional=is_unborn or is_elsewhere))
        elif sent.kind == "compact" and self.compacted is None and self.is_straight:
            # Older generations compact without a record.
            self._compact(number, edge.text(data, "summary"))
        elif sent.kind == "navigate_tree" and data.get("cancelled") is not True:
            self.knowledge, self.compacted, self.is_straight = "nothing", None, False
            for each in self.shells:
                each.is_optional = True  # it may be on the branch that was left
        elif sent.kind in SESSION_COMMANDS and data.get("cancelled") is not True:
            self._replaced = number
            if sent.kind in {"new_session", "reset"}:
                # The order of two that are under way at once is unknown.
                self.knowledge, self.reported, self.shells = "nothing" if is_leaving else "all", [], []
                self.compacted, self.is_straight, self.has_retried = None, True, False
                return
            self.is_straight = False
            if sent.kind != "clone" or is_leaving:
                self.knowledge, self.shells = "nothing", []
            for reported in reversed(self.reported):
                if reported.number < sent.number:
                    break
                reported.is_optional = True  # a copy of the state at the time of the command is valid, too


def _shells(messages: Iterable[Record]) -> Counter[tuple[str, str]]:
    return Counter(_shell_key(message) for message in messages if message.get("role") == "bashExecution")


def _shell_key(message: Record) -> tuple[str, str]:
    return edge.text(message, "command"), edge.text(message, "output")


def is_shell(message: Record, shell: Reported) -> bool:
    """Return whether a message is the result of that `bash`."""
    return _shell_key(message) == _shell_key(shell.message)
