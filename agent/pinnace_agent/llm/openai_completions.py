"""Provider: OpenAI chat completions, and every server that speaks them.

Puts together what the other modules decide: what is sent (`openai_request`), how it is sent (`http_exchange`), how
chunks are read (`openai_stream`).
"""

from functools import partial

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.http_exchange import exchange
from pinnace_agent.llm.openai_compat import compat_of
from pinnace_agent.llm.openai_request import http_request
from pinnace_agent.llm.openai_stream import ChunkReader
from pinnace_agent.llm.secrets import secrets_of


class OpenAICompletionsProvider:
    """Speaks `openai-completions`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        compat = compat_of(request.model)
        texts = FailureTexts(secrets_of(request))
        make = partial(http_request, request, compat)
        await exchange(request, builder, make, ChunkReader(builder, compat, texts), texts)
