"""What a server of OpenAI Responses accepts.

Decides the flags of one model: its `compat`, else the behaviour of OpenAI. Independent of what a flag changes
in a body.
"""

from typing import Final, NamedTuple

from pinnace_agent.llm.openai_chat.compat import AffinityFormat, affinity_format
from pinnace_spec.records.messages import Model

# Providers whose ids of tool calls are those of OpenAI itself: `{call_id}|{item_id}`, the latter beginning with `fc_`.
_OPENAI_LIKE: Final = ("openai", "opencode", "azure")
_STRICT_APIS: Final = ("azure-openai-responses", "openai-codex-responses")
_OFFICIAL: Final = "api.openai.com"


class ResponsesCompat(NamedTuple):
    """The flags of one model. Named as in `compat`, in our spelling."""

    supports_developer_role: bool
    supports_reasoning_effort: bool
    supports_strict_mode: bool
    """Takes the field `strict` of a tool."""
    holds_calls_to_schemas: bool
    """Is known to hold the arguments of calls to the schemas of strict tools."""
    supports_max_output_tokens: bool
    supports_long_cache_retention: bool
    supports_explicit_cache_mode: bool
    """Takes `prompt_cache_options`, the successor of `prompt_cache_retention`."""
    affinity: AffinityFormat
    """Which headers name the session, so that it is sent to the machine that has its cache."""
    is_openai_like: bool
    """Whether items have ids as OpenAI makes them, and only such are taken."""


def compat_of(model: Model) -> ResponsesCompat:
    """Return the flags of a model; its `compat` takes precedence, field by field."""
    said = model.get("compat") or {}

    def flag(name: str, default: bool) -> bool:
        value = said.get(name)
        return value if isinstance(value, bool) else default

    return ResponsesCompat(
        supports_developer_role=flag("supportsDeveloperRole", True),
        supports_reasoning_effort=flag("supportsReasoningEffort", True),
        supports_strict_mode=flag("supportsStrictMode", True),
        holds_calls_to_schemas=flag("supportsStrictMode", model["api"] in _STRICT_APIS),
        supports_max_output_tokens=flag("supportsMaxOutputTokens", True),
        supports_long_cache_retention=flag("supportsLongCacheRetention", True),
        supports_explicit_cache_mode=flag("supportsExplicitPromptCacheMode", False),
        affinity=affinity_format(said.get("sessionAffinityFormat")) or "openai",
        is_openai_like=model["provider"].lower().startswith(_OPENAI_LIKE) or _OFFICIAL in model["baseUrl"].lower(),
    )
