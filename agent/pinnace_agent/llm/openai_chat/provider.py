"""Provider: OpenAI chat completions, and every server that speaks them.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how
chunks are read (`stream`).
"""

from functools import partial

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.request import http_request
from pinnace_agent.llm.openai_chat.stream import ChunkReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.llm.vendors import prepare_or_fail


class OpenAICompletionsProvider:
    """Speaks `openai-completions`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        prepared = prepare_or_fail(request, builder)
        if prepared is None:
            return
        compat = compat_of(prepared.model)
        texts = FailureTexts(secrets_of(prepared))
        make = partial(http_request, prepared, compat)
        await exchange(prepared, builder, make, ChunkReader(builder, compat, texts), texts)
