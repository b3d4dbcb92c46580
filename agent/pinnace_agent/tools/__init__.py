"""The built-in tools that a model can call."""

from typing import Final

from pinnace_agent.tools.base import Tool
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.write import WriteTool

BUILTIN_TOOLS: Final[tuple[Tool, ...]] = (ReadTool(), BashTool(), EditTool(), WriteTool())
"""In the order of the system prompt."""


def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools by name, in the order of the system prompt."""
    return {tool.name: tool for tool in BUILTIN_TOOLS}


__all__ = ["BUILTIN_TOOLS", "builtin_tools"]
