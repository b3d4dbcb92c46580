"""Settings, models, credentials and context files, read from the user's folders."""

from pinnace_agent.resources.configuration import Configuration, load_configuration, shell_of
from pinnace_agent.resources.credentials import Credentials
from pinnace_agent.resources.model_patterns import ModelRequest, Resolution
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.selection import Choice, Selection, select_initial
from pinnace_agent.resources.settings import Settings
from pinnace_agent.resources.system_prompt import assemble_system_prompt, read_prompt_argument
from pinnace_agent.resources.tool_selection import ToolSelection, select_tools

__all__ = [
    "Choice",
    "Configuration",
    "Credentials",
    "ModelRegistry",
    "ModelRequest",
    "Resolution",
    "Selection",
    "Settings",
    "ToolSelection",
    "assemble_system_prompt",
    "load_configuration",
    "read_prompt_argument",
    "select_initial",
    "select_tools",
    "shell_of",
]
