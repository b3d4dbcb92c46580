"""Lets a model write summaries: one request each, or several where one can't hold the conversation.

Decides what a request holds and when its answer is a summary. Requests are retried as any other, and no records of them
are emitted. Has no access to entries, nor to the cut point. Rules R-CMP-01, R-CMP-03, R-CMP-08, R-RTY-01.
"""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple

import trio

from pinnace_agent.compaction.fitting import Paragraphs, is_too_little, room_for, size
from pinnace_agent.compaction.prompts import SYSTEM_PROMPT, Part, cut_off, earlier_summary, request_text
from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.llm.builder import MessageBuilder, Silence
from pinnace_agent.llm.failure_report import Attempts, report_failure
from pinnace_agent.llm.outcomes import Outcome, OutcomeKind, classify_response
from pinnace_agent.llm.providers import Provider, find_provider, unsupported_api
from pinnace_agent.llm.request import IDLE_TIMEOUT_S, THINKING_BUDGETS, LlmRequest
from pinnace_agent.session.context_meter import BYTES_PER_TOKEN
from pinnace_spec.records.messages import AssistantMessage, Model, ThinkingLevel, Usage, UserMessage
from pinnace_spec.rules.errors import ErrorCode
from pinnace_statechart.retry import delay_s
from pinnace_statechart.state import RetryPolicy

# The estimate may be wrong, and so may the window that a configuration claims: what a request holds is halved when it
# is refused as too long. So often, which leads from the largest window in use to one that every model has.
MAX_HALVINGS: Final = 6

_PREFIXES: Final[Mapping[Part, str]] = {
    "history": "Summarization failed: ",
    "turn_prefix": "Turn prefix summarization failed: ",
}
# Of a silent one the provider has read only a part, and the model has summarised no more than that.
_OVERFLOWS: Final = (OutcomeKind.OVERFLOW, OutcomeKind.LENGTH_OVERFLOW, OutcomeKind.SILENT_OVERFLOW)


class CompactionFailed(Exception):
    """A compaction can't be done, or was not. Nothing was changed. `text` is for the user, `code` for programs."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.COMPACTION_FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Writer(NamedTuple):
    """The model that writes summaries."""

    model: Model
    credentials: Credentials
    thinking_level: ThinkingLevel = "off"
    session_id: str = ""
    retry: RetryPolicy = RetryPolicy()
    idle_timeout_s: float | None = IDLE_TIMEOUT_S
    thinking_budgets: Mapping[ThinkingLevel, int] = THINKING_BUDGETS
    provider: Provider | None = None
    """What speaks to the model; None: the provider of its API."""


class WrittenSummary(NamedTuple):
    """What was written, and what all requests for it have used."""

    text: str
    usage: Usage


class SummaryInput(NamedTuple):
    """What is to be summarised."""

    part: Part
    conversation: Sequence[str]
    """In paragraphs, oldest first."""
    previous_summary: str | None = None
    instructions: str | None = None
    tokens_per_byte: float = 1 / BYTES_PER_TOKEN
    """Of the conversation, as its provider counts (`estimate.tokens_per_byte`)."""


async def summarize(writer: Writer, asked: SummaryInput, wanted_tokens: int) -> WrittenSummary:
    """Have a summary written.

    What is transient is tried again by the writer's policy. A conversation that does not fit the model's window with
    its answer is sent in pieces, one after the other: each request has the summary of the pieces before it, and its
    answer is a summary of all so far. A request that the provider refuses as too long is divided likewise. So
    everything that is to be summarised is in a request that was answered. Cancelling ends the request or the wait;
    nothing is left behind.

    Args:
        writer: The model that writes it.
        asked: What of.
        wanted_tokens: How long it may be; more if the model thinks, less if it can't write so much.

    Raises:
        CompactionFailed: There is no summary: one request failed for good. The text names the part and the reason.
    """
    return await _Writing(writer, asked, wanted_tokens).run()


class _TooLittleRoom(Exception):
    """The fixed part of every request leaves no room for the conversation."""


class _Request(NamedTuple):
    """A request for the summary of a piece."""

    text: str
    tokens: int
    """By estimate; with the system prompt."""
    answer_tokens: int
    """How long the answer may be."""
    rest: Paragraphs
    """Of the conversation, what it does not hold."""


class _Writing:
    """The requests for one summary."""

    def __init__(self, writer: Writer, asked: SummaryInput, wanted_tokens: int) -> None:
        self._writer = writer
        self._asked = asked
        self._room = room_for(writer.model, wanted_tokens)
        self._halvings = 0
        self._usages: list[Usage] = []
        """Of the requests so far."""

    async def run(self) -> WrittenSummary:
        conversation = Paragraphs(self._asked.conversation)
        previous = self._asked.previous_summary
        is_own = False  # the previous summary is of the pieces so far
        refused: tuple[_Request, AssistantMessage] | None = None  # the latest one, with what came instead of a summary
        while True:
            if previous and not is_own and self._is_too_long_to_carry(previous, conversation):
                conversation, previous = conversation.with_first(earlier_summary(previous)), None
            try:
                request = self._next_request(conversation, previous)
            except _TooLittleRoom:
                if refused is None:
                    reason = "the instructions and the summary so far leave no room for the conversation in"
                    raise self._failure(f"{reason} {self._window()}") from None
                request, message = refused  # it is more specific
            else:
                message, outcome = await self._answer(request)
                if outcome.kind in _OVERFLOWS and self._halvings < MAX_HALVINGS:
                    self._halvings += 1
                    self._room = self._room.halved(request.tokens, self._tokens(self._wording_bytes(previous)))
                    refused = request, message
                    continue
            previous, conversation, is_own, refused = self._text(message, request), request.rest, True, None
            if not conversation.texts:
                return WrittenSummary(previous, reduce(sum_of_usages, self._usages))

    def _is_too_long_to_carry(self, previous: str, conversation: Paragraphs) -> bool:
        """Return whether a summary that is given takes more than half of what requests with it could hold of it all."""
        if self._room.request is None:
            return False
        room = self._room.request - self._tokens(self._wording_bytes(None))
        whole = self._tokens(self._wording_bytes(previous) + conversation.size)
        return whole > self._room.request and self._tokens(size(previous)) > room // 2

    def _next_request(self, conversation: Paragraphs, previous: str | None) -> _Request:
        """Put together as much as fits of what is left.

        Raises:
            _TooLittleRoom: That would be too little.
        """
        piece, rest = conversation, Paragraphs([])
        tokens = self._tokens(self._wording_bytes(previous) + conversation.size)
        # DEVIATION D-54: what does not fit is sent in pieces.
        if self._room.request is not None and tokens > self._room.request:
            wording_bytes = self._wording_bytes(previous, more_follows=True)
            room = self._room.request - self._tokens(wording_bytes)
            if is_too_little(room, self._room.request):
                raise _TooLittleRoom
            piece, rest = conversation.divided(int(room / self._asked.tokens_per_byte))
            tokens = self._tokens(wording_bytes + piece.size)
        text = self._worded(piece.texts, previous, more_follows=bool(rest.texts))
        return _Request(text, tokens, self._room.answer(tokens), rest)

    def _wording_bytes(self, previous: str | None, *, more_follows: bool = False) -> int:
        """Return the size of a request without its conversation."""
        return size(SYSTEM_PROMPT) + size(self._worded((), previous, more_follows=more_follows))

    def _worded(self, conversation: Sequence[str], previous: str | None, *, more_follows: bool = False) -> str:
        asked = self._asked
        return request_text(asked.part, conversation, previous, asked.instructions, more_follows=more_follows)

    def _tokens(self, size_bytes: int) -> int:
        return math.ceil(size_bytes * self._asked.tokens_per_byte)

    async def _answer(self, request: _Request) -> tuple[AssistantMessage, Outcome]:
        """Ask until there is an answer, or a failure that is final."""
        policy = self._writer.retry
        attempt = 0
        while True:
            message, outcome = await self._ask(request, attempt + 1)
            if outcome.kind is not OutcomeKind.TRANSIENT or not policy.enabled or attempt >= policy.max_attempts:
                return message, outcome
            attempt += 1
            await trio.sleep(delay_s(policy, attempt, outcome.retry_after_s))

    async def _ask(self, asked: _Request, attempt: int) -> tuple[AssistantMessage, Outcome]:
        model, credentials = self._writer.model, self._writer.credentials
        provider = self._writer.provider or find_provider(model["api"])
        if provider is None:
            raise CompactionFailed(unsupported_api(model["api"]).text, ErrorCode.NO_MODEL)
        question: UserMessage = {"role": "user", "content": [{"type": "text", "text": asked.text}], "timestamp": 0}
        margin_tokens = 0 if self._room.total is None else model["contextWindow"] - self._room.total
        request = LlmRequest(
            model=model,
            system_prompt=SYSTEM_PROMPT,
            messages=(question,),
            tools=(),
            thinking_level=self._writer.thinking_level,
            api_key=credentials.api_key,
            headers=credentials.headers,
            session_id=self._writer.session_id,
            max_tokens=asked.answer_tokens,
            input_tokens=asked.tokens + margin_tokens,
            idle_timeout_s=self._writer.idle_timeout_s,
            thinking_budgets=self._writer.thinking_budgets,
            variables=credentials.variables,
        )
        builder = MessageBuilder(model, Silence(), 0)
        await provider.stream(request, builder)
        message = builder.message
        self._usages.append(message["usage"])
        retry = self._writer.retry
        outcome = classify_response(message, model, builder.signs, max_retry_after_s=retry.max_delay_s)
        if message["stopReason"] == "error":
            attempts = Attempts(attempt, 1 + (retry.max_attempts if retry.enabled else 0))
            words = message.get("errorMessage", "")
            message["errorMessage"] = report_failure(words, model, builder.signs, outcome.kind, attempts).text
        return message, outcome

    def _text(self, message: AssistantMessage, request: _Request) -> str:
        """Return the summary that an answer is.

        Raises:
            CompactionFailed: It is none.
        """
        if message["stopReason"] in {"error", "aborted"}:
            raise self._failure(message.get("errorMessage") or "the model failed without a reason")
        if any(block["type"] == "toolCall" for block in message["content"]):
            raise self._failure("the model called a tool instead of writing a summary")
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text").strip()
        if not text:
            raise self._failure("the model wrote nothing")
        if message["stopReason"] == "length":
            # DEVIATION D-29: most of a summary is better than a session that can't go on.
            text += f"\n\n{cut_off(request.answer_tokens)}"
        return text

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
