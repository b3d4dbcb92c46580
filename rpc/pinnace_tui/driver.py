"""Reads the keys of a terminal without kitty's keyboard protocol: there Alt+Enter is an escape and a carriage return.

Textual reads the two as Enter. Here they pass as the sequence that kitty's protocol has for Alt+Enter, on their way to
Textual's own driver, which does the rest; the title of the terminal is set here as well. Must not know the app.
"""

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from select import select
from typing import Final, Protocol, runtime_checkable

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

_READ_BYTES: Final = 4096
_LONGEST_TITLE: Final = 200
_ALT_ENTER: Final = b"\x1b[13;3u"
# A terminal writes both bytes at once, but a connection may divide them. Textual itself waits 100 ms.
_DIVIDED_S: Final = 0.03


@runtime_checkable
class HasTerminal(Protocol):
    """An app that uses its terminal for more than its screen."""

    def take_terminal(self, terminal: "TerminalDriver") -> None:
        """Take the terminal."""


def with_alt_enter(data: bytes) -> bytes:
    """Return what a terminal has sent, with Alt+Enter as a sequence of its own.

    A terminal that marks Alt by the eighth bit, as xterm may, sends it as U+008D.
    """
    return data.replace(b"\x1b\r", _ALT_ENTER).replace(b"\xc2\x8d", _ALT_ENTER)


class TerminalDriver(LinuxDriver):
    """Textual's driver, whose input thread reads the keys from a pipe that another thread fills from the terminal."""

    _terminal: int
    _has_title = False
    _keys: int | None = None
    _reader: int | None = None
    """The input thread, which alone reads the pipe."""

    def __init__(self, app: App[object], **options: object) -> None:
        """Show an app, which may set the title."""
        super().__init__(app, **options)  # type: ignore[arg-type] # those of the base class
        if isinstance(app, HasTerminal):
            app.take_terminal(self)

    def set_title(self, title: str) -> None:
        """Set the terminal's title, until the terminal is left; control characters are removed."""
        shown = "".join(letter for letter in title if letter.isprintable())[:_LONGEST_TITLE]
        keep = "" if self._has_title else "\x1b[22;0t"  # the former title, where the terminal can
        self._has_title = True
        self.write(f"{keep}\x1b]0;{shown}\x07")

    def close(self) -> None:
        """Restore the title, and end."""
        if self._has_title:
            self.write("\x1b[23;0t")
        super().close()

    @property
    def fileno(self) -> int:
        """The terminal, or for the input thread the pipe."""
        if self._keys is not None and threading.get_ident() == self._reader:
            return self._keys
        return self._terminal

    @fileno.setter
    def fileno(self, terminal: int) -> None:
        self._terminal = terminal

    def run_input_thread(self) -> None:
        """Read keys until the terminal is left, or lent to another program, which then gets every later key."""
        with self._translating():
            super().run_input_thread()

    @contextmanager
    def _translating(self) -> Generator[None]:
        keys, translated = os.pipe()
        stopped, stop = os.pipe()
        ends = (self._terminal, translated, stopped)
        translator = threading.Thread(target=_translate, args=ends, name="pinnace-keys")
        self._keys, self._reader = keys, threading.get_ident()
        translator.start()
        try:
            yield
        finally:
            os.close(stop)
            self._keys = None
            os.close(keys)  # a translator that still writes ends as well
            translator.join()
            os.close(stopped)


def _translate(terminal: int, translated: int, stopped: int) -> None:
    """Copy the terminal's keys until `stopped` is closed at its other end. The end of the terminal is a hangup."""
    try:
        while stopped not in select([terminal, stopped], [], [])[0]:
            if not (data := _read(terminal)):
                signal.raise_signal(signal.SIGHUP)
                return
            if data.endswith(b"\x1b") and terminal in select([terminal, stopped], [], [], _DIVIDED_S)[0]:
                data += _read(terminal)
            os.write(translated, with_alt_enter(data))
    except BrokenPipeError:  # the reader has ended
        return
    finally:
        os.close(translated)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, _READ_BYTES)
    except OSError:  # it was closed
        return b""
