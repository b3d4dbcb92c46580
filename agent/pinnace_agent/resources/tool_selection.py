"""Which tools are active: the defaults, changed or replaced by the command line.

Pure. Order of strength: the default list, an allowlist or a list of changes (`+name`, `-name`), switches that turn all
off, a denylist. The active tools keep the order of the defaults. Rule R-TOL-06.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")


class ToolSelection(NamedTuple):
    """What the command line says. `wanted` None: nothing; empty: no tool."""

    wanted: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    none: bool = False


def select_tools(tools: Mapping[str, _T], selection: ToolSelection) -> tuple[dict[str, _T], tuple[str, ...]]:
    """Return the active tools in their order, and a warning for each name that fits no tool.

    Raises:
        ValueError: Names and changes are mixed.
    """
    names = set(tools)
    active = set[str]() if selection.none else set(names)
    wanted = selection.wanted
    changes = [word for word in wanted or () if word[:1] in {"+", "-"}]
    if wanted is not None and changes and len(changes) != len(wanted):
        raise ValueError("--tools takes either names or changes (+name, -name), not both")
    if changes:
        active |= {word[1:] for word in changes if word[0] == "+"} & names
        active -= {word[1:] for word in changes if word[0] == "-"}
    elif wanted is not None:
        active = _matching(names, wanted)
    active -= _matching(names, selection.excluded)
    words = [word[1:] for word in changes] or list(wanted or ())
    unknown = [word for word in (*words, *selection.excluded) if not _matching(names, [word])]
    return (
        {name: tool for name, tool in tools.items() if name in active},
        tuple(f"there is no tool named {word}" for word in unknown),
    )


def _matching(names: Iterable[str], patterns: Iterable[str]) -> set[str]:
    return {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
