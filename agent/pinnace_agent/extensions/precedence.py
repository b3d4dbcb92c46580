"""Which of several extensions counts: tools, flags, and what gives way (R7 to R9, R12, D9).

Pure: over what extensions have registered, in load order. Commands have rules of their own, and so have the
values of flags. Must not know what follows from a conflict.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinnace_agent.extensions.extension_folders import LoadFailure
from pinnace_agent.extensions.registrations import Extension, ToolRegistration


class ToolOwner(NamedTuple):
    """The tool that a name means, and whose it is."""

    extension: Extension
    registration: ToolRegistration


class Kept(NamedTuple):
    """Extensions without those that gave way."""

    extensions: Sequence[Extension]
    left_out: Sequence[Extension]
    warnings: Sequence[str]


def tools_of(extensions: Iterable[Extension]) -> dict[str, ToolOwner]:
    """Return the tools by name: of several with the same name, that of the extension that was loaded first (R8)."""
    tools: dict[str, ToolOwner] = {}
    for extension in extensions:
        for name, registration in extension.tools.items():
            tools.setdefault(name, ToolOwner(extension, registration))
    return tools


def conflicts(extensions: Iterable[Extension]) -> list[LoadFailure]:
    """Return what several extensions have registered although only one can (R7): tools and flags."""
    found: list[LoadFailure] = []
    tools: dict[str, Extension] = {}
    flags: dict[str, Extension] = {}
    for extension in extensions:
        for kind, names, owners in (("tool", extension.tools, tools), ("flag", extension.flags, flags)):
            for name in names:
                first = owners.setdefault(name, extension)
                if first is not extension:
                    shown = f"--{name}" if kind == "flag" else name
                    text = f"the {kind} {shown} is registered by {first.path} as well"
                    found.append(LoadFailure(extension.path, text))
    return found


def keep_needed(extensions: Sequence[Extension]) -> Kept:
    """Leave out what is replaceable and was replaced: by any other with the same tool, command or flag (D9)."""
    kept: list[Extension] = []
    left_out: list[Extension] = []
    warnings: list[str] = []
    others = [each for each in extensions if not each.is_replaceable]
    for extension in extensions:
        by = next((each for each in others if _overlap(extension, each)), None) if extension.is_replaceable else None
        if by is None:
            kept.append(extension)
        else:
            left_out.append(extension)
            warnings.append(f"{extension.path} is left out: {by.path} brings {_overlap(extension, by)}, too")
    return Kept(kept, left_out, warnings)


def _overlap(one: Extension, other: Extension) -> str:
    """Name something that both have registered; empty: there is nothing."""
    for kind, own, theirs in (
        ("the tool", one.tools, other.tools),
        ("the command /", one.commands, other.commands),
        ("the flag --", one.flags, other.flags),
    ):
        shared = sorted(own.keys() & theirs.keys())
        if shared:
            return f"{kind}{'' if kind[-1] in '/-' else ' '}{shared[0]}"
    return ""
