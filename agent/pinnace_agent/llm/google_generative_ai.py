"""Provider: Google's Generative Language API, which serves Gemini and Gemma.

Puts together what the other modules decide: what is sent (`google_request`), how it is sent (`http_exchange`), how
chunks are read (`google_stream`).
"""

from functools import partial
from typing import Final

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.google_request import http_request
from pinnace_agent.llm.google_stream import ChunkReader
from pinnace_agent.llm.http_exchange import exchange
from pinnace_agent.llm.secrets import secrets_of

# The body says the status itself.
_FORM: Final = RefusalForm("", is_whole=True)


class GoogleGenerativeAIProvider:
    """Speaks `google-generative-ai`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), _FORM)
        await exchange(request, builder, partial(http_request, request), ChunkReader(builder, texts), texts)
