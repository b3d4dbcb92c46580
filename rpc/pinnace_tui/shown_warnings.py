"""Warnings, each shown once in a conversation, which has none of its own.

The state of the agent lists what records have reported, and the reverse. Must not know widgets.
"""

from collections.abc import Iterable

from pinnace_tui.content.transcript import Transcript, warning_line
from pinnace_tui.content.values import Record, text


class ShownWarnings:
    """The warnings that were shown in the present conversation."""

    def __init__(self, transcript: Transcript) -> None:
        """Show none yet; the transcript has them."""
        self._transcript = transcript
        self._shown: set[str] = set()

    def note(self, event: Record) -> bool:
        """Take an event that the transcript is about to show; return whether that would repeat a warning."""
        if not _is_listed(event):
            return False
        line = warning_line(event)
        is_repeated = line in self._shown
        self._shown.add(line)
        return is_repeated

    def show(self, lines: Iterable[str]) -> None:
        """Show those that were not shown yet."""
        for line in lines:
            if line not in self._shown:
                self._shown.add(line)
                self._transcript.notice(line, "warning")

    def begin(self, events: Iterable[Record]) -> None:
        """Begin another conversation, in which these events are shown."""
        self._shown = {warning_line(event) for event in events if _is_listed(event)}


def _is_listed(event: Record) -> bool:
    """Return whether `warnings` of the state list the same: a handler may fail in the same way again."""
    kind = text(event, "type")
    return kind == "warning" or (kind == "extension_error" and text(event, "event") == "load")
