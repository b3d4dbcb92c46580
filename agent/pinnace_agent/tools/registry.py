"""The tools of one process: which exist, and which are active and so sent to models.

Built-in tools, and those of extensions, of which one replaces a built-in tool of its name. Flags and settings of the
user choose the active ones; extensions may change them later. A mapping of the active tools, in the order in which a
model receives them; it changes between two requests only. Has no knowledge of the tools.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.tools.base import Tool

Choose = Callable[[Mapping[str, Tool], Sequence[str]], "ToolChoice"]
"""Takes all tools, and the names of further ones that are active by default."""


class ToolChoice(NamedTuple):
    """The choice of flags and settings among the existing tools."""

    active: Mapping[str, Tool]
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    """Restrictions that name no existing tool: the process must not start with them."""


def all_active(tools: Mapping[str, Tool], _defaults: Sequence[str]) -> ToolChoice:
    """Choose all tools, for a process without flags and settings."""
    return ToolChoice(tools)


class ToolRegistry(Mapping[str, Tool]):
    """The active tools by name."""

    def __init__(self, builtin: Mapping[str, Tool], choose: Choose) -> None:
        """Start with the built-in tools."""
        self._builtin = builtin
        self._choose = choose
        self.all: dict[str, Tool] = dict(builtin)
        """All tools, active or not, in their order."""
        chosen = choose(self.all, ())
        self._active = dict(chosen.active)
        self.refusal: str | None = None
        """Why every call is rejected now; None: calls are executed."""

    def __getitem__(self, name: str) -> Tool:
        """Return an active tool."""
        return self._active[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the active tools."""
        return iter(self._active)

    def __len__(self) -> int:
        """Count the active tools."""
        return len(self._active)

    def use(self, added: Mapping[str, Tool], defaults: Sequence[str], *, kept: Sequence[str] | None = None) -> None:
        """Use the tools of a session instance's extensions.

        Args:
            added: All of them.
            defaults: The names of those that are active by default.
            kept: The names of tools that were active before a reload; they stay active if they still exist.
        """
        self._put(added)
        names = set(self._choose(self.all, defaults).active) | set(kept or ())
        self._activate(names)

    def refresh(self, added: Mapping[str, Tool], *, activated: str | None = None) -> None:
        """Update the tools of extensions; one of them may become active, if the user's flags allow it."""
        names = set(self._active)
        self._put(added)
        if activated is not None and activated in self._choose(self.all, [activated]).active:
            names.add(activated)
        self._activate(names)

    def is_builtin(self, tool: Tool) -> bool:
        """Return whether a tool is built in."""
        return self._builtin.get(tool.name) is tool

    def unknown(self) -> ToolChoice:
        """Return warnings and refusals about tools that the user has named and that do not exist now."""
        return self._choose(self.all, ())

    def activate(self, names: Sequence[str]) -> None:
        """Activate these tools, and no others; unknown names are ignored."""
        self._activate(set(names))

    def _put(self, added: Mapping[str, Tool]) -> None:
        self.all = {name: added.get(name, tool) for name, tool in self._builtin.items()}
        self.all |= {name: tool for name, tool in added.items() if name not in self.all}

    def _activate(self, names: set[str]) -> None:
        self._active = {name: tool for name, tool in self.all.items() if name in names}
