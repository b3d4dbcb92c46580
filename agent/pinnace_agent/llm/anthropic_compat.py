"""What a server that speaks Anthropic's messages really takes.

Decides the flags of one model: what its `compat` says, else what Anthropic itself does. Flags that no page explains
change nothing. Must not know what a flag changes in a request.
"""

from typing import Final, NamedTuple

from pinnace_spec.messages import Model

# Takes its tokens as Bearer, whatever they look like.
_COPILOT: Final = "github-copilot"


class Compat(NamedTuple):
    """The flags of one model. Named as in `compat`, in our spelling."""

    supports_eager_tool_input_streaming: bool
    """Knows `eager_input_streaming` at a tool; without it, a beta of the whole request does the same."""
    supports_cache_control_on_tools: bool
    supports_long_cache_retention: bool
    supports_temperature: bool
    force_adaptive_thinking: bool
    """Is told how hard to try, not how many tokens to think for."""
    allow_empty_signature: bool
    """Takes thoughts back that were never signed."""
    send_session_affinity_headers: bool
    takes_bearer: bool
    """Wants the key as a token."""


def compat_of(model: Model) -> Compat:
    """Work out the flags of a model; what its `compat` says wins field by field."""
    said = model.get("compat") or {}

    def flag(name: str, default: bool) -> bool:
        value = said.get(name)
        return value if isinstance(value, bool) else default

    return Compat(
        supports_eager_tool_input_streaming=flag("supportsEagerToolInputStreaming", True),
        supports_cache_control_on_tools=flag("supportsCacheControlOnTools", True),
        supports_long_cache_retention=flag("supportsLongCacheRetention", True),
        supports_temperature=flag("supportsTemperature", True),
        force_adaptive_thinking=flag("forceAdaptiveThinking", False),
        allow_empty_signature=flag("allowEmptySignature", False),
        send_session_affinity_headers=flag("sendSessionAffinityHeaders", False),
        takes_bearer=model["provider"] == _COPILOT,
    )
