"""Subscribing handlers: `pi.on`, typed for each event by its class and the results of its handlers.

The overloads repeat the table of events (`events.EVENTS`), because a type checker reads only literals; a test compares
them with the table.
"""

# To evaluate the annotations of so many overloads takes as long as to load three modules.
from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar, Unpack, overload

from typing_extensions import TypedDict

from pinnace_agent.core.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.api.base import ApiBase
from pinnace_agent.extensions.api.contexts import Context
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as res
from pinnace_agent.extensions.registration.registrations import Function, Handler
from pinnace_agent.extensions.registration.signatures import check_function
from pinnace_spec.records.messages import Message

Plain: TypeAlias = Mapping[str, object]
"""A result as a dict in wire spelling."""
_EventT = TypeVar("_EventT", bound=ev.Event)
_ResultT = TypeVar("_ResultT")
_CallT = TypeVar("_CallT", bound=ev.ToolCall)
_EndT = TypeVar("_EndT", bound=ev.ToolResult)
HandlerFunction: TypeAlias = Callable[[Context, _EventT], _ResultT | Awaitable[_ResultT]]


class Subscription(Generic[_EventT, _ResultT]):
    """The result of `on`: called without arguments it ends the subscription; with a function, it subscribes that."""

    __slots__ = ("_add", "_remove")

    def __init__(self, add: Callable[[Function], Callable[[], None]], remove: Callable[[], None] | None) -> None:
        """Create a subscription; `remove` is None until there is a handler."""
        self._add = add
        self._remove = remove

    @overload
    def __call__(self) -> None: ...

    @overload
    def __call__(self, handler: HandlerFunction[_EventT, _ResultT]) -> HandlerFunction[_EventT, _ResultT]: ...

    def __call__(
        self, handler: HandlerFunction[_EventT, _ResultT] | None = None
    ) -> HandlerFunction[_EventT, _ResultT] | None:
        """Subscribe a handler and return it; without one, remove the handler that `on` received."""
        if handler is not None:
            self._add(handler)
            return handler
        if self._remove is None:
            raise TypeError("there is no handler to remove: call on(event, handler), whose result removes it")
        self._remove()
        return None


_Trust: TypeAlias = res.Trust | Plain | None
_Resources: TypeAlias = res.Resources | Plain | None
_Switch: TypeAlias = res.Cancel | Plain | None
_Fork: TypeAlias = res.Cancel | res.ForkOptions | Plain | None
_Compact: TypeAlias = res.Cancel | res.Compaction | Plain | None
_Tree: TypeAlias = res.Cancel | res.TreeSummary | res.TreeOptions | Plain | None
_Input: TypeAlias = res.Continue | res.Transform | res.Handled | Plain | None
_Start: TypeAlias = res.BeforeStart | Plain | None
_Boundary: TypeAlias = res.Boundary | Plain | None
_Message: TypeAlias = res.ReplaceMessage | Plain | None
_Messages: TypeAlias = res.Messages | Sequence[Message] | Plain | None
_Warming: TypeAlias = res.CacheDecision | Plain | None
_Gate: TypeAlias = res.Block | Plain | None
_Patch: TypeAlias = res.ResultPatch | Plain | None
_Bash: TypeAlias = res.UserBash | Plain | None
_H: TypeAlias = HandlerFunction[_EventT, _ResultT] | None
_S: TypeAlias = Subscription[_EventT, _ResultT]


class _K(TypedDict, total=False):
    """How a handler is called."""

    tool: str | None
    thread: bool


@usable_from_any_thread()
class Subscribing(ApiBase):
    """The part of `pi` that registers handlers."""

    @overload
    def on(  # pyright: ignore[reportOverlappingOverload]  # the third is for the classes that the first two do not take
        self, event: type[_CallT], handler: _H[_CallT, _Gate] = None, **k: Unpack[_K]
    ) -> _S[_CallT, _Gate]: ...
    @overload
    def on(self, event: type[_EndT], handler: _H[_EndT, _Patch] = None, **k: Unpack[_K]) -> _S[_EndT, _Patch]: ...
    @overload
    def on(self, event: type[_EventT], handler: _H[_EventT, object] = None, **k: Unpack[_K]) -> _S[_EventT, object]: ...
    @overload
    def on(
        self, event: Literal["project_trust"], handler: _H[ev.ProjectTrust, _Trust] = None, **k: Unpack[_K]
    ) -> _S[ev.ProjectTrust, _Trust]: ...
    @overload
    def on(
        self,
        event: Literal["resources_discover"],
        handler: _H[ev.ResourcesDiscover, _Resources] = None,
        **k: Unpack[_K],
    ) -> _S[ev.ResourcesDiscover, _Resources]: ...
    @overload
    def on(
        self, event: Literal["mcp_servers_change"], handler: _H[ev.McpServersChange, None] = None, **k: Unpack[_K]
    ) -> _S[ev.McpServersChange, None]: ...
    @overload
    def on(
        self, event: Literal["session_directory"], handler: _H[ev.SessionDirectory, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionDirectory, None]: ...
    @overload
    def on(
        self, event: Literal["session_start"], handler: _H[ev.SessionStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionStart, None]: ...
    @overload
    def on(
        self, event: Literal["session_info_changed"], handler: _H[ev.SessionInfoChanged, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionInfoChanged, None]: ...
    @overload
    def on(
        self,
        event: Literal["session_before_switch"],
        handler: _H[ev.SessionBeforeSwitch, _Switch] = None,
        **k: Unpack[_K],
    ) -> _S[ev.SessionBeforeSwitch, _Switch]: ...
    @overload
    def on(
        self, event: Literal["session_before_fork"], handler: _H[ev.SessionBeforeFork, _Fork] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionBeforeFork, _Fork]: ...
    @overload
    def on(
        self,
        event: Literal["session_before_compact"],
        handler: _H[ev.SessionBeforeCompact, _Compact] = None,
        **k: Unpack[_K],
    ) -> _S[ev.SessionBeforeCompact, _Compact]: ...
    @overload
    def on(
        self, event: Literal["session_compact"], handler: _H[ev.SessionCompact, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionCompact, None]: ...
    @overload
    def on(
        self,
        event: Literal["session_compact_failed"],
        handler: _H[ev.SessionCompactFailed, None] = None,
        **k: Unpack[_K],
    ) -> _S[ev.SessionCompactFailed, None]: ...
    @overload
    def on(
        self, event: Literal["session_before_tree"], handler: _H[ev.SessionBeforeTree, _Tree] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionBeforeTree, _Tree]: ...
    @overload
    def on(
        self, event: Literal["session_tree"], handler: _H[ev.SessionTree, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionTree, None]: ...
    @overload
    def on(
        self, event: Literal["session_shutdown"], handler: _H[ev.SessionShutdown, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionShutdown, None]: ...
    @overload
    def on(
        self, event: Literal["session_switch"], handler: _H[ev.SessionSwitch, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionSwitch, None]: ...
    @overload
    def on(
        self, event: Literal["session_fork"], handler: _H[ev.SessionFork, None] = None, **k: Unpack[_K]
    ) -> _S[ev.SessionFork, None]: ...
    @overload
    def on(
        self, event: Literal["input"], handler: _H[ev.Input, _Input] = None, **k: Unpack[_K]
    ) -> _S[ev.Input, _Input]: ...
    @overload
    def on(
        self, event: Literal["before_agent_start"], handler: _H[ev.BeforeAgentStart, _Start] = None, **k: Unpack[_K]
    ) -> _S[ev.BeforeAgentStart, _Start]: ...
    @overload
    def on(
        self, event: Literal["agent_start"], handler: _H[ev.AgentStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.AgentStart, None]: ...
    @overload
    def on(
        self, event: Literal["agent_end"], handler: _H[ev.AgentEnd, None] = None, **k: Unpack[_K]
    ) -> _S[ev.AgentEnd, None]: ...
    @overload
    def on(
        self,
        event: Literal["agent_before_settle"],
        handler: _H[ev.AgentBeforeSettle, _Boundary] = None,
        **k: Unpack[_K],
    ) -> _S[ev.AgentBeforeSettle, _Boundary]: ...
    @overload
    def on(
        self, event: Literal["agent_settled"], handler: _H[ev.AgentSettled, None] = None, **k: Unpack[_K]
    ) -> _S[ev.AgentSettled, None]: ...
    @overload
    def on(
        self, event: Literal["turn_start"], handler: _H[ev.TurnStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.TurnStart, None]: ...
    @overload
    def on(
        self, event: Literal["turn_end"], handler: _H[ev.TurnEnd, _Boundary] = None, **k: Unpack[_K]
    ) -> _S[ev.TurnEnd, _Boundary]: ...
    @overload
    def on(
        self, event: Literal["message_start"], handler: _H[ev.MessageStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.MessageStart, None]: ...
    @overload
    def on(
        self, event: Literal["message_update"], handler: _H[ev.MessageUpdate, None] = None, **k: Unpack[_K]
    ) -> _S[ev.MessageUpdate, None]: ...
    @overload
    def on(
        self, event: Literal["message_end"], handler: _H[ev.MessageEnd, _Message] = None, **k: Unpack[_K]
    ) -> _S[ev.MessageEnd, _Message]: ...
    @overload
    def on(
        self, event: Literal["tool_execution_start"], handler: _H[ev.ToolExecutionStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ToolExecutionStart, None]: ...
    @overload
    def on(
        self, event: Literal["tool_execution_update"], handler: _H[ev.ToolExecutionUpdate, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ToolExecutionUpdate, None]: ...
    @overload
    def on(
        self, event: Literal["tool_execution_end"], handler: _H[ev.ToolExecutionEnd, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ToolExecutionEnd, None]: ...
    @overload
    def on(
        self, event: Literal["ui_prompt_start"], handler: _H[ev.UiPromptStart, None] = None, **k: Unpack[_K]
    ) -> _S[ev.UiPromptStart, None]: ...
    @overload
    def on(
        self, event: Literal["ui_prompt_end"], handler: _H[ev.UiPromptEnd, None] = None, **k: Unpack[_K]
    ) -> _S[ev.UiPromptEnd, None]: ...
    @overload
    def on(
        self, event: Literal["context"], handler: _H[ev.Context, _Messages] = None, **k: Unpack[_K]
    ) -> _S[ev.Context, _Messages]: ...
    @overload
    def on(
        self,
        event: Literal["context_with_system"],
        handler: _H[ev.ContextWithSystem, _Messages] = None,
        **k: Unpack[_K],
    ) -> _S[ev.ContextWithSystem, _Messages]: ...
    @overload
    def on(
        self,
        event: Literal["before_provider_headers"],
        handler: _H[ev.BeforeProviderHeaders, None] = None,
        **k: Unpack[_K],
    ) -> _S[ev.BeforeProviderHeaders, None]: ...
    @overload
    def on(
        self,
        event: Literal["before_provider_request"],
        handler: _H[ev.BeforeProviderRequest, object] = None,
        **k: Unpack[_K],
    ) -> _S[ev.BeforeProviderRequest, object]: ...
    @overload
    def on(
        self,
        event: Literal["after_provider_response"],
        handler: _H[ev.AfterProviderResponse, None] = None,
        **k: Unpack[_K],
    ) -> _S[ev.AfterProviderResponse, None]: ...
    @overload
    def on(
        self, event: Literal["provider_stream_event"], handler: _H[ev.ProviderStreamEvent, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ProviderStreamEvent, None]: ...
    @overload
    def on(
        self,
        event: Literal["cache_warming_decision"],
        handler: _H[ev.CacheWarmingDecision, _Warming] = None,
        **k: Unpack[_K],
    ) -> _S[ev.CacheWarmingDecision, _Warming]: ...
    @overload
    def on(
        self, event: Literal["model_select"], handler: _H[ev.ModelSelect, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ModelSelect, None]: ...
    @overload
    def on(
        self, event: Literal["thinking_level_select"], handler: _H[ev.ThinkingLevelSelect, None] = None, **k: Unpack[_K]
    ) -> _S[ev.ThinkingLevelSelect, None]: ...
    @overload
    def on(
        self, event: Literal["tool_call"], handler: _H[ev.ToolCall, _Gate] = None, **k: Unpack[_K]
    ) -> _S[ev.ToolCall, _Gate]: ...
    @overload
    def on(
        self, event: Literal["tool_result"], handler: _H[ev.ToolResult, _Patch] = None, **k: Unpack[_K]
    ) -> _S[ev.ToolResult, _Patch]: ...
    @overload
    def on(
        self, event: Literal["user_bash"], handler: _H[ev.UserBash, _Bash] = None, **k: Unpack[_K]
    ) -> _S[ev.UserBash, _Bash]: ...

    def on(
        self,
        event: str | type[ev.Event],
        handler: Function | None = None,
        *,
        tool: str | None = None,
        thread: bool = False,
    ) -> Subscription[Any, Any]:  # typed by the overloads
        """Subscribe to an event: as a decorator, or with a handler; then the result removes it.

        Args:
            event: Its name or class; the class of a built-in tool's call or result subscribes to that tool only.
            handler: Called as `handler(ctx, event)`, sync or async.
            tool: For `tool_call` and `tool_result`: the only tool to subscribe to.
            thread: Whether a sync handler that blocks runs in a worker thread.

        Raises:
            TypeError: The handler doesn't take these parameters.
        """
        self._check_registering()
        name, own_tool = (event, None) if isinstance(event, str) else _named(event)
        tool = tool or own_tool
        if tool is not None and name not in ev.TOOL_EVENTS:
            raise TypeError(f"on({name!r}): tool= is for tool_call and tool_result")
        self._diagnose(name)

        def add(function: Function) -> Callable[[], None]:
            self._check_registering()
            check_function(function, f"handler of {name}", "(ctx, event)", in_thread=thread)
            return home.wrap(self._extension.add_handler(Handler(name, function, thread, tool)))

        home = self.__loop_thread__
        return Subscription(
            lambda function: home.call(partial(add, function)), None if handler is None else add(handler)
        )

    def _diagnose(self, name: str) -> None:
        """Add a diagnostic about an unknown or legacy event, once."""
        row = ev.EVENTS.get(name)
        text = ""
        if row is None:
            text = ev.unknown_event(name)
        elif row.is_legacy:
            never = "; use session_start and its reason" if row.is_fired else ", and never fired"
            text = f"the event {name!r} is of an older generation{never}"
        if text and text not in self._extension.diagnostics:
            self._extension.diagnostics.append(text)


def _named(event: type[ev.Event]) -> tuple[str, str | None]:
    tool = event.for_tool if issubclass(event, ev.ToolCall | ev.ToolResult) else ""
    return event.type, tool or None
