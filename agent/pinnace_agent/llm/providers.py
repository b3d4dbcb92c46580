"""Which provider speaks which API. Each is imported when a model first needs it.

Must not import httpx or any provider at module level: start-up time.
"""

from typing import Final

from pinnace_agent.llm.base import Provider
from pinnace_spec.errors import ClientError, ErrorCode

_providers: dict[str, Provider] = {}

SUPPORTED_APIS: Final = (
    "anthropic-messages",
    "google-generative-ai",
    "openai-completions",
    "openai-responses",
    "offline",
)


def find_provider(api: str) -> Provider | None:
    """Return the provider for an API, or None if this release has none."""
    if api not in SUPPORTED_APIS:
        return None
    if api not in _providers:
        _providers[api] = _make(api)
    return _providers[api]


def unsupported_api(api: str) -> ClientError:
    """Say that a model's API is not spoken."""
    return ClientError(
        f"The API {api} is not supported; this release speaks {', '.join(SUPPORTED_APIS)}.", ErrorCode.NO_MODEL
    )


def _make(api: str) -> Provider:
    match api:
        case "anthropic-messages":
            from pinnace_agent.llm.anthropic_messages import AnthropicMessagesProvider

            return AnthropicMessagesProvider()
        case "google-generative-ai":
            from pinnace_agent.llm.google_generative_ai import GoogleGenerativeAIProvider

            return GoogleGenerativeAIProvider()
        case "openai-responses":
            from pinnace_agent.llm.openai_responses import OpenAIResponsesProvider

            return OpenAIResponsesProvider()
        case "offline":
            from pinnace_agent.llm.offline import OfflineProvider

            return OfflineProvider()
        case _:
            from pinnace_agent.llm.openai_completions import OpenAICompletionsProvider

            return OpenAICompletionsProvider()
