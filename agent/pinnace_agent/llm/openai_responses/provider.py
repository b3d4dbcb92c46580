"""Provider: OpenAI Responses, and every server that speaks them.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how
events are read (`stream`).
"""

from functools import partial

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.openai_responses.compat import compat_of
from pinnace_agent.llm.openai_responses.request import http_request
from pinnace_agent.llm.openai_responses.stream import ResponseReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange


class OpenAIResponsesProvider:
    """Speaks `openai-responses`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), refusal_form(request.model["provider"]))
        make = partial(http_request, request, compat_of(request.model))
        await exchange(request, builder, make, ResponseReader(builder, texts), texts)


def refusal_form(provider: str) -> RefusalForm:
    """Return the form of this API's error texts: they name the provider."""
    name = "OpenAI" if provider == "openai" else provider.replace("{", "{{").replace("}", "}}")
    return RefusalForm(f"{name} API error ({{status}}): ")
