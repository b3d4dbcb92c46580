"""The tools of one process: which exist, and which are active and so sent to models.

Built-in tools, and those of extensions, of which one replaces a built-in tool of its name. Flags and settings of the
user choose the active ones of a session's beginning; a choice may replace them later, and what a session records of
such choices is restored. A mapping of the active tools, in the order in which a model receives them; it changes between
two requests only. Has no knowledge of the tools.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.tools.base import Tool

Choose = Callable[[Mapping[str, Tool], Sequence[str], Collection[str] | None], "ToolChoice"]
"""Takes all tools, the names of further ones that are active by default, and those that were recorded instead."""


class ToolChoice(NamedTuple):
    """The choice of flags and settings among the existing tools."""

    active: Mapping[str, Tool]
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    """Restrictions that name no existing tool: the process must not start with them."""


def all_active(tools: Mapping[str, Tool], _added: Sequence[str], recorded: Collection[str] | None) -> ToolChoice:
    """Choose all tools, for a process without flags and settings."""
    return ToolChoice(tools if recorded is None else {name: tool for name, tool in tools.items() if name in recorded})


class ToolRegistry(Mapping[str, Tool]):
    """The active tools by name."""

    def __init__(self, builtin: Mapping[str, Tool], choose: Choose) -> None:
        """Start with the built-in tools."""
        self._builtin = builtin
        self._choose = choose
        self.all: dict[str, Tool] = dict(builtin)
        """All tools, active or not, in their order."""
        self.is_chosen = False
        """Whether the active tools are those of a choice, not those of flags, settings and extensions."""
        self._defaults: dict[str, None] = {}
        self.awaited: set[str] = set()
        """The names of tools that become active when they are registered."""
        self._active = dict(choose(self.all, (), None).active)
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
            kept: The names of tools that were active before a reload; they stay active if they still exist, and only
                tools that are new are added to them.
        """
        former = {} if kept is None else self.all
        self._put(added)
        self._defaults = dict.fromkeys(defaults)
        names = set(self._choose(self.all, defaults, None).active).difference(former).union(kept or ())
        self.awaited = set(kept or ()).difference(self.all)
        self.is_chosen = self.is_chosen and kept is not None
        self._activate(names)

    def refresh(self, added: Mapping[str, Tool], *, activated: str | None = None) -> None:
        """Update the tools of extensions; one may become active, if the user's flags allow it, and those awaited do."""
        names = set(self._active)
        self._put(added)
        if activated is not None:
            self._defaults[activated] = None
            names |= self._choose(self.all, [activated], None).active.keys() & {activated}
        if self.awaited and (come := self.awaited & self.all.keys()):
            self.awaited -= come
            names |= self._choose(self.all, (), come).active.keys() & come
        self._activate(names)

    def restore(self, active: Collection[str], mentioned: Collection[str]) -> None:
        """Activate tools that were recorded, those that do not exist yet when they are registered.

        Lists of names in flags take precedence; tools of extensions that are not `mentioned` are new.
        """
        added = list(self._defaults)
        names = {*active, *(name for name in added if name not in mentioned and name not in self._builtin)}
        self.awaited, self.is_chosen = names.difference(self.all), True
        self._activate(set(self._choose(self.all, added, names).active))

    def reset(self) -> None:
        """Activate what a session begins with."""
        self.awaited, self.is_chosen = set(), False
        self._activate(set(self._choose(self.all, list(self._defaults), None).active))

    def is_builtin(self, tool: Tool) -> bool:
        """Return whether a tool is built in."""
        return self._builtin.get(tool.name) is tool

    def unknown(self) -> ToolChoice:
        """Return warnings and refusals about tools that the user has named and that do not exist now."""
        return self._choose(self.all, (), None)

    def activate(self, names: Collection[str]) -> None:
        """Activate these tools, and no others; unknown names are ignored."""
        chosen, self.is_chosen = set(names), True
        if not chosen.issuperset(self._active):
            self.awaited = set()
        self._activate(chosen)

    def _put(self, added: Mapping[str, Tool]) -> None:
        self.all = {name: added.get(name, tool) for name, tool in self._builtin.items()}
        self.all |= {name: tool for name, tool in added.items() if name not in self.all}

    def _activate(self, names: set[str]) -> None:
        self._active = {name: tool for name, tool in self.all.items() if name in names}
