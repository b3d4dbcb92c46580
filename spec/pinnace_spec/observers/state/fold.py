"""The agent's state as the records so far show it to an outside observer; the observers of a trace share one fold.

Pure; linear in the trace. Judges nothing and is independent of the statechart: a defect of the statechart must not hide
itself here.
"""

from pinnace_spec.observers import edge
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS, SentCommands
from pinnace_spec.observers.state.conversation import Conversation
from pinnace_spec.observers.state.queue_texts import QueueTexts
from pinnace_spec.observers.state.settings import Settings
from pinnace_spec.observers.state.work import Work
from pinnace_spec.observers.verdicts import Checks, Step, Verdict
from pinnace_spec.profiles.generations import Generation

# Commands that may start or end a run while they are pending.
_STARTERS = TEXT_COMMANDS | SESSION_COMMANDS | {"abort", "abort_retry", "compact", "clear_queue"}


class Fold:
    """All parts, kept in step."""

    def __init__(self, generation: Generation, checks: Checks) -> None:
        """Begin before the first step."""
        self.generation = generation
        self.checks = checks
        self.commands = SentCommands()
        self.work = Work()
        self.queues = QueueTexts(has_former=not checks.is_fresh, session_opened=None if checks.is_fresh else 0)
        self.settings = Settings()
        self.conversation = Conversation(knowledge="all" if checks.is_whole and checks.is_fresh else "nothing")
        self.is_quiet = checks.is_whole
        """No work is open, and no pending command may start some. False if this is unknown."""
        self.step: Step | None = None
        """The newest step that was taken."""
        self.kind = ""
        """Its `edge.out_kind`: read once for all observers."""
        self.found: list[Verdict] = []
        """Violations that observers have reported since `take_found`."""

    def advance(self, step: Step) -> None:
        """Take a step, once for all observers."""
        if step is self.step:
            return
        self.step, self.kind = step, edge.out_kind(step)
        self.commands.advance(step)
        self.work.advance(step)
        self.queues.advance(step, self.commands)
        self.settings.advance(step, self.commands)
        self.conversation.advance(step, self.commands)
        self._listen(step)

    def take_found(self) -> list[Verdict]:
        """Return what was reported since the last call."""
        if not (found := self.found):
            return []
        self.found = []
        return found

    def _listen(self, step: Step) -> None:
        sent, answered = self.commands.sent, self.commands.answered
        if self.checks.has_extensions or not self.checks.has_inputs:
            self.is_quiet = False
        elif sent is not None:
            self.is_quiet = self.is_quiet and sent.kind not in _STARTERS
        elif self.work.active == step.number:
            is_over = self.work.settled == step.number and self.work.is_resting
            self.is_quiet = is_over and not self._may_start()
        elif answered is not None and answered.is_success and self.work.is_resting and not self._may_start():
            data = edge.inner(edge.as_record(step.record), "data")
            is_idle = answered.kind == "get_state" and data.get("isStreaming") is False
            is_new = answered.kind in {"new_session", "reset"} and data.get("cancelled") is not True
            # abort_retry is answered at once, also where nothing waited to be tried again.
            is_ended = answered.kind in {"abort", "compact"} and answered.record.get("queue") != "continue"
            self.is_quiet = self.is_quiet or is_idle or is_new or is_ended

    def _may_start(self) -> bool:
        if self.queues.pending and not self.queues.is_held:
            return True
        return self.commands.are_open(_STARTERS)
