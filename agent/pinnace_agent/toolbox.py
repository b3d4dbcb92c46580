"""The tools of one process: which there are, and which of them models are told of.

Built-in ones, and over them those of extensions, of which one replaces a built-in tool of its name. What is active is
chosen by the user's flags and settings, and by extensions afterwards. A mapping of the active tools, in the order in
which a model sees them; it changes between two requests. Must not know what a tool does. R8, R9; F3 to F5.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.tools.base import Tool

Choose = Callable[[Mapping[str, Tool], Sequence[str]], "Chosen"]
"""Takes all tools, and the names of further ones that are active unless the user says otherwise."""


class Chosen(NamedTuple):
    """What the user's flags and settings make of the tools that there are."""

    active: Mapping[str, Tool]
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    """Restrictions that name nothing there is: the process must not start with them."""


def all_active(tools: Mapping[str, Tool], _defaults: Sequence[str]) -> Chosen:
    """Choose all tools: nobody has said anything."""
    return Chosen(tools)


class Toolbox(Mapping[str, Tool]):
    """The active tools by name."""

    def __init__(self, builtin: Mapping[str, Tool], choose: Choose) -> None:
        """Hold the built-in tools."""
        self._builtin = builtin
        self._choose = choose
        self.all: dict[str, Tool] = dict(builtin)
        """Active or not, in their order."""
        chosen = choose(self.all, ())
        self._active = dict(chosen.active)
        self.on_change: Callable[[], None] | None = None
        self.refusal: str | None = None
        """Why no call may be carried out now, whatever tool it names; None: calls are carried out."""

    def __getitem__(self, name: str) -> Tool:
        """Return an active tool."""
        return self._active[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the active ones."""
        return iter(self._active)

    def __len__(self) -> int:
        """Count the active ones."""
        return len(self._active)

    def use(self, added: Mapping[str, Tool], defaults: Sequence[str], *, kept: Sequence[str] | None = None) -> None:
        """Begin with the tools of a session instance's extensions.

        Args:
            added: All of them.
            defaults: The names of those that are active unless the user says otherwise.
            kept: What was active before a reload; stays active if it is still there.
        """
        self._put(added)
        names = set(self._choose(self.all, defaults).active) | set(kept or ())
        self._activate(names)

    def refresh(self, added: Mapping[str, Tool], *, activated: str | None = None) -> None:
        """Take the tools of extensions as they are now; one of them may become active, if the user's flags let it."""
        names = set(self._active)
        self._put(added)
        if activated is not None and activated in self._choose(self.all, [activated]).active:
            names.add(activated)
        self._activate(names)

    def unknown(self) -> Chosen:
        """Return what the user has named and is not there, as warnings and refusals, among the tools of now."""
        return self._choose(self.all, ())

    def activate(self, names: Sequence[str]) -> None:
        """Tell models of these from now on; unknown names are passed over."""
        self._activate(set(names))

    def _put(self, added: Mapping[str, Tool]) -> None:
        self.all = {name: added.get(name, tool) for name, tool in self._builtin.items()}
        self.all |= {name: tool for name, tool in added.items() if name not in self.all}

    def _activate(self, names: set[str]) -> None:
        self._active = {name: tool for name, tool in self.all.items() if name in names}
        if self.on_change is not None:
            self.on_change()
