"""Decodes what a terminal sends into Textual's events: any bytes, in pieces of any size.

Every byte sequence has a meaning here: a key, typed text, a paste, the mouse, a report of the terminal, or nothing.
None raises. The parser of Textual raises for some sequences, types the characters of others into the editor, and reads
the escape sequences of pasted text as keys; it can't be replaced or extended by public names, hence this one, which
makes Textual's public events. Decides which keys sequences are, and when one that is cut off is not continued. Must not
know the app.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from textual import events
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from pinnace_tui.input.keys import key_name

_ESCAPE: Final = 0x1B
_PASTE: Final = b"\x1b[200~"
_PASTE_END: Final = b"\x1b[201~"
# How long the rest of a sequence may take: a terminal sends it at once, but a connection may divide it.
_ESCAPE_S: Final = 0.1
_SEQUENCE_S: Final = 1.0
# How long nothing comes after a paste that holds the end of a paste.
_AFTER_PASTE_S: Final = 0.03
# How long a paste may pause before what has come of it is inserted.
_PASTE_S: Final = 1.0
# With one of these alone, a user ends a paste whose end was lost: Escape and Ctrl+C, in both protocols.
_ENDS_LOST_PASTE: Final = frozenset({b"\x1b", b"\x03", b"\x1b[27u", b"\x1b[99;5u"})
_LONGEST_SEQUENCE: Final = 256

_LETTERS: Final[Mapping[str, str]] = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "F": "end",
    "H": "home",
    "P": "f1",
    "Q": "f2",
    "R": "f3",
    "S": "f4",
}
_NUMBERS: Final[Mapping[int, str]] = {
    **dict(enumerate("home insert delete end pageup pagedown home end".split(), start=1)),
    **{code: f"f{code - 10}" for code in range(11, 16)},
    **{code: f"f{code - 11}" for code in range(17, 22)},
    **dict(zip((23, 24, 25, 26, 28, 29), "f11 f12 f13 f14 f15 f16".split(), strict=True)),
    **{code: f"f{code - 14}" for code in range(31, 35)},
}
# Keys without a text, by the numbers of kitty's protocol.
_FUNCTIONAL: Final[Mapping[int, str]] = {
    **dict(zip((9, 13, 27, 127), "tab enter escape backspace".split(), strict=True)),
    **{57363 + number: f"f{number}" for number in range(13, 36)},
    57414: "enter",
    **dict(enumerate("left right up down pageup pagedown home end insert delete".split(), start=57417)),
}
# What the keys of the number pad write, from the number of its 0 in kitty's protocol.
_PAD: Final = dict(enumerate("0123456789./*-+", start=57399)) | {57415: "=", 57416: ","}
_LAST_FUNCTIONAL: Final = 63743
"""Kitty's protocol numbers keys that write nothing from 57344 to here, where Unicode has characters of private use."""
_FIRST_FUNCTIONAL: Final = 57344
# The number pad in its application mode.
_PAD_LETTERS: Final[Mapping[str, str]] = dict(zip("jklmnopqrstuvwxyX", "*+,-./0123456789=", strict=True))
_SHIFT, _ALT, _CTRL, _SUPER = 1, 2, 4, 8
_MODIFIERS: Final = ((_ALT, "alt"), (_CTRL, "ctrl"), (_SHIFT, "shift"), (_SUPER, "super"))
# By which rxvt marks modifiers.
_RXVT_FINALS: Final[Mapping[str, int]] = {"$": _SHIFT, "^": _CTRL, "@": _CTRL | _SHIFT}
_CHARACTERS: Final[Mapping[str, str]] = {"enter": "\r", "tab": "\t", "backspace": "\x7f", "escape": "\x1b"}
# What terminals send for the keys that move and delete by words.
_WORD_KEYS: Final[Mapping[str, str]] = {"b": "ctrl+left", "f": "ctrl+right"}

_MOUSE: Final = re.compile(r"<(\d{1,6});(-?\d{1,6});(-?\d{1,6})")
_MODE: Final = re.compile(r"\?(\d{1,6});(\d{1,3})")
_COLOUR: Final = re.compile(r"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_SYNCHRONIZED: Final = "2026"


class BackgroundReported(Message):
    """The terminal has reported its background."""

    def __init__(self, *, is_dark: bool) -> None:
        """Report whether light text can be read on it."""
        super().__init__()
        self.is_dark = is_dark


class InputDecoder:
    """Makes events of bytes.

    Bytes whose meaning depends on what follows are kept: after `wait_s` seconds without more, `expire` decides.
    """

    def __init__(self) -> None:
        """Begin without input."""
        self._bytes = bytearray()
        self._pasted: bytearray | None = None
        """The paste that is being read."""
        self._closed: bytearray | None = None
        """A paste whose end has come; what follows may show that the end was a part of it."""
        self._is_stalled = False
        self._mouse = (0, 0)
        self.wait_s: float | None = None
        """How long to wait for more bytes before `expire`; None: nothing is kept."""

    def feed(self, data: bytes) -> list[Message]:
        """Return the events of bytes and of what was kept."""
        if not data:
            return []
        if self._is_stalled and data in _ENDS_LOST_PASTE:
            self._pasted, self._is_stalled = None, False
            return []
        self._is_stalled = False
        self._bytes += data
        return list(self._events(is_over=False))

    def expire(self) -> list[Message]:
        """Return the events of what was kept: nothing has followed in time."""
        if self._pasted is not None and self._closed is None:
            # A part of a character or of the end may be the last that has come.
            kept = next((size for size in range(5, 0, -1) if self._pasted.endswith(_PASTE_END[:size])), 0)
            kept = kept or len(self._pasted) - len(_whole(self._pasted))
            text, self._pasted = self._pasted[: len(self._pasted) - kept], self._pasted[len(self._pasted) - kept :]
            self._is_stalled, self.wait_s = True, None
            return _paste(text)
        return list(self._events(is_over=True))

    def _events(self, *, is_over: bool) -> Iterator[Message]:
        self.wait_s = None
        while self._bytes or self._closed is not None:
            if self._closed is not None:
                if not self._close(is_over=is_over):
                    self.wait_s = _AFTER_PASTE_S
                    return
                yield from _paste(self._closed)
                self._closed = None
                is_over = False
            elif self._pasted is not None:
                if not self._read_paste():
                    break
            else:
                yield from self._keys(is_over=is_over)
                if self._bytes and self._pasted is None:
                    return
        if self._pasted is not None:
            self.wait_s = _PASTE_S

    # --- pastes ----------------------------------------------------------------------------------------------------

    def _read_paste(self) -> bool:
        """Take the bytes of a paste; return whether its end has come."""
        pasted = self._pasted
        assert pasted is not None
        searched = max(len(pasted) - len(_PASTE_END), 0)
        pasted += self._bytes
        self._bytes.clear()
        if (end := pasted.find(_PASTE_END, searched)) < 0:
            return False
        self._bytes += pasted[end + len(_PASTE_END) :]
        del pasted[end:]
        self._closed, self._pasted = pasted, None
        return True

    def _close(self, *, is_over: bool) -> bool:
        """Return whether the paste is whole: no other end follows that has no beginning of its own."""
        closed = self._closed
        assert closed is not None
        while (end := self._bytes.find(_PASTE_END)) >= 0:
            if 0 <= self._bytes.find(_PASTE) < end:
                return True
            closed += _PASTE_END + self._bytes[:end]
            del self._bytes[: end + len(_PASTE_END)]
        return is_over or self._bytes.find(_PASTE) >= 0

    # --- keys ------------------------------------------------------------------------------------------------------

    def _keys(self, *, is_over: bool) -> Iterator[Message]:
        """Take keys up to a paste, or to what may be continued."""
        data, place = bytes(self._bytes), 0
        while place < len(data) and self._pasted is None:
            if data[place] == _ESCAPE:
                found, end = self._sequence(data, place, is_over=is_over)
            elif data[place] < 0x20 or data[place] == 0x7F:
                found, end = [_control(data[place])], place + 1
            else:
                found, end = _typed(data, place, is_over=is_over)
            if end == place:  # it may be continued
                self.wait_s = self.wait_s or _ESCAPE_S
                break
            yield from found
            place = end
        del self._bytes[:place]

    def _sequence(self, data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int]:
        """Return the events of an escape sequence and where it ends; its start: it may be continued."""
        if start + 1 == len(data):
            return ([_key("escape")], start + 1) if is_over else ([], start)
        kind, after = data[start + 1], start + 2
        match chr(kind):
            case "[":
                found = self._csi(data, start, is_over=is_over)
            case "O":
                found = _ss3(data, start, is_over=is_over)
            case "]" | "P" | "_":
                found = _string(data, start, is_over=is_over)
                if found == ([], start) and len(data) > after:
                    self.wait_s = _SEQUENCE_S
            case "\r":
                return [_key("enter", _ALT)], after
            case "\t":
                return [_key("tab", _SHIFT)], after
            case "\x08" | "\x7f":
                return [_key("w", _CTRL)], after
            case letter if letter in _WORD_KEYS:
                return [events.Key(_WORD_KEYS[letter], None)], after
            case _:
                found = None
        if found is not None:
            return found
        if kind < 0x20:  # another key: Escape was one, too
            return [_key("escape")], start + 1
        typed, end = _typed(data, start + 1, is_over=is_over)
        return ([_with_alt(typed[0]), *typed[1:]], end) if typed else ([], start)

    def _csi(self, data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int] | None:
        """As `_sequence`; None: it is Alt and a bracket."""
        first = place = start + 2
        if data[place : place + 1] in (b"[", b"M"):
            return _old_csi(data, start, is_over=is_over)
        data = data[: start + _LONGEST_SEQUENCE]
        while place < len(data) and 0x30 <= data[place] <= 0x3F:
            place += 1
        middle = place
        while place < len(data) and 0x20 <= data[place] <= 0x2F:
            place += 1
        is_rxvt = data[middle:place] == b"$" and middle > first
        if place == len(data):
            if is_over or place == start + _LONGEST_SEQUENCE:
                if is_rxvt:
                    return _csi_events(data[first:middle].decode(), "$"), place
                return None if place == first else ([], place)
            self.wait_s = _ESCAPE_S if place == first or is_rxvt else _SEQUENCE_S
            return [], start
        final = data[place]
        if is_rxvt and final != ord("y"):
            return _csi_events(data[first:middle].decode(), "$"), place
        if not 0x40 <= final <= 0x7E:  # another key: this one is no sequence
            return None if place == first else ([], place)
        parameters, end = data[first:middle].decode(), place + 1
        if data[start:end] == _PASTE:
            self._pasted = bytearray()
            return [], end
        if (found := _MOUSE.fullmatch(parameters)) is not None and chr(final) in "Mm":
            return self._mouse_events(*map(int, found.groups()), is_down=chr(final) == "M"), end
        return _csi_events(parameters, data[middle:end].decode()), end

    def _mouse_events(self, code: int, column: int, row: int, *, is_down: bool) -> list[Message]:
        x, y = column - 1, row - 1
        if x < 0 or y < 0:  # some terminals report places outside
            return []
        moved = (x - self._mouse[0], y - self._mouse[1])
        self._mouse = (x, y)
        button = (code + 1) & 3
        kind: type[events.MouseEvent]
        if code & 64:
            button = 0
            kind = (events.MouseScrollUp, events.MouseScrollDown, events.MouseScrollLeft, events.MouseScrollRight)[
                code & 3
            ]
        elif code & 32 or button == 0:
            kind = events.MouseMove
        else:
            kind = events.MouseDown if is_down else events.MouseUp
        shift, meta, ctrl = bool(code & 4), bool(code & 8), bool(code & 16)
        return [kind(None, x, y, *moved, button, shift, meta, ctrl, screen_x=x, screen_y=y)]


def _whole(content: bytearray) -> bytearray:
    """Return bytes without a character at their end that has only begun."""
    for size in range(1, min(4, len(content) + 1)):
        if content[-size] >= 0xC2:
            is_begun = content[-size] < 0xF5 and size < 2 + (content[-size] >= 0xE0) + (content[-size] >= 0xF0)
            return content[:-size] if is_begun else content
        if content[-size] < 0x80:
            break
    return content


def _paste(content: bytes | bytearray) -> list[Message]:
    """Return a paste; a NUL is no text."""
    text = content.decode("utf-8", "replace").replace("\0", "")
    return [events.Paste(text)] if text else []


def _typed(data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int]:
    """Return the key of the character at a place, and where it ends; its start: it may be continued."""
    lead, end = data[start], start + 1
    length = 1 + (lead >= 0xC2) + (lead >= 0xE0) + (lead >= 0xF0) if lead < 0xF5 else 1
    while end < len(data) and end - start < length and 0x80 <= data[end] <= 0xBF:
        end += 1
    if end == len(data) and end - start < length and not is_over:
        return [], start
    return [_character(letter) for letter in data[start:end].decode("utf-8", "replace")], end


def _character(letter: str) -> events.Key:
    """Return the key of a character."""
    if "\x80" <= letter <= "\x9f":  # Alt as the eighth bit
        return _with_alt(_control(ord(letter) - 0x80))
    return events.Key(key_name(letter), letter)


def _with_alt(key: Message) -> events.Key:
    """Return a key with Alt. One that means nothing with it still writes its character."""
    assert isinstance(key, events.Key)
    *modifiers, name = key.key.split("+") if len(key.key) > 1 else [key.key]
    if len(name) == 1 and name.isupper():
        modifiers, name = [*modifiers, "shift"], name.lower()
    return events.Key("+".join([*sorted({*modifiers, "alt"}), name]), key.character)


def _control(code: int) -> events.Key:
    """Return the key that a control character stands for."""
    match code:
        case 0x08 | 0x7F:
            return _key("backspace")
        case 0x09 | 0x0D | 0x1B:
            return _key(_FUNCTIONAL[code])
        case 0x00:
            return events.Key("ctrl+@", "\0")
        case _:
            return events.Key(f"ctrl+{key_name(chr(code | 0x40).lower())}", chr(code))


def _key(name: str, modifiers: int = 0) -> events.Key:
    """Return a key that writes nothing."""
    held = [word for bit, word in _MODIFIERS if modifiers & bit]
    return events.Key("+".join([*held, name]), None if held else _CHARACTERS.get(name))


def _ss3(data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int] | None:
    """Return a key of the application mode, and where it ends; None: it is Alt+Shift+O."""
    place = start + 2
    if place == len(data):
        return None if is_over else ([], start)
    final = chr(data[place])
    if final in _LETTERS:
        return [_key(_LETTERS[final])], place + 1
    if final == "M":
        return [_key("enter")], place + 1
    if final in "abcd":  # Ctrl with an arrow, of rxvt
        return [_key(_LETTERS[final.upper()], _CTRL)], place + 1
    if final in _PAD_LETTERS:
        return [_character(_PAD_LETTERS[final])], place + 1
    return None


def _string(data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int] | None:
    """Return what a report of a terminal means that is a string, and where it ends; None: it is Alt and a letter."""
    introducer, place = chr(data[start + 1]), start + 2
    if place == len(data):
        return None if is_over else ([], start)
    if chr(data[place]) not in {"]": "0123456789", "P": "0123456789>+$!|", "_": "G"}[introducer]:
        return None
    while place < len(data) and place - start <= _LONGEST_SEQUENCE:
        if data[place] == 0x07 or data[place : place + 2] == b"\x1b\\":
            content = data[start + 2 : place].decode("utf-8", "replace")
            end = place + (1 if data[place] == 0x07 else 2)
            found = _COLOUR.fullmatch(content) if introducer == "]" else None
            return ([_background(*found.groups())] if found is not None else []), end
        if data[place] < 0x20 and data[place : place + 1] != b"\x1b":
            return None
        if data[place] == _ESCAPE and place + 1 < len(data):
            return None
        place += 1
    return None if is_over or place < len(data) else ([], start)


def _background(*channels: str) -> BackgroundReported:
    """Read a colour whose channels have one to four hexadecimal digits each."""
    red, green, blue = (int(channel, 16) / (16 ** len(channel) - 1) for channel in channels)
    return BackgroundReported(is_dark=0.299 * red + 0.587 * green + 0.114 * blue < 0.5)


def _old_csi(data: bytes, start: int, *, is_over: bool) -> tuple[list[Message], int] | None:
    """As `_sequence`, for those whose end is not by the rule: None: it is Alt and a bracket."""
    place = start + 2
    if data[place] == ord("M"):  # the mouse of old terminals: three bytes of any value
        if len(data) < place + 4:
            return None if is_over else ([], start)
        return [], place + 4
    if place + 1 == len(data):
        return None if is_over else ([], start)
    number = data[place + 1] - ord("A")  # function keys of the console
    return ([_key(f"f{number + 1}")], place + 2) if 0 <= number < 5 else None


def _csi_events(parameters: str, final: str) -> list[Message]:
    """Return what a whole sequence means; most reports of a terminal mean nothing here."""
    match final:
        case "I" if not parameters:
            return [events.AppFocus()]
        case "O" if not parameters:
            return [events.AppBlur()]
        case "Z":
            return [_key("tab", _SHIFT)]
        case "$y":
            found = _MODE.fullmatch(parameters)
            is_there = found is not None and found[1] == _SYNCHRONIZED and int(found[2]) > 0
            return [TerminalSupportsSynchronizedOutput()] if is_there else []
        case _:
            return [*_csi_keys(parameters, final)]


def _csi_keys(parameters: str, final: str) -> list[events.Key]:
    """Return the keys of a sequence: of kitty's protocol, of xterm, of rxvt."""
    fields = [[_number(part) for part in field.split(":")] for field in parameters.split(";")]
    codes, modifiers = fields[0], fields[1] if len(fields) > 1 else [None]
    rest = fields[2:]
    code, held = codes[0], max((modifiers[0] or 1) - 1, 0)
    if len(modifiers) > 1 and modifiers[1] == 3:  # it was released
        return []
    match final:
        case "u":
            texts = [chr(each) for each in (rest[0] if rest else []) if each is not None]
            return _kitty_keys(codes, held, [text for text in texts if is_text(text)])
        case "~" if code == 27 and rest:  # of xterm: the code of a character is behind the modifiers
            return _kitty_keys(rest[0], held, [])
        case "~" | "$" | "^" | "@" if (name := _NUMBERS.get(code or 0)) is not None:
            return [_key(name, held | _RXVT_FINALS.get(final, 0))]
        case "a" | "b" | "c" | "d" if not parameters:
            return [_key(_LETTERS[final.upper()], _SHIFT)]
        case _ if final in _LETTERS:
            if len(fields) == 1 and code is not None and code > 1:  # the modifiers alone
                held = code - 1
            elif code not in (None, 1):  # the place of the cursor, for one
                return []
            return [_key(_LETTERS[final], held)]
        case _:
            return []


def _kitty_keys(codes: list[int | None], held: int, texts: list[str]) -> list[events.Key]:
    """Return the keys of a code of kitty's protocol with its modifiers: one for each character that is written."""
    code = codes[0]
    commands = held & (_CTRL | _SUPER)
    if texts and (not commands or held & _ALT):
        return [events.Key(key_name(text), text) for text in texts]
    if code is None or not code:
        return []
    name = _FUNCTIONAL.get(code)
    if name is None and _FIRST_FUNCTIONAL <= code <= _LAST_FUNCTIONAL and code not in _PAD:
        return []  # a modifier, a medium
    if name is not None:
        return [_key(name, held)]
    letter = _PAD.get(code) or chr(code)
    if not is_text(letter):
        return []
    if held & (_ALT | _CTRL | _SUPER):
        return [_key(key_name(letter), held)]
    if held & _SHIFT:  # a terminal that names no text
        shifted = codes[1] if len(codes) > 1 else None
        letter = chr(shifted) if shifted is not None else letter.upper()
    return [events.Key(key_name(each), each) for each in letter if is_text(each)]


def _number(digits: str) -> int | None:
    """Return a number that can be one of a character; None: nothing, or no such number."""
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 7:
        return None
    number = int(digits)
    return number if number <= 0x10FFFF else None


def is_text(letter: str) -> bool:
    """Return whether a character is written by its key, as opposed to a control character and half of another."""
    return not (letter < " " or "\x7f" <= letter <= "\x9f" or "\ud800" <= letter <= "\udfff")
