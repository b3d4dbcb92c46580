"""Keeps a provider's cache of the conversation alive: the last request once more, for a single token of output.

A provider forgets a prompt after the lifetime that the model names (`promptCache`), and the next request pays for all
of it. With `cacheWarming` of the user's settings the request is repeated before that, while a run waits for a tool, and
with `idle` for a while after the run, if what this saves is probably worth more than it costs. The figures are those of
pi 1.5.2 (`core/cache-warmer.js`), whose default is `idle`; here it is off, since an agent without a user in front of it
should spend nothing by itself.

A repetition is no part of the conversation: it changes no state, nothing waits for it, and what goes wrong with it is
logged alone. What it has used is an entry of the session, which its totals count and no model reads. Rule R-STA-12.
Loaded with the first request of an agent whose settings want it.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.core.json_access import as_amount
from pinnace_agent.llm.builder import MessageBuilder, Silence
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.request import retention
from pinnace_agent.session.cache_misses import WARMING_KIND
from pinnace_agent.session.conversation import Session
from pinnace_spec.records.messages import Message, Model, Usage

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import RunOwner

_log = logging.getLogger("pinnace.cache")

LONGEST_RUN_S: Final = 3600.0
"""For how long after its request a cache is kept while the run goes on."""
LONGEST_IDLE_S: Final = 1800.0
"""The same when the run has ended."""
LEAST_SAVINGS: Final = 0.05
"""In dollars: what a repetition must probably save."""
IDLE_PROBABILITY: Final = 0.15
"""That a conversation whose run has ended goes on before its cache is forgotten."""
MARGIN_S: Final = 10.0
"""A repetition comes so long before the end of the lifetime, or a tenth of it, whichever is longer."""


class Decision(NamedTuple):
    """What a repetition costs and saves, in dollars."""

    warm_cost: float
    miss_cost: float
    """What the next request costs more where the cache is gone."""
    probability: float
    """That there is a next request in time."""

    @property
    def is_worth_it(self) -> bool:
        """Whether it probably saves enough."""
        return self.probability * self.miss_cost - self.warm_cost >= LEAST_SAVINGS


def decision(model: Model, prompt_tokens: int, *, is_idle: bool) -> Decision:
    """Weigh a repetition of a request whose prompt has so many tokens."""

    def price(tokens: RequestTokens) -> float:
        return usage_of(model, tokens)["cost"]["total"]

    is_writing_dear = model["cost"]["cacheWrite"] > 0
    missed = RequestTokens(cache_write=prompt_tokens) if is_writing_dear else RequestTokens(input=prompt_tokens)
    read = RequestTokens(cache_read=prompt_tokens)
    return Decision(
        price(read._replace(output=1)), max(0.0, price(missed) - price(read)), IDLE_PROBABILITY if is_idle else 1.0
    )


def delay_s(lifetime_s: float) -> float | None:
    """Return how long after a request it is repeated; None: its cache is forgotten too soon."""
    return None if lifetime_s <= MARGIN_S else max(0.001, min(lifetime_s * 0.9, lifetime_s - MARGIN_S))


def lifetime_s(model: Model) -> float | None:
    """Return how long a model's provider keeps a prompt; None: it is not known, or nothing is cached."""
    kept = retention()
    return None if kept == "none" else as_amount((model.get("promptCache") or {}).get(kept))


def is_repeatable(request: LlmRequest) -> bool:
    """Return whether a request for one token finds the cache of this one.

    Anthropic's older models think within a budget, which is less than the output: without it the prompt is another one.
    """
    model = request.model
    has_budget = model["api"] == "anthropic-messages" and request.thinking_level != "off"
    return not has_budget or bool((model.get("compat") or {}).get("forceAdaptiveThinking"))


class _Kept(NamedTuple):
    """A request whose cache is kept."""

    request: LlmRequest
    session: Session
    messages: tuple[Message, ...]
    """Of the session, when it was sent."""
    lifetime_s: float
    delay_s: float
    begun: float
    """When it was sent, on trio's clock."""


class CacheWarmer:
    """Repeats the newest request of one agent."""

    def __init__(self, agent: "RunOwner", spend: Callable[[Usage], None]) -> None:
        """Keep nothing yet; `spend` counts what a repetition has used to the run that goes on."""
        self._agent = agent
        self._spend = spend
        self._number = 0
        self._job = ""
        """The job that keeps the cache; it may have ended."""
        self._is_idle = False

    def sent(self, request: LlmRequest, session: Session, messages: tuple[Message, ...]) -> None:
        """Keep the cache of a request that is sent now, instead of that of the one before. Never waits.

        Args:
            request: The request.
            session: Whose conversation it continues.
            messages: Those of the session, which extensions may have changed for the request.
        """
        self.stop()
        self._is_idle = False
        lifetime = lifetime_s(request.model)
        if lifetime is None or (delay := delay_s(lifetime)) is None or not is_repeatable(request):
            return
        kept = _Kept(request, session, messages, lifetime, delay, trio.current_time())
        self._number += 1
        self._job = f"cache:{self._number}"
        self._agent.jobs.start(self._job, lambda: self._keep(kept), lambda _cancelled, _failure: None)

    def settled(self) -> None:
        """The run has ended."""
        self._is_idle = True
        if self._agent.profile.cache_warming != "idle":
            self.stop()

    def stop(self) -> None:
        """Keep no cache any more."""
        self._agent.jobs.cancel(self._job)

    async def _keep(self, kept: _Kept) -> None:
        try:
            while await self._is_due(kept) and await self._is_wanted(kept):
                usage = await self._repeat(kept)
                if usage is not None:
                    self._count(kept, usage)
        except Exception as error:  # the boundary: a run must not end because of this
            _log.warning("the prompt cache is not kept: %s", type(error).__name__)

    async def _is_due(self, kept: _Kept) -> bool:
        """Wait until the cache would be forgotten soon; return whether it is still there, and kept on."""
        before_ms = kept.session.now_ms()
        await trio.sleep(kept.delay_s)
        longest_s = LONGEST_IDLE_S if self._is_idle else LONGEST_RUN_S
        # A machine that has slept, and a loop that was blocked: to write the cache anew is what was to be saved. By the
        # wall clock, since trio's stands still while the machine sleeps.
        latest_s = (kept.delay_s + kept.lifetime_s) / 2
        is_late = kept.session.now_ms() - before_ms > 1000 * latest_s
        return not is_late and trio.current_time() - kept.begun <= longest_s and self._is_current(kept)

    def _is_current(self, kept: _Kept) -> bool:
        """Return whether the next request begins as this one, as far as can be said."""
        agent, session, model = self._agent, kept.session, kept.session.model
        mode = agent.profile.cache_warming
        if mode == "off" or (mode == "streaming" and self._is_idle) or agent.session is not session or model is None:
            return False
        now = session.messages
        return (
            (model["provider"], model["id"]) == (kept.request.model["provider"], kept.request.model["id"])
            and session.thinking_level == kept.request.thinking_level
            and agent.profile.tool_specs() == tuple(kept.request.tools)
            and len(kept.messages) <= len(now)
            and all(one is other for one, other in zip(kept.messages, now, strict=False))
        )

    async def _is_wanted(self, kept: _Kept) -> bool:
        """Return whether a repetition is worth it; an extension may say otherwise."""
        made = decision(kept.request.model, _prompt_tokens(kept.session), is_idle=self._is_idle)
        is_wanted = made.is_worth_it
        extensions = self._agent.extensions
        if extensions is not None and (instance := extensions.instance) is not None:
            chosen = await instance.decide_warming(*made, is_wanted=is_wanted)
            is_wanted = is_wanted if chosen is None else chosen
        await kept.session.wait_until_left()
        return is_wanted and kept.session.claim() is None and self._is_current(kept)

    async def _repeat(self, kept: _Kept) -> Usage | None:
        """Send the request for one token, and return what it has used; None: it has failed."""
        registry = self._agent.profile.registry
        provider = registry.provider_for(kept.request.model)
        credentials = await registry.credentials(kept.request.model)
        if provider is None or credentials.problem is not None:
            return None
        request = kept.request._replace(
            max_tokens=1,
            api_key=credentials.api_key,
            headers=credentials.headers,
            variables=credentials.variables,
        )
        builder = MessageBuilder(request.model, Silence(), kept.session.now_ms())
        await provider.stream(request, builder)
        message = builder.message
        return None if message["stopReason"] in ("error", "aborted") else message["usage"]

    def _count(self, kept: _Kept, usage: Usage) -> None:
        """Keep what was used in the session, and count it to what the run may cost."""
        if self._agent.session is not kept.session:
            return
        model = kept.request.model
        fields = {"kind": WARMING_KIND, "provider": model["provider"], "model": model["id"], "usage": usage}
        entry = kept.session.keep_usage(fields)
        self._agent.emitter.emit({"type": "entry_appended", "entry": entry})
        self._spend(usage)


def _prompt_tokens(session: Session) -> int:
    """Return how long the newest prompt was, as its provider has counted."""
    for message in reversed(session.messages):
        if message["role"] == "assistant":
            usage = message["usage"]
            return usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
    return 0
