"""Provider: Google's Generative Language API, which serves Gemini and Gemma.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how
chunks are read (`stream`).
"""

from functools import partial
from typing import Final

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.google.request import http_request
from pinnace_agent.llm.google.stream import ChunkReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange

REFUSAL_FORM: Final = RefusalForm("", is_whole=True)
"""The body contains the status."""


class GoogleGenerativeAIProvider:
    """Speaks `google-generative-ai`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), REFUSAL_FORM)
        await exchange(request, builder, partial(http_request, request), ChunkReader(builder, texts), texts)
