"""What single vendors want of a request beside its API: where it goes, and who sends it.

Azure, Cloudflare and GitHub serve several APIs, each of them as its maker does, but at addresses and with headers of
their own. The providers of these APIs ask here before they build a request. The code of a vendor is loaded with its
first request.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest

# Provider -> the module and the function that prepares its requests.
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "azure": ("azure", "at_azure_or_fail"),
    "cloudflare-ai-gateway": ("cloudflare", "at_gateway_or_fail"),
    "cloudflare-workers-ai": ("cloudflare", "at_cloudflare_or_fail"),
    "github-copilot": ("copilot", "for_copilot"),
}


def prepare_or_fail(request: LlmRequest, builder: MessageBuilder) -> LlmRequest | None:
    """Return a request as its vendor wants it; None: it can't be sent, and `builder` has ended with the reason."""
    place = _PLACES.get(request.model["provider"])
    if place is None:
        return request
    module, name = place
    prepare: Callable[[LlmRequest, MessageBuilder], LlmRequest | None] = getattr(
        import_module(f"pinnace_agent.llm.{module}"), name
    )
    return prepare(request, builder)
