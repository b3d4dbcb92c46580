"""Colours of a terminal as classes of the page, and the rules for those that the page uses.

Pure. The sixteen that a user chooses for a terminal are the page's to define; the others are what they are.
"""

from typing import Final

# More different colours than people can distinguish; a picture drawn with characters may have one for each of them, and
# each costs a rule.
MAX_EXACT: Final = 512
_LEVELS: Final = (0, 95, 135, 175, 215, 255)


class Palette:
    """The colours that a page uses."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}

    def indexed(self, index: int, *, is_background: bool) -> str:
        """Return the class for one of a terminal's 256 colours."""
        side = "b" if is_background else "f"
        if index < 16:
            return f"{side}{index}"
        return self._class(f"{side}{index}", _rgb(index), is_background=is_background)

    def exact(self, red: int, green: int, blue: int, *, is_background: bool) -> str:
        """Return the class for a colour, or for the nearest of the 256 if the page has too many."""
        side = "b" if is_background else "f"
        name = f"{side}-{red:02x}{green:02x}{blue:02x}"
        if name not in self._rules and len(self._rules) >= MAX_EXACT:
            return self.indexed(_nearest(red, green, blue), is_background=is_background)
        return self._class(name, (red, green, blue), is_background=is_background)

    def css(self) -> str:
        """Return the rules."""
        return "".join(self._rules.values())

    def _class(self, name: str, rgb: tuple[int, int, int], *, is_background: bool) -> str:
        if name not in self._rules:
            what = "background" if is_background else "color"
            self._rules[name] = f".{name}{{{what}:#{rgb[0]:02x}{rgb[1]:02x}{rgb[2]:02x}}}"
        return name


def _rgb(index: int) -> tuple[int, int, int]:
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    place = index - 16
    return _LEVELS[place // 36], _LEVELS[place // 6 % 6], _LEVELS[place % 6]


def _nearest(red: int, green: int, blue: int) -> int:
    steps = [min(range(6), key=lambda step: abs(_LEVELS[step] - part)) for part in (red, green, blue)]
    return 16 + 36 * steps[0] + 6 * steps[1] + steps[2]
