"""Texts for renderers: keys, and program text in colours (`key_hint`, `highlight_code` and their kin).

No renderer is called without a terminal; these make the same texts for what an author shows in other ways, such as a
widget. No key bindings are configured here, so the usual key of an id is named. Resolved by `pinnace.extensions` when
one of these names is used.
"""

from typing import TYPE_CHECKING, Final

from pinnace_agent.extensions.theme import Theme

if TYPE_CHECKING:
    from pygments.formatter import Formatter

# The usual keys of the ids that renderers name.
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
    """Return the usual key of an id such as `app.tools.expand`; of an unknown id, the id."""
    return _KEYS.get(keybinding, keybinding)


def key_hint(keybinding: str, description: str) -> str:
    """Return the usual key of an id, and what it does."""
    return raw_key_hint(key_text(keybinding), description)


def raw_key_hint(key: str, description: str) -> str:
    """Return a key, and what it does."""
    return f"{key} {description}"


def get_language_from_path(path: str) -> str | None:
    """Return the language of a file by its name; None: unknown."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2] if "." in name else "")


def highlight_code(code: str, language: str | None = None, theme: Theme | None = None) -> list[str]:
    """Return the lines of a program text, with escape sequences that colour them.

    Args:
        code: The text.
        language: Its name; unknown or None: the lines stay as they are.
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
