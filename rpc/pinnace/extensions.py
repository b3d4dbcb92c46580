"""What authors of extensions import: `from pinnace.extensions import ExtensionAPI, Block, Context, events as ev`.

Only names; the inner package may move things, these stay.
"""

from pinnace_agent.extensions import events
from pinnace_agent.extensions.api import ExtensionAPI
from pinnace_agent.extensions.contexts import CommandContext, Context, ReplacedContext, ToolContext
from pinnace_agent.extensions.host_port import (
    CommandInfo,
    ContextUsage,
    SessionResult,
    ToolInfo,
)
from pinnace_agent.extensions.programs import ExecResult
from pinnace_agent.extensions.provider_config import ProviderConfig
from pinnace_agent.extensions.registering import Completion
from pinnace_agent.extensions.registrations import (
    ExtensionFailedError,
    ExtensionLoadingError,
    StaleContextError,
    ToolDefinition,
)
from pinnace_agent.extensions.results import (
    UNSET,
    BashOutput,
    BeforeStart,
    Block,
    Boundary,
    CacheDecision,
    Cancel,
    Compaction,
    Continue,
    CustomContent,
    ForkOptions,
    Handled,
    Messages,
    ReplaceMessage,
    Resources,
    ResultPatch,
    ToolResult,
    Transform,
    TreeOptions,
    TreeSummary,
    Trust,
    UserBash,
)
from pinnace_agent.extensions.tool_state import ToolState
from pinnace_agent.extensions.unused_parts import NotAvailableError
from pinnace_agent.tools.base import ToolError

__all__ = [
    "UNSET",
    "BashOutput",
    "BeforeStart",
    "Block",
    "Boundary",
    "CacheDecision",
    "Cancel",
    "CommandContext",
    "CommandInfo",
    "Compaction",
    "Completion",
    "Context",
    "ContextUsage",
    "Continue",
    "CustomContent",
    "ExecResult",
    "ExtensionAPI",
    "ExtensionFailedError",
    "ExtensionLoadingError",
    "ForkOptions",
    "Handled",
    "Messages",
    "NotAvailableError",
    "ProviderConfig",
    "ReplaceMessage",
    "ReplacedContext",
    "Resources",
    "ResultPatch",
    "SessionResult",
    "StaleContextError",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolInfo",
    "ToolResult",
    "ToolState",
    "Transform",
    "TreeOptions",
    "TreeSummary",
    "Trust",
    "UserBash",
    "events",
]
