"""Where a provider's key comes from: the stored keys in auth.json, and each provider's environment variable.

Reads auth.json, never writes or creates it: pi and its login own it. The order of the sources is decided by
the registry. Keys are held as secrets and shown by nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.resources.diagnostics import Diagnostic, Problem
from pinnace_agent.resources.relaxed_json import ConfigurationFileError, is_object, read_object
from pinnace_agent.resources.values import Secret

# The first variable that is set wins.
PROVIDER_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "ant-ling": ("ANT_LING_API_KEY",),
    "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "azure-openai-responses": ("AZURE_OPENAI_API_KEY",),
    "baseten": ("BASETEN_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github-copilot": ("COPILOT_GITHUB_TOKEN",),
    "google": ("GEMINI_API_KEY",),
    "google-vertex": ("GOOGLE_CLOUD_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "kimi-coding": ("KIMI_API_KEY",),
    "meta": ("META_API_KEY",),
    "minimax": ("MINIMAX_API_KEY",),
    "minimax-cn": ("MINIMAX_CN_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "moonshotai-cn": ("MOONSHOT_API_KEY",),
    "nvidia": ("NVIDIA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "opencode": ("OPENCODE_API_KEY",),
    "opencode-go": ("OPENCODE_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "qwen-token-plan": ("QWEN_TOKEN_PLAN_API_KEY",),
    "qwen-token-plan-cn": ("QWEN_TOKEN_PLAN_CN_API_KEY",),
    "radius": ("RADIUS_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "typesafe": ("TYPESAFE_API_KEY",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "xiaomi": ("XIAOMI_API_KEY",),
    "xiaomi-token-plan-ams": ("XIAOMI_TOKEN_PLAN_AMS_API_KEY",),
    "xiaomi-token-plan-cn": ("XIAOMI_TOKEN_PLAN_CN_API_KEY",),
    "xiaomi-token-plan-sgp": ("XIAOMI_TOKEN_PLAN_SGP_API_KEY",),
    "zai": ("ZAI_API_KEY",),
    "zai-coding-cn": ("ZAI_CODING_CN_API_KEY",),
}

# Headers that carry a key: a provider configured with one of them needs no other.
AUTHENTICATION_HEADERS: Final = ("authorization", "x-api-key", "api-key")


@dataclass(slots=True, frozen=True)
class Credentials:
    """What a request carries to be let in. Shown without its contents."""

    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    problem: str | None = None
    """Why there are none: a text for the user. None when a request can be sent."""


class StoredKey(NamedTuple):
    """One provider's entry in auth.json."""

    key: Secret | None
    env: Mapping[str, Secret]
    """Variables for this provider alone; they go before the process' own."""
    is_login: bool = False
    """The entry is an OAuth login, which this release can't use."""


class AuthFile(NamedTuple):
    """What auth.json holds, as far as it can be used."""

    entries: Mapping[str, StoredKey]
    diagnostics: tuple[Diagnostic, ...] = ()


def read_auth(path: Path) -> AuthFile:
    """Read the stored keys. A missing file has none; a damaged one too, and says so."""
    try:
        content = read_object(path, is_relaxed=False) or {}
    except ConfigurationFileError as error:
        return AuthFile({}, (Diagnostic(str(path), (Problem("", str(error)),), "no stored key is used"),))
    entries: dict[str, StoredKey] = {}
    problems: list[Problem] = []
    for provider, entry in content.items():
        stored = _stored_key(entry)
        if isinstance(stored, StoredKey):
            entries[provider] = stored
        else:
            problems.append(Problem(provider, stored))
    if not problems:
        return AuthFile(entries)
    return AuthFile(entries, (Diagnostic(str(path), tuple(problems), "these entries are not used"),))


def _stored_key(entry: object) -> StoredKey | str:
    """Return the entry, or what is wrong with it."""
    if not is_object(entry):
        return "must be an object"
    if entry.get("type") == "oauth":
        return StoredKey(None, {}, is_login=True)
    if entry.get("type") != "api_key":
        return 'type must be "api_key" or "oauth"'
    key, env = entry.get("key", ""), entry.get("env", {})
    if not isinstance(key, str):
        return "key must be a text"
    if not is_object(env):
        return "env must be an object"
    variables = {name: Secret(value) for name, value in env.items() if isinstance(value, str)}
    if len(variables) < len(env):
        return "env must hold texts only"
    return StoredKey(Secret(key) if key else None, variables)
