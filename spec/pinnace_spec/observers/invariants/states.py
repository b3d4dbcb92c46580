"""Reads of the state: I-STA-1 (it agrees with the records before it), I-STA-2 (a refused change changes nothing).

Pure. A read shows what the records before it have reported; where a pending command may change it, nothing is judged.
Sources: R-STA-01, R-QUE-01, R-ERR-03, C-8.
"""

import re
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.invariants.contexts import WRITERS
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS, Sent
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.state.settings import FIELDS, SETTERS, shown_value
from pinnace_spec.observers.verdicts import Record, Step

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ENDERS: Final = SESSION_COMMANDS | {"abort", "compact"}
# Names may be trimmed, models chosen by a pattern, levels fitted to the model.
_AS_SET: Final = ("steeringMode", "followUpMode", "autoCompactionEnabled", "sessionName", "modelId", "toolApproval")


class StateAgrees(Automaton):
    """`get_state` agrees with the records before it."""

    id = "I-STA-1"
    rules = ("R-STA-01",)

    def take(self, step: Step) -> None:
        """Compare a state."""
        answered = self.fold.commands.answered
        if answered is None or answered.kind != "get_state" or not answered.is_success:
            self._remember(step)
            return
        self.armed += 1
        state = edge.inner(edge.as_record(step.record), "data")
        self._compare_work(step.number, state)
        self._compare_queues(step.number, state)
        self._compare_settings(step.number, state)
        self._compare_count(step.number, state)
        self._known = dict(self.fold.settings.known)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._known = dict(fold.settings.known)
        self._was_quiet = fold.is_quiet

    def _remember(self, step: Step) -> None:
        # The fold takes the values of a state: it is compared with what was known before.
        settings = self.fold.settings
        if step.direction == "out" and settings.changed == step.number:
            self._known = dict(settings.known)
        self._was_quiet = self.fold.is_quiet

    def _compare_work(self, number: int, state: Record) -> None:
        work, streaming, compacting = self.fold.work, state.get("isStreaming"), state.get("isCompacting")
        if streaming is False and work.run:
            self.report(f"record {number} shows isStreaming false in the run of record {work.run}", work.run, number)
        elif streaming is False and work.retry:
            what = f"record {number} shows isStreaming false in the retry of record {work.retry}"
            self.report(what, work.retry, number, rules=("C-8",))
        elif streaming is True and self._was_quiet and self.fold.generation.has_settled:
            what = f"record {number} shows isStreaming true, though nothing works"
            what += f" since record {work.settled} settled" if work.settled else " yet"
            self.report(what, work.settled, number)
        # An abort is reported when what it ends is closed, and works before that.
        if compacting is False and work.compaction and not self.fold.commands.are_open(_ENDERS):
            what = f"record {number} shows isCompacting false in the compaction of record {work.compaction}"
            self.report(what, work.compaction, number)
        elif compacting is True and not work.compaction and self._reports_compactions():
            self.report(f"record {number} shows isCompacting true, and no compaction has begun", number)

    def _reports_compactions(self) -> bool:
        """Return whether a compaction without a record is possible now."""
        fold = self.fold
        if fold.checks.has_extensions or not fold.checks.is_whole:
            return False
        # A move that has a summary written counts as a compaction.
        is_asked = fold.commands.are_open(SESSION_COMMANDS | {"compact", "navigate_tree"})
        return fold.generation.has_compaction_records and not is_asked

    def _compare_queues(self, number: int, state: Record) -> None:
        queues, checks = self.fold.queues, self.fold.checks
        shown = edge.count(state, "pendingMessageCount")
        if shown is None or not queues.view_step or checks.has_extensions:
            return
        if shown != queues.pending and not self.fold.commands.are_open(TEXT_COMMANDS):
            what = f"record {number} shows {shown} pending, record {queues.view_step} {queues.pending}"
            replaced = [text for text in queues.texts if text.replaced and not text.is_over]
            rules = ("R-QUE-09",) if shown == 0 and replaced else ("R-QUE-01",)
            self.report(what, queues.view_step, number, rules=rules)

    def _compare_settings(self, number: int, state: Record) -> None:
        commands, settings = self.fold.commands, self.fold.settings
        for name in _AS_SET:
            known = self._known.get(name)
            if known is None or self.fold.checks.has_extensions or settings.expected(name, commands) is None:
                continue
            shown = shown_value(state, name)
            if not _is_same(shown, known.value):
                what = f"record {number} shows {name} {edge.shown(str(shown))}"
                self.report(f"{what}, record {known.number} {edge.shown(str(known.value))}", known.number, number)

    def _compare_count(self, number: int, state: Record) -> None:
        conversation, fold = self.fold.conversation, self.fold
        shown = edge.count(state, "messageCount")
        is_still = fold.is_quiet and self._was_quiet and not fold.commands.are_open(WRITERS)
        if shown is None or conversation.knowledge != "all" or not is_still or fold.checks.has_extensions:
            return
        most = len(conversation.reported) + len(conversation.shells)
        least = most - sum(reported.is_optional for reported in (*conversation.reported, *conversation.shells))
        if not least <= shown <= most:
            last = conversation.reported[-1].number if conversation.reported else 0
            what = f"record {number} counts {shown} messages, the records before it report {most}"
            self.report(what, last, number, rules=("R-STA-01",))


def _is_same(shown: object, wanted: object) -> bool:
    if isinstance(shown, str) and isinstance(wanted, str):
        return _comparable(shown) == _comparable(wanted)
    return edge.is_equal(shown, wanted) or (not shown and not wanted)


def _comparable(text: str) -> str:
    """Normalise a name: remove characters that a line must not contain, and differences of white space."""
    return "".join(_CONTROLS.sub("", text).split())


class RefusedChangesNothing(Automaton):
    """A setting that was refused is as it was."""

    id = "I-STA-2"
    rules = ("R-ERR-03",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._state: Record | None = None
        self._number = 0
        self._refused: list[Sent] = []

    def take(self, step: Step) -> None:
        """Take a step."""
        fold, answered = self.fold, self.fold.commands.answered
        if answered is None:
            if fold.settings.changed == step.number:
                self._state = None
            return
        if answered.kind in SETTERS and not answered.is_success:
            self._refused.append(answered)
        elif answered.kind in SETTERS or answered.kind in SESSION_COMMANDS:
            self._state = None
        elif answered.kind == "get_state" and answered.is_success:
            self._compare(step)

    def _compare(self, step: Step) -> None:
        state = edge.inner(edge.as_record(step.record), "data")
        before, refused = self._state, self._refused
        is_clear = not self.fold.commands.are_open(frozenset(SETTERS) | SESSION_COMMANDS)
        if before is not None and refused and is_clear and not self.fold.checks.has_extensions:
            self.armed += 1
            for name in FIELDS:
                if not edge.is_equal(shown_value(before, name), shown_value(state, name)):
                    what = f"record {step.number} shows another {name} than record {self._number}"
                    causes = [sent.number for sent in refused]
                    self.report(f"{what}, and all that came between was refused", self._number, *causes, step.number)
                    break
        self._state, self._number, self._refused = state if is_clear else None, step.number, []
