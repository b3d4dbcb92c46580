"""Growing messages: I-EVT-3 (deltas add up), I-EVT-4 (partial messages grow and are what was reported).

Pure. Linear in what the records hold: deltas are kept in pieces until their block ends. Sources: R-UPD-01, R-UPD-02.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import Level, Record, Step

_TEXT_FIELDS: Final = {"text": "text", "thinking": "thinking"}


@dataclass(slots=True)
class _Block:
    kind: str
    started: int
    pieces: list[str] = field(default_factory=list[str])
    last: int = 0
    ended: int = 0


class DeltasAddUp(Automaton):
    """The deltas of a block add up to its content."""

    id = "I-EVT-3"
    rules = ("R-UPD-01",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._blocks: dict[int, _Block] = {}
        self._begun = 0
        self._flagged: set[int] = set()

    def take(self, step: Step) -> None:
        """Take a record."""
        kind, record = self.fold.kind, edge.as_record(step.record)
        if kind == "message_start":
            self._blocks, self._begun, self._flagged = {}, step.number, set()
        elif kind == "message_update" and self._begun:
            self._update(step.number, edge.inner(record, "assistantMessageEvent"))
        elif kind == "message_end":
            message = edge.inner(record, "message")
            # An extension may put another answer in the place of the one that was streamed.
            if message.get("role") == "assistant" and self._begun and not self.fold.checks.has_extensions:
                self._compare(step.number, message)
            self._begun = 0

    def _fault(self, index: int, text: str, *steps: int) -> None:
        # One fault in a block makes the rest of it wrong as well.
        if index not in self._flagged:
            self._flagged.add(index)
            self.report(text, *steps)

    def _update(self, number: int, event: Record) -> None:
        self.armed += 1
        kind, _, what = edge.text(event, "type").rpartition("_")
        index = edge.count(event, "contentIndex")
        if index is None or what not in {"start", "delta", "end"} or kind not in {"text", "thinking", "toolcall"}:
            # Earlier generations document `start`, `done` and `error`, which report no block.
            return
        block = self._blocks.get(index)
        if what == "start":
            if block is not None:
                self._fault(index, f"record {number} begins block {index} again", block.started, number)
            self._blocks[index] = _Block(kind, number)
        elif block is None:
            self._fault(index, f"record {number} reports block {index}, which was not begun", self._begun, number)
        elif block.kind != kind:
            what = (
                f"record {number} reports {kind} of block {index}, which record {block.started} began as {block.kind}"
            )
            self._fault(index, what, block.started, number)
        elif block.ended:
            what = f"record {number} reports block {index}, which record {block.ended} ended"
            self._fault(index, what, block.ended, number)
        elif what == "delta":
            block.pieces.append(edge.text(event, "delta"))
            block.last = number
        else:
            block.ended = number
            self._end(index, block, number, event)

    def _end(self, index: int, block: _Block, number: int, event: Record) -> None:
        reported = "".join(block.pieces)
        if block.kind == "toolcall":
            self._compare_call(index, block, reported, edge.inner(event, "toolCall"), number)
        elif isinstance(content := event.get("content"), str) and content != reported:
            what = f"record {number} ends block {index} as {edge.shown(content)}, its deltas are {edge.shown(reported)}"
            self._fault(index, what, block.started, block.last, number)

    def _compare(self, number: int, message: Record) -> None:
        content = edge.blocks(message)
        has_failed = edge.text(message, "stopReason") in {"error", "aborted"}
        for index, held in enumerate(content):
            kind = edge.text(held, "type")
            block = self._blocks.get(index)
            name = _TEXT_FIELDS.get(kind)
            reported = "".join(block.pieces) if block is not None else ""
            if name is not None:
                if edge.text(held, name) != reported and held.get("redacted") is not True:
                    what = f"record {number} holds block {index} as {edge.shown(edge.text(held, name))}"
                    last = block.last if block is not None else self._begun
                    self._fault(index, f"{what}, its deltas are {edge.shown(reported)}", last, number)
            elif kind == "toolCall" and block is not None and not has_failed:
                self._compare_call(index, block, reported, held, number)
                if message.get("stopReason") != "length":
                    self._compare_cut_call(index, block, reported, held, number)
        missing = [block for index, block in self._blocks.items() if index >= len(content)]
        if missing and not has_failed:
            what = f"record {number} lacks the block that record {missing[0].started} began"
            self._fault(-1, what, missing[0].started, number)
        if not has_failed:
            for index, block in self._blocks.items():
                if not block.ended:
                    what = f"record {number} ends a message with block {index} open since record {block.started}"
                    self._fault(index, what, block.started, number)

    def _compare_call(self, index: int, block: _Block, reported: str, call: Record, number: int) -> None:
        try:
            wanted: object = json.loads(reported)
        except (ValueError, RecursionError):
            # No delta was reported, or no valid JSON: another rule covers the arguments.
            return
        if edge.is_object(wanted) and "argumentsError" not in call and not edge.is_equal(wanted, call.get("arguments")):
            what = f"record {number} holds other arguments of block {index} than its deltas reported"
            self._fault(index, what, block.started, block.last, number)

    def _compare_cut_call(self, index: int, block: _Block, reported: str, call: Record, number: int) -> None:
        """The deltas of a call are JSON, unless the agent reports that the arguments are invalid."""
        if self._is_json(reported) or "argumentsError" in call or not call.get("arguments"):
            return
        what = f"record {number} holds arguments of block {index}, its deltas are no JSON: {edge.shown(reported)}"
        # Some generations execute the valid part of such arguments.
        level: Level | None = None if self.is_ours else "nonstrict"
        if index not in self._flagged:
            self._flagged.add(index)
            self.report(what, block.started, block.last, number, level=level)

    @staticmethod
    def _is_json(text: str) -> bool:
        try:
            json.loads(text)
        except RecursionError:
            return True
        except ValueError:
            return False
        return True


class PartialsGrow(Automaton):
    """The message in an update extends the former one, and is what the updates add up to."""

    id = "I-EVT-4"
    rules = ("R-UPD-02",)

    def __init__(self, fold: Fold) -> None:
        super().__init__(fold)
        self._shown: list[str] = []
        self._reported: dict[int, str] = {}
        self._last = 0
        self._has_finding = False

    def take(self, step: Step) -> None:
        """Take a record."""
        kind = self.fold.kind
        if kind == "message_start":
            self._shown, self._reported, self._last, self._has_finding = [], {}, step.number, False
        elif kind == "message_update" and not self._has_finding:
            record = edge.as_record(step.record)
            event = edge.inner(record, "assistantMessageEvent")
            if "partial" in event or "message" in record:
                self.armed += 1
                self._add(event)
                for partial in (event.get("partial"), record.get("message")):
                    if edge.is_object(partial):
                        self._compare(step.number, edge.as_record(partial), event)
            self._last = step.number

    def _add(self, event: Record) -> None:
        index = edge.count(event, "contentIndex")
        kind = edge.text(event, "type")
        if index is not None and kind in {"text_delta", "thinking_delta"}:
            self._reported[index] = self._reported.get(index, "") + edge.text(event, "delta")

    def _compare(self, number: int, partial: Record, event: Record) -> None:
        if self._has_finding:
            return
        shown: list[str] = []
        for block in edge.blocks(partial):
            name = _TEXT_FIELDS.get(edge.text(block, "type"))
            shown.append(edge.text(block, name) if name is not None else "")
        if len(shown) < len(self._shown):
            self._fault(number, f"record {number} shows fewer blocks than record {self._last}")
            return
        for before, now in zip(self._shown, shown, strict=False):
            if not now.startswith(before):
                what = f"record {number} shows {edge.shown(now)} where record {self._last} showed {edge.shown(before)}"
                self._fault(number, what)
                return
        index = edge.count(event, "contentIndex")
        if index is not None and index in self._reported and edge.text(event, "type").endswith("_delta"):
            now = shown[index] if index < len(shown) else ""
            if now != self._reported[index]:
                # The original shows received text also before its deltas are reported.
                reported = edge.shown(self._reported[index])
                self._fault(
                    number,
                    f"record {number} shows {edge.shown(now)}, the deltas so far are {reported}",
                    level=None if self.is_ours else "nonstrict",
                )
        self._shown = shown

    def _fault(self, number: int, text: str, level: Level | None = None) -> None:
        self._has_finding = True
        self.report(text, self._last, number, level=level)
