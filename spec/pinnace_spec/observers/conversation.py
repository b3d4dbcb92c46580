"""The messages of the context, as the records before have told them.

Pure. A part of the fold (`fold`). Remembers every message, since `get_messages` shows every message. What a compaction,
a fork or another session leaves of them is not in the records: then the next `get_messages` is taken for what it says.
Judges nothing. Rules R-BSH-03, R-CMP-01, R-RTY-01, R-MSG-01.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.commands import SESSION_COMMANDS, Commands, Sent
from pinnace_spec.observers.verdicts import Record, Step


@dataclass(slots=True, eq=False)
class Told:
    """One message, and the step that told it."""

    message: Record
    number: int
    is_optional: bool = False
    """A failure that was tried again: it leaves the context, sooner or later."""


class Compacted(NamedTuple):
    """What a compaction left."""

    number: int
    summary: str

    def is_user_message(self, message: Record) -> bool:
        """Tell whether a message shows the summary as the user's: the published protocol lists no role for it."""
        return message.get("role") == "user" and bool(self.summary) and self.summary in edge.words(message)


Knowledge = Literal["all", "tail", "nothing"]
"""All of the context is told; what stands behind a summary; nothing that could be compared."""


@dataclass(slots=True)
class Conversation:
    """What is told of the context."""

    knowledge: Knowledge = "all"
    told: list[Told] = field(default_factory=list[Told])
    shells: list[Told] = field(default_factory=list[Told])
    """Results of the client's `bash`, which enter where the agent finds a place for them."""
    compacted: Compacted | None = None
    is_straight: bool = True
    """The session has never been compacted, forked or replaced: its file holds what its context does."""
    has_user_summary: bool = False
    """The first message that was shown is a summary under the role of the user."""
    _replaced: int = 0

    def advance(self, step: Step, commands: Commands) -> None:
        """Take a step that `commands` has taken."""
        if step.direction == "in" or step.record is None:
            return
        if commands.answered is not None:
            is_leaving = commands.are_open(SESSION_COMMANDS)
            self._answer(commands.answered, step.number, step.record, is_leaving=is_leaving)
            return
        match edge.out_kind(step):
            case "message_end":
                self.told.append(Told(edge.inner(step.record, "message"), step.number))
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
            case _:
                pass

    def learn(self, messages: list[Record], number: int) -> None:
        """Take what the agent shows for what the context is."""
        first: Record = messages[0] if messages else {}
        if self.compacted is not None:
            self.has_user_summary = self.compacted.is_user_message(first)
        elif not (self.told and edge.is_equal(self.told[0].message, first)):
            self.has_user_summary = False
        self.knowledge, self.compacted = "all", None
        # A result that is not there yet comes with the next text; one that said the same may have been there before.
        entered = _shells(messages) - _shells([told.message for told in self.told])
        self.told = [Told(message, number) for message in messages]
        waiting: list[Told] = []
        for shell in self.shells:
            key = _shell_key(shell.message)
            if entered[key] > 0:
                entered[key] -= 1
            else:
                waiting.append(shell)
        self.shells = waiting

    def _drop_failure(self) -> None:
        for told in reversed(self.told):
            if told.message.get("role") == "assistant":
                told.is_optional = edge.text(told.message, "stopReason") in {"error", "length"}
                return

    def _compact(self, number: int, summary: str) -> None:
        self.compacted, self.is_straight = Compacted(number, summary), False
        if self.knowledge == "all":
            self.knowledge = "tail"

    def _answer(self, sent: Sent, number: int, record: Record, *, is_leaving: bool) -> None:
        if not sent.is_success:
            return
        data = edge.inner(record, "data")
        if sent.kind == "bash":
            shell = {"role": "bashExecution", "command": sent.record.get("command"), "output": data.get("output")}
            # What was begun in a session that is gone, or may be, is recorded there; what never began, nowhere.
            is_unborn = data.get("cancelled") is True and not data.get("output") and data.get("exitCode") is None
            is_elsewhere = sent.number < self._replaced or is_leaving
            self.shells.append(Told(shell, number, is_optional=is_unborn or is_elsewhere))
        elif sent.kind == "compact" and self.compacted is None and self.is_straight:
            # Older generations compact without a record.
            self._compact(number, edge.text(data, "summary"))
        elif sent.kind in SESSION_COMMANDS and data.get("cancelled") is not True:
            self._replaced = number
            if sent.kind in {"new_session", "reset"}:
                # Of two that are under way at once nobody knows which comes last.
                self.knowledge, self.told, self.shells = "nothing" if is_leaving else "all", [], []
                self.compacted, self.is_straight = None, True
                return
            self.is_straight = False
            if sent.kind != "clone" or is_leaving:
                self.knowledge, self.shells = "nothing", []
            for told in reversed(self.told):
                if told.number < sent.number:
                    break
                told.is_optional = True  # a copy of what there was when it was asked for is one, too


def _shells(messages: Iterable[Record]) -> Counter[tuple[str, str]]:
    return Counter(_shell_key(message) for message in messages if message.get("role") == "bashExecution")


def _shell_key(message: Record) -> tuple[str, str]:
    return edge.text(message, "command"), edge.text(message, "output")


def is_shell(message: Record, shell: Told) -> bool:
    """Tell whether a message is the result of that `bash`."""
    return _shell_key(message) == _shell_key(shell.message)
