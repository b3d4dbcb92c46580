"""The providers by API. Each is imported when a model first needs it.

Must not import httpx or any provider at module level: start-up time.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, Protocol

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.rules.errors import ClientError, ErrorCode


class Provider(Protocol):
    """A client of one API."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it; `builder.is_finished` on return.

        Raises nothing but `trio.Cancelled`: every failure becomes `builder.fail(text)`. When Cancelled
        leaves, the connection is closed and the builder is as it was; the caller that cancelled decides how the
        message ends.
        """


_providers: Final[PerAgent[dict[str, Provider]]] = PerAgent(dict)

# API -> the module and the class of its provider.
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic-messages": ("anthropic.provider", "AnthropicMessagesProvider"),
    "azure-openai-responses": ("openai_responses.azure", "AzureOpenAIResponsesProvider"),
    "bedrock-converse-stream": ("bedrock.provider", "BedrockConverseStreamProvider"),
    "google-generative-ai": ("google.provider", "GoogleGenerativeAIProvider"),
    "google-vertex": ("google.vertex", "GoogleVertexProvider"),
    "mistral-conversations": ("mistral.provider", "MistralProvider"),
    "openai-codex-responses": ("openai_responses.codex", "OpenAICodexResponsesProvider"),
    "openai-completions": ("openai_chat.provider", "OpenAICompletionsProvider"),
    "openai-responses": ("openai_responses.provider", "OpenAIResponsesProvider"),
    "pi-messages": ("pi_messages.provider", "PiMessagesProvider"),
    "offline": ("offline.provider", "OfflineProvider"),
}
SUPPORTED_APIS: Final = tuple(_PLACES)


def find_provider(api: str) -> Provider | None:
    """Return the provider for an API, or None if this release has none."""
    if api not in SUPPORTED_APIS:
        return None
    known = _providers.get()
    if api not in known:
        known[api] = _make(api)
    return known[api]


def unsupported_api(api: str) -> ClientError:
    """Return the error for a model whose API this release does not support."""
    return ClientError(
        f"The API {api} is not supported; this release speaks {', '.join(SUPPORTED_APIS)}.", ErrorCode.NO_MODEL
    )


def _make(api: str) -> Provider:
    module, name = _PLACES[api]
    make: Callable[[], Provider] = getattr(import_module(f"pinnace_agent.llm.{module}"), name)
    return make()
