"""One extension in Node as the agent has it: its registrations, and the calls that they become.

To the agent it is an extension like those in Python: the same `pi`, the same order, chains and gates. Each function
that it has registered is an async function here, which calls the process.
"""

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol, cast

from pinnace_agent.config.credentials.logins import LoginCallbacks
from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.contexts import CommandContext, Context, ToolContext
from pinnace_agent.extensions.events.base import Event
from pinnace_agent.extensions.events.model_events import Context as Messages
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.node_extensions.errors import RefusedRequest, ScriptError
from pinnace_agent.node_extensions.values import Values
from pinnace_agent.tools import base
from pinnace_spec.rules.limits import COMPLETION_S

if TYPE_CHECKING:
    from pinnace_agent.extensions.services.items import DrawnItem
    from pinnace_agent.extensions.services.surfaces import Surface
    from pinnace_agent.node_extensions.process import NodeProcess
    from pinnace_spec.records.surface_items import MarkdownType

_MOST_DRAWN: Final = 500
_PROVIDERS_MS: Final = COMPLETION_S * 900
"""For all providers of a process: a tenth is left to it, so that it finds the one that is slow."""
OWN_CONTEXT: Final = 0
"""The number of the context of handlers, which is also that of code outside of every call."""
_RESULT_FIELDS: Final = ("content", "details", "structuredContent", "usage", "terminate")


class Calls(Protocol):
    """The process, as one extension calls it; it may have been started again meanwhile."""

    emitted: tuple[str, object] | None
    """The channel and the data that one of its extensions is emitting, which it has passed to all of its own."""
    settings: Callable[[], Mapping[str, object]]
    """Reads the merged settings, also while extensions load."""
    trusted_folder: Callable[[], str | None]
    """Returns the folder of the session, if its project is trusted by then; also while extensions load."""

    async def call(self, message: Mapping[str, object], on_update: Callable[[object], None] | None = None) -> object:
        """Call, and return the value."""
        ...

    def call_now(self, message: Mapping[str, object]) -> object:
        """Call something that does not wait, and return the value."""
        ...

    def post(self, message: Mapping[str, object]) -> None:
        """Send a message that has no answer."""
        ...


class Bridge:
    """One extension."""

    def __init__(self, number: int, path: str, api: ExtensionAPI, calls: Calls) -> None:
        """Register with `api` what the extension with this number registers in the process."""
        self.number = number
        self.path = path
        self.api = api
        self.started: Mapping[str, object] | None = None
        """Its latest `session_start`, for a process that is started again."""
        self.is_loaded = False
        """Whether its function has returned."""
        self.surfaces: dict[int, Surface] = {}
        """What it draws, by the numbers of the process."""
        self.completes_text = False
        """Whether it asks the process to complete the text of the editor."""
        self._stop_listening: Callable[[], None] | None = None
        """Removes its listener to the input of the terminal."""
        self._calls = calls
        self._contexts: dict[int, Context] = {}
        self._numbers = count(OWN_CONTEXT + 1)
        self._handlers: dict[int, tuple[str, Callable[[], None]]] = {}
        self._channels: set[str] = set()
        self._drawn: dict[tuple[str, str], Callable[[], None]] = {}
        """By which the items that were drawn last are drawn again."""
        self._logins: dict[int, LoginCallbacks] = {}

    def context(self, number: int | None) -> Context:
        """Return the context of a number; one that is over is that of the handlers.

        Raises:
            RefusedRequest: No function of the extension was called yet.
        """
        found = self._contexts.get(OWN_CONTEXT if number is None else number, self._contexts.get(OWN_CONTEXT))
        if found is None:
            raise RefusedRequest("there is no context before the first event: use the ctx of a handler")
        return found

    def add_context(self, context: Context) -> int:
        """Give a context a number."""
        number = next(self._numbers)
        self._contexts[number] = context
        return number

    async def call(self, kind: str, on_update: Callable[[object], None] | None = None, **fields: object) -> object:
        """Call something of the extension, and return its value.

        Raises:
            ScriptError: It has thrown.
            ProcessLost: The process has ended.
        """
        return await self._calls.call({"type": "call", "kind": kind, "extension": self.number, **fields}, on_update)

    def post(self, message: Mapping[str, object]) -> None:
        """Send the process a message that has no answer."""
        self._calls.post(message)

    def end_surfaces(self) -> None:
        """Close everything that a process which is lost has drawn."""
        for surface in tuple(self.surfaces.values()):
            surface.close()

    # Handlers.

    def on(self, event: str, number: int) -> None:
        """Subscribe a handler; one that a process which was started again subscribes anew is the same."""
        known = self._handlers.get(number)
        if known is not None and known[0] == event:
            return

        async def forward(ctx: Context, event: Event) -> object:
            return await self._handle(ctx, event, number)

        # cast: the overloads are for names that a type checker reads
        subscribe = cast("Callable[[str, Callable[..., object]], Callable[[], None]]", self.api.on)
        self._handlers[number] = event, subscribe(event, forward)

    def off(self, number: int) -> None:
        """End the subscription of a handler."""
        known = self._handlers.pop(number, None)
        if known is not None:
            known[1]()

    async def _handle(self, ctx: Context, event: Event, number: int) -> object:
        self._contexts[OWN_CONTEXT] = ctx
        wire = event.to_wire()
        if event.type == "session_start":
            self.started = wire
        in_run = getattr(ctx, "cancel_scope", None) is not None  # that of `project_trust` has none
        value = await self.call("handler", number=number, event=wire, context=OWN_CONTEXT, inRun=in_run)
        answer = as_object(value) or {}
        result = answer.get("result")
        if "changed" in answer:
            result = _take_change(event, answer["changed"], result)
        found = as_object(result)
        if event.type == "user_bash" and found is not None and isinstance(operations := found.get("operations"), int):
            return {"operations": Operations(self, operations)}
        return result

    async def start_again(self, process: "NodeProcess") -> None:
        """Let the extension restore its state in a process that was started again; its failures are raised."""
        if self.started is None:
            return
        event = {**self.started, "reason": "reload"}
        for number, (name, _) in tuple(self._handlers.items()):
            if name == "session_start":
                call = {"type": "call", "kind": "handler", "extension": self.number, "number": number}
                await process.call({**call, "event": event, "context": OWN_CONTEXT})

    # Tools.

    def register_tool(self, given: Mapping[str, object]) -> None:
        """Register a tool.

        Raises:
            TypeError: Its definition is invalid; the text names the field.
        """
        values = Values("registerTool", [given.get(each) for each in ("name", "description", "parameters")])
        name, description = values.text(0, "name"), values.text(1, f"tool {given.get('name')}: description")

        async def execute(ctx: ToolContext, params: Mapping[str, object]) -> object:
            return await self._execute(ctx, name, params)

        def prepare(params: Mapping[str, object]) -> Mapping[str, object]:
            call = {"type": "call", "kind": "prepare", "extension": self.number, "name": name, "params": params}
            try:
                prepared = as_object(self._calls.call_now(call))
            except ScriptError as error:
                raise base.ToolError(str(error)) from error
            if prepared is None:
                raise base.ToolError(f"{name}: prepareArguments must return an object of arguments")
            return prepared

        guidelines = as_list(given.get("promptGuidelines")) or []
        hints = as_object(given.get("annotations")) or {}
        self.api.register_tool(
            ToolDefinition(
                name,
                description,
                values.record(2, f"tool {name}: parameters"),
                execute,
                cast("str", given.get("label") or ""),  # cast: the registration checks it, as the others below
                cast("str | None", given.get("promptSnippet")),
                tuple(cast("list[str]", guidelines)),
                prepare_arguments=prepare if given.get("prepares") is True else None,
                is_sequential=given.get("sequential") is True,
                default_active=given.get("defaultActive") is not False,
                is_read_only=hints.get("readOnlyHint") is True,
                annotations={each: value for each, value in hints.items() if isinstance(value, bool)},
            )
        )
        for kind in as_list(given.get("renders")) or []:
            self.register_renderer(str(kind), name, is_framed=given.get("framesItself") is not True)

    async def _execute(self, ctx: ToolContext, name: str, params: Mapping[str, object]) -> object:
        number = self.add_context(ctx)

        def update(partial_result: object) -> None:
            with suppress(TypeError):  # a partial result that can't be read is followed by others
                _ = ctx.update(_result(partial_result))  # the process can't wait for the client to read it

        try:
            value = await self.call("tool", update, name=name, id=ctx.tool_call_id, params=params, context=number)
        except ScriptError as error:
            raise base.ToolError(str(error)) from error
        finally:
            self._contexts.pop(number, None)
        kept = _result(value)
        if (as_object(value) or {}).get("isError") is not True:
            return kept
        from pinnace_agent.extensions.runtime.tool_results import tool_result  # with the first failure of this kind

        failed = tool_result(kept)
        failed.is_error = True
        return failed

    # Items of the conversation.

    def register_renderer(self, kind: str, name: str, *, is_framed: bool) -> None:
        """Register what draws items of a kind and name.

        Raises:
            TypeError: The name is no name.
        """

        async def draw(item: "DrawnItem") -> object:
            self._drawn[item.kind, item.id] = item.request_render
            while len(self._drawn) > _MOST_DRAWN:
                del self._drawn[next(iter(self._drawn))]
            return await self.call("render", item=item.fields, columns=item.width, context=OWN_CONTEXT)

        async def choose(item: "DrawnItem") -> object:
            self._drawn[item.kind, item.id] = item.request_render
            columns = item.width
            return await self.call("render", item=item.fields, columns=columns, context=OWN_CONTEXT, chooses=True)

        async def change(_markdown: str, item: "DrawnItem") -> object:
            return await self.call("render", item=item.fields, columns=item.width, context=OWN_CONTEXT)

        async def draw_record(_record: object, item: "DrawnItem", _theme: object) -> object:
            return await draw(item)

        match kind:
            case "call":
                self.api.call_renderer(name, framed=is_framed)(draw)
            case "result":
                self.api.result_renderer(name, framed=is_framed)(draw)
            case "message":
                self.api.message_renderer(name)(draw_record)
            case "tool":
                self.api.tool_renderer(choose)
            case "markdown":
                self.api.markdown_transformer(message_types=cast("tuple[MarkdownType, ...]", tuple(name.split())))(
                    change
                )
            case _:
                self.api.entry_renderer(name)(draw_record)

    def render_again(self, item: str) -> None:
        """Draw a call and its result again, for a renderer that asks for it; what is not drawn stays so."""
        for kind in ("call", "result"):
            if (request_render := self._drawn.get((kind, item))) is not None:
                request_render()

    # Commands.

    def register_command(self, name: str, description: str | None, *, completes: bool) -> None:
        """Register a slash command."""

        async def run(ctx: CommandContext, args: str) -> None:
            number = self.add_context(ctx)
            await self.call("command", name=name, text=args, context=number)

        async def complete(prefix: str) -> object:
            return await self.call("completion", name=name, prefix=prefix)

        self.api.register_command(name, run, description=description, complete=complete if completes else None)

    def complete_texts(self, number: int | None) -> None:
        """Have the text of the editor completed by the providers of the process, of all its extensions."""
        if self.completes_text:
            return  # of the process before this one
        self.completes_text = True

        async def complete(before: str, after: str, is_forced: bool) -> object:
            return await self.call("text", before=before, after=after, force=is_forced, limit=_PROVIDERS_MS)

        self.context(number).ui.add_text_provider(complete, self.path)

    def listen_to_input(self, number: int | None) -> None:
        """Have the process see the input of the terminal first, or again after the client has closed that."""
        self.stop_listening()

        async def hear(data: str) -> object:
            return await self.call("key", data=data)

        self._stop_listening = self.context(number).ui.on_terminal_input(hear, self.path)

    def stop_listening(self) -> None:
        """End that; a second time does nothing."""
        stop, self._stop_listening = self._stop_listening, None
        if stop is not None:
            stop()

    def register_shortcut(self, key: str, description: str | None) -> None:
        """Register what the extension does at a key."""

        async def run(ctx: Context) -> None:
            self._contexts[OWN_CONTEXT] = ctx
            await self.call("shortcut", name=key, context=OWN_CONTEXT)

        self.api.shortcut(key, description=description)(run)

    # The bus.

    def listen(self, channel: str, post: Callable[[Mapping[str, object]], None]) -> None:
        """Pass what extensions in Python emit on a channel to the process."""
        if channel in self._channels:
            return
        self._channels.add(channel)

        def forward(data: object) -> None:
            emitted = self._calls.emitted
            if emitted is None or emitted[0] != channel or emitted[1] is not data:
                post({"type": "emit", "channel": channel, "data": data})

        self.api.events.on(channel, forward)

    def trusted_folder(self) -> str | None:
        """Return the folder of the session, if its project is trusted."""
        return self._calls.trusted_folder()

    def settings(self) -> Mapping[str, object]:
        """Return the merged settings."""
        return self._calls.settings()

    def emit(self, channel: str, data: object) -> None:
        """Pass what the extension emits to those in Python; the process has passed it to its own."""
        former, self._calls.emitted = self._calls.emitted, (channel, data)
        try:
            self.api.events.emit(channel, data)
        finally:
            self._calls.emitted = former

    # Providers.

    def stream_simple(self, number: int) -> Callable[..., AsyncIterator[Mapping[str, object]]]:
        """Return the `stream_simple` of a provider, over that of the extension."""
        from pinnace_agent.node_extensions.streams import StreamedAnswer  # with the first request

        def stream(model: object, context: object, options: object) -> AsyncIterator[Mapping[str, object]]:
            return StreamedAnswer(self, number, model, context, options)

        return stream

    async def log_in(self, number: int, callbacks: LoginCallbacks) -> object:
        """Run the login of a provider, and return its credentials."""
        place = next(self._numbers)
        self._logins[place] = callbacks
        try:
            return await self.call("login", number=number, context=place)
        finally:
            del self._logins[place]

    def login(self, number: int | None) -> LoginCallbacks:
        """Return the callbacks of a login that runs.

        Raises:
            RefusedRequest: It has ended.
        """
        found = self._logins.get(-1 if number is None else number)
        if found is None:
            raise RefusedRequest("the login has ended")
        return found

    def kept_now(self, number: int, *values: object, member: str | None = None) -> object:
        """Call what, or a member of what, the extension has kept; it must not wait. Returns its value."""
        call = {"type": "call", "kind": "kept", "extension": self.number, "number": number, "member": member}
        return self._calls.call_now({**call, "values": values})

    async def kept(self, number: int, *values: object, member: str | None = None, context: int | None = None) -> object:
        """Call a function that the extension has kept for later, and return its value."""
        return await self.call("kept", number=number, member=member, values=values, context=context)


class Operations:
    """Operations of an extension that run a command in the process: a `tools.operations.BashOperations`."""

    def __init__(self, bridge: Bridge, number: int) -> None:
        """Run commands by what the extension has kept under a number."""
        self._bridge = bridge
        self._number = number

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        on_data: Callable[[bytes], None],
        timeout_s: float | None,
        env: Mapping[str, str],
        shell_path: str | None,
    ) -> int | None:
        """Run a command; cancelling aborts its signal."""

        def take(data: object) -> None:
            on_data(base64.b64decode(str(data)))

        fields = {"number": self._number, "line": command, "cwd": cwd, "timeout": timeout_s, "env": env}
        try:
            value = as_object(await self._bridge.call("operations", take, **fields))
        except ScriptError as error:
            raise base.ToolError(str(error)) from error
        code = None if value is None else value.get("exitCode")
        return code if isinstance(code, int) else None


def _result(value: object) -> object:
    """Return what a tool has returned without fields that it shares with no result of the agent."""
    found = as_object(value)
    if found is None:
        return value
    return {each: found[each] for each in _RESULT_FIELDS if found.get(each) is not None}


def _take_change(event: Event, changed: object, result: object) -> object:
    """Change an event as a handler has changed it in place; returns the result."""
    match event.type:
        case "tool_call" | "before_provider_headers" | "before_agent_start":
            names = {"tool_call": "input", "before_provider_headers": "headers"}
            fields = cast("dict[str, object]", getattr(event, names.get(event.type, "system_prompt_options")))
            fields.clear()  # cast: these fields are dicts, which handlers change
            fields.update(as_object(changed) or {})
        case "context" | "context_with_system":
            messages = cast("list[object]", cast("Messages", event).messages)  # casts: of both events
            messages[:] = as_list(changed) or []
        case _:  # the body of a request
            return changed if result is None else result
    return result
