"""The settings that `get_state` must show: modes, name, model, automatic compaction.

Pure. A part of the fold (`fold`). A value is known once a response or an event has reported it, and unknown while a
command that may change it is under way. Judges nothing. Rules R-QUE-06, R-SET-03, R-ORD-02.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pinnace_spec.observers import edge
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, Sent, SentCommands
from pinnace_spec.observers.verdicts import Record, Step

FIELDS: Final = (
    *("steeringMode", "followUpMode", "autoCompactionEnabled", "sessionName", "modelId", "thinkingLevel"),
    "toolApproval",
)
SETTERS: Final = {
    "set_steering_mode": ("steeringMode",),
    "set_follow_up_mode": ("followUpMode",),
    "set_queue_mode": ("steeringMode", "followUpMode"),
    "set_auto_compaction": ("autoCompactionEnabled",),
    "set_session_name": ("sessionName",),
    "set_model": ("modelId", "thinkingLevel"),
    "cycle_model": ("modelId", "thinkingLevel"),
    "set_thinking_level": ("thinkingLevel",),
    "cycle_thinking_level": ("thinkingLevel",),
    "set_tool_approval": ("toolApproval",),
    # Of origin `ours`: the profile may change other values, never these.
}
_OF_THE_SESSION: Final = ("sessionName", "modelId", "thinkingLevel")


class Known(NamedTuple):
    """A value, and the step that reported it."""

    value: object
    number: int


@dataclass(slots=True)
class Settings:
    """The known values."""

    known: dict[str, Known] = field(default_factory=dict[str, Known])
    changed: int = 0
    """The last step that may have changed something here."""

    def advance(self, step: Step, commands: SentCommands) -> None:
        """Take a step that `commands` has taken."""
        if step.record is None:
            return
        sent = commands.answered
        if sent is not None:
            self._answer(sent, step)
        elif step.direction == "out":
            match edge.text(step.record, "type"):
                case "session_info_changed":
                    self._learn("sessionName", step.record.get("name"), step.number)
                case "session_changed" if step.record.get("by") == "extension":
                    for name in _OF_THE_SESSION:
                        self.known.pop(name, None)
                    self.changed = step.number
                case "thinking_level_changed":
                    self._learn("thinkingLevel", step.record.get("level"), step.number)
                case _:
                    pass

    def expected(self, name: str, commands: SentCommands) -> Known | None:
        """Return the values that a state must show now; None: unknown."""
        known = self.known.get(name)
        if known is None:
            return None
        kinds = SESSION_COMMANDS | {kind for kind, names in SETTERS.items() if name in names}
        return None if commands.are_open(frozenset(kinds)) else known

    def _learn(self, name: str, value: object, number: int) -> None:
        self.known[name] = Known(value, number)
        self.changed = number

    def _answer(self, sent: Sent, step: Step) -> None:
        data = edge.inner(edge.as_record(step.record), "data")
        if sent.kind == "get_state" and sent.is_success:
            for name in FIELDS:
                self.known[name] = Known(shown_value(data, name), step.number)
        elif sent.kind in SESSION_COMMANDS:
            if sent.is_success and data.get("cancelled") is not True:
                for name in _OF_THE_SESSION:
                    self.known.pop(name, None)
                self.changed = step.number
        elif sent.kind in SETTERS and sent.is_success:
            self.changed = step.number
            for name in SETTERS[sent.kind]:
                reported = self.known.get(name)
                if reported is None or reported.number < sent.number:
                    self.known.pop(name, None)
            self._set(sent, data, step.number)

    def _set(self, sent: Sent, data: Record, number: int) -> None:
        match sent.kind:
            # An invalid mode should have been rejected; the value is unknown then.
            case "set_steering_mode" | "set_follow_up_mode" | "set_queue_mode" if isinstance(
                sent.record.get("mode"), str
            ):
                for name in SETTERS[sent.kind]:
                    self._learn(name, sent.record.get("mode"), number)
            case "set_auto_compaction" if isinstance(sent.record.get("enabled"), bool):
                self._learn("autoCompactionEnabled", sent.record.get("enabled"), number)
            case "set_tool_approval":
                self._learn("toolApproval", sent.record.get("mode"), number)
            case "set_session_name":
                self._learn("sessionName", sent.record.get("name"), number)
            case "set_model" if isinstance(data.get("id"), str):
                self._learn("modelId", data["id"], number)
            case "cycle_model" if isinstance(edge.inner(data, "model").get("id"), str):
                self._learn("modelId", edge.inner(data, "model")["id"], number)
            case _:
                pass


def shown_value(state: Record, name: str) -> object:
    """Read a value as `get_state` shows it; None where it does not."""
    return edge.inner(state, "model").get("id") if name == "modelId" else state.get(name)
