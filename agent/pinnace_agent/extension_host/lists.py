"""Lists that extensions are given: tools, and what a prompt can name after a slash."""

from collections.abc import Mapping, Sequence
from typing import cast

from pinnace_agent.extensions.extension_tool import ExtensionTool
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_view import CommandInfo, ToolInfo
from pinnace_agent.resources.folder_resources import FolderResources
from pinnace_agent.tools import READ_ONLY_TOOLS
from pinnace_agent.tools.base import Tool


def tool_info(tool: Tool) -> ToolInfo:
    """Describe a tool, whoever brought it."""
    source: Mapping[str, object]
    if isinstance(tool, ExtensionTool):
        source = tool.extension.source
        is_read_only = tool.is_read_only
    else:
        source = {"path": f"<builtin:{tool.name}>", "source": "builtin", "scope": "temporary", "origin": "top-level"}
        is_read_only = tool.name in READ_ONLY_TOOLS
    return ToolInfo(tool.name, tool.description, _shown(tool.parameters), _shown(source), tool.guidelines, is_read_only)


def _shown(value: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", frozen(value))  # cast: a copy of it, only to be read


def resource_commands(resources: FolderResources) -> Sequence[CommandInfo]:
    """Describe templates, then skills."""
    templates = [
        CommandInfo(each.name, "prompt", each.origin.source_info(each.path), each.description)
        for each in resources.templates.values()
    ]
    skills = [
        CommandInfo(f"skill:{each.name}", "skill", each.origin.source_info(each.path), each.description)
        for each in resources.skills.values()
    ]
    return [*templates, *skills]
