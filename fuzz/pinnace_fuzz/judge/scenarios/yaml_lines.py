"""Reads YAML 1.2 so that every value can be found by its line: errors name file, line and field.

The syntax is PyYAML's, with its compiled parser where the installation has it: a judge reads all scenarios at each
start. What a plain word is (a number, a boolean, null, else text) is decided here, by the core schema of YAML 1.2:
PyYAML's own is that of 1.1, where `on` and `no` are booleans.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Lines: TypeAlias = Mapping[Path, int]

# More than there are files of scenarios: a process that judges several times parses each of them once.
_KEPT_DOCUMENTS: Final = 64


class YamlError(ValueError):
    """A text is not YAML, or not in the supported subset. `line` counts from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@lru_cache(_KEPT_DOCUMENTS)
def read_yaml(text: str) -> tuple[Any, Lines]:
    """Return the value of a document and the line on which each of its parts begins.

    Texts, numbers, booleans and null; mappings with texts as keys, each once; lists. Nothing else of YAML: no tags, and
    no aliases, since a value has one place. The same text gives the same objects again: they are for reading only.

    Raises:
        YamlError: It is something else.
    """
    from yaml import MarkedYAMLError
    from yaml import YAMLError as LibraryError

    try:
        node: Any = _loader()(text).get_single_node()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(str(error.problem or error), mark.line + 1 if mark else 1) from None
    except LibraryError as error:  # a character that no YAML has
        raise YamlError(str(error).partition("\n")[0], 1) from None
    lines: dict[Path, int] = {}
    return (None if node is None else _value(node, (), lines)), lines


@cache
def _loader(*, is_compiled: bool = True) -> Callable[[str], Any]:
    """Make the class that reads a document; by the parser in Python if the compiled one is not wanted or not there."""

    def part(module: str, name: str) -> Any:
        return getattr(import_module(f"yaml.{module}"), name)  # some of them have no types

    resolver: Any = type("Resolver", (part("resolver", "BaseResolver"),), {})
    for kind, (pattern, first) in _PLAIN.items():
        resolver.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), list(first))
    if is_compiled and import_module("yaml").__with_libyaml__:
        reader, others = part("cyaml", "CParser"), [resolver]
    else:
        names = ("scanner", "Scanner"), ("parser", "Parser"), ("composer", "Composer")
        reader, others = part("reader", "Reader"), [*(part(*each) for each in names), resolver]

    def begin(self: object, text: str) -> None:
        reader.__init__(self, text)
        for each in others:
            each.__init__(self)

    loader: Any = type("Loader", (reader, *others), {"__init__": begin})
    made: Callable[[str], Any] = loader
    return made


# The library's nodes, whose types are partial.
def _value(node: Any, path: Path, lines: dict[Path, int]) -> Any:
    lines.setdefault(path, _line(node))
    # A mapping's value is a list of pairs, a list's one of nodes, that of anything else its text.
    match node.id:
        case "mapping":
            return _mapping(node, path, lines)
        case "sequence":
            return [_value(each, (*path, at), lines) for at, each in enumerate(node.value)]
        case _:
            text = str(node.value)
    try:
        return _SCALARS[_tag(node)](text)
    except (KeyError, ValueError):
        raise YamlError(f"{text!r} is of no kind that is read here", _line(node)) from None


def _mapping(node: Any, path: Path, lines: dict[Path, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key_node.id != "scalar" or _tag(key_node) != "str":
            raise YamlError("a key is a text", _line(key_node))
        if key in found:
            raise YamlError(f"the key {key!r} is repeated", _line(key_node))
        lines[(*path, key)] = _line(key_node)
        found[key] = _value(value_node, (*path, key), lines)
    return found


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _tag(node: Any) -> str:
    return str(node.tag).rpartition(":")[2]


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "int": lambda text: int(text, 0 if text[:2] in ("0o", "0x") else 10),
    "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
}
# The core schema: how a plain word of each kind looks, and the characters that it begins with; "": it may be empty.
_PLAIN: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "null": ("~|null|Null|NULL|", ("~", "n", "N", "")),
    "bool": ("true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    "int": ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", tuple("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN",
        tuple("-+0123456789."),
    ),
}
