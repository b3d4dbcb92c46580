"""Deliveries of queued texts: I-QUE-3 (in which order, how many), I-QUE-4 (where).

Pure. Messages are identified by their text (`queue_texts`). Sources: R-QUE-03, R-QUE-04, R-QUE-06.
"""

import itertools
from collections import deque

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.state.queue_texts import QUEUES, Text
from pinnace_spec.observers.verdicts import Step


class DeliveryOrder(Automaton):
    """First in, first out; a mode says how many; steering before follow-ups."""

    id = "I-QUE-3"
    rules = ("R-QUE-03", "R-QUE-04")

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._waiting: dict[str, deque[Text]] = {queue: deque() for queue in QUEUES}
        self._newest: dict[str, Text] = {}
        self._turn = 0
        self._first: dict[str, int] = {}  # deliveries of this turn: queue -> the first
        self._at_start: dict[str, list[Text]] = {}
        self._modes: dict[str, object] = {}

    def take(self, step: Step) -> None:
        """Take a step."""
        if not self.fold.checks.has_inputs:
            return
        queues, number = self.fold.queues, step.number
        sent = self.fold.commands.sent
        if sent is not None and (text := queues.of(sent)) is not None:
            self._wait(text)
        for text in queues.added:
            self._wait(text)
        kind = self.fold.kind
        if kind == "turn_start":
            self._turn, self._first = number, {}
            self._at_start = {
                queue: [text for text in queues.view[queue] if isinstance(text, Text)] for queue in QUEUES
            }
            self._modes = self._known_modes()
        if queues.delivered is not None:
            self._deliver(queues.delivered, number)
        elif kind == "message_start" and self._turn:
            message = edge.inner(edge.as_record(step.record), "message")
            if message.get("role") == "assistant":
                self._begin_answer(number)

    def _wait(self, text: Text) -> None:
        """Insert a message by the time at which it was sent: at the end, except for late reports."""
        waiting = self._waiting.get(text.way)
        if waiting is None or text is self._newest.get(text.way):
            return
        later: list[Text] = []
        while waiting and waiting[-1].sent.number > text.sent.number:
            later.append(waiting.pop())
        if not waiting or waiting[-1] is not text:
            waiting.append(text)
        waiting.extend(reversed(later))
        self._newest[text.way] = waiting[-1]

    def _known_modes(self) -> dict[str, object]:
        settings, commands = self.fold.settings, self.fold.commands
        found: dict[str, object] = {}
        for queue in QUEUES:
            name = "steeringMode" if queue == "steering" else "followUpMode"
            if (known := settings.expected(name, commands)) is not None:
                found[queue] = known.value
        return found

    def _deliver(self, text: Text, number: int) -> None:
        if text.way not in self._waiting or text.may_change or self.fold.checks.has_extensions:
            return
        self.armed += 1
        waiting = self._waiting[text.way]
        while waiting and waiting[0].is_over:
            waiting.popleft()
        older = itertools.takewhile(lambda each: each.sent.number < text.sent.number, waiting)
        before = next((each for each in older if _waits(each)), None)
        # One that is delivered before its answer may be queued by a former process, and be repeated.
        if before is not None and not (self.fold.queues.has_former and not text.accepted):
            what = f"record {number} delivers {edge.shown(text.words)} of record {text.sent.number}"
            what = f"{what} before {edge.shown(before.words)} of record {before.sent.number}"
            self.report(what, before.sent.number, text.sent.number, number)
        first = self._first.setdefault(text.way, number)
        is_second = first != number and self._turn and self._modes.get(text.way) == "one-at-a-time"
        if is_second and self._is_steady():
            what = f"record {number} delivers a second text of {text.way} in a turn, behind record {first}"
            self.report(f"{what}; the mode is one-at-a-time", first, number, rules=("R-QUE-06",))

    def _is_steady(self) -> bool:
        """The modes are those that the turn began with."""
        return self._modes == self._known_modes()

    def _begin_answer(self, number: int) -> None:
        """With the mode `all` no message that was queued when the turn began is still queued."""
        begun, self._turn = self._turn, 0
        is_steady = self._is_steady()
        for queue, first in self._first.items():
            left = [text for text in self._at_start.get(queue, []) if _waits(text) and text.queued]
            if left and is_steady and self._modes.get(queue) == "all":
                what = (
                    f"record {number} answers while {edge.shown(left[0].words)} still waits, record {first} took others"
                )
                self.report(f"{what}; the mode is all", first, begun, number, rules=("R-QUE-06",))
        steering = [text for text in self._at_start.get("steering", []) if _waits(text) and text.queued]
        if "followUp" in self._first and steering and not self.fold.checks.has_extensions:
            what = f"record {self._first['followUp']} delivers a follow-up while {edge.shown(steering[0].words)} steers"
            self.report(what, steering[0].queued, self._first["followUp"], rules=("R-QUE-04",))


def _waits(text: Text) -> bool:
    return bool((text.accepted or text.queued) and not text.is_over and not text.unqueued and not text.replaced)


class DeliveryPlaces(Automaton):
    """Steering messages come directly after a turn's start; follow-ups only where the run would have stopped."""

    id = "I-QUE-4"
    rules = ("R-QUE-03",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._turn = 0
        self._answer = 0
        self._called = 0  # the last turn of this run, if it executed tools
        self._has_own = False

    def take(self, step: Step) -> None:
        """Take a step."""
        kind, record, number = self.fold.kind, edge.as_record(step.record), step.number
        match kind:
            case "agent_start":
                self._turn = self._answer = self._called = 0
            case "turn_start":
                self._turn, self._answer, self._has_own = number, 0, False
            case "turn_end":
                message = edge.inner(record, "message")
                has_called = bool(edge.calls(message)) and edge.text(message, "stopReason") in {"toolUse", "length"}
                self._turn, self._called = 0, number if has_called else 0
            case "message_start" if edge.inner(record, "message").get("role") == "assistant":
                self._answer = number
            case _:
                pass
        text = self.fold.queues.delivered
        if text is not None and text.way in QUEUES:
            self._deliver(text, number)
        elif text is not None:
            self._has_own = True

    def _deliver(self, text: Text, number: int) -> None:
        self.armed += 1
        if not self._turn or self._answer:
            what = f"record {number} delivers {edge.shown(text.words)} elsewhere than behind a turn's start"
            self.report(what, self._answer, number)
        elif text.way == "followUp" and self._called and not self._has_own:
            what = f"record {number} delivers the follow-up {edge.shown(text.words)}"
            what = f"{what} behind the tools of record {self._called}"
            self.report(what, self._called, number, rules=("R-QUE-04",))
