"""Provider: the messages of pi's gateway, `pi-messages`, in which both sides speak pi's own records.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how events are read
(`stream`).
"""

from functools import partial

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.pi_messages.request import http_request
from pinnace_agent.llm.pi_messages.stream import EventReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange


class PiMessagesProvider:
    """Speaks `pi-messages`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request))
        await exchange(request, builder, partial(http_request, request), EventReader(builder, texts), texts)
