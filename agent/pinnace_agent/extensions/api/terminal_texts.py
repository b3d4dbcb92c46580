"""Styled texts: `ctx.ui.theme`, keys (`key_hint`), and highlighted code (`highlight_code`).

No renderer is called without a terminal; these functions make the same texts for other displays, such as widgets. Key
bindings are not configurable here, so the default key of an id is named. Styled text carries ANSI sequences, as clients
of pi receive them.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pygments.formatter import Formatter

_RESET_FOREGROUND: Final = "\x1b[39m"
_RESET_BACKGROUND: Final = "\x1b[49m"
# The 16 colours of every terminal: the client's theme is unknown here.
_FOREGROUND: Final = {
    "accent": "36",
    "border": "34",
    "borderAccent": "36",
    "borderMuted": "90",
    "success": "32",
    "error": "31",
    "warning": "33",
    "muted": "90",
    "dim": "90",
    "text": "39",
    "toolDiffAdded": "32",
    "toolDiffRemoved": "31",
    "toolDiffContext": "90",
}
_STYLES: Final = {
    "bold": ("1", "22"),
    "italic": ("3", "23"),
    "underline": ("4", "24"),
    "inverse": ("7", "27"),
    "strikethrough": ("9", "29"),
}


class Theme:
    """Styles texts. An unknown colour leaves the text as it is."""

    __slots__ = ("_is_plain", "_name")

    def __init__(self, name: str = "default", *, is_plain: bool = False) -> None:
        self._name = name
        self._is_plain = is_plain

    @property
    def plain(self) -> "Theme":
        """The theme without escape sequences, for clients that show texts unchanged."""
        return Theme(is_plain=True)

    @property
    def name(self) -> str:
        """The name of the theme."""
        return "plain" if self._is_plain else self._name

    def fg(self, color: str, text: str) -> str:
        """Return the text in a colour of the theme: accent, success, error, warning, muted, dim and so on."""
        code = _FOREGROUND.get(color)
        return text if code is None or self._is_plain else f"\x1b[{code}m{text}{_RESET_FOREGROUND}"

    def bg(self, color: str, text: str) -> str:
        """Return the text on a colour of the theme."""
        code = _FOREGROUND.get(color)
        return text if code is None or self._is_plain else f"\x1b[{int(code) + 10}m{text}{_RESET_BACKGROUND}"

    def bold(self, text: str) -> str:
        """Return the text in bold."""
        return self._style("bold", text)

    def italic(self, text: str) -> str:
        """Return the text in italics."""
        return self._style("italic", text)

    def underline(self, text: str) -> str:
        """Return the text underlined."""
        return self._style("underline", text)

    def inverse(self, text: str) -> str:
        """Return the text with its colours exchanged."""
        return self._style("inverse", text)

    def strikethrough(self, text: str) -> str:
        """Return the text struck through."""
        return self._style("strikethrough", text)

    def _style(self, style: str, text: str) -> str:
        begin, end = _STYLES[style]
        return text if self._is_plain else f"\x1b[{begin}m{text}\x1b[{end}m"


# The default keys of the ids that renderers use.
_KEYS: Final = {
    "app.interrupt": "escape",
    "app.clear": "ctrl+c",
    "app.exit": "ctrl+d",
    "app.editor.external": "ctrl+g",
    "app.message.followUp": "alt+enter",
    "app.model.select": "ctrl+l",
    "app.session.rename": "ctrl+r",
    "app.thinking.toggle": "ctrl+t",
    "app.tools.expand": "ctrl+o",
    "tui.input.submit": "enter",
    "tui.input.tab": "tab",
    "tui.select.cancel": "escape",
    "tui.select.confirm": "enter",
    "tui.select.down": "down",
    "tui.select.up": "up",
}
# As clients know languages, where the lexer's first name or the end of a file's name is another one.
_BY_SUFFIX: Final = {
    **dict.fromkeys(("ts", "tsx", "mts", "cts"), "typescript"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("sh", "bash", "zsh"), "bash"),
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("md", "markdown"), "markdown"),
    **dict.fromkeys(("html", "htm"), "html"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cpp", "cc", "cxx", "hpp"), "cpp"),
    "cs": "csharp",
    "ex": "elixir",
    "hs": "haskell",
    "kt": "kotlin",
    "pl": "perl",
    "rb": "ruby",
    "rs": "rust",
    **{
        name: name
        for name in ("css", "diff", "go", "java", "json", "lua", "php", "scala", "scss", "sql", "swift", "toml", "xml")
    },
}
_BY_NAME: Final = {"dockerfile": "dockerfile", "makefile": "makefile"}


def key_text(keybinding: str) -> str:
    """Return the default key of an id such as `app.tools.expand`; for an unknown id, the id."""
    return _KEYS.get(keybinding, keybinding)


def key_hint(keybinding: str, description: str) -> str:
    """Return the default key of an id, and a description."""
    return raw_key_hint(key_text(keybinding), description)


def raw_key_hint(key: str, description: str) -> str:
    """Return a key, and a description."""
    return f"{key} {description}"


def get_language_from_path(path: str) -> str | None:
    """Return the language of a file by its name; None: unknown."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2] if "." in name else "")


def highlight_code(code: str, language: str | None = None, theme: Theme | None = None) -> list[str]:
    """Return the lines of source code, with escape sequences that colour them.

    Args:
        code: The source code.
        language: Its language; unknown or None: the lines are returned unchanged.
        theme: `theme.plain` adds no escape sequences.
    """
    plain = code.split("\n")
    if language is None or (theme is not None and theme.name == "plain"):
        return plain
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return plain
    formatter: Formatter[str] = TerminalFormatter()
    return highlight(code, lexer, formatter).split("\n")
