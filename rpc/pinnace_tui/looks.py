"""The themes that there are, and the one that the screen has.

It is drawn on the terminal's own background, unless a theme keeps its own or does not fit that of the terminal. Without
a chosen theme it is one that fits. A trusted project adds themes.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from textual.app import App
from textual.theme import BUILTIN_THEMES, Theme

from pinnace_tui.content.look import LOOKS, Look
from pinnace_tui.content.values import Record, text

LooksOf = Callable[[str], tuple[list[Look], list[str]]]
"""Returns the themes with those of a trusted project, by its folder, and what is wrong with them."""
STYLE_VARIABLES: Final = {"selected-background": LOOKS[0]["selectedBg"]}
"""The variables of styles that themes of Textual do not have."""


class Looks:
    """The themes of one client."""

    def __init__(self, app: App[str], own: Sequence[Look], wanted: str | None, looks_of: LooksOf | None) -> None:
        """Use the wanted theme, or the first one.

        Args:
            app: The client.
            own: The themes without those of a project.
            wanted: The name of the first one.
            looks_of: Reads the themes of a project; None: it has none.
        """
        self._app = app
        self._own, self._looks_of = own, looks_of
        self._looks = {each.name: each for each in own}
        self._wanted = wanted
        """The name of a theme that was not found yet; None: there is none."""
        self._current = self._looks.get(wanted or "") or own[0]
        self._has_named = wanted in self._looks
        self._is_dark_terminal = True
        """Whether the terminal's background is dark: what it has reported, or else what most have."""
        self.changed: Callable[[Look], None] | None = None
        """Called with the theme that is used from now on."""
        self._add(own)
        self._wear(self._current)

    @property
    def current(self) -> Look:
        """The theme that is shown."""
        return self._current

    def names(self) -> list[str]:
        """Return the names of the themes."""
        return list(self._looks)

    def use(self, name: str) -> bool:
        """Use a theme; return whether there is one of this name."""
        look = self._looks.get(name)
        if look is None:
            return False
        self._has_named = True
        self._change(look)
        return True

    def fit(self, *, is_dark: bool) -> None:
        """Use the theme for the terminal's background, if none was chosen."""
        self._is_dark_terminal = is_dark
        fitting = [look for look in LOOKS if look.is_dark is is_dark and not look.keeps_background]
        self._change(self._current if self._has_named else fitting[0])

    async def take_state(self, state: Record) -> list[str]:
        """Have the themes of the project, if it is trusted; return what is wrong, and that a theme is missing."""
        looks, problems = list(self._own), list[str]()
        if self._looks_of is not None and state.get("projectTrusted") is True and (folder := text(state, "cwd")):
            looks, problems = await asyncio.to_thread(self._looks_of, folder)
        self._add([each for each in looks if self._looks.get(each.name) != each])
        self._looks = {each.name: each for each in looks}
        if (changed := self._looks.get(self._current.name, self._current)) != self._current:
            self._change(changed)
        if (wanted := self._wanted) is not None and not self.use(wanted):
            problems = [*problems, f"no theme {wanted}; there are {', '.join(self._looks)}"]
        self._wanted = None
        return problems

    def _add(self, looks: Sequence[Look]) -> None:
        """Let the app have themes."""
        for each in looks:
            self._app.register_theme(_theme(each))
            self._app.register_theme(_theme(each, is_transparent=True))

    def _change(self, look: Look) -> None:
        self._wear(look)
        if self.changed is not None:
            self.changed(look)

    def _wear(self, look: Look) -> None:
        """Use a theme: on the terminal's own background, unless it could not be read there."""
        self._current = look
        is_own = look.is_dark is self._is_dark_terminal and not look.keeps_background
        self._app.theme = _transparent(look.name) if is_own else look.name


def _transparent(name: str) -> str:
    return f"{name} on the terminal's background"


def _theme(look: Look, *, is_transparent: bool = False) -> Theme:
    background = "ansi_default" if is_transparent else look.background
    surface = "ansi_default" if is_transparent else look.surface
    variables = BUILTIN_THEMES["ansi-dark" if look.is_dark else "ansi-light"].variables if is_transparent else {}
    return Theme(
        name=_transparent(look.name) if is_transparent else look.name,
        ansi=is_transparent,
        variables={**variables, "selected-background": look["selectedBg"]},
        primary=look["border"],
        accent=look["accent"],
        foreground=look["text"],
        background=background,
        surface=surface,
        panel=surface,
        success=look["success"],
        warning=look["warning"],
        error=look["error"],
        dark=look.is_dark,
    )
