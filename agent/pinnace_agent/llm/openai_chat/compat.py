"""What an OpenAI-compatible server accepts.

Decides the flags of one model: its `compat`, else the known behaviour of the host, else that of OpenAI. Hosts are
recognised by provider id or by a part of the address. Independent of what a flag changes in a body.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

from pinnace_agent.core.json_access import as_object, as_text
from pinnace_spec.records.messages import Model

ThinkingFormat = Literal[
    "openai",
    "openrouter",
    "deepseek",
    "zai",
    "qwen",
    "qwen-chat-template",
    "chat-template",
    "baseten",
    "together",
    "string-thinking",
    "ant-ling",
]
AffinityFormat = Literal["openai", "openai-nosession", "openrouter"]

_THINKING_FORMATS: Final[dict[str, ThinkingFormat]] = {name: name for name in get_args(ThinkingFormat)}
_AFFINITY_FORMATS: Final[dict[str, AffinityFormat]] = {name: name for name in get_args(AffinityFormat)}


class Host(NamedTuple):
    """A known host and how it differs from OpenAI."""

    providers: tuple[str, ...]
    """Beginnings of provider ids."""
    addresses: tuple[str, ...]
    """Parts of base URLs."""
    is_plain: bool = True
    """Knows neither `store` nor the role `developer`."""
    takes_max_tokens: bool = False
    """Knows `max_tokens`, not `max_completion_tokens`."""
    takes_effort: bool = True
    """Knows `reasoning_effort`."""
    keeps_long: bool = True
    """Knows `prompt_cache_retention`."""
    thinking: ThinkingFormat = "openai"


# The first match counts.
HOSTS: Final = (
    Host(("deepseek",), ("deepseek.com",), takes_max_tokens=True, thinking="deepseek"),
    Host(("zai",), ("api.z.ai", "bigmodel.cn"), takes_max_tokens=True, takes_effort=False, thinking="zai"),
    Host(
        ("together",),
        ("api.together.",),
        takes_max_tokens=True,
        takes_effort=False,
        keeps_long=False,
        thinking="together",
    ),
    Host(("moonshot",), ("api.moonshot.",), takes_max_tokens=True, takes_effort=False),
    Host(("nvidia",), ("integrate.api.nvidia.com",), takes_max_tokens=True, takes_effort=False, keeps_long=False),
    Host(
        ("ant-ling",),
        ("ant-ling.com",),
        takes_max_tokens=True,
        takes_effort=False,
        keeps_long=False,
        thinking="ant-ling",
    ),
    Host(
        ("cloudflare-ai-gateway",),
        ("gateway.ai.cloudflare.com",),
        takes_max_tokens=True,
        takes_effort=False,
        keeps_long=False,
    ),
    Host(("cloudflare",), ("api.cloudflare.com",), keeps_long=False),
    Host(("chutes",), ("chutes.ai",), takes_max_tokens=True),
    Host(("xai",), ("api.x.ai",), takes_effort=False),
    Host(("cerebras",), ("cerebras.ai",)),
    Host(("opencode",), ("opencode.ai",)),
    Host(("openrouter",), ("openrouter.ai",), is_plain=False, thinking="openrouter"),
)
_OTHER: Final = Host((), (), is_plain=False)
_OFFICIAL: Final = "api.openai.com"


class Compat(NamedTuple):
    """The flags of one model. Named as in `compat`, in our spelling."""

    supports_store: bool
    supports_developer_role: bool
    supports_reasoning_effort: bool
    supports_usage_in_streaming: bool
    supports_finish_reason: bool
    supports_strict_mode: bool
    supports_long_cache_retention: bool
    max_tokens_field: str
    requires_tool_result_name: bool
    requires_assistant_after_tool_result: bool
    requires_non_null_assistant_content: bool
    requires_tools_with_tool_history: bool
    requires_alternating_roles: bool
    """Refuses several messages of the user in a row."""
    requires_thinking_as_text: bool
    requires_reasoning_content: bool
    """On every assistant message, even if it is empty."""
    thinking_format: ThinkingFormat
    names_effort: bool
    """Takes `reasoning_effort` beside a switch that is all most servers of its format know."""
    effort_words: Mapping[str, object]
    """Words for levels as old configurations name them; `thinkingLevelMap` wins."""
    thinking_budget_field: str | None
    chat_template: Mapping[str, object]
    """Values, or `{"$var": …}`, for the formats `chat-template` and `baseten`."""
    has_cache_markers: bool
    """Takes Anthropic's `cache_control` beside texts and tools."""
    affinity: AffinityFormat | None
    """Which headers name the session, so that a gateway sends it to the same machine."""
    sends_cache_key: bool | None
    """None: for hosts that are known to support it."""
    is_official: bool
    extra_body: Mapping[str, object]
    """Fields of single vendors, already under their names in the body."""


def compat_of(model: Model) -> Compat:
    """Return the flags of a model; its `compat` takes precedence, field by field."""
    said = model.get("compat") or {}
    url = model["baseUrl"].lower()
    host = _host_of(model["provider"].lower(), url)
    is_router = host.thinking == "openrouter"

    def flag(name: str, default: bool) -> bool:
        value = said.get(name)
        return value if isinstance(value, bool) else default

    affinity = affinity_format(said.get("sessionAffinityFormat")) or ("openrouter" if is_router else "openai")
    cache_format = said.get("cacheControlFormat")
    return Compat(
        supports_store=flag("supportsStore", not host.is_plain),
        supports_developer_role=flag("supportsDeveloperRole", not host.is_plain),
        supports_reasoning_effort=flag("supportsReasoningEffort", host.takes_effort),
        supports_usage_in_streaming=flag("supportsUsageInStreaming", True),
        supports_finish_reason=flag("supportsFinishReason", True),
        supports_strict_mode=flag("supportsStrictMode", False),
        supports_long_cache_retention=flag("supportsLongCacheRetention", host.keeps_long),
        max_tokens_field=as_text(said.get("maxTokensField"))
        or ("max_tokens" if host.takes_max_tokens else "max_completion_tokens"),
        requires_tool_result_name=flag("requiresToolResultName", False),
        requires_assistant_after_tool_result=flag("requiresAssistantAfterToolResult", False),
        requires_non_null_assistant_content=flag("requiresNonNullAssistantContent", False),
        requires_tools_with_tool_history=flag("requiresToolsWithToolHistory", False),
        requires_alternating_roles=flag("requiresAlternatingRoles", False),
        requires_thinking_as_text=flag("requiresThinkingAsText", False),
        requires_reasoning_content=flag("requiresReasoningContentOnAssistantMessages", host.thinking == "deepseek"),
        thinking_format=_THINKING_FORMATS.get(str(said.get("thinkingFormat")), host.thinking),
        names_effort=flag("supportsReasoningEffort", False),
        effort_words=as_object(said.get("reasoningEffortMap")) or {},
        thinking_budget_field=as_text(said.get("thinkingTokenBudgetField")),
        chat_template=as_object(said.get("chatTemplateKwargs") or said.get("chatTemplateArgs")) or {},
        has_cache_markers=cache_format == "anthropic"
        or (cache_format is None and is_router and model["id"].startswith("anthropic/")),
        affinity=affinity if flag("sendSessionAffinityHeaders", is_router) else None,
        sends_cache_key={"enabled": True, "disabled": False}.get(str(said.get("promptCacheKeyMode"))),
        is_official=_OFFICIAL in url,
        extra_body=_vendor_fields(said),
    )


def affinity_format(name: object) -> AffinityFormat | None:
    """Return the format of this name, None if there is none."""
    return _AFFINITY_FORMATS.get(name) if isinstance(name, str) else None


def _host_of(provider: str, url: str) -> Host:
    for host in HOSTS:
        if provider.startswith(host.providers) or any(part in url for part in host.addresses):
            return host
    return _OTHER


def _vendor_fields(said: Mapping[str, object]) -> dict[str, object]:
    fields: dict[str, object] = {}
    if routing := said.get("openRouterRouting"):
        fields["provider"] = routing
    if routing := said.get("vercelGatewayRouting"):
        fields["providerOptions"] = {"gateway": routing}
    if said.get("vllmPriority") is not None:
        fields["priority"] = said["vllmPriority"]
    if said.get("zaiToolStream") is True:
        fields["tool_stream"] = True
    return fields
