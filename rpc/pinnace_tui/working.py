"""What extensions set of this client's displays: mostly how the line above the editor shows that the agent works.

Must not know widgets.
"""

from dataclasses import dataclass
from typing import Final

from pinnace_tui.content.values import Record, number, text, texts

_SPINNER: Final = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
_INTERVAL_MS: Final = 100
_MESSAGE: Final = "Working"


@dataclass(frozen=True, slots=True)
class WorkingDisplay:
    """What is shown while the agent works, and for thoughts that are folded."""

    message: str = _MESSAGE
    is_visible: bool = True
    frames: tuple[str, ...] = _SPINNER
    """Shown one after the other; empty: no sign."""
    interval_ms: int = _INTERVAL_MS
    thinking_label: str | None = None
    """None: that of this client."""
    completes: bool = False
    """Whether extensions complete the text of the editor."""

    @classmethod
    def read(cls, record: Record) -> "WorkingDisplay":
        """Return what a `ui_display` has; what it lacks is as this client has it."""
        label, interval_ms = record.get("hiddenThinkingLabel"), int(number(record, "workingIntervalMs"))
        return cls(
            text(record, "workingMessage") if "workingMessage" in record else _MESSAGE,
            record.get("workingVisible") is not False,
            tuple(texts(record, "workingFrames")) if "workingFrames" in record else _SPINNER,
            interval_ms if interval_ms > 0 else _INTERVAL_MS,
            label if isinstance(label, str) else None,
            record.get("completes") is True,
        )

    def sign(self, now: float) -> str:
        """Return the frame for a time in seconds; empty: there is none."""
        return self.frames[int(now * 1000 / self.interval_ms) % len(self.frames)] if self.frames else ""


DEFAULT_DISPLAY: Final = WorkingDisplay()
