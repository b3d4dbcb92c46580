"""Program text with its words marked by kind.

The text itself names its language, and lexers are written in regular expressions that can be made slow: only
well-known ones are used, on texts of limited length, and for a limited time in all. What is over a limit is shown
without marks, whole. Imports pygments at the first use.
"""

import html
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# As much as people read at a stretch.
MAX_CHARACTERS: Final = 16_384
# A lexer that looks ahead does so for a line, or over blank ones, again and again: time grows with the square. Within
# these the slowest takes half a second for the worst text.
MAX_LINE: Final = 500
_MAX_BLANK: Final = 50
# Lexers that look ahead over words of any number of lines.
_SHORTER: Final = {"java": 4_096}
# Of all texts of one page. A page of ordinary size takes two.
BUDGET_S: Final = 20.0

# The language of a fence, or the end of a file's name, and the name of the lexer.
_LANGUAGES: Final = {
    **dict.fromkeys(("python", "py", "python3"), "python"),
    **dict.fromkeys(("javascript", "js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("typescript", "ts", "tsx"), "typescript"),
    **dict.fromkeys(("json", "jsonl", "jsonc"), "json"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh"), "bash"),
    **dict.fromkeys(("html", "htm"), "html"),
    **dict.fromkeys(("xml", "svg"), "xml"),
    **dict.fromkeys(("css", "scss"), "css"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cpp", "c++", "cc", "hpp"), "cpp"),
    **dict.fromkeys(("csharp", "cs"), "csharp"),
    **dict.fromkeys(("rust", "rs"), "rust"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("ruby", "rb"), "ruby"),
    **dict.fromkeys(("kotlin", "kt"), "kotlin"),
    **dict.fromkeys(("diff", "patch"), "diff"),
    **dict.fromkeys(("dockerfile", "docker"), "docker"),
    **dict.fromkeys(("console", "shell-session"), "console"),
    **{name: name for name in ("go", "java", "sql", "toml", "php", "swift", "lua", "perl", "ini", "scala", "nix")},
}
# The beginning of a token's type, and the class of what it marks. The first one that fits.
_KINDS: Final = (
    ("Token.Keyword", "k"),
    ("Token.Comment", "c"),
    ("Token.Literal.String", "s"),
    ("Token.Literal.Number", "m"),
    ("Token.Name.Function", "n"),
    ("Token.Name.Class", "n"),
    ("Token.Name.Tag", "k"),
    ("Token.Name.Decorator", "n"),
    ("Token.Name.Builtin", "t"),
    ("Token.Name.Attribute", "t"),
    ("Token.Operator.Word", "k"),
    ("Token.Generic.Inserted", "i"),
    ("Token.Generic.Deleted", "d"),
    ("Token.Generic.Heading", "k"),
    ("Token.Generic.Subheading", "k"),
    ("Token.Generic.Prompt", "c"),
)
_SLOW: Final = re.compile(rf"[^\n]{{{MAX_LINE}}}|\s{{{_MAX_BLANK}}}")


class Highlighter:
    """Marks the texts of one page."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._left_s = BUDGET_S
        self._lexers: dict[str, Lexer | None] = {}
        self._classes: dict[object, str] = {}

    def marked(self, code: str, language: str) -> str:
        """Return the text as HTML."""
        name = _LANGUAGES.get(language.lower())
        if name is None or len(code) > _SHORTER.get(name, MAX_CHARACTERS) or self._left_s <= 0 or _SLOW.search(code):
            return html.escape(code, quote=False)
        started_s = self._clock()
        try:
            return self._marked(code, name)
        finally:
            self._left_s -= self._clock() - started_s

    def _marked(self, code: str, name: str) -> str:
        lexer = self._lexer(name)
        if lexer is None:
            return html.escape(code, quote=False)
        pieces: list[str] = []
        current, run = "", ""
        for _, token, text in lexer.get_tokens_unprocessed(code):
            if token not in self._classes:
                kind = str(token)
                self._classes[token] = next((short for start, short in _KINDS if kind.startswith(start)), "")
            mark = self._classes[token]
            if mark == current or text.isspace():  # neighbours of a kind share a mark, blanks need none
                run += text
                continue
            pieces.append(_span(run, current))
            current, run = mark, text
        pieces.append(_span(run, current))
        return "".join(pieces)

    def _lexer(self, name: str) -> "Lexer | None":
        if name not in self._lexers:
            from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
            from pygments.util import ClassNotFound

            try:
                self._lexers[name] = get_lexer_by_name(name)
            except ClassNotFound:  # an older release
                self._lexers[name] = None
        return self._lexers[name]


def language_of(path: str) -> str:
    """Return the language of a file by its name."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    return name.rpartition(".")[2]


def _span(text: str, mark: str) -> str:
    escaped = html.escape(text, quote=False)
    return f'<span class="{mark}">{escaped}</span>' if mark and text else escaped
