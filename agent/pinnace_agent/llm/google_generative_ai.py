"""Provider: being written."""

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder


class GoogleGenerativeAIProvider:
    """Being written."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """As `Provider.stream`."""
        builder.fail("not yet")
