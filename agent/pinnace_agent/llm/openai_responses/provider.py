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
from pinnace_agent.llm.vendors import prepare_or_fail


class OpenAIResponsesProvider:
    """Speaks `openai-responses`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        prepared = prepare_or_fail(request, builder)
        if prepared is None:
            return
        texts = FailureTexts(secrets_of(prepared), refusal_form(prepared.model["provider"]))
        make = partial(http_request, prepared, compat_of(prepared.model))
        await exchange(prepared, builder, make, ResponseReader(builder, texts), texts)


def refusal_form(provider: str) -> RefusalForm:
    """Return the form of this API's error texts: they name the provider."""
    name = "OpenAI" if provider == "openai" else provider.replace("{", "{{").replace("}", "}}")
    return RefusalForm(f"{name} API error ({{status}}): ")
