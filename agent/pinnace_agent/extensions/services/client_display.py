"""What extensions set of the client's own displays: the line that shows work, and the label of hidden thoughts.

The client gets the whole of it as one record, `ui_display`, whenever it changes while it draws surfaces, and when it
begins to draw. It ends with the session instance. Texts hold colours and styles, and no other sequence of a terminal.
Has no access to surfaces. Rule R-UI-30.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from pinnace_agent.extensions.services.dialogs import Send
from pinnace_agent.extensions.services.surfaces import shown_line
from pinnace_spec.rules.limits import MAX_WORKING_FRAMES

_LONGEST_MS: Final = 60_000


class ClientDisplay:
    """What one session instance has set."""

    def __init__(self, send: Send, *, is_offered: bool) -> None:
        """Write records with `send`; `is_offered`: whether a client draws now."""
        self._send = send
        self._is_offered = is_offered
        self._fields: dict[str, object] = {}

    def set(self, **fields: object) -> None:
        """Set fields of the record; None restores what the client shows by itself. Never waits."""
        former = dict(self._fields)
        for name, value in fields.items():
            if value is None:
                self._fields.pop(name, None)
            else:
                self._fields[name] = value
        if self._fields != former and self._is_offered:
            self._show()

    def offer(self, *, is_offered: bool) -> None:
        """Take whether a client draws from now on; one that begins to is sent what is set."""
        self._is_offered = is_offered
        if is_offered and self._fields:
            self._show()

    def close(self) -> None:
        """Restore what the client shows by itself: the session instance ends."""
        self.set(**dict.fromkeys(self._fields))
        self._is_offered = False

    def _show(self) -> None:
        self._send({"type": "ui_display", **self._fields})


def shown_text(member: str, text: str | None) -> str | None:
    """Return a text as a client may show it, in one line; None stays None.

    Raises:
        TypeError: It is no string. The text names the member.
    """
    if text is None:
        return None
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - annotations are not enforced
        raise TypeError(f"{member}: expected a string or None, not {text!r}")
    return shown_line(text.replace("\n", " "))


def indicator_fields(options: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return the fields of a working indicator; both None: that of the client.

    Raises:
        TypeError: An option has another type. The text names it.
        ValueError: There are too many frames, or an interval that is no time.
    """
    given: Mapping[str, object] = {} if options is None else options
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - annotations are not enforced
        raise TypeError(f"set_working_indicator: expected an object with frames and intervalMs, not {options!r}")
    frames, interval = given.get("frames"), given.get("intervalMs")
    shown: list[str] | None = None
    if frames is not None:
        if isinstance(frames, str) or not isinstance(frames, Sequence):
            raise TypeError(f"set_working_indicator: frames must be a list of strings, not {frames!r}")
        listed = cast("Sequence[object]", frames)  # cast: its items are checked below
        if len(listed) > MAX_WORKING_FRAMES:
            raise ValueError(f"set_working_indicator: {len(listed)} frames; at most {MAX_WORKING_FRAMES} are shown")
        shown = [shown_text("set_working_indicator: frames", cast("str", each)) or "" for each in listed]
    if interval is not None:
        if not isinstance(interval, int | float) or isinstance(interval, bool):
            raise TypeError(f"set_working_indicator: intervalMs must be a number of milliseconds, not {interval!r}")
        if not 0 < interval <= _LONGEST_MS:
            raise ValueError(f"set_working_indicator: intervalMs must be above 0 and at most {_LONGEST_MS}: {interval}")
        interval = max(round(interval), 1)
    return {"workingFrames": shown, "workingIntervalMs": interval}
