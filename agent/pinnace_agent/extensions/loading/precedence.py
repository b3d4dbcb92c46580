"""Precedence between extensions: tools and flags with the same name, and replaceable extensions.

Pure functions of registrations, in load order. The precedence of commands is in `runtime.commands`, that of flag values
in `registration.flags`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pinnace_agent.extensions.loading.folders import LoadFailure
from pinnace_agent.extensions.registration.registrations import Extension, ToolRegistration


class ToolOwner(NamedTuple):
    """A tool and its extension."""

    extension: Extension
    registration: ToolRegistration


class KeptExtensions(NamedTuple):
    """The extensions that stay, and those that are left out."""

    extensions: Sequence[Extension]
    left_out: Sequence[Extension]
    warnings: Sequence[str]


def tools_of(extensions: Iterable[Extension]) -> dict[str, ToolOwner]:
    """Return the tools by name; for a shared name, that of the extension loaded first."""
    tools: dict[str, ToolOwner] = {}
    for extension in extensions:
        for name, registration in extension.tools.items():
            tools.setdefault(name, ToolOwner(extension, registration))
    return tools


def conflicts(extensions: Iterable[Extension]) -> list[LoadFailure]:
    """Return the tools and flags that several extensions registered although only one can."""
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


def keep_needed(extensions: Sequence[Extension]) -> KeptExtensions:
    """Leave out replaceable extensions if another one has the same tool, command or flag."""
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
            warnings.append(f"{extension.path} is left out: {by.path} has {_overlap(extension, by)} as well")
    return KeptExtensions(kept, left_out, warnings)


def _overlap(one: Extension, other: Extension) -> str:
    """Name a registration that both have; empty: there is none."""
    for kind, own, theirs in (
        ("the tool", one.tools, other.tools),
        ("the command /", one.commands, other.commands),
        ("the flag --", one.flags, other.flags),
    ):
        shared = sorted(own.keys() & theirs.keys())
        if shared:
            return f"{kind}{'' if kind[-1] in '/-' else ' '}{shared[0]}"
    return ""
