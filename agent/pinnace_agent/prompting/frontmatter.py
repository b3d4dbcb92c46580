"""Frontmatter: the few YAML lines between `---` at the beginning of a Markdown file.

Only strings and `true` in the outermost mapping are read. The YAML is parsed into nodes, never into objects: tags have
no effect, an alias is followed once, and nothing is executed. Lines of the form `name: words`, which nearly every file
has, are read without the YAML parser, whose import takes longer than everything else here. Words with a colon need no
quotes, although YAML wants them: people write `description: Use this: it helps`. Has no knowledge of the fields.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

# Ten times the longest description; the parser takes a fifth of a second for it at worst.
MAX_FRONTMATTER_CHARS: Final = 16_384
# White space as in JavaScript, which defines the format; Python's differs.
BLANKS: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
# The parser's time grows with the square of these; people write a handful.
_MAX_BRACKETS: Final = 1_000
_MARK: Final = "---"
# A line with one meaning in every YAML parser: no quotes, comments or numbers, and no continuation.
_PLAIN_LINE: Final = re.compile(
    r"([a-z][a-z0-9-]*): +([A-Za-z][^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*)"
)
_MEANS_MORE: Final = re.compile(r":(?: |\Z)| #| \Z")
# A member whose words hold a colon, which YAML takes for another mapping; with the lines that continue it.
_COLON_LINE: Final = re.compile(r"(?m)^([A-Za-z][\w-]*:[ \t]+)(?![\"'\[{&*!|>%@`#-])(.*:(?:[ \t].*)?(?:\n[ \t]+.*)*)$")
_COMMENT: Final = re.compile(r"[ \t]+#[^\n]*")
_CONSTANTS: Final = frozenset({"true", "false", "null"})
_STANDARD_TAG: Final = "tag:yaml.org,2002:"
_NO_TEXTS: Final = frozenset(f"{_STANDARD_TAG}{kind}" for kind in ("null", "bool", "int", "float", "binary"))


class FrontmatterError(Exception):
    """Invalid frontmatter; the text gives the reason and the line."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


class Document(NamedTuple):
    """A file: its frontmatter and its body."""

    body: str
    """Stripped if there is frontmatter, else unchanged."""
    has_frontmatter: bool = False
    texts: Mapping[str, str] = {}
    """The members that are strings."""
    true: frozenset[str] = frozenset()
    """The members that are true."""


def read_document(text: str) -> Document:
    """Split a file. Line ends become LF.

    Raises:
        FrontmatterError: The frontmatter is too long or not YAML.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    end = text.find(f"\n{_MARK}", len(_MARK)) if text.startswith(_MARK) else -1
    if end < 0:
        return Document(text)
    source, body = text[len(_MARK) + 1 : end], text[end + 1 + len(_MARK) :].strip(BLANKS)
    if len(source) > MAX_FRONTMATTER_CHARS:
        raise FrontmatterError(f"frontmatter has more than {MAX_FRONTMATTER_CHARS} characters")
    if source.count("[") + source.count("{") > _MAX_BRACKETS:
        raise FrontmatterError("frontmatter has too many brackets")
    plain = _plain(source)
    if plain is not None:
        return Document(body, True, plain)
    try:
        texts, true = _parsed(f"{source}\n")
    except FrontmatterError:
        quoted = _COLON_LINE.sub(_quoted, source)
        if quoted == source:
            raise
        texts, true = _parsed(f"{quoted}\n")
    return Document(body, True, texts, true)


def _plain(source: str) -> dict[str, str] | None:
    """Parse lines of `name: words`; None if there is any other line."""
    texts: dict[str, str] = {}
    for line in source.split("\n"):
        found = _PLAIN_LINE.fullmatch(line)
        if found is None:
            if line:
                return None
            continue
        name, value = found.groups()
        if name in texts or value.lower() in _CONSTANTS or _MEANS_MORE.search(value):
            return None
        texts[name] = value
    return texts


def _quoted(member: re.Match[str]) -> str:
    """Put the words of a member in quotes; what would be a comment without them stays one."""
    words = _COMMENT.sub("", member[2]).rstrip().replace("'", "''")
    return f"{member[1]}'{words}'"


def _parsed(source: str) -> tuple[dict[str, str], frozenset[str]]:
    texts: dict[str, str] = {}
    true: set[str] = set()
    seen: set[str] = set()
    for key, value in _members(_composed(source)):
        name, _ = _scalar(key)
        if name is None:
            continue
        if name in seen:
            raise FrontmatterError(f"frontmatter has {name} twice")
        seen.add(name)
        content, tag = _scalar(value)
        if content is None:
            continue
        if tag not in _NO_TEXTS:
            texts[name] = content
        elif tag == f"{_STANDARD_TAG}bool" and content.lower() == "true":
            true.add(name)
    return texts, frozenset(true)


def _composed(source: str) -> object:
    """Parse YAML into nodes; None if there are none."""
    import warnings

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about duplicate anchors
            # pure: YAML 1.2, so that `on` and `no` stay text.
            node: object = YAML(typ="safe", pure=True).compose(source)  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        # Its whole text is several lines that repeat the file.
        problem, line = _attribute(error, "problem"), _attribute(_attribute(error, "problem_mark"), "line")
        where = f" (line {line + 2})" if isinstance(line, int) else ""
        raise FrontmatterError(f"frontmatter is not YAML: {problem or 'unreadable'}{where}") from None
    except RecursionError:
        raise FrontmatterError("frontmatter is nested too deeply") from None
    except (ValueError, LookupError, AttributeError, TypeError):  # defects of the parser
        raise FrontmatterError("frontmatter is not YAML: unreadable") from None
    return node


def _members(node: object) -> Sequence[tuple[object, object]]:
    """Return the members of a mapping; any other node has none."""
    if _attribute(node, "id") != "mapping":
        return ()
    return cast(Sequence[tuple[object, object]], _attribute(node, "value"))  # nodes of keys and values


def _scalar(node: object) -> tuple[str | None, str]:
    """Return the content of a scalar node, and its tag."""
    content = _attribute(node, "value") if _attribute(node, "id") == "scalar" else None
    return content if isinstance(content, str) else None, str(_attribute(node, "tag"))


def _attribute(value: object, name: str) -> object:
    """Return an attribute that the parser's types do not declare."""
    return getattr(value, name, None)
