"""Queues: I-QUE-1 (what they show), I-QUE-2 (nothing lost, nothing twice), I-QUE-5 (nothing stranded).

Pure. Messages are identified by their text (`queue_texts`). Where extensions may send messages, messages that no client
sent are not judged. Sources: R-PRM-02, R-QUE-01 to R-QUE-10, C-1, C-2.
"""

from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.state.queue_texts import QUEUES, Text
from pinnace_spec.observers.verdicts import End, Step

# An accepted message begins its run within this time, on a machine that is not overloaded.
_START_S: Final = 1.0
_CHANGERS: Final = TEXT_COMMANDS | SESSION_COMMANDS | {"clear_queue", "abort"}


class QueuesShown(Automaton):
    """`queue_update` and `pendingMessageCount` show the accepted messages that are neither delivered nor returned."""

    id = "I-QUE-1"
    rules = ("R-QUE-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._is_gone = False  # the queues were dropped with their session, without a record

    def take(self, step: Step) -> None:
        """Compare."""
        if self._is_gone:
            self._is_gone = False
            self.fold.queues.forget()
        queues, checks, number = self.fold.queues, self.fold.checks, step.number
        if self.fold.kind == "queue_update":
            self.armed += 1
            self._compare_update(step)
            return
        self._compare_text(step)
        answered = self.fold.commands.answered
        if answered is None or answered.kind != "get_state" or not self.fold.generation.has_queue_update:
            return
        shown = edge.count(edge.inner(edge.as_record(step.record), "data"), "pendingMessageCount")
        if shown is None or not checks.is_whole or checks.has_extensions:
            return
        self.armed += 1
        if shown != queues.pending and queues.session_opened is None and not self.fold.commands.are_open(TEXT_COMMANDS):
            what = f"record {number} counts {shown} pending, the queues hold {queues.pending}"
            last = f"as record {queues.view_step} reports" if queues.view_step else "as nothing was queued"
            # Replacing the session empties the queues, which only our rules want reported.
            replaced = [text.replaced for text in queues.texts if text.replaced and not text.is_over]
            rules = ("R-QUE-09",) if shown == 0 and replaced else self.rules
            self.report(f"{what}, {last}", queues.view_step, *replaced[-1:], number, rules=rules)
            self._is_gone = rules == ("R-QUE-09",)

    def _compare_text(self, step: Step) -> None:
        """A message is shown before it is answered as queued, and no more when it is delivered."""
        queues, answered, number = self.fold.queues, self.fold.commands.answered, step.number
        if not self.fold.generation.has_queue_update or self.fold.checks.has_extensions:
            return
        text = queues.of(answered) if answered is not None else None
        is_hidden = text is not None and text.way in QUEUES and not (text.queued or text.is_over or text.may_change)
        if text is not None and text.accepted == number and is_hidden:
            what = f"record {number} accepts {edge.shown(text.words)} of record {text.sent.number} for a queue"
            self.report(f"{what} that does not show it", text.sent.number, number, rules=("R-QUE-01", "R-PRM-03"))
        text = queues.delivered
        if text is not None and text.queued and not text.unqueued:
            what = f"record {number} delivers {edge.shown(text.words)}, which record {queues.view_step} shows as queued"
            self.report(what, text.queued, queues.view_step, number)

    def _compare_update(self, step: Step) -> None:
        queues, checks, number = self.fold.queues, self.fold.checks, step.number
        for queue in QUEUES:
            if edge.texts(edge.as_record(step.record), queue) is None:
                self.report(f"record {number} does not report the queue {queue}", number)
        if checks.has_inputs and not checks.has_extensions and checks.is_whole:
            for words in queues.strangers:
                self.report(f"record {number} shows {edge.shown(words)} as queued, which no client sent", number)
        for text in queues.out_of_order:
            if text.queued != number:
                what = f"record {number} shows {edge.shown(text.words)} elsewhere than record {text.queued}"
                self.report(f"{what}, or once more", text.sent.number, text.queued, number)
            else:
                self.report(f"record {number} shows {edge.shown(text.words)} twice", text.sent.number, number)


class TextsConserved(Automaton):
    """An accepted message is delivered once, or returned once, or still pending: never lost, never duplicated."""

    id = "I-QUE-2"
    rules = ("R-QUE-03", "R-QUE-04")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._emptied: list[Text] = []  # left a queue without having been delivered
        self._settled_without: list[Text] = []  # of these, those of work that has ended
        self._flagged: set[int] = set()
        self._accepted_at: dict[int, float] = {}
        self._idle: Sent | None = None  # the newest get_state that reported no work

    def take(self, step: Step) -> None:
        """Track the messages."""
        fold, checks = self.fold, self.fold.checks
        queues, number = fold.queues, step.number
        if not checks.has_inputs:
            return
        if queues.delivered is not None:
            self.armed += 1
        elif queues.again is not None:
            self.armed += 1
            self._deliver_again(queues.again, number)
        elif queues.is_unknown and checks.is_whole and not checks.has_extensions:
            words = edge.shown(edge.words(edge.inner(edge.as_record(step.record), "message")))
            self.report(f"record {number} delivers {words}, which no client sent", number)
        answered = fold.commands.answered
        if answered is not None and (text := queues.of(answered)) is not None:
            self._accepted_at[text.sent.number] = step.at
            self._judge_answer(text, number)
        self._see_rest(step)
        self._emptied += queues.removed
        # Not at once: what a command has withdrawn is queued again behind its answer if that can't be saved (R-QUE-12).
        if answered is not None and answered.number > fold.work.settled:
            self._judge_emptied(number)
        if fold.work.settled == number and not fold.commands.are_open(_CHANGERS):
            self._settled_without += self._emptied
            self._emptied = []
            self._judge_own(number)

    def end(self, end: End) -> None:
        """Find lost messages."""
        checks = self.fold.checks
        if end.how != "exit" or not checks.has_inputs or checks.has_extensions:
            return
        self._judge_emptied(self.fold.work.settled)
        queues = self.fold.queues
        shown = {id(text) for view in queues.view.values() for text in view}
        for text in queues.texts:
            is_shown = id(text) in shown and not text.replaced
            if not text.accepted or text.is_over or is_shown or text.may_change:
                continue
            if text.replaced:
                # Its queue was dropped with its session: reported by a queue_update, or silently.
                if text.way == "own" or (text.queued and not text.unqueued):
                    self._lose(text, text.replaced, rules=("R-PRM-02",) if text.way == "own" else ("R-QUE-09",))
            elif self._is_own(text):
                self._lose_at_end(text)
            elif text.unqueued and self.fold.commands.last_input > text.unqueued:
                # Not returned by the end of the process: the client continued after it.
                self._lose(text, text.unqueued, rules=self.rules)
            elif not text.queued and self.fold.generation.has_queue_update and text.way != "any":
                self._lose(text, 0, rules=("R-QUE-01",))

    def _is_own(self, text: Text) -> bool:
        """Return whether an accepted text must have started a run: no queue has shown it, and each would have."""
        return text.way == "own" or (text.way == "any" and not text.queued and self.fold.generation.has_queue_update)

    def _see_rest(self, step: Step) -> None:
        answered = self.fold.commands.answered
        if answered is None or answered.kind != "get_state" or not answered.is_success:
            return
        state = edge.inner(edge.as_record(step.record), "data")
        is_busy = state.get("isStreaming") is not False or state.get("isCompacting") is True
        self._idle = None if is_busy or not self.fold.work.is_resting else answered

    def _lose_at_end(self, text: Text) -> None:
        """Report messages for which no work remained before the end of stdin."""
        if self.fold.work.settled > text.accepted:
            self._lose(text, 0, rules=("R-PRM-02",))
            return
        idle = self._idle if self.fold.checks.has_times and not self.fold.checks.is_overloaded else None
        waited_s = idle.at - self._accepted_at.get(text.sent.number, idle.at) if idle is not None else 0.0
        if idle is None or waited_s < _START_S:
            self._lose(text, 0, rules=("R-EOF-01",))
            return
        self._lose(text, idle.answered, rules=("R-PRM-02",), why=f"{waited_s:.1f} s later nothing works, and ")

    def _judge_answer(self, text: Text, number: int) -> None:
        """An answer comes before its text is reported, and before the run that it starts."""
        words, sent, run = edge.shown(text.words), text.sent.number, self.fold.work.run
        if text.refused and text.delivered:
            what = f"record {number} refuses {words}, which record {text.delivered} had delivered"
            self.report(what, sent, text.delivered, number, rules=("R-PRM-01", "R-PRM-02"))
        elif text.accepted and text.delivered and not text.is_handled:
            what = f"record {number} accepts {words}, which record {text.delivered} had delivered"
            self.report(what, sent, text.delivered, number, rules=("R-PRM-02", "R-PRM-03"))
        elif text.accepted and text.way == "own" and run and not text.may_change and not self._is_free(text):
            what = f"record {number} accepts {words} inside of the run of record {run}"
            self.report(what, sent, run, number, rules=("R-PRM-02", "R-PRM-04"))

    def _is_free(self, text: Text) -> bool:
        """Return whether an accepted text need not start a run of its own."""
        return text.is_handled or self.fold.checks.has_extensions

    def _deliver_again(self, text: Text, number: int) -> None:
        first = text.delivered or text.returned or text.refused
        words, sent = edge.shown(text.words), text.sent.number
        if text.delivered:
            cause = f"record {text.accepted} had accepted" if text.accepted else f"record {sent} had sent"
            what = f"record {number} delivers {words}, which {cause}, a second time; the first was record {first}"
        elif text.returned:
            what = f"record {number} delivers {words}, which record {first} had given back"
        else:
            what = f"record {number} delivers {words}, which record {first} had refused"
        self.report(what, sent, text.accepted, first, number)

    def _judge_emptied(self, number: int) -> None:
        """Messages that left a queue during work, without an outcome when the work has ended."""
        for text in self._settled_without:
            if text.unqueued and not text.is_over and not text.replaced:
                self._lose(text, number, rules=self.rules)
        self._settled_without = []

    def _judge_own(self, number: int) -> None:
        """A prompt that was accepted before the work settled has been delivered."""
        last = self.fold.queues.last_accepted
        # An agent that settles inside of a run may still deliver it.
        if last is None or last.is_over or last.may_change or self.fold.checks.has_extensions:
            return
        if not self._is_own(last):
            return
        if self.fold.work.run:
            return
        self._lose(last, number, rules=("R-PRM-02",))

    def _lose(self, text: Text, number: int, rules: tuple[str, ...], why: str = "") -> None:
        if text.sent.number in self._flagged:
            return
        self._flagged.add(text.sent.number)
        what = f"{edge.shown(text.words)}, which record {text.accepted or text.sent.number} accepted, is lost"
        if number:
            what = f"{what}: {why}by record {number} it is neither delivered nor returned nor pending"
        self.report(what, text.sent.number, text.accepted, number, rules=rules)


class NothingStranded(Automaton):
    """Once settled nothing is pending, unless an abort has paused the queue."""

    id = "I-QUE-5"
    rules = ("C-2",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._suspect = 0  # settled with something pending; the end of stdin would explain it
        self._flagged = 0

    def take(self, step: Step) -> None:
        """Take a step."""
        queues, number, checks = self.fold.queues, step.number, self.fold.checks
        if not checks.has_inputs or checks.has_extensions or not checks.is_whole:
            return
        if self.fold.kind == "agent_settled":
            self.armed += 1
            self._suspect = number if self._is_stranded() else 0
        elif self.fold.work.active == number:
            self._suspect = 0
        elif self.fold.commands.sent is not None and self._suspect:
            suspect, self._suspect = self._suspect, 0
            if self._is_stranded():
                self._learn(suspect, queues.view_step)
        answered = self.fold.commands.answered
        if answered is not None and answered.kind == "get_state" and answered.is_success:
            state = edge.inner(edge.as_record(step.record), "data")
            pending = edge.count(state, "pendingMessageCount") or 0
            is_idle = state.get("isStreaming") is False and state.get("isCompacting") is False
            if is_idle and pending:
                self.armed += 1
                is_known = queues.session_opened is None
                if (
                    is_known
                    and not queues.is_held
                    and not self.fold.commands.are_open(TEXT_COMMANDS | {"abort", "compact"})
                ):
                    self._learn(number, queues.view_step)

    def end(self, end: End) -> None:
        """Without an end of stdin in between, a suspicion is a finding."""
        if self._suspect and end.after is not None and end.after >= self._suspect:
            self._learn(self._suspect, self.fold.queues.view_step)

    def _is_stranded(self) -> bool:
        fold = self.fold
        if not fold.queues.pending or fold.queues.is_held:
            return False
        # Unanswered commands may resume or pause the queue.
        return not fold.commands.are_open(_CHANGERS)

    def _learn(self, number: int, shown: int) -> None:
        if self._flagged != shown or not shown:
            self._flagged = shown
            what = f"record {number} is at rest with {self.fold.queues.pending} texts queued, and no abort holds them"
            self.report(what, shown, number)
