"""Holds the updates of one message to what must be true of every stream, whatever the provider did.

Pure. `start` comes at most once and before any update; blocks are only appended; a block is reported while
it is open, and adds up to it; every block that was begun is ended once, unless the message failed. Rules I-EVT-3, C-15.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pinnace_spec.records.messages import AssistantMessage, ToolCall


class StreamWitness:
    """A sink of updates. Raises nothing; `faults` says what was wrong."""

    def __init__(self) -> None:
        self.starts = 0
        self.words: list[str] = []
        """Each update: its type, its index, and what it says."""
        self.faults: list[str] = []
        self._kinds: list[str] = []
        self._reported: list[list[str]] = []
        self._ended: list[bool] = []

    def started(self, message: AssistantMessage) -> None:
        """Take the start."""
        self.starts += 1
        self._hold(self.starts == 1, "started again")
        self._hold(not self._kinds, "started behind an update")

    def update(self, event: Mapping[str, object], builder: object) -> None:
        """Take one update."""
        kind, _, what = str(event["type"]).rpartition("_")
        index = event["contentIndex"]
        assert isinstance(index, int)
        said = str(event.get("delta", event.get("content", "")))
        self.words.append(f"{event['type']} {index} {said}".rstrip())
        self._hold(self.starts == 1, f"{event['type']} before the start")
        if what == "start":
            self._hold(index == len(self._kinds), f"block {index} begins behind {len(self._kinds)} others")
            self._kinds.append(kind)
            self._reported.append([])
            self._ended.append(False)
            return
        if not self._hold(index < len(self._kinds), f"{event['type']} of block {index}, which is none"):
            return
        self._hold(self._kinds[index] == kind, f"{event['type']} of block {index}, which is {self._kinds[index]}")
        self._hold(not self._ended[index], f"{event['type']} of block {index}, which has ended")
        if what == "delta":
            self._reported[index].append(said)
            return
        self._ended[index] = True
        reported = "".join(self._reported[index])
        if kind == "toolcall":
            # cast: the event's type says what it holds
            self._hold_call(index, reported, cast("ToolCall", event["toolCall"]))
        else:
            self._hold(reported == event["content"], f"block {index} ends with other text than was reported")

    async def room(self) -> None:
        """Have room at once. No checkpoint: who needs one makes it."""

    def judge(self, message: AssistantMessage) -> list[str]:
        """Return everything that was wrong, also with how the message ended."""
        content = message["content"]
        self._hold(len(content) == len(self._kinds), f"{len(content)} blocks, {len(self._kinds)} of them reported")
        for index, (block, reported) in enumerate(zip(content, self._reported, strict=False)):
            if block["type"] != "toolCall":
                text = block["text"] if block["type"] == "text" else block["thinking"]
                # Half a character waits for its second half, and is reported only with it.
                self._hold(
                    text.rstrip("\ufffd") == "".join(reported).rstrip("\ufffd"), f"block {index} is not as reported"
                )
        if message["stopReason"] == "error":
            self._hold(bool(message.get("errorMessage")), "an error without a text")
        else:
            self._hold(all(self._ended), f"blocks that never ended: {self._unended()}")
            self._hold("errorMessage" not in message, "a success with an error's text")
            self._hold(self.starts == 1, "a success without a start")
        return self.faults

    def _unended(self) -> Sequence[int]:
        return [index for index, is_ended in enumerate(self._ended) if not is_ended]

    def _hold_call(self, index: int, reported: str, call: ToolCall) -> None:
        try:
            arguments = json.loads(reported or "{}")
        except ValueError:  # the end may say what the deltas left out, or what they said wrong
            return
        if "argumentsError" not in call:
            self._hold(arguments == call["arguments"], f"call {index} ends with other arguments than were reported")

    def _hold(self, is_true: bool, fault: str) -> bool:
        if not is_true:
            self.faults.append(fault)
        return is_true
