"""Which tools are active: the defaults, changed or replaced by the settings, then by the command line.

Pure. A list of names replaces the defaults; a list of changes (`+name`, `-name`) alters them one by one, or the empty
list if all were switched off; exclusions are applied last. Settings may do both: names, then changes. Names may be
patterns. The active tools keep their order. Rule R-TOL-06.

Tools of MCP servers are filtered by a list of names only if it names one, as in pi; they come later than the list, so a
name of one may match no tool yet.

A name that matches no tool restricts nothing, or everything: on a command line, and where settings remove a tool, it is
an error. A pattern without a match is not, nor is a tool of pi's that does not exist here.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeVar

_T = TypeVar("_T")

# Built-in tools of pi alone, which its settings and clients may name.
_TOOLS_OF_PI: Final = frozenset({"codemode", "powershell"})
_SERVER_TOOL: Final = "mcp__"
_RESOURCE_TOOLS: Final = frozenset({"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"})


class ToolSelection(NamedTuple):
    """The choice of the command line. `wanted` None: none; empty: no tool."""

    wanted: Sequence[str] | None = None
    excluded: Sequence[str] = ()
    none: bool = False


def select_tools(
    tools: Mapping[str, _T],
    selection: ToolSelection,
    defaults: Iterable[str],
    configured: Sequence[str] | None = None,
) -> tuple[dict[str, _T], tuple[str, ...]]:
    """Return the active tools in their order, and a warning for each name that matches no tool.

    Args:
        tools: All tools, by name.
        selection: The choice of the command line.
        defaults: The names of those that are active by default.
        configured: The list of the user's settings, if there is one: names, changes, or both.

    Raises:
        ValueError: Names and changes are mixed.
    """
    names = set(tools)
    active = set[str]() if selection.none else _configured(names, names & set(defaults), configured)
    wanted = tuple(selection.wanted or ())
    changes = _changes(wanted)
    if changes and len(changes) != len(wanted):
        raise ValueError("--tools takes either names or changes (+name, -name), not both")
    active = _changed(names, active, changes)
    if not changes and selection.wanted is not None:
        active = _matching(names, wanted)
        if wanted and not any(word.startswith(_SERVER_TOOL) for word in wanted):
            active |= {name for name in names & set(defaults) if is_of_servers(name)}
    active -= _matching(names, selection.excluded)
    words = [_name(word) for word in (*(configured or ()), *wanted)]
    unknown = dict.fromkeys(
        word for word in (*words, *selection.excluded) if not (is_of_servers(word) or _matching(names, [word]))
    )
    return (
        {name: tool for name, tool in tools.items() if name in active},
        tuple(f'there is no tool named "{word}"' for word in unknown),
    )


# DEVIATION D-60: an unknown name in a restriction keeps the process from starting.
def refused_names(
    tools: Iterable[str], selection: ToolSelection, configured: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Return an error for each restriction that names no tool; the arguments are those of `select_tools`."""
    names = list(tools)
    words = {
        "--tools": [_name(word) for word in selection.wanted or ()],
        "--exclude-tools": list(selection.excluded),
        "defaultTools": [word[1:] for word in configured or () if word[:1] == "-"],
    }
    wrong = [
        (source, word)
        for source, group in words.items()
        for word in dict.fromkeys(group)
        if not (_is_pattern(word) or word in names or word in _TOOLS_OF_PI or is_of_servers(word))
    ]
    if not wrong:
        return ()
    from pinnace_spec.nearest import nearest_or_all

    return tuple(f'{source}: there is no tool named "{word}"; {nearest_or_all(word, names)}' for source, word in wrong)


def is_of_servers(name: str) -> bool:
    """Return whether a tool comes from MCP servers, which are connected later."""
    return name.startswith(_SERVER_TOOL) or name in _RESOURCE_TOOLS


def _is_pattern(word: str) -> bool:
    return any(character in word for character in "*?[")


def _configured(names: set[str], defaults: set[str], words: Sequence[str] | None) -> set[str]:
    if words is None:
        return defaults
    changes = _changes(words)
    # A list of changes alone alters the defaults; an empty list means no tool.
    only_changes = bool(words) and len(changes) == len(words)
    active = defaults if only_changes else _matching(names, [word for word in words if word not in changes])
    return _changed(names, active, changes)


def _changes(words: Iterable[str]) -> list[str]:
    return [word for word in words if word[:1] in {"+", "-"}]


def _changed(names: set[str], active: set[str], changes: Iterable[str]) -> set[str]:
    for word in changes:
        meant = _matching(names, [word[1:]])
        active = active | meant if word[0] == "+" else active - meant
    return active


def _name(word: str) -> str:
    return word[1:] if word[:1] in {"+", "-"} else word


def _matching(names: Iterable[str], patterns: Iterable[str]) -> set[str]:
    wanted = list(patterns)
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in wanted)}
