"""Reads themes of the user: theme files of pi, as far as their roles and forms of colours map to this client's.

A file that does not map is reported with its field, and is no theme. Must not know widgets.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast, get_args

from rich.color import Color

from pinnace_tui.content.look import LOOKS, Look, Role
from pinnace_tui.content.values import Record, as_mapping, mapping, text

_ROLES: Final[frozenset[str]] = frozenset(get_args(Role))
_HEX: Final = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}")
_OKLCH: Final = re.compile(r"oklch\(\s*([\d.]+)%?\s+([\d.]+)\s+([\d.]+)(?:deg)?\s*\)")
_MIDDLE: Final = 127.5
_LIGHT_BACKGROUNDS: Final = frozenset({"7", "9", "10", "11", "12", "13", "14", "15"})


class _WrongTheme(Exception):
    """A theme that does not map. The text is for the user."""


def read_looks(files: Sequence[str]) -> tuple[list[Look], list[str]]:
    """Return the built-in themes and those of files, and what is wrong with others.

    Args:
        files: The first of equal names counts, also in the place of a built-in one.
    """
    found: dict[str, Look] = {}
    problems: list[str] = []
    for path in map(Path, files):
        try:
            if not path.is_file():  # a pipe has no end
                raise _WrongTheme("it is no file")
            value: object = json.loads(path.read_text("utf-8"))
            look, wrong = _look(as_mapping(value))
        except (OSError, ValueError, _WrongTheme) as error:
            problems.append(f"{path}: {error}")
            continue
        problems += [f"{path}: {each}; the built-in colour is used" for each in wrong]
        found.setdefault(look.name, look)
    return [*(found.pop(each.name, each) for each in LOOKS), *found.values()], problems


def named_look(settings: Path, environment: Mapping[str, str]) -> str | None:
    """Return the theme that a file of settings names; of a pair `light/dark`, the one for the terminal's background."""
    try:
        value: object = json.loads(settings.read_text("utf-8"))
    except (OSError, ValueError):
        return None  # the agent reports it
    name = text(as_mapping(value), "theme")
    light, is_pair, dark = name.partition("/")
    if not is_pair:
        return name or None
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return light if background in _LIGHT_BACKGROUNDS else dark


def _look(value: Record) -> tuple[Look, list[str]]:
    """Return a theme, and what is wrong with single colours of it."""
    name = text(value, "name")
    if not name or "/" in name:
        raise _WrongTheme("name: expected a name without /")
    variables, given = mapping(value, "vars"), mapping(value, "colors")
    if not given:
        raise _WrongTheme("colors: expected an object of colours by role")
    is_dark = _is_dark(value.get("appearance"), given, variables)
    base = LOOKS[0] if is_dark else LOOKS[1]
    colors = dict(base.colors)
    wrong: list[str] = []
    for role, color in given.items():
        try:
            if role in _ROLES and (found := _resolved(role, color, variables)) is not None:
                colors[cast("Role", role)] = found
        except _WrongTheme as error:
            wrong.append(str(error))
    return Look(name, colors, is_dark, base.background, base.surface, base.code_theme), wrong


def _is_dark(appearance: object, given: Record, variables: Record) -> bool:
    """Return whether a theme is for a dark background: as it says, else by how bright its text or background is."""
    if appearance in ("dark", "light"):
        return appearance == "dark"
    for role, is_text in (("text", True), ("userMessageText", True), ("userMessageBg", False), ("selectedBg", False)):
        try:
            color = _resolved(role, given.get(role, ""), variables)
        except _WrongTheme:  # reported with the others
            continue
        if color is not None:
            red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
            return (0.299 * red + 0.587 * green + 0.114 * blue > _MIDDLE) is is_text
    return True


def _resolved(role: str, color: object, variables: Record) -> str | None:
    """Return a colour as `#rrggbb`; None: the terminal's own, for which the built-in one stands."""
    for _ in range(len(variables) + 1):
        if color == "":
            return None
        if isinstance(color, int) and 0 <= color <= 255:
            return Color.from_ansi(color).get_truecolor().hex
        if not isinstance(color, str):
            break
        if _HEX.fullmatch(color):
            return color if len(color) == 7 else "#" + "".join(2 * digit for digit in color[1:])
        if (found := _OKLCH.fullmatch(color)) is not None:
            lightness, chroma, hue = map(float, found.groups())
            return _from_oklch(lightness / 100 if "%" in color else lightness, chroma, hue)
        if color not in variables:
            break
        color = variables[color]
    raise _WrongTheme(f"colors.{role}: expected #rrggbb, oklch(L% C H), 0 to 255, a variable or nothing, not {color!r}")


def _from_oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert by the definition of Oklab; what sRGB has not is clipped."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(part, 0.0), 1.0))):02x}" for part in linear)


def _gamma(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055
