"""Provider: Anthropic's messages, and every server that speaks them.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how
events are read (`stream`).
"""

from functools import partial
from typing import Final

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.request import http_request, tool_names
from pinnace_agent.llm.anthropic.stream import EventReader
from pinnace_agent.llm.anthropic.thinking import thinking_of
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.llm.vendors import prepare_or_fail

_REFUSALS: Final = RefusalForm("{status} ", is_whole=True)


class AnthropicMessagesProvider:
    """Speaks `anthropic-messages`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        prepared = prepare_or_fail(request, builder)
        if prepared is None:
            return
        texts = FailureTexts(secrets_of(prepared), _REFUSALS)
        reader = EventReader(builder, tool_names(prepared), texts)
        compat = compat_of(prepared.model)
        builder.effort = thinking_of(prepared, compat).effort
        make = partial(http_request, prepared, compat)
        await exchange(prepared, builder, make, reader, texts)
