"""What a terminal sends for a key or a paste: for extensions that read it, whatever this terminal has sent."""

from collections.abc import Mapping
from typing import Final

_LETTERS: Final[Mapping[str, str]] = {"up": "A", "down": "B", "right": "C", "left": "D", "end": "F", "home": "H"}
_FUNCTIONS: Final[Mapping[str, str]] = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERS: Final[Mapping[str, int]] = {
    "insert": 2,
    "delete": 3,
    "pageup": 5,
    "pagedown": 6,
    **dict(zip([f"f{number}" for number in range(5, 13)], (15, 17, 18, 19, 20, 21, 23, 24), strict=True)),
}
_CODES: Final[Mapping[str, int]] = {"tab": 9, "enter": 13, "escape": 27, "space": 32, "backspace": 127}
_BITS: Final[Mapping[str, int]] = {"shift": 1, "alt": 2, "ctrl": 4}
_PI_NAMES: Final[Mapping[str, str]] = {"pageup": "pageUp", "pagedown": "pageDown"}
_CONTROLS: Final = "@abcdefghijklmnopqrstuvwxyz[\\]^_"
_PLAIN: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")
_PASTE: Final = "\x1b[200~"
_PASTE_END: Final = "\x1b[201~"


def paste_data(text: str) -> str:
    """Return what a terminal sends for a paste."""
    return f"{_PASTE}{text}{_PASTE_END}"


def pasted_text(data: str) -> str:
    """Return the text of what a terminal sends for a paste."""
    return data.removeprefix(_PASTE).removesuffix(_PASTE_END)


def without_paste_end(text: str) -> str:
    """Return a text without what would end its paste."""
    return text.replace(_PASTE_END, "")


def key_data(key: str, character: str | None) -> tuple[str, str] | None:
    """Return what a terminal sends for a key, and its name as `keybindings.json` has it; None: it sends nothing.

    Args:
        key: The key as Textual names it.
        character: What it writes; None: nothing.
    """
    *held, name = key.split("+")
    bits = sum(_BITS.get(each, 0) for each in held)
    if character is not None and character.isprintable() and not bits & (_BITS["alt"] | _BITS["ctrl"]):
        return character, "space" if character == " " else character
    shown = "+".join([*(each for each in ("ctrl", "shift", "alt") if each in held), _PI_NAMES.get(name, name)])
    if name in _LETTERS or name in _FUNCTIONS:
        letter = _LETTERS.get(name) or _FUNCTIONS[name]
        plain = f"\x1b[{letter}" if name in _LETTERS else f"\x1bO{letter}"
        return (f"\x1b[1;{bits + 1}{letter}" if bits else plain), shown
    if name in _NUMBERS:
        return f"\x1b[{_NUMBERS[name]}{f';{bits + 1}' if bits else ''}~", shown
    if name in _CODES:
        code = _CODES[name]
        if (name, bits) == ("tab", _BITS["shift"]):
            return "\x1b[Z", shown
        return (f"\x1b[{code};{bits + 1}u" if bits else chr(code)), shown
    if len(name) != 1:
        return None
    if bits == _BITS["ctrl"] and name.lower() in _CONTROLS:
        return chr(_CONTROLS.index(name.lower())), shown
    if bits == _BITS["alt"] and name in _PLAIN:
        return f"\x1b{name}", shown
    return f"\x1b[{ord(name)};{bits + 1}u", shown
