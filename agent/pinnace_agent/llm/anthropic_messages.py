"""Provider: Anthropic's messages, and every server that speaks them.

Puts together what the other modules decide: what is sent (`anthropic_request`), how it is sent (`http_exchange`), how
events are read (`anthropic_stream`).
"""

from functools import partial
from typing import Final

from pinnace_agent.llm.anthropic_compat import compat_of
from pinnace_agent.llm.anthropic_request import http_request, tool_names
from pinnace_agent.llm.anthropic_stream import EventReader
from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.http_exchange import exchange
from pinnace_agent.llm.secrets import secrets_of

_REFUSALS: Final = RefusalForm("{status} ", is_whole=True)


class AnthropicMessagesProvider:
    """Speaks `anthropic-messages`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), _REFUSALS)
        reader = EventReader(builder, tool_names(request), texts)
        make = partial(http_request, request, compat_of(request.model))
        await exchange(request, builder, make, reader, texts)
