"""The chain of each event: its handlers are called one after another, and their results combined.

A chain calls the handlers that exist when it starts. A handler that raises is reported, and the next one is called. A
handler that filters or decides fails closed if its result can't be used: the filtered action does not happen
(`UnusableResultError`). Chains of different events, and of several tool calls, may overlap. Without a handler, the
event object is not created. Approval hooks, which fail closed on every error, are in `gates`; the hooks of the end of a
turn in `settle_hooks`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, cast

import trio

from pinnace_agent.core.json_values import NotJsonError, json_copy, own_copy, same_json
from pinnace_agent.extensions.api.contexts import Binding
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.result_reader import ResultError, read_result
from pinnace_agent.extensions.handlers.calling import Bound, Caller
from pinnace_agent.extensions.registration.registrations import Extension
from pinnace_spec.records.messages import ImageContent, Message
from pinnace_spec.rules import errors


class InputOutcome(NamedTuple):
    """A user message as the handlers of `input` left it."""

    text: str
    images: list[ImageContent] | None
    is_handled: bool = False
    """Whether a handler handled it: no run starts."""


class RunPreparation(NamedTuple):
    """The changes of a run by handlers of `before_agent_start`."""

    messages: Sequence[rs.CustomContent]
    """To store before the run, in order."""
    system_prompt: str
    """For this run only."""


class FoundResources(NamedTuple):
    """Resources that an extension adds; relative paths are relative to its folder."""

    extension: Extension
    resources: rs.Resources


# DEVIATION D-71: an unusable result is not ignored where it may have been meant to prevent something.
class UnusableResultError(errors.ClientError):
    """A handler that filters or decides returned an unusable result: the filtered action must not happen."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errors.ErrorCode.REFUSED_BY_EXTENSION)


class Chains:
    """The chains of one session instance, except those of `gates` and `settle_hooks`."""

    def __init__(self, caller: Caller, binding: Binding) -> None:
        """Call handlers with `caller`."""
        self.caller = caller
        self._binding = binding
        self.has_handlers: Callable[[str], bool] = caller.has
        """Returns whether an event has a handler: to be checked before anything is prepared for it."""

    async def notify(self, event: str, make: Callable[[], ev.Event], *, only: Extension | None = None) -> None:
        """Call the handlers of an event, waiting for each; results are ignored."""
        caller = self.caller
        if not caller.has(event):
            return
        bounds = caller.bound(event, only=only)
        if not bounds:
            return
        made = make()
        for bound in bounds:
            if caller.is_stale:
                return
            try:
                await caller.call(bound, made)
            except BaseException as error:
                caller.failed(bound, error)

    async def result_of(self, bound: Bound, event: ev.Event) -> rs.Result | None:
        """Call a handler and read its result; a failure or an unusable result is reported and counts as None."""
        try:
            return self.read(bound, await self.caller.call(bound, event))
        except BaseException as error:
            self.caller.failed(bound, error)
            return None

    async def filter_result(self, bound: Bound, event: ev.Event) -> rs.Result | None:
        """Call a handler that filters or decides, and read its result; a failure is reported and counts as None.

        Raises:
            UnusableResultError: The result can't be used. This was reported.
        """
        try:
            value = await self.caller.call(bound, event)
        except BaseException as error:
            self.caller.failed(bound, error)
            return None
        try:
            return self.read(bound, value)
        except Exception as error:  # the value's own code may raise anything
            raise self.unusable(bound, error) from error

    def read(self, bound: Bound, value: object) -> rs.Result | None:
        """Read what a handler returned; unknown keys are reported.

        Raises:
            ResultError: The value can't be used.
        """
        return read_result(bound.owner.event, value, partial(self.caller.report_unknown, bound.owner))

    def unusable(self, bound: Bound, error: Exception) -> UnusableResultError:
        """Report an unusable result, and return the error that names it."""
        self.caller.report(bound.owner, error)
        return UnusableResultError(f"An extension returned what can't be used ({bound.owner.path}): {error}")

    async def decide(self, event: str, make: Callable[[], ev.Event]) -> rs.Result | None:
        """Let handlers decide whether, and how, something happens.

        Returns:
            `Cancel` if a handler returned it or an unusable result; else the last result; None if there is none.
        """
        decision: rs.Result | None = None
        bounds = self.caller.bound(event)
        made = make() if bounds else None
        for bound in bounds:
            if made is None or self.caller.is_stale:
                break
            try:
                result = await self.filter_result(bound, made)
            except UnusableResultError:
                result = rs.Cancel() if ev.EVENTS[event].is_cancellable else None
            if isinstance(result, rs.Cancel):
                return result
            decision = result or decision
        await trio.lowlevel.checkpoint_if_cancelled()
        return decision

    async def resources(self, make: Callable[[], ev.ResourcesDiscover]) -> list[FoundResources]:
        """Collect further resources: those of all results, in order."""
        found: list[FoundResources] = []
        bounds = self.caller.bound("resources_discover")
        made = make() if bounds else None
        for bound in bounds:
            if made is None or self.caller.is_stale:
                break
            result = await self.result_of(bound, made)
            if isinstance(result, rs.Resources):
                found.append(FoundResources(bound.extension, result))
        return found

    async def input(self, make: Callable[[], ev.Input]) -> InputOutcome | None:
        """Let handlers change a user message, or handle it. None: there is no handler.

        Raises:
            UnusableResultError: A handler's result can't be used, so the message must not be delivered.
        """
        bounds = self.caller.bound("input")
        if not bounds:
            return None
        event = make()
        outcome = InputOutcome(event.text, event.images)
        for bound in bounds:
            if self.caller.is_stale:
                break
            event.text, event.images = outcome.text, own_copy(outcome.images)
            result = await self.filter_result(bound, event)
            if isinstance(result, rs.Handled):
                return outcome._replace(is_handled=True)
            if isinstance(result, rs.Transform):
                images = outcome.images if isinstance(result.images, rs.Unset) else result.images
                outcome = InputOutcome(result.text, None if images is None else list(images))
        await trio.lowlevel.checkpoint_if_cancelled()
        return outcome

    async def before_agent_start(
        self, make: Callable[[], ev.BeforeAgentStart], base: Callable[[], str] | None = None
    ) -> RunPreparation | None:
        """Let handlers add messages and change the system prompt of a run. None: there is no handler.

        Args:
            make: Makes the event.
            base: Returns the prompt of the tools that are active now: a handler that changes them changes what later
                ones see, and what former ones have made of it. None: it never changes.

        Raises:
            UnusableResultError: A handler's result can't be used, so the run must not start.
        """
        bounds = self.caller.bound("before_agent_start")
        if not bounds:
            return None
        event = make()
        prompt = own = event.system_prompt
        messages: list[rs.CustomContent] = []
        try:
            for bound in bounds:
                if self.caller.is_stale:
                    break
                event.system_prompt = self._binding.chained_prompt = prompt
                result = await self.filter_result(bound, event)
                if isinstance(result, rs.BeforeStart):
                    prompt = prompt if result.system_prompt is None else result.system_prompt
                    messages += [] if result.message is None else [result.message]
                if base is not None and (now := base()) != own:
                    prompt, own, event = prompt.replace(own, now, 1), now, make()
        finally:
            self._binding.chained_prompt = None
        await trio.lowlevel.checkpoint_if_cancelled()
        return RunPreparation(messages, prompt)

    async def message_end(self, message: Message) -> Message:
        """Call the handlers of a complete message, and return its replacement. Handlers receive copies."""
        bounds = self.caller.bound("message_end")
        event = ev.MessageEnd(message=message) if bounds else None
        for bound in bounds:
            if event is None or self.caller.is_stale:
                break
            event.message = own_copy(message)
            result = await self.result_of(bound, event)
            if not isinstance(result, rs.ReplaceMessage):
                continue
            if result.message["role"] == message["role"]:
                message = result.message
            else:
                text = f"message_end: a message of role {message['role']!r} can't become {result.message['role']!r}"
                self.caller.report(bound.owner, ResultError(text))
        return message

    async def context(
        self, messages: Sequence[Message], event: Literal["context", "context_with_system"] = "context"
    ) -> list[Message] | None:
        """Let handlers change the messages of a request, in place or by a result. None: there is no handler.

        Raises:
            UnusableResultError: The changed messages can't be used, so no request must be sent.
        """
        bounds = self.caller.bound(event)
        if not bounds:
            return None
        shown = own_copy(list(messages))
        made = ev.Context(messages=shown) if event == "context" else ev.ContextWithSystem(messages=shown)
        for bound in bounds:
            if self.caller.is_stale:
                break
            made.messages = shown
            result = await self.filter_result(bound, made)
            # Always a copy: a handler may keep editing the list that it changed in place.
            shown = list(result.messages) if isinstance(result, rs.Messages) else self._edited(bound, made)
        await trio.lowlevel.checkpoint_if_cancelled()
        return shown

    def _edited(self, bound: Bound, event: ev.Context | ev.ContextWithSystem) -> list[Message]:
        """Return the messages of an event as its handler left them."""
        try:
            messages = same_json(event.messages, "messages")
        except NotJsonError as error:
            raise self.unusable(bound, ResultError(f"{event.type}: {error}")) from error
        if not _are_messages(messages):
            raise self.unusable(bound, ResultError(f"{event.type}: messages must be a list of messages"))
        return messages

    async def headers(self, headers: Mapping[str, str | None]) -> dict[str, str]:
        """Let handlers change the headers of a request in place; one that is None is left out.

        Raises:
            UnusableResultError: The changed headers can't be used, so no request must be sent.
        """
        bounds = self.caller.bound("before_provider_headers")
        kept = dict(headers)
        for bound in bounds:
            if self.caller.is_stale:
                break
            event = ev.BeforeProviderHeaders(headers=dict(kept))
            await self.result_of(bound, event)
            if not _are_headers(event.headers):
                raise self.unusable(bound, ResultError("before_provider_headers: a header is a string or None"))
            kept = dict(event.headers)
        return {name: value for name, value in kept.items() if value is not None}

    async def payload(self, payload: object) -> object:
        """Let handlers replace the body of a request, or change it in place.

        Args:
            payload: The body, which handlers may change.

        Raises:
            UnusableResultError: The changed body is not JSON, so no request must be sent.
        """
        for bound in self.caller.bound("before_provider_request"):
            if self.caller.is_stale:
                break
            result = await self.filter_result(bound, ev.BeforeProviderRequest(payload=payload))
            if isinstance(result, rs.Payload):
                payload = result.payload
                continue
            try:
                payload = json_copy(payload, "payload")
            except NotJsonError as error:
                raise self.unusable(bound, ResultError(f"before_provider_request: {error}")) from error
        return payload


def _are_messages(value: object) -> bool:
    return isinstance(value, list) and all(_is_message(each) for each in cast("list[object]", value))


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, object]", value).get("role"), str)


def _are_headers(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    pairs = cast("dict[object, object]", value).items()
    return all(isinstance(name, str) and (each is None or isinstance(each, str)) for name, each in pairs)
