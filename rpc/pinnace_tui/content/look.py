"""How items look: the colours of a theme, by role, and the styles that are made of them.

The roles are those of theme files of pi, as far as this client has something to colour by them. Must not know widgets.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

Role = Literal[
    "accent",
    "border",
    "success",
    "error",
    "warning",
    "muted",
    "dim",
    "text",
    "thinkingText",
    "selectedBg",
    "userMessageBg",
    "userMessageText",
    "toolTitle",
    "toolOutput",
    "mdHeading",
    "mdLink",
    "mdCode",
    "mdQuote",
    "mdListBullet",
    "toolDiffAdded",
    "toolDiffRemoved",
    "toolDiffContext",
    "bashMode",
]

DARK: Final[dict[Role, str]] = {
    "accent": "#c3a6ff",
    "border": "#7aa2f7",
    "success": "#7fc99a",
    "error": "#f7768e",
    "warning": "#e0af68",
    "muted": "#a9b1c6",
    "dim": "#8189a0",
    "text": "#e3e6ef",
    "thinkingText": "#959db3",
    "selectedBg": "#2c3a5c",
    "userMessageBg": "#26304a",
    "userMessageText": "#e3e6ef",
    "toolTitle": "#e3e6ef",
    "toolOutput": "#a9b1c6",
    "mdHeading": "#e0af68",
    "mdLink": "#7aa2f7",
    "mdCode": "#c3a6ff",
    "mdQuote": "#a9b1c6",
    "mdListBullet": "#c3a6ff",
    "toolDiffAdded": "#7fc99a",
    "toolDiffRemoved": "#f7768e",
    "toolDiffContext": "#a9b1c6",
    "bashMode": "#7fc99a",
}
LIGHT: Final[dict[Role, str]] = {
    "accent": "#7a3fbf",
    "border": "#2f5fd0",
    "success": "#1c7a45",
    "error": "#b3203f",
    "warning": "#8a5a00",
    "muted": "#565d70",
    "dim": "#6d7487",
    "text": "#23262f",
    "thinkingText": "#666d80",
    "selectedBg": "#d5def4",
    "userMessageBg": "#e4eaf8",
    "userMessageText": "#23262f",
    "toolTitle": "#23262f",
    "toolOutput": "#565d70",
    "mdHeading": "#8a5a00",
    "mdLink": "#2f5fd0",
    "mdCode": "#7a3fbf",
    "mdQuote": "#565d70",
    "mdListBullet": "#7a3fbf",
    "toolDiffAdded": "#1c7a45",
    "toolDiffRemoved": "#b3203f",
    "toolDiffContext": "#565d70",
    "bashMode": "#1c7a45",
}
HIGH_CONTRAST: Final[dict[Role, str]] = {
    **DARK,
    "accent": "#ffff00",
    "border": "#ffffff",
    "success": "#00ff66",
    "error": "#ff6060",
    "warning": "#ffd000",
    "muted": "#ffffff",
    "dim": "#e0e0e0",
    "text": "#ffffff",
    "thinkingText": "#e0e0e0",
    "selectedBg": "#0000c0",
    "userMessageBg": "#000080",
    "userMessageText": "#ffffff",
    "toolTitle": "#ffffff",
    "toolOutput": "#ffffff",
    "mdHeading": "#ffff00",
    "mdLink": "#60c0ff",
    "mdCode": "#00ffff",
    "mdQuote": "#ffffff",
    "mdListBullet": "#ffff00",
    "toolDiffAdded": "#00ff66",
    "toolDiffRemoved": "#ff6060",
    "toolDiffContext": "#ffffff",
    "bashMode": "#00ff66",
}


@dataclass(frozen=True, slots=True)
class Look:
    """A theme."""

    name: str
    colors: dict[Role, str] = field(hash=False)
    """Each `#rrggbb`."""
    is_dark: bool = True
    background: str = "#12151d"
    surface: str = "#1a1f2b"
    code_theme: str = "ansi_dark"
    keeps_background: bool = False
    """Whether it is never drawn on the terminal's own background."""

    def __getitem__(self, role: Role) -> str:
        return self.colors[role]


LOOKS: Final = (
    Look("dark", DARK),
    Look("light", LIGHT, is_dark=False, background="#fbfbfd", surface="#eef0f5", code_theme="ansi_light"),
    Look("high-contrast", HIGH_CONTRAST, background="#000000", surface="#000000", keeps_background=True),
)
