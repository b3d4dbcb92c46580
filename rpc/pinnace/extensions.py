"""What authors of extensions import: `from pinnace.extensions import ExtensionAPI, Block, Context, events as ev`.

Only names; the inner package may move things, these stay. Helpers that not every extension needs are imported when
they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pinnace_agent.extensions import tool_factories as builtin
    from pinnace_agent.extensions.author_helpers import (
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
    from pinnace_agent.extensions.login_helpers import Pkce, Redirect, loopback_redirect, pkce
    from pinnace_agent.extensions.provider_login import LoginCallbacks, LoginCancelled, OAuth
    from pinnace_agent.extensions.provider_refresh import RefreshContext
    from pinnace_agent.extensions.provider_stream import StreamContext, StreamOptions
    from pinnace_agent.extensions.stream_events import StreamEvent
    from pinnace_agent.extensions.terminal_texts import (
        get_language_from_path,
        highlight_code,
        key_hint,
        key_text,
        raw_key_hint,
    )
    from pinnace_agent.extensions.tool_factories import Spawn
    from pinnace_agent.session.listing import SessionInfo
    from pinnace_agent.tools import operations
    from pinnace_agent.tools.paths import resolve_path
    from pinnace_agent.visible_text import visible_line, visible_lines
    from pinnace_spec.messages import Message, Model

_HELPERS = "pinnace_agent.extensions.author_helpers"
_TERMINAL_TEXTS = "pinnace_agent.extensions.terminal_texts"
_HOMES = {
    "CONFIG_DIR_NAME": _HELPERS,
    "DEFAULT_MAX_BYTES": _HELPERS,
    "DEFAULT_MAX_LINES": _HELPERS,
    "LoginCallbacks": "pinnace_agent.extensions.provider_login",
    "LoginCancelled": "pinnace_agent.extensions.provider_login",
    "Message": "pinnace_spec.messages",
    "Model": "pinnace_spec.messages",
    "ModelError": _HELPERS,
    "OAuth": "pinnace_agent.extensions.provider_login",
    "Pkce": "pinnace_agent.extensions.login_helpers",
    "Redirect": "pinnace_agent.extensions.login_helpers",
    "RefreshContext": "pinnace_agent.extensions.provider_refresh",
    "SessionInfo": "pinnace_agent.session.listing",
    "SessionManager": _HELPERS,
    "Spawn": "pinnace_agent.extensions.tool_factories",
    "StreamContext": "pinnace_agent.extensions.provider_stream",
    "StreamEvent": "pinnace_agent.extensions.stream_events",
    "StreamOptions": "pinnace_agent.extensions.provider_stream",
    "Truncation": _HELPERS,
    "agent_dir": _HELPERS,
    "complete": _HELPERS,
    "file_mutation": _HELPERS,
    "format_size": _HELPERS,
    "get_language_from_path": _TERMINAL_TEXTS,
    "highlight_code": _TERMINAL_TEXTS,
    "key_hint": _TERMINAL_TEXTS,
    "key_text": _TERMINAL_TEXTS,
    "loopback_redirect": "pinnace_agent.extensions.login_helpers",
    "message_text": _HELPERS,
    "pkce": "pinnace_agent.extensions.login_helpers",
    "raw_key_hint": _TERMINAL_TEXTS,
    "resolve_path": "pinnace_agent.tools.paths",
    "serialize_conversation": _HELPERS,
    "truncate_head": _HELPERS,
    "truncate_line": _HELPERS,
    "truncate_tail": _HELPERS,
    "visible_line": "pinnace_agent.visible_text",
    "visible_lines": "pinnace_agent.visible_text",
}
_MODULES = {
    "builtin": "pinnace_agent.extensions.tool_factories",
    "operations": "pinnace_agent.tools.operations",
}


def __getattr__(name: str) -> object:
    """Import what is behind a name of a helper."""
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
