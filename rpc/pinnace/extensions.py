"""The public names for authors: `from pinnace.extensions import ExtensionAPI, Block, Context, events as ev`.

These names are stable; the modules that define them are not. Helpers that few extensions need are imported on first
use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pinnace_agent.config.credentials.logins import LoginCallbacks, LoginCancelled
from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.contexts import CommandContext, Context, ReplacedContext, ToolContext
from pinnace_agent.extensions.api.registering import Completion, NotAvailableError
from pinnace_agent.extensions.api.tool_state import ToolState
from pinnace_agent.extensions.events import events
from pinnace_agent.extensions.events.results import (
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
from pinnace_agent.extensions.ports.host_view import CommandInfo, ContextUsage, SessionResult, ToolInfo
from pinnace_agent.extensions.registration.provider_config import (
    OAuth,
    ProviderConfig,
    RefreshContext,
)
from pinnace_agent.extensions.registration.registrations import (
    ExtensionFailedError,
    ExtensionLoadingError,
    StaleContextError,
    ToolDefinition,
)
from pinnace_agent.extensions.services.programs import ExecResult
from pinnace_agent.tools.base import ToolError

if TYPE_CHECKING:
    from pinnace_agent.config.credentials.loopback_redirect import Pkce, Redirect, loopback_redirect, pkce
    from pinnace_agent.core.visible_text import visible_line, visible_lines
    from pinnace_agent.extensions.api import tool_factories as builtin
    from pinnace_agent.extensions.api.helpers import (
        CONFIG_DIR_NAME,
        DEFAULT_MAX_BYTES,
        DEFAULT_MAX_LINES,
        ModelError,
        SessionManager,
        Truncation,
        agent_dir,
        complete,
        file_mutation,
        format_size,
        message_text,
        serialize_conversation,
        truncate_head,
        truncate_line,
        truncate_tail,
    )
    from pinnace_agent.extensions.api.terminal_texts import (
        get_language_from_path,
        highlight_code,
        key_hint,
        key_text,
        raw_key_hint,
    )
    from pinnace_agent.extensions.api.tool_factories import Spawn
    from pinnace_agent.extensions.registration.stream_requests import StreamContext, StreamEvent, StreamOptions
    from pinnace_agent.session.listing import SessionInfo
    from pinnace_agent.tools import operations
    from pinnace_agent.tools.paths import resolve_path
    from pinnace_spec.records.messages import Message, Model

_HELPERS = "pinnace_agent.extensions.api.helpers"
_TERMINAL_TEXTS = "pinnace_agent.extensions.api.terminal_texts"
_HOMES = {
    "CONFIG_DIR_NAME": _HELPERS,
    "DEFAULT_MAX_BYTES": _HELPERS,
    "DEFAULT_MAX_LINES": _HELPERS,
    "Message": "pinnace_spec.records.messages",
    "Model": "pinnace_spec.records.messages",
    "ModelError": _HELPERS,
    "Pkce": "pinnace_agent.config.credentials.loopback_redirect",
    "Redirect": "pinnace_agent.config.credentials.loopback_redirect",
    "SessionInfo": "pinnace_agent.session.listing",
    "SessionManager": _HELPERS,
    "Spawn": "pinnace_agent.extensions.api.tool_factories",
    "StreamContext": "pinnace_agent.extensions.registration.stream_requests",
    "StreamEvent": "pinnace_agent.extensions.registration.stream_requests",
    "StreamOptions": "pinnace_agent.extensions.registration.stream_requests",
    "Truncation": _HELPERS,
    "agent_dir": _HELPERS,
    "complete": _HELPERS,
    "file_mutation": _HELPERS,
    "format_size": _HELPERS,
    "get_language_from_path": _TERMINAL_TEXTS,
    "highlight_code": _TERMINAL_TEXTS,
    "key_hint": _TERMINAL_TEXTS,
    "key_text": _TERMINAL_TEXTS,
    "loopback_redirect": "pinnace_agent.config.credentials.loopback_redirect",
    "message_text": _HELPERS,
    "pkce": "pinnace_agent.config.credentials.loopback_redirect",
    "raw_key_hint": _TERMINAL_TEXTS,
    "resolve_path": "pinnace_agent.tools.paths",
    "serialize_conversation": _HELPERS,
    "truncate_head": _HELPERS,
    "truncate_line": _HELPERS,
    "truncate_tail": _HELPERS,
    "visible_line": "pinnace_agent.core.visible_text",
    "visible_lines": "pinnace_agent.core.visible_text",
}
_MODULES = {
    "builtin": "pinnace_agent.extensions.api.tool_factories",
    "operations": "pinnace_agent.tools.operations",
}


def __getattr__(name: str) -> object:
    """Import a helper on first use."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CONFIG_DIR_NAME",
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_LINES",
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
    "LoginCallbacks",
    "LoginCancelled",
    "Message",
    "Messages",
    "Model",
    "ModelError",
    "NotAvailableError",
    "OAuth",
    "Pkce",
    "ProviderConfig",
    "Redirect",
    "RefreshContext",
    "ReplaceMessage",
    "ReplacedContext",
    "Resources",
    "ResultPatch",
    "SessionInfo",
    "SessionManager",
    "SessionResult",
    "Spawn",
    "StaleContextError",
    "StreamContext",
    "StreamEvent",
    "StreamOptions",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolInfo",
    "ToolResult",
    "ToolState",
    "Transform",
    "TreeOptions",
    "TreeSummary",
    "Truncation",
    "Trust",
    "UserBash",
    "agent_dir",
    "builtin",
    "complete",
    "events",
    "file_mutation",
    "format_size",
    "get_language_from_path",
    "highlight_code",
    "key_hint",
    "key_text",
    "loopback_redirect",
    "message_text",
    "operations",
    "pkce",
    "raw_key_hint",
    "resolve_path",
    "serialize_conversation",
    "truncate_head",
    "truncate_line",
    "truncate_tail",
    "visible_line",
    "visible_lines",
]
