"""Markdown of people and models as HTML that can do nothing.

Raw HTML is text, its tags marked as such. A link goes to http, https or mailto or is no link; an image of elsewhere is
a link, so that reading fetches nothing. A text over the limits is shown as it is written, whole: one that is long, and
one that takes more steps than ordinary texts of its length do. Imports markdown-it at the first use.
"""

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pinnace_agent.export.markup.highlight import Highlighter
from pinnace_agent.export.markup.readable import readable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

# A long answer of a model has 30,000 characters. What is longer is a file, not prose.
MAX_CHARACTERS: Final = 65_536
# How many steps the parser may take. Ordinary texts take a step for every fifteen characters, lists of single
# letters one for each; texts that are made to be slow take more.
_STEPS: Final = 1_000
_STEPS_A_CHARACTER: Final = 1
# Quotes in lists in quotes: people write up to five, which are ten levels.
_MAX_NESTING: Final = 20
# The parser leaves out what is nested deeper than its own limit, which must therefore never be reached.
_PARSER_NESTING: Final = 100

# Without any of these a text is paragraphs, which is what most messages are.
_INLINE_MARKUP: Final = re.compile(r"[\\`*_\[\]<>&~|!]")
_BLOCK_MARKUP: Final = re.compile(r"^(?:[ \t]*(?:[#+\-=:]|[0-9]+[.)])| {4}| {0,3}\t)|  +$|\t", re.MULTILINE)
_SAFE_LINK: Final = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
# A tag of HTML or XML, as texts for models are full of; bounded, so that a row of `<` costs little.
_TAG: Final = re.compile(r"</?[A-Za-z][\w:.-]{0,60}(?:\s[^<>]{0,300})?/?>|<!--[^<>]{0,300}-->")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
# What may come before the first cell of a row in quotes and lists.
_MARGIN: Final = re.compile(r"[>\s*+\-\d.)]*")
_ALIGNED: Final = re.compile(r"text-align:(left|center|right)")

LINK_ATTRIBUTES: Final = 'rel="noopener noreferrer nofollow" target="_blank"'


class _TooManySteps(Exception):
    """The text is made to be slow, or to be lost."""


class Prose:
    """Renders the Markdown of one page."""

    def __init__(self, highlighter: Highlighter) -> None:
        self._highlighter = highlighter
        self._parser: MarkdownIt | None = None
        self._breaking_parser: MarkdownIt | None = None

    def html(self, text: str, *, keeps_lines: bool = False) -> str:
        """Render a text.

        Args:
            text: Markdown.
            keeps_lines: The lines are as their writer wanted them; else only blank lines part anything.
        """
        text = readable(text)
        if len(text) > MAX_CHARACTERS:
            return as_written(text, f"Shown as written: longer than {MAX_CHARACTERS:,} characters.")
        if is_plain(text):
            return plain_html(text, keeps_lines=keeps_lines)
        budget = {"left": _STEPS + _STEPS_A_CHARACTER * len(text)}
        try:
            return str(self._markdown(keeps_lines=keeps_lines).render(text, budget))
        except (_TooManySteps, RecursionError):
            return as_written(text, "Shown as written: too intricate to be rendered.")

    def _markdown(self, *, keeps_lines: bool) -> "MarkdownIt":
        if keeps_lines:
            if self._breaking_parser is None:
                self._breaking_parser = self._new_parser(keeps_lines=True)
            return self._breaking_parser
        if self._parser is None:
            self._parser = self._new_parser(keeps_lines=False)
        return self._parser

    def _new_parser(self, *, keeps_lines: bool) -> "MarkdownIt":
        from markdown_it import MarkdownIt

        parser = MarkdownIt(
            "commonmark",
            {"html": False, "breaks": keeps_lines, "maxNesting": _PARSER_NESTING, "xhtmlOut": False},
        )
        parser.enable(["table", "strikethrough"])
        # What defines a link for elsewhere in the text is seen nowhere: a place to hide things from readers.
        parser.disable("reference")
        parser.inline.ruler.before("text", "budget", _inline_step)
        parser.inline.ruler.after("autolink", "tag", _tag)
        parser.block.ruler.before("code", "budget", _block_step)
        parser.core.ruler.before("inline", "cells", _keep_cells)
        # What may be linked is decided where the link is written: refusing here would show the brackets.
        parser.validateLink = lambda url: True  # type: ignore[method-assign]
        rules = parser.renderer.rules  # type: ignore[attr-defined]
        rules["tag"] = _marked_tag
        rules["fence"] = self._fence
        rules["code_block"] = self._fence
        rules["link_open"] = _link_open
        rules["link_close"] = _link_close
        rules["image"] = _image
        for name in ("th_open", "td_open", "ordered_list_open"):
            rules[name] = _block_open
        rules["table_open"] = _table_open
        rules["table_close"] = _table_close
        return parser

    def _fence(self, tokens: "Sequence[Token]", index: int, *_: object) -> str:
        token = tokens[index]
        words = token.info.split()
        code = code_block(self._highlighter.marked(token.content.removesuffix("\n"), words[0] if words else ""))
        return f'<p class="note">{html.escape(token.info)}</p>{code}' if len(words) > 1 else code


def is_plain(text: str) -> bool:
    """Return whether Markdown would make nothing but paragraphs of a text."""
    return _INLINE_MARKUP.search(text) is None and _BLOCK_MARKUP.search(text) is None


def plain_html(text: str, *, keeps_lines: bool) -> str:
    """Render a text that is plain, as the parser would and in a hundredth of its time."""
    paragraphs: list[str] = []
    for part in re.split(r"\n[ \n]*\n", text.strip(" \n")):
        lines = [line.strip(" ") for line in part.split("\n")]
        if lines != [""]:
            joined = ("<br>\n" if keeps_lines else "\n").join(html.escape(line) for line in lines)
            paragraphs.append(f"<p>{joined}</p>\n")
    return "".join(paragraphs)


def as_written(text: str, note: str = "") -> str:
    """Show a text as it is written."""
    shown_note = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f'{shown_note}<pre class="plain">{html.escape(text, quote=False)}</pre>'


def code_block(marked: str) -> str:
    """Put program text, which is HTML by now, into its box."""
    return f"<pre><code>{marked}</code></pre>"


def is_safe_link(url: str) -> bool:
    """Return whether a click on a link can do no more than open a page or a mail."""
    return _SAFE_LINK.fullmatch(url) is not None


def _step(budget: Any) -> None:  # Any: the parser hands through what it was given
    budget["left"] -= 1
    if budget["left"] < 0:
        raise _TooManySteps


def _inline_step(state: "StateInline", _silent: bool) -> bool:
    _step(state.env)
    return False


def _tag(state: "StateInline", silent: bool) -> bool:
    """Take a tag as one piece of program text, in which nothing is Markdown."""
    found = _TAG.match(state.src, state.pos) if state.src[state.pos] == "<" else None
    if found is None:
        return False
    if not silent:
        state.push("tag", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _marked_tag(tokens: "Sequence[Token]", index: int, *_: object) -> str:
    return f'<code class="tag">{html.escape(tokens[index].content)}</code>'


def _block_step(state: "StateBlock", _start: int, _end: int, _silent: bool) -> bool:
    if state.level > _MAX_NESTING:
        raise _TooManySteps
    _step(state.env)
    return False


def _keep_cells(state: "StateCore") -> None:
    """Give a row the cells that it has beyond its table's head, which Markdown would leave out."""
    lines: list[str] = []
    tokens: list[Token] = []
    shown, line = 0, 0
    for token in state.tokens:
        if token.type == "tr_open" and token.map:
            lines = lines or state.src.split("\n")
            shown, line = 0, token.map[0]
        elif token.type in {"td_open", "th_open"}:
            shown += 1
        elif token.type == "tr_close" and lines:
            extra = _cells(lines[line])[shown:]
            if any(extra):
                tokens += _cell(" | ".join(filter(None, extra)))
        tokens.append(token)
    state.tokens = tokens


def _cells(line: str) -> list[str]:
    cells = _CELL_END.split(line.strip())
    if _MARGIN.fullmatch(cells[0]):
        del cells[0]
    return [cell.strip() for cell in cells]


def _cell(text: str) -> "list[Token]":
    from markdown_it.token import Token

    return [
        Token("td_open", "td", 1),
        Token("inline", "", 0, content=text.replace("\\|", "|"), children=[]),
        Token("td_close", "td", -1),
    ]


def _link_open(tokens: "Sequence[Token]", index: int, *_: object) -> str:
    url = str(tokens[index].attrGet("href") or "")
    if is_safe_link(url):
        title = str(tokens[index].attrGet("title") or "")
        hint = f' title="{html.escape(title)}"' if title else ""
        return f'<a href="{html.escape(url)}" {LINK_ATTRIBUTES}{hint}>'
    # It follows the text, so that nothing is hidden.
    return '<span class="dead">'


def _link_close(tokens: "Sequence[Token]", index: int, *_: object) -> str:
    depth = 1
    place = index
    while depth:
        place -= 1
        depth += {"link_close": 1, "link_open": -1}.get(tokens[place].type, 0)
    url = str(tokens[place].attrGet("href") or "")
    return "</a>" if is_safe_link(url) else f" ({html.escape(url)})</span>"


def _image(tokens: "Sequence[Token]", index: int, *_: object) -> str:
    token = tokens[index]
    url = str(token.attrGet("src") or "")
    alt = html.escape(token.content or "image")
    if is_safe_link(url):
        return f'<a class="remote" href="{html.escape(url)}" {LINK_ATTRIBUTES}>{alt}</a>'
    # A picture in the text itself may be megabytes.
    return f'<span class="dead">{alt} ({html.escape(url[:80])}{"…" if len(url) > 80 else ""})</span>'


def _table_open(*_: object) -> str:
    return '<div class="table"><table>'


def _table_close(*_: object) -> str:
    return "</table></div>"


def _block_open(tokens: "Sequence[Token]", index: int, *_: object) -> str:
    token = tokens[index]
    if token.tag == "ol":
        start = str(token.attrGet("start") or "")
        return f'<ol start="{start}">' if start.isdecimal() and start.isascii() else "<ol>"
    aligned = _ALIGNED.search(str(token.attrGet("style") or ""))
    return f'<{token.tag} class="{aligned[1]}">' if aligned else f"<{token.tag}>"
