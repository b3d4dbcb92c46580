"""Reads the terminal for Textual, and sets its title.

Textual's driver does the rest. Its own input thread is replaced as a whole: the decoder beside this module has a
meaning for every byte (`decoder`). Must not know the app.
"""

import os
import signal
from collections.abc import Callable
from select import select
from time import monotonic
from typing import IO, Final, Protocol, runtime_checkable

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from pinnace_tui.input.decoder import InputDecoder

_READ_BYTES: Final = 4096
_LONGEST_TITLE: Final = 200
# How often the thread looks whether the terminal was left.
_POLL_S: Final = 0.1
_ASK_FOR_BACKGROUND: Final = "\x1b]11;?\x1b\\"


@runtime_checkable
class HasTerminal(Protocol):
    """An app that uses its terminal for more than its screen."""

    def take_terminal(self, terminal: "TerminalDriver") -> None:
        """Take the terminal."""


class InputFailed(Message):
    """Some input could not be decoded, and was lost."""

    def __init__(self, error: Exception) -> None:
        """Name the reason."""
        super().__init__()
        self.error = error


class TerminalOutput:
    """The terminal's output as Textual's thread writes it: a terminal that is gone takes nothing, and no error ends it.

    Without the thread its queue would fill, and the app wait for it for ever.
    """

    def __init__(self, file: IO[str]) -> None:
        """Write to a terminal."""
        self._file = file
        self._is_gone = False

    def write(self, text: str) -> None:
        """Write, if there is a terminal."""
        self._try(self._file.write, text)

    def flush(self) -> None:
        """Have everything shown, if there is a terminal."""
        self._try(self._file.flush)

    def _try(self, work: Callable[..., object], *arguments: str) -> None:
        try:
            if not self._is_gone:
                work(*arguments)
        except OSError:  # the thread that reads learns of it, too, and leaves
            self._is_gone = True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's driver, with the input decoded here."""

    _has_title = False

    def __init__(self, app: App[object], **options: object) -> None:
        """Show an app, which may set the title."""
        super().__init__(app, **options)  # type: ignore[arg-type] # those of the base class
        assert self._file is not None  # only a terminal has a driver
        self._file = TerminalOutput(self._file)  # type: ignore[assignment] # what its thread needs of a file
        if isinstance(app, HasTerminal):
            app.take_terminal(self)

    def set_title(self, title: str) -> None:
        """Set the terminal's title, until the terminal is left; control characters are removed."""
        shown = "".join(letter for letter in title if letter.isprintable())[:_LONGEST_TITLE]
        keep = "" if self._has_title else "\x1b[22;0t"  # the former title, where the terminal can
        self._has_title = True
        self.write(f"{keep}\x1b]0;{shown}\x07")

    def ask_for_background(self) -> None:
        """Ask the terminal for its background; one that knows it answers with `BackgroundReported`."""
        self.write(_ASK_FOR_BACKGROUND)
        self.flush()

    def close(self) -> None:
        """Restore the title, and end."""
        if self._has_title:
            self.write("\x1b[23;0t")
        super().close()

    def run_input_thread(self) -> None:
        """Read until the terminal is left, or lent to another program. The end of the terminal is a hangup."""
        decoder, terminal = InputDecoder(), self.fileno
        decides_at: float | None = None
        while not self.exit_event.is_set():
            now = monotonic()
            wait_s = _POLL_S if decides_at is None else min(max(decides_at - now, 0), _POLL_S)
            try:
                is_ready = bool(select([terminal], [], [], wait_s)[0])
                data = os.read(terminal, _READ_BYTES) if is_ready else b""
            except OSError:  # it was closed
                is_ready, data = True, b""
            if is_ready and not data:
                signal.raise_signal(signal.SIGHUP)
                return
            if not is_ready and (decides_at is None or monotonic() < decides_at):
                continue
            try:
                messages = decoder.feed(data) if is_ready else decoder.expire()
            except Exception as error:
                messages, decoder = [InputFailed(error)], InputDecoder()
            for message in messages:
                self.process_message(message)
            decides_at = None if decoder.wait_s is None else monotonic() + decoder.wait_s
