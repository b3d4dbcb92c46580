"""Reads YAML 1.2 so that every value can be failure by its line: errors name file, line and field."""

from collections.abc import Callable, Mapping
from functools import lru_cache
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
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        # The library's types are partial.
        node: Any = YAML(typ="safe", pure=True).compose(text)  # pyright: ignore[reportUnknownMemberType]
    except MarkedYAMLError as error:
        failure: Any = error
        mark = failure.problem_mark or failure.context_mark
        raise YamlError(str(failure.problem or error), mark.line + 1 if mark else 1) from None
    lines: dict[Path, int] = {}
    return (None if node is None else _value(node, (), lines)), lines


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
    "int": lambda text: int(text.replace("_", ""), 0),
    "float": lambda text: float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan")),
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
}
