"""The built-in tools that a model can call.

Their modules are loaded when somebody asks for more than their names: a process that has not been asked anything yet
does without.
"""

from importlib import import_module
from typing import Any, Final, cast

from pinnace_agent.tools.base import Tool


class _LateTool:
    """A tool of which only the name is known, until more is asked for."""

    _loaded: object = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, member: str) -> Any:  # Any: of whatever type that member of `Tool` is
        if self._loaded is None:
            module = import_module(f"pinnace_agent.tools.{self.name}")
            self._loaded = getattr(module, f"{self.name.capitalize()}Tool")()
        return getattr(self._loaded, member)


# cast: it has the members of the tool that it loads
BUILTIN_TOOLS: Final = tuple(
    cast(Tool, _LateTool(name)) for name in ("read", "bash", "edit", "write", "grep", "find", "ls")
)
"""In the order of the system prompt."""

DEFAULT_TOOLS: Final = ("read", "bash", "edit", "write")
"""Active unless the user says otherwise; the others do what a shell does, for those who want none."""


READ_ONLY_TOOLS: Final = frozenset({"read", "grep", "find", "ls"})
"""Those that change nothing."""


def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools by name, in the order of the system prompt."""
    return {tool.name: tool for tool in BUILTIN_TOOLS}


__all__ = ["BUILTIN_TOOLS", "DEFAULT_TOOLS", "READ_ONLY_TOOLS", "builtin_tools"]
