"""Provider: Mistral's chat completions, which differ from OpenAI's in contents, thoughts and ids.

Combines the other modules: the request (`request`), its exchange (`transport.exchange`), and how
chunks are read (`stream`).
"""

from functools import partial
from typing import Final

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.mistral.request import http_request
from pinnace_agent.llm.mistral.stream import MistralReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange

_FORM: Final = RefusalForm("Mistral API error ({status}): ", is_whole=True)


class MistralProvider:
    """Speaks `mistral-conversations`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), _FORM)
        await exchange(request, builder, partial(http_request, request), MistralReader(builder, texts), texts)
