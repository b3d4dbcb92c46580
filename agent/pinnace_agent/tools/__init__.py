"""The built-in tools that a model can call. Imports `shell`, `search`, `files` and `core`.

The module of a tool is imported at the first use of more than its name, so that a start imports none.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, cast

from pinnace_agent.tools.base import Tool


class _LazyTool:
    """A tool whose module is imported at the first use of more than its name."""

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
    cast(Tool, _LazyTool(name)) for name in ("read", "bash", "edit", "write", "grep", "find", "ls")
)
"""In the order of the system prompt."""

DEFAULT_TOOLS: Final = ("read", "bash", "edit", "write")
"""Active by default; the others do what a shell does, for users who allow none."""


READ_ONLY_TOOLS: Final = frozenset({"read", "grep", "find", "ls"})
"""The tools that change nothing."""


def builtin_source(name: str) -> Mapping[str, object]:
    """Return where a built-in tool comes from, as on the wire."""
    return {"path": f"<builtin:{name}>", "source": "builtin", "scope": "temporary", "origin": "top-level"}


def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools by name, in the order of the system prompt."""
    return {tool.name: tool for tool in BUILTIN_TOOLS}


__all__ = ["BUILTIN_TOOLS", "DEFAULT_TOOLS", "READ_ONLY_TOOLS", "builtin_source", "builtin_tools"]
