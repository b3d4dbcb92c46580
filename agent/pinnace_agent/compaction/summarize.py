"""Summaries, as a model writes them: one request each, tried again as any other, told to nobody.

Decides what a request holds and when its answer is a summary. Must not know entries, nor where a conversation is cut.
Rules R-CMP-01, R-CMP-03, R-RTY-01.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import trio

from pinnace_agent.compaction.fitting import fitted, input_tokens, output_tokens, shortened, weight
from pinnace_agent.compaction.prompts import SYSTEM_PROMPT, Part, cut_off, cut_out, left_out, request_text
from pinnace_agent.llm.base import IDLE_TIMEOUT_S, THINKING_BUDGETS, LlmRequest, Provider
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.providers import find_provider, unsupported_api
from pinnace_agent.llm.verdicts import Verdict, VerdictKind, verdict_on
from pinnace_agent.resources.credentials import Credentials
from pinnace_spec.errors import ErrorCode
from pinnace_spec.messages import AssistantMessage, Model, ThinkingLevel, Usage, UserMessage
from pinnace_statechart.retry import delay_s
from pinnace_statechart.state import RetryPolicy

# The estimate may be wrong, and so may the window that a configuration claims: a request that is refused as too long is
# halved so often, which takes it from the largest window in use to one that every model has.
MAX_HALVINGS: Final = 6

_PREFIXES: Final[Mapping[Part, str]] = {
    "history": "Summarization failed: ",
    "turn_prefix": "Turn prefix summarization failed: ",
}
_OVERFLOWS: Final = (VerdictKind.OVERFLOW, VerdictKind.LENGTH_OVERFLOW)


class CompactionFailed(Exception):
    """A compaction can't be done, or was not. Nothing was changed. `text` is for the user, `code` for programs."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.COMPACTION_FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Writer(NamedTuple):
    """Who writes summaries."""

    model: Model
    credentials: Credentials
    thinking_level: ThinkingLevel = "off"
    session_id: str = ""
    retry: RetryPolicy = RetryPolicy()
    idle_timeout_s: float | None = IDLE_TIMEOUT_S
    thinking_budgets: Mapping[ThinkingLevel, int] = THINKING_BUDGETS
    provider: Provider | None = None
    """What speaks to the model; None: the provider of its API."""


class Summary(NamedTuple):
    """What was written, and what all requests for it have used."""

    text: str
    usage: Usage


class _Silence:
    """Takes updates and tells nobody."""

    def started(self, message: AssistantMessage) -> None:
        pass

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        pass

    async def room(self) -> None:
        await trio.lowlevel.checkpoint()


class Asked(NamedTuple):
    """What is to be summarised."""

    part: Part
    conversation: Sequence[str]
    """In paragraphs, oldest first."""
    previous_summary: str | None = None
    instructions: str | None = None


async def summarize(writer: Writer, asked: Asked, wanted_tokens: int) -> Summary:
    """Have a summary written.

    What is transient is tried again by the writer's policy. The request fits the model's window: older paragraphs are
    left out for that, and the middle of the newest if it alone is too long. Cancelling ends the request or the wait;
    nothing is left behind.

    Args:
        writer: Who writes it.
        asked: What of.
        wanted_tokens: How long it may be; more if the model thinks, less if it can't write so much.

    Raises:
        CompactionFailed: There is no summary. The text says of which part, and why.
    """
    return await _Writing(writer, asked, wanted_tokens).run()


class _Writing:
    """The requests for one summary."""

    def __init__(self, writer: Writer, asked: Asked, wanted_tokens: int) -> None:
        self._writer = writer
        self._asked = asked
        self._output = output_tokens(writer.model, wanted_tokens)
        self._usage: Usage | None = None

    async def run(self) -> Summary:
        text = self._request_text(input_tokens(self._writer.model, self._output))
        message, verdict = await self._answer(text)
        halvings = 0
        while verdict.kind in _OVERFLOWS and halvings < MAX_HALVINGS:
            halvings += 1
            try:
                text = self._request_text((weight(text) + weight(SYSTEM_PROMPT)) // 2)
            except CompactionFailed:  # what the provider said tells more
                break
            message, verdict = await self._answer(text)
        return self._summary(message)

    def _request_text(self, room: int | None) -> str:
        """Put together as much as fits."""
        asked = self._asked

        def worded(conversation: Sequence[str]) -> str:
            return request_text(asked.part, conversation, asked.previous_summary, asked.instructions)

        if room is None:
            return worded(asked.conversation)
        room -= weight(SYSTEM_PROMPT) + weight(worded(()))
        if room <= 0:
            raise self._failure(f"the instructions and the previous summary alone fill {self._window()}")
        conversation = fitted(asked.conversation, room, left_out)
        if conversation is None:
            conversation = self._shortened(room)
        if conversation is None:
            raise self._failure(f"the last message to be summarised does not fit {self._window()}")
        return worded(conversation)

    def _shortened(self, room: int) -> list[str] | None:
        """Return what fits of the newest paragraph, if not even that does as a whole."""
        *older, newest = self._asked.conversation
        before = [left_out(len(older))] if older else []
        cut = shortened(newest, room - sum(map(weight, before)) - 1, cut_out)
        return None if cut is None else [*before, cut]

    async def _answer(self, text: str) -> tuple[AssistantMessage, Verdict]:
        """Ask until there is an answer, or a failure that is final."""
        policy = self._writer.retry
        attempt = 0
        while True:
            message, verdict = await self._ask(text)
            if verdict.kind is not VerdictKind.TRANSIENT or not policy.enabled or attempt >= policy.max_attempts:
                return message, verdict
            attempt += 1
            await trio.sleep(delay_s(policy, attempt, verdict.retry_after_s))

    async def _ask(self, text: str) -> tuple[AssistantMessage, Verdict]:
        model, credentials = self._writer.model, self._writer.credentials
        provider = self._writer.provider or find_provider(model["api"])
        if provider is None:
            raise CompactionFailed(unsupported_api(model["api"]).text, ErrorCode.NO_MODEL)
        question: UserMessage = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}
        request = LlmRequest(
            model=model,
            system_prompt=SYSTEM_PROMPT,
            messages=(question,),
            tools=(),
            thinking_level=self._writer.thinking_level,
            api_key=credentials.api_key,
            headers=credentials.headers,
            session_id=self._writer.session_id,
            max_tokens=self._output,
            idle_timeout_s=self._writer.idle_timeout_s,
            thinking_budgets=self._writer.thinking_budgets,
        )
        builder = MessageBuilder(model, _Silence(), 0)
        await provider.stream(request, builder)
        message = builder.message
        self._usage = message["usage"] if self._usage is None else sum_of_usages(self._usage, message["usage"])
        limit_s = self._writer.retry.max_delay_s
        return message, verdict_on(message, model, builder.signs, max_retry_after_s=limit_s)

    def _summary(self, message: AssistantMessage) -> Summary:
        if message["stopReason"] in {"error", "aborted"}:
            raise self._failure(message.get("errorMessage") or "the model failed without a reason")
        if any(block["type"] == "toolCall" for block in message["content"]):
            raise self._failure("the model called a tool instead of writing a summary")
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text").strip()
        if not text:
            raise self._failure("the model wrote nothing")
        if message["stopReason"] == "length":
            # DEVIATION D-29: most of a summary is better than a session that can't go on.
            text += f"\n\n{cut_off(self._output)}"
        assert self._usage is not None
        return Summary(text, self._usage)

    def _failure(self, reason: str) -> CompactionFailed:
        return CompactionFailed(_PREFIXES[self._asked.part] + reason)

    def _window(self) -> str:
        model = self._writer.model
        return f"the context window of {model['id']} ({model['contextWindow']} tokens)"


def sum_of_usages(one: Usage, other: Usage) -> Usage:
    """Add up what two requests have used."""
    total: Usage = {
        "input": one["input"] + other["input"],
        "output": one["output"] + other["output"],
        "cacheRead": one["cacheRead"] + other["cacheRead"],
        "cacheWrite": one["cacheWrite"] + other["cacheWrite"],
        "totalTokens": one["totalTokens"] + other["totalTokens"],
        "cost": {
            "input": one["cost"]["input"] + other["cost"]["input"],
            "output": one["cost"]["output"] + other["cost"]["output"],
            "cacheRead": one["cost"]["cacheRead"] + other["cost"]["cacheRead"],
            "cacheWrite": one["cost"]["cacheWrite"] + other["cost"]["cacheWrite"],
            "total": one["cost"]["total"] + other["cost"]["total"],
        },
    }
    if reasoning := one.get("reasoning", 0) + other.get("reasoning", 0):
        total["reasoning"] = reasoning
    if hour := one.get("cacheWrite1h", 0) + other.get("cacheWrite1h", 0):
        total["cacheWrite1h"] = hour
    return total
