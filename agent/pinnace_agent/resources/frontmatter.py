"""Frontmatter: the few YAML lines between `---` that a Markdown file may begin with.

Of the YAML only members of the outermost mapping count, and of these texts and `true`. It is read into nodes, never
made into objects: a tag means nothing, an alias is only ever followed once, and nothing is executed. What nearly every
file has, `name: words`, is read without a parser for YAML, which takes longer to load than everything else here.
Must not know what the fields are for.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

# Ten times the longest description that is allowed; the parser needs a fifth of a second for it at worst.
MAX_FRONTMATTER_CHARS: Final = 16_384
# What JavaScript calls white space, in which the format is defined; Python's has others.
BLANKS: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
    "\u205f\u3000\ufeff"
)
# The parser's time grows with the square of these; people write a handful.
_MAX_BRACKETS: Final = 1_000
_MARK: Final = "---"
# A line that means the same to every reader of YAML: no quotes, no comments, no numbers, nothing that goes on below.
_PLAIN_LINE: Final = re.compile(
    r"([a-z][a-z0-9-]*): +([A-Za-z][^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*)"
)
_MEANS_MORE: Final = re.compile(r":(?: |\Z)| #| \Z")
_CONSTANTS: Final = frozenset({"true", "false", "null"})
_STANDARD_TAG: Final = "tag:yaml.org,2002:"
_NO_TEXTS: Final = frozenset(f"{_STANDARD_TAG}{kind}" for kind in ("null", "bool", "int", "float", "binary"))


class FrontmatterError(Exception):
    """Frontmatter that means nothing; the text says why and where."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


class Document(NamedTuple):
    """A file: its frontmatter, and what comes after it."""

    body: str
    """Without blanks around it if there is frontmatter, else as it is."""
    has_frontmatter: bool = False
    texts: Mapping[str, str] = {}
    """The members that are texts."""
    true: frozenset[str] = frozenset()
    """The members that are true."""


def read_document(text: str) -> Document:
    """Split a file. Line ends become LF.

    Raises:
        FrontmatterError: There is frontmatter, but it is too long or no YAML.
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
    texts, true = _parsed(f"{source}\n")
    return Document(body, True, texts, true)


def _plain(source: str) -> dict[str, str] | None:
    """Read lines of `name: words`; None: there is something else."""
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
    """Read YAML into its nodes; None if there are none."""
    import warnings

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of anchors that are given twice
            # pure: YAML 1.2, so that `on` and `no` stay text.
            node: object = YAML(typ="safe", pure=True).compose(source)  # pyright: ignore[reportUnknownMemberType]
    except YAMLError as error:
        # Its whole text is several lines that repeat the file.
        problem, line = _attribute(error, "problem"), _attribute(_attribute(error, "problem_mark"), "line")
        where = f" (line {line + 2})" if isinstance(line, int) else ""
        raise FrontmatterError(f"frontmatter is not YAML: {problem or 'unreadable'}{where}") from None
    except RecursionError:
        raise FrontmatterError("frontmatter is nested too deeply") from None
    except (ValueError, LookupError, AttributeError, TypeError):  # the parser's own slips over odd input
        raise FrontmatterError("frontmatter is not YAML: unreadable") from None
    return node


def _members(node: object) -> Sequence[tuple[object, object]]:
    """Return the members of a mapping; a text, a list and nothing have none."""
    if _attribute(node, "id") != "mapping":
        return ()
    return cast(Sequence[tuple[object, object]], _attribute(node, "value"))  # nodes of keys and values


def _scalar(node: object) -> tuple[str | None, str]:
    """Return the words of a node that has no parts, and its tag."""
    content = _attribute(node, "value") if _attribute(node, "id") == "scalar" else None
    return content if isinstance(content, str) else None, str(_attribute(node, "tag"))


def _attribute(value: object, name: str) -> object:
    """Read what the parser's types don't tell."""
    return getattr(value, name, None)
