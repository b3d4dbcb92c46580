"""Provider: OpenAI Responses, and every server that speaks them.

Puts together what the other modules decide: what is sent (`responses_request`), how it is sent (`http_exchange`), how
events are read (`responses_stream`).
"""

from functools import partial

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.http_exchange import exchange
from pinnace_agent.llm.responses_compat import compat_of
from pinnace_agent.llm.responses_request import http_request
from pinnace_agent.llm.responses_stream import ResponseReader
from pinnace_agent.llm.secrets import secrets_of


class OpenAIResponsesProvider:
    """Speaks `openai-responses`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), refusal_form(request.model["provider"]))
        make = partial(http_request, request, compat_of(request.model))
        await exchange(request, builder, make, ResponseReader(builder, texts), texts)


def refusal_form(provider: str) -> RefusalForm:
    """Return how refusals of this API are worded: they name who refused."""
    name = "OpenAI" if provider == "openai" else provider.replace("{", "{{").replace("}", "}}")
    return RefusalForm(f"{name} API error ({{status}}): ")
