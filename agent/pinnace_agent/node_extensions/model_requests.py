"""Requests of models by code in Node: `complete` and `stream` of pi-ai, by the provider of the model or by one API.

A request goes out as one of the agent's own does, with the agent's key for the model unless the caller has another. Its
events are handed over in batches, each read before the next one is sent, so that nothing grows without a bound. What
fails is a message with a text, as in pi. Imported with the first request.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import trio

from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.core.control_text import clean_text
from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.core.surroundings import wall_time_ns
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.providers import Provider, find_provider, unsupported_api
from pinnace_agent.llm.request import THINKING_BUDGETS, LlmRequest, ToolSpec
from pinnace_agent.node_extensions.errors import RefusedRequest
from pinnace_spec.records.messages import THINKING_LEVELS, AssistantMessage, Message, Model, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.node_extensions.bridge import Bridge
    from pinnace_agent.node_extensions.values import Values


async def stream(bridge: "Bridge", number: int | None, values: "Values") -> AssistantMessage:
    """Request an answer, and return it; the callbacks of the request get its events.

    The values are the API (None: that of the provider of the model), the model, the context, the options, and the
    numbers of the callbacks. Cancelling closes the request.
    """
    api, model = values.text_or_none(0, "api"), values.model(1)
    context, options, kept = (
        values.record(place, name) for place, name in ((2, "context"), (3, "options"), (4, "kept"))
    )
    provider = _provider(bridge, number, api, model)
    request = await _request(bridge, number, model, context, options)
    events = _Events(bridge, kept)
    hooks = _Hooks(bridge, kept)
    builder = MessageBuilder(model, events, wall_time_ns() // 1_000_000)
    await provider.stream(
        request._replace(hooks=hooks if hooks.changes_payload or hooks.takes_answers else None), builder
    )
    await events.room()
    return builder.message


def _provider(bridge: "Bridge", number: int | None, api: str | None, model: Model) -> Provider:
    if api is None:
        found = bridge.context(number).model_registry.provider_for(model)
    else:
        found = find_provider(api)
    if found is None:
        raise RefusedRequest(unsupported_api(api or model["api"]).text)
    return found


async def _request(
    bridge: "Bridge", number: int | None, model: Model, context: Mapping[str, object], options: Mapping[str, object]
) -> LlmRequest:
    credentials = await _credentials(bridge, number, model, options)
    level, most, session = (options.get(name) for name in ("reasoning", "maxTokens", "sessionId"))
    given = as_object(options.get("thinkingBudgets")) or {}
    budgets: dict[ThinkingLevel, int] = dict(THINKING_BUDGETS)
    for name in THINKING_LEVELS:
        if isinstance(tokens := given.get(name), int):
            budgets[name] = tokens
    if isinstance(temperature := options.get("temperature"), int | float):
        model = {**model, "samplingParams": {**(model.get("samplingParams") or {}), "temperature": temperature}}
    return LlmRequest(
        model=model,
        system_prompt=clean_text(str(context.get("systemPrompt") or "")),
        messages=cast("list[Message]", as_list(context.get("messages")) or []),  # cast: read as they are
        tools=_tools(as_list(context.get("tools")) or []),
        thinking_level=level if level in THINKING_LEVELS else "off",
        api_key=credentials.api_key,
        headers=credentials.headers,
        session_id=session if isinstance(session, str) else "",
        max_tokens=most if isinstance(most, int) else None,
        thinking_budgets=budgets,
        variables=credentials.variables,
    )


async def _credentials(
    bridge: "Bridge", number: int | None, model: Model, options: Mapping[str, object]
) -> Credentials:
    """Return what the caller gives; else what the agent has for the model."""
    given, headers = options.get("apiKey"), _texts(options.get("headers"))
    own = {**_texts(model.get("headers")), **headers}
    if isinstance(given, str) and given.strip():
        return Credentials(given, own, variables=_texts(options.get("env")))
    found = await bridge.context(number).model_registry.credentials(model)
    return Credentials(found.api_key, {**own, **found.headers, **headers}, variables=found.variables)


def _texts(value: object) -> dict[str, str]:
    return {name: each for name, each in (as_object(value) or {}).items() if isinstance(each, str)}


def _tools(given: Sequence[object]) -> tuple[ToolSpec, ...]:
    tools = [as_object(each) or {} for each in given]
    return tuple(
        ToolSpec(str(each.get("name")), str(each.get("description") or ""), as_object(each.get("parameters")) or {})
        for each in tools
    )


class _Events:
    """Hands the updates of a message over: an `UpdateSink`."""

    def __init__(self, bridge: "Bridge", kept: Mapping[str, object]) -> None:
        self._bridge = bridge
        self._number = kept.get("events")
        self._waiting: list[Mapping[str, object]] = []

    def started(self, message: AssistantMessage) -> None:
        """Begin with the message as it is."""
        self._waiting.append({"type": "start", "partial": message})

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        """Keep one event for the next batch."""
        self._waiting.append(event)

    async def room(self) -> None:
        """Hand over what has come, and wait until it was read."""
        if self._waiting and isinstance(self._number, int):
            events, self._waiting = self._waiting, []
            await self._bridge.kept(self._number, events)
        else:
            self._waiting.clear()
            await trio.lowlevel.checkpoint()


class _Hooks:
    """`onPayload` and `onResponse`: `RequestHooks`."""

    observes_stream = False

    def __init__(self, bridge: "Bridge", kept: Mapping[str, object]) -> None:
        self._bridge = bridge
        self._payload, self._response = kept.get("payload"), kept.get("response")

    @property
    def changes_payload(self) -> bool:
        """Whether the caller wants to see the body."""
        return isinstance(self._payload, int)

    @property
    def takes_answers(self) -> bool:
        """Whether the caller wants to see the head of the response."""
        return isinstance(self._response, int)

    async def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return them as they are."""
        await trio.lowlevel.checkpoint()
        return headers

    async def payload(self, payload: object) -> object:
        """Return the body that the caller makes of it; it leaves it by returning nothing."""
        if not isinstance(self._payload, int):
            return payload
        changed = await self._bridge.kept(self._payload, payload)
        return payload if changed is None else changed

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Show the head of the response to the caller."""
        if isinstance(self._response, int):
            await self._bridge.kept(self._response, {"status": status, "headers": dict(headers)})

    async def streamed(self, data: object) -> None:
        """Do nothing."""
        await trio.lowlevel.checkpoint()
