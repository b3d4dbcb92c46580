"""The built-in tools that a model can call."""

from typing import Final

from pinnace_agent.tools.base import Tool
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.find import FindTool
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.ls import LsTool
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.write import WriteTool

BUILTIN_TOOLS: Final[tuple[Tool, ...]] = (
    ReadTool(),
    BashTool(),
    EditTool(),
    WriteTool(),
    GrepTool(),
    FindTool(),
    LsTool(),
)
"""In the order of the system prompt."""

DEFAULT_TOOLS: Final = ("read", "bash", "edit", "write")
"""Active unless the user says otherwise; the others do what a shell does, for those who want none."""


READ_ONLY_TOOLS: Final = frozenset({"read", "grep", "find", "ls"})
"""Those that change nothing."""


def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools by name, in the order of the system prompt."""
    return {tool.name: tool for tool in BUILTIN_TOOLS}


__all__ = ["BUILTIN_TOOLS", "DEFAULT_TOOLS", "builtin_tools"]
