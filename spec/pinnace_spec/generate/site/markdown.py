"""Turns our own Markdown into the body of a page: headings with anchors, tables that may scroll, links that lead on.

The Markdown is ours, so HTML in it (anchors) stays. Imports the reader of Markdown when the first page is made.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pinnace_spec.generate.reference import anchor

if TYPE_CHECKING:
    from markdown_it.token import Token

Retarget = Callable[[str, str], str]
"""From where a link leads in the file, and its text, to where it leads on the site."""


class Page(NamedTuple):
    """What is put into the frame."""

    title: str
    body: str
    contents: Sequence[tuple[str, str, Sequence[tuple[str, str]]]]
    """Anchors and headings, each with those below it."""


def rendered(markdown: str, retarget: Retarget) -> Page:
    """Return a page made of Markdown."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = reader.parse(markdown)
    contents: list[tuple[str, str, list[tuple[str, str]]]] = []
    title = "The protocol"
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            text = _plain(tokens[place + 1])
            token.attrSet("id", anchor(text))
            if token.tag == "h1":
                title = text
            elif token.tag == "h2":
                contents.append((anchor(text), text, []))
            elif token.tag == "h3" and contents:
                contents[-1][2].append((anchor(text), text))
        elif token.type == "inline":
            _retarget(token, retarget)
    body = str(reader.renderer.render(tokens, reader.options, _environment()))
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Page(title, body, contents)


def _environment() -> dict[str, Any]:
    return {}


def _plain(inline: "Token") -> str:
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"})


def _retarget(inline: "Token", retarget: Retarget) -> None:
    children = inline.children or []
    for place, child in enumerate(children):
        if child.type == "link_open":
            text = children[place + 1].content if place + 1 < len(children) else ""
            child.attrSet("href", retarget(str(child.attrGet("href") or ""), text))
