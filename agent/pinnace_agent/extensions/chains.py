"""What becomes of an event: one chain of handlers, and what their answers add up to.

Decides the rule of each event (`RULES`). A chain calls the handlers that there are when it begins, one after another;
a handler that raises is told and the next one is called. A handler that filters or decides, and whose result can't be
used, fails closed: what it stands before does not happen (`UnusableResultError`). Chains of different events, and of
several calls of tools, may overlap. With no handler nothing is made, not even the event. The chains of gates, which
fail closed whatever goes wrong, are in `gates`; those of boundaries in `boundaries`. Must not know when an event is
fired. R14 to R17, R38.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, cast

import trio

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.calling import Bound, Caller
from pinnace_agent.extensions.contexts import Binding
from pinnace_agent.extensions.json_values import NotJsonError, json_copy, own_copy, same_json
from pinnace_agent.extensions.registrations import Extension
from pinnace_agent.extensions.result_reader import ResultError, read_result
from pinnace_agent.extensions.result_shapes import CANCELLABLE
from pinnace_spec import errors
from pinnace_spec.messages import ImageContent, Message

Rule = Literal[
    "notify",  # answers are passed over
    "later",  # likewise, and nobody waits: one queue an extension
    "decide",  # the first Cancel ends the chain, else the last answer stands
    "trust",
    "collect",
    "input",
    "start",
    "boundary",
    "message",
    "context",
    "headers",
    "payload",
    "gate",
    "patch",
    "shell",
    "never",  # not fired
]

RULES: Final[Mapping[str, Rule]] = {
    "project_trust": "trust",
    "resources_discover": "collect",
    "mcp_servers_change": "never",
    "session_directory": "never",
    "session_start": "notify",
    "session_info_changed": "later",
    "session_before_switch": "decide",
    "session_before_fork": "decide",
    "session_before_compact": "decide",
    "session_compact": "notify",
    "session_compact_failed": "notify",
    "session_before_tree": "decide",
    "session_tree": "notify",
    "session_shutdown": "notify",
    "session_switch": "notify",
    "session_fork": "notify",
    "input": "input",
    "before_agent_start": "start",
    "agent_start": "notify",
    "agent_end": "notify",
    "agent_before_settle": "boundary",
    "agent_settled": "notify",
    "turn_start": "notify",
    "turn_end": "boundary",
    "message_start": "notify",
    "message_update": "notify",
    "message_end": "message",
    "tool_execution_start": "notify",
    "tool_execution_update": "notify",
    "tool_execution_end": "notify",
    "ui_prompt_start": "later",
    "ui_prompt_end": "later",
    "context": "context",
    "context_with_system": "context",
    "before_provider_headers": "headers",
    "before_provider_request": "payload",
    "after_provider_response": "notify",
    "provider_stream_event": "notify",
    "cache_warming_decision": "decide",
    "model_select": "notify",
    "thinking_level_select": "later",
    "tool_call": "gate",
    "tool_result": "patch",
    "user_bash": "shell",
}


class Said(NamedTuple):
    """What the handlers of `input` have made of a text."""

    text: str
    images: list[ImageContent] | None
    is_handled: bool = False
    """Whether it is dealt with: no model is asked."""


class Start(NamedTuple):
    """What the handlers of `before_agent_start` want for a run."""

    messages: Sequence[rs.CustomContent]
    """To store, in order."""
    system_prompt: str
    """For this run only."""


class Found(NamedTuple):
    """Resources that an extension adds; relative paths are relative to its folder."""

    extension: Extension
    resources: rs.Resources


# DEVIATION D-71: what can't be used is not passed over where it may have been to stop something.
class UnusableResultError(errors.ClientError):
    """A handler that filters or decides returned what can't be used: what it stands before must not happen."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errors.ErrorCode.REFUSED_BY_EXTENSION)


class Chains:
    """The chains of one session instance, gates and boundaries excepted."""

    def __init__(self, caller: Caller, binding: Binding) -> None:
        """Call by `caller`."""
        self.caller = caller
        self._binding = binding
        self.has_handlers: Callable[[str], bool] = caller.has
        """Tells whether anyone handles an event: to be asked before anything is prepared for it (R38)."""

    async def notify(self, event: str, make: Callable[[], ev.Event], *, only: Extension | None = None) -> None:
        """Tell an event. Waits for each handler; answers are passed over."""
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

    async def answer(self, bound: Bound, event: ev.Event) -> rs.Result | None:
        """Call a handler and read its answer; one that fails, or that can't be read, is told and counts as none."""
        try:
            return self.read(bound, await self.caller.call(bound, event))
        except BaseException as error:
            self.caller.failed(bound, error)
            return None

    async def answer_of_filter(self, bound: Bound, event: ev.Event) -> rs.Result | None:
        """Call a handler that filters or decides, and read its answer; one that raises is told and counts as none.

        Raises:
            UnusableResultError: It returned what can't be used. That was told.
        """
        try:
            value = await self.caller.call(bound, event)
        except BaseException as error:
            self.caller.failed(bound, error)
            return None
        try:
            return self.read(bound, value)
        except Exception as error:  # a value with code of its own may raise anything
            raise self.unusable(bound, error) from error

    def read(self, bound: Bound, value: object) -> rs.Result | None:
        """Read what a handler returned; keys that are not known are told.

        Raises:
            ResultError: It can't be used.
        """
        return read_result(bound.owner.event, value, partial(self.caller.tell_unknown, bound.owner))

    def unusable(self, bound: Bound, error: Exception) -> UnusableResultError:
        """Tell that a handler's result can't be used, and return what names it."""
        self.caller.tell(bound.owner, error)
        return UnusableResultError(f"An extension returned what can't be used ({bound.owner.path}): {error}")

    async def decide(self, event: str, make: Callable[[], ev.Event]) -> rs.Result | None:
        """Ask whether, and how, something shall happen (E7, E8, E9, E12, E37).

        Returns:
            `Cancel` of the first who says so, or whose answer can't be used; else the last answer; None if there is
            none.
        """
        decision: rs.Result | None = None
        bounds = self.caller.bound(event)
        made = make() if bounds else None
        for bound in bounds:
            if made is None or self.caller.is_stale:
                break
            try:
                answer = await self.answer_of_filter(bound, made)
            except UnusableResultError:
                answer = rs.Cancel() if event in CANCELLABLE else None
            if isinstance(answer, rs.Cancel):
                return answer
            decision = answer or decision
        await trio.lowlevel.checkpoint_if_cancelled()
        return decision

    async def resources(self, make: Callable[[], ev.ResourcesDiscover]) -> list[Found]:
        """Ask for further resources (E2); all answers count, in order."""
        found: list[Found] = []
        bounds = self.caller.bound("resources_discover")
        made = make() if bounds else None
        for bound in bounds:
            if made is None or self.caller.is_stale:
                break
            answer = await self.answer(bound, made)
            if isinstance(answer, rs.Resources):
                found.append(Found(bound.extension, answer))
        return found

    async def input(self, make: Callable[[], ev.Input]) -> Said | None:
        """Let handlers change a text, or deal with it (E16). None: nobody had a say; the text is as it was.

        Raises:
            UnusableResultError: A handler's answer can't be used, so the text must not pass.
        """
        bounds = self.caller.bound("input")
        if not bounds:
            return None
        event = make()
        said = Said(event.text, event.images)
        for bound in bounds:
            if self.caller.is_stale:
                break
            event.text, event.images = said.text, own_copy(said.images)
            answer = await self.answer_of_filter(bound, event)
            if isinstance(answer, rs.Handled):
                return said._replace(is_handled=True)
            if isinstance(answer, rs.Transform):
                images = said.images if isinstance(answer.images, rs.Unset) else answer.images
                said = Said(answer.text, None if images is None else list(images))
        await trio.lowlevel.checkpoint_if_cancelled()
        return said

    async def before_agent_start(self, make: Callable[[], ev.BeforeAgentStart]) -> Start | None:
        """Let handlers add messages and change the prompt of a run (E17). None: nobody had a say.

        Raises:
            UnusableResultError: A handler's answer can't be used, so the run must not begin.
        """
        bounds = self.caller.bound("before_agent_start")
        if not bounds:
            return None
        event = make()
        prompt = event.system_prompt
        messages: list[rs.CustomContent] = []
        try:
            for bound in bounds:
                if self.caller.is_stale:
                    break
                event.system_prompt = self._binding.chained_prompt = prompt
                answer = await self.answer_of_filter(bound, event)
                if isinstance(answer, rs.BeforeStart):
                    prompt = prompt if answer.system_prompt is None else answer.system_prompt
                    messages += [] if answer.message is None else [answer.message]
        finally:
            self._binding.chained_prompt = None
        await trio.lowlevel.checkpoint_if_cancelled()
        return Start(messages, prompt)

    async def message_end(self, message: Message) -> Message:
        """Tell that a message is complete, and return what stands in its place (E26). Handlers get copies."""
        bounds = self.caller.bound("message_end")
        event = ev.MessageEnd(message=message) if bounds else None
        for bound in bounds:
            if event is None or self.caller.is_stale:
                break
            event.message = own_copy(message)
            answer = await self.answer(bound, event)
            if not isinstance(answer, rs.ReplaceMessage):
                continue
            if answer.message["role"] == message["role"]:
                message = answer.message
            else:
                text = f"message_end: a message of role {message['role']!r} can't become {answer.message['role']!r}"
                self.caller.tell(bound.owner, ResultError(text))
        return message

    async def context(
        self, messages: Sequence[Message], event: Literal["context", "context_with_system"] = "context"
    ) -> list[Message] | None:
        """Let handlers change what a model is shown (E31, E32), in place or by their answer. None: nobody listens.

        Raises:
            UnusableResultError: What a handler has made of the messages can't be used, so nothing must be sent.
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
            answer = await self.answer_of_filter(bound, made)
            # A copy in any case: what was edited in place may be edited further.
            shown = list(answer.messages) if isinstance(answer, rs.Messages) else self._edited(bound, made)
        await trio.lowlevel.checkpoint_if_cancelled()
        return shown

    def _edited(self, bound: Bound, event: ev.Context | ev.ContextWithSystem) -> list[Message]:
        """Return the messages of an event as its handler has left them."""
        try:
            messages = same_json(event.messages, "messages")
        except NotJsonError as error:
            raise self.unusable(bound, ResultError(f"{event.type}: {error}")) from error
        if not _are_messages(messages):
            raise self.unusable(bound, ResultError(f"{event.type}: messages must be a list of messages"))
        return messages

    async def headers(self, headers: Mapping[str, str | None]) -> dict[str, str]:
        """Let handlers change the headers of a request in place; one that is None is left out (E33).

        Raises:
            UnusableResultError: A handler has left what are no headers, so nothing must be sent.
        """
        bounds = self.caller.bound("before_provider_headers")
        kept = dict(headers)
        for bound in bounds:
            if self.caller.is_stale:
                break
            event = ev.BeforeProviderHeaders(headers=dict(kept))
            await self.answer(bound, event)
            if not _are_headers(event.headers):
                raise self.unusable(bound, ResultError("before_provider_headers: a header is a text or None"))
            kept = dict(event.headers)
        return {name: value for name, value in kept.items() if value is not None}

    async def payload(self, payload: object) -> object:
        """Let handlers replace the body of a request, or change it in place (E34).

        Args:
            payload: Theirs to change.

        Raises:
            UnusableResultError: What a handler has made of it is no JSON, so nothing must be sent.
        """
        for bound in self.caller.bound("before_provider_request"):
            if self.caller.is_stale:
                break
            answer = await self.answer_of_filter(bound, ev.BeforeProviderRequest(payload=payload))
            if isinstance(answer, rs.Payload):
                payload = answer.payload
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
