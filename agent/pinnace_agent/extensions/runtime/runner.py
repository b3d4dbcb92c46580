"""The extensions of one session instance: bind, start, settle, shut down.

A replaced or reloaded session has another runner. The extension host and the engine's hooks call the chains where their
events happen. Has no access to the statechart or to how sessions are replaced.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar, cast

import trio

from pinnace_agent.extensions.api.base import Background
from pinnace_agent.extensions.api.contexts import Binding, Context
from pinnace_agent.extensions.api.session_reader import SessionReader
from pinnace_agent.extensions.api.user_interface import DrawingPort, RpcUserInterface, UserInterface
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events.session_events import ShutdownReason, StartReason
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.handlers.chains import Chains, FoundResources
from pinnace_agent.extensions.handlers.gates import Gates
from pinnace_agent.extensions.ports.host_actions import HostActions, HostPort
from pinnace_agent.extensions.registration.registrations import (
    CommandRegistration,
    ErrorRecord,
    Extension,
    Function,
    Generation,
    ItemRenderer,
    shortcut_key,
)
from pinnace_agent.extensions.runtime.commands import CommandRuns
from pinnace_agent.extensions.runtime.event_lane import EventLane
from pinnace_agent.extensions.runtime.extension_tool import ExtensionTool
from pinnace_agent.extensions.runtime.instances import Instance
from pinnace_agent.extensions.services.bus import EventBus
from pinnace_agent.extensions.services.dialogs import DialogTable, SpanEdge
from pinnace_agent.extensions.services.error_records import failure_record, failure_text, ownership
from pinnace_agent.extensions.services.watchdog import Owner, Watchdog
from pinnace_spec.records.messages import DialogMethod
from pinnace_spec.records.surface_items import ANY_TOOL, SurfaceItem

if TYPE_CHECKING:  # loaded with the first provider that needs them
    from pinnace_agent.core.ports.extensions import SurfaceInput
    from pinnace_agent.extensions.handlers.settle_hooks import Preview, Proposal
    from pinnace_agent.extensions.providers.login import ExtensionLogin
    from pinnace_agent.extensions.providers.stream import ExtensionProvider
    from pinnace_agent.extensions.runtime.completions import TextProvider, TextProviders
    from pinnace_agent.extensions.services.client_display import ClientDisplay
    from pinnace_agent.extensions.services.items import ItemTable
    from pinnace_agent.extensions.services.surfaces import SurfaceTable
    from pinnace_agent.extensions.services.terminal_input import Listener, TerminalInput

_log = logging.getLogger("pinnace.extensions")

_Value = TypeVar("_Value")

# A client waits for a few seconds before it kills the process; the rest of the exit must fit as well.
SHUTDOWN_LIMIT_S: Final = 5.0
# The rest of the limit is for background tasks, which are cancelled after the handlers.
_HANDLERS_SHARE: Final = 0.9


class Bindable(Protocol):
    """The method of `pi` that a runner calls."""

    def bind(self, actions: HostActions, background: Background) -> None:
        """Let the extension act on the session from now on."""


class Runner:
    """The extensions of one session instance."""

    def __init__(
        self,
        extensions: Sequence[Extension],
        generation: Generation,
        port: HostPort,
        *,
        apis: Mapping[Extension, Bindable] | None = None,
        bus: EventBus | None = None,
    ) -> None:
        """Create the runner of a session; nothing starts.

        Args:
            extensions: The live extensions of `generation`, in load order.
            generation: The token of this instance.
            port: The ports to the agent.
            apis: The `pi` of each extension, bound when the runner starts.
            bus: The event bus of the extensions.
        """
        self.extensions = tuple(extensions)
        self.generation = generation
        self.watchdog = Watchdog()
        view, self.actions, report, send, room, self._draw = port
        self.dialogs = DialogTable(send or _drop, self._on_dialog_span)
        self._send = send or _drop
        self._surfaces: SurfaceTable | None = None  # loaded with the first extension that draws
        self._display: ClientDisplay | None = None  # loaded with the first extension that sets a part of it
        self._input: TerminalInput | None = None  # loaded with the first extension that listens to it
        self.text_providers: TextProviders | None = None
        """What completes the text of the editor; None: no extension does."""
        self._items: ItemTable | None = None  # loaded with the first item that an extension is to draw
        ui = (
            UserInterface(generation)
            if send is None
            else RpcUserInterface(
                generation,
                self.dialogs,
                send,
                DrawingPort(
                    self._surface_table,
                    self._start_drawing,
                    view,
                    self._client_display,
                    self._add_provider,
                    self._listen,
                ),
            )
        )
        session = SessionReader(generation, lambda: view.session)
        self._binding = Binding(generation, view, self.actions, ui, session, self._start_task)
        self._contexts = {extension: Context(self._binding, extension.path) for extension in self.extensions}
        self._caller = Caller(self.extensions, generation, self._contexts.__getitem__, self.watchdog, report)
        self.chains = Chains(self._caller, self._binding)
        self.gates = Gates(self.chains)
        self.has_handlers = self.chains.has_handlers
        self.lane = EventLane(self.chains)
        """Events of runs that were not delivered yet."""
        self.report_error = report
        self._left = trio.Event()
        self.instances = {
            extension: Instance(extension, self._caller, self.chains, report) for extension in self.extensions
        }
        """`pi.background` of each extension."""
        self._paths = {extension.path: extension for extension in self.extensions}
        self._view = view
        self._apis = apis or {}
        self._bus = bus
        self._room = room
        self.commands = CommandRuns(self.extensions, self._binding, self._caller)
        self._tools: dict[str, ExtensionTool] = {}
        self._scope = trio.CancelScope()
        self._is_open = trio.Event()
        self._is_bound = self._has_begun = False
        self._is_over = trio.Event()

    # The tasks.

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks of the extensions until `shutdown`. Must run as a task of the session.

        Exceptions of extensions are not raised. `start` waits until this is ready.
        """
        try:
            with self._scope, ExitStack() as watching:
                async with trio.open_nursery() as nursery:
                    if self.extensions:
                        watching.enter_context(self.watchdog)
                        nursery.start_soon(self.watchdog.watch_waits, name="extensions: slow handlers")
                        nursery.start_soon(self._drain_left, name="extensions: undelivered events")
                    for extension, instance in self.instances.items():
                        await nursery.start(instance.run, name=f"extension {extension.path}")
                    if self._bus is not None:
                        self._bus.attach(self._start_task)
                    self.generation.thread.attach()
                    self._is_open.set()
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self._is_over.set()

    def _start_task(self, path: str, event: str, work: Callable[[], Awaitable[object]]) -> None:
        self.instances[self._paths[path]].start_task(event, work)

    def drain_later(self) -> None:
        """Let a task that no abort cancels deliver the events in the lane. Never waits."""
        self._left.set()

    async def _drain_left(self) -> None:
        while True:
            await self._left.wait()
            self._left = trio.Event()
            await self.lane.drain()

    # The lifecycle.

    async def bind(self) -> None:
        """Let the extensions act on the session, and register their providers. A second call does nothing.

        Waits until `serve` is ready.
        """
        await self._is_open.wait()
        if self._is_bound:
            return
        self._is_bound = True
        for extension, api in self._apis.items():
            api.bind(self.actions, self.instances[extension])
        self._flush_providers()

    async def start(self, reason: StartReason, previous_file: str | None = None) -> list[FoundResources]:
        """Start: bind, fire `session_start` and `resources_discover`. Returns the discovered resources."""
        await self.bind()
        self._has_begun = True
        chains = self.chains
        starting = [each for each in self.extensions if "session_start" in each.handlers]
        self.gates.not_begun.update(starting)
        event = ev.SessionStart(reason=reason, previous_session_file=previous_file)
        for extension in starting:
            await chains.notify("session_start", lambda: event, only=extension)
            self.gates.not_begun.discard(extension)
        if reason in ("new", "resume"):
            former: Literal["new", "resume"] = "new" if reason == "new" else "resume"
            await chains.notify(
                "session_switch", lambda: ev.SessionSwitch(reason=former, previous_session_file=previous_file)
            )
        elif reason == "fork":
            await chains.notify("session_fork", lambda: ev.SessionFork(previous_session_file=previous_file))
        found_on: Literal["startup", "reload"] = "reload" if reason == "reload" else "startup"
        cwd = self._view.session.cwd
        return await chains.resources(lambda: ev.ResourcesDiscover(cwd=cwd, reason=found_on))

    def _flush_providers(self) -> None:
        for extension in self.extensions:
            queued, extension.providers[:] = list(extension.providers), []
            for name, config in queued:
                try:
                    if config is None:
                        self.actions.unregister_provider(name)
                    else:
                        self.actions.register_provider(extension.path, name, config)
                except Exception as error:
                    self.report_error(failure_record(extension.path, "register_provider", error))

    async def settled(self, *, aborted: bool) -> None:
        """Fire `agent_settled` after the lane's events. Requests of its handlers start after the last one."""
        await self.lane.drain()
        if not self.has_handlers("agent_settled"):
            return
        self.actions.begin_settling()
        try:
            await self.chains.notify("agent_settled", lambda: ev.AgentSettled(aborted=aborted))
        finally:
            self.actions.end_settling()

    async def settle_hooks(
        self,
        name: Literal["turn_end", "agent_before_settle"],
        make: Callable[[], ev.TurnEnd | ev.AgentBeforeSettle],
        preview: "Preview | None" = None,
    ) -> "Proposal":
        """Call the hooks of the end of a turn or of settling, after the lane's events; see `run_settle_hooks`."""
        await self.lane.drain()
        from pinnace_agent.extensions.handlers.settle_hooks import run_settle_hooks  # with the first turn

        return await run_settle_hooks(self.chains, name, make, preview)

    def notify_later(self, event: str, make: Callable[[], ev.Event]) -> None:
        """Queue an event whose handlers are not awaited. Each extension handles its events in order."""
        if not self.has_handlers(event):
            return
        made = make()
        for extension, instance in self.instances.items():
            if event in extension.handlers:
                instance.queue(made)

    def _on_dialog_span(self, edge: SpanEdge, kind: DialogMethod, title: str) -> None:
        if edge == "start":
            self.notify_later("ui_prompt_start", lambda: ev.UiPromptStart(kind=kind, title=title))
        else:
            self.notify_later("ui_prompt_end", lambda: ev.UiPromptEnd(kind=kind, title=title))

    def abort(self) -> None:
        """Apply an abort: dialogs return their defaults, and commands are marked, or cancelled at a second abort."""
        self.dialogs.close_all()
        if self._surfaces is not None:
            self._surfaces.end_waiting()
        self.commands.abort()

    # Surfaces.

    def _surface_table(self) -> "SurfaceTable | None":
        """Return the surfaces of this instance; None: nothing can be drawn."""
        if self._surfaces is None and self._draw is not None and not self.generation.is_stale:
            from pinnace_agent.extensions.services.surfaces import SurfaceTable

            self._surfaces = SurfaceTable(
                self._send, self._draw, self._view.take_editor_text, is_offered=self._view.mode == "tui"
            )
        return self._surfaces

    def _client_display(self) -> "ClientDisplay | None":
        """Return what this instance has set of the client's own displays; None: nothing can be."""
        if self._display is None and self._draw is not None and not self.generation.is_stale:
            from pinnace_agent.extensions.services.client_display import ClientDisplay

            self._display = ClientDisplay(self._send, is_offered=self._view.mode == "tui")
        return self._display

    def _add_provider(self, path: str, function: "TextProvider") -> None:
        """Add what completes the text of the editor. It ends with this instance."""
        if self.text_providers is None:
            from pinnace_agent.extensions.runtime.completions import TextProviders

            self.text_providers = TextProviders(self._caller)
        self.text_providers.add(path, function)
        if (display := self._client_display()) is not None:
            display.set(completes=True)

    def _listen(self, path: str, function: "Listener") -> Callable[[], None]:
        """Add a listener to the input of the terminal; returns what removes it."""
        if self._input is None:
            from pinnace_agent.extensions.services.terminal_input import TerminalInput

            self._input = TerminalInput(self._surface_table, self._start_drawing, self._caller)
        return self._input.add(path, function)

    def _start_drawing(self, path: str, event: str, work: Callable[[], Awaitable[object]]) -> None:
        """Start a component; one of code that belongs to no extension is the first one's."""
        self._start_task(path if path in self._paths else next(iter(self._paths)), event, work)

    def offer_surfaces(self, *, is_offered: bool) -> None:
        """Let extensions draw in the client's terminal from now on, or not."""
        if self._surfaces is not None:
            self._surfaces.offer(is_offered=is_offered)
        if self._display is not None:
            self._display.offer(is_offered=is_offered)
        if self._items is not None and not is_offered:
            self._items.close_all()

    def take_surface_input(self, given: "SurfaceInput") -> None:
        """Take what the user does with a surface."""
        if self._items is not None and given.is_closed and self._items.forget(given.surface):
            return
        if self._surfaces is not None:
            self._surfaces.take(given)

    # Items of the conversation.

    def renderers(self) -> Sequence[ItemRenderer]:
        """Return what draws items; of several for one kind and name, that of the extension loaded first."""
        found: dict[tuple[str, str], ItemRenderer] = {}
        for extension in self.extensions:
            for key, renderer in extension.renderers.items():
                found.setdefault(key, renderer)
        return tuple(found.values())

    def draw_item(self, surface: str, columns: int, item: SurfaceItem) -> None:
        """Have an item of the conversation drawn on a surface of the client, or close that."""
        if self._draw is None or self.generation.is_stale or self._view.mode != "tui":
            return
        if self._items is None:
            from pinnace_agent.extensions.services.items import ItemPort, ItemTable

            port = ItemPort(
                self._send, self._draw, self._find_renderers, self._start_task, self.isolated, self.report_error
            )
            self._items = ItemTable(port)
        self._items.take(surface, columns, item)

    def _find_renderers(self, kind: str, name: str) -> Sequence[tuple[str, ItemRenderer]]:
        """Return what draws an item, in the order in which it is tried; of several for one name the first one loaded.

        Markdown is changed by all.
        """
        if not self._is_bound:
            return ()
        keys = [(kind, ANY_TOOL), (kind, name)] if kind in ("call", "result") else [(kind, name)]
        found = [
            (each, extension.path, renderer)
            for each in keys
            for extension in self.extensions
            if (renderer := extension.renderers.get(each)) is not None
        ]
        named = [each for each in found if each[0] == (kind, name)]
        left = [] if kind == "markdown" or name == ANY_TOOL else named[1:]
        return [each[1:] for each in found if each not in left]

    # Keys.

    def run_shortcut(self, key: str) -> bool:
        """Start the function of the last extension that has a key, as a task of it; return whether one has it.

        Its failure is reported. An abort does not end it; the end of the instance cancels it.
        """
        wanted = shortcut_key(key)
        for extension in reversed(self.extensions):
            found = extension.shortcuts.get(wanted)
            if found is not None and self._is_bound and not self.generation.is_stale:
                work = partial(found.function, self._contexts[extension])
                self._start_task(extension.path, "shortcut", cast("Callable[[], Awaitable[object]]", work))
                return True
        return False

    async def shutdown(
        self, reason: ShutdownReason, target_file: str | None = None, limit_s: float = SHUTDOWN_LIMIT_S
    ) -> None:
        """End the instance: `session_shutdown`, dialogs, tasks, and all registrations.

        Runs to its end also when cancelled, within the limit: a handler that exceeds it is cancelled and reported.
        Afterwards all objects of the instance are stale. A second call does nothing.
        """
        if self.generation.is_stale:
            return
        deadline = trio.current_time() + limit_s
        try:
            # Skipped for an instance that was bound but never started, because the start of the process failed.
            if self._has_begun or not self._is_bound:
                with trio.move_on_after(limit_s * _HANDLERS_SHARE, shield=True):
                    await self._notify_shutdown(reason, target_file)
        finally:
            self._end(reason)
        if not self._is_open.is_set():
            return
        with trio.move_on_at(deadline, shield=True):
            await self._is_over.wait()
        if not self._is_over.is_set():
            _log.warning("extensions: background tasks are still ending after %g s", limit_s)

    async def _notify_shutdown(self, reason: ShutdownReason, target_file: str | None) -> None:
        bounds = self._caller.bound("session_shutdown")
        event = ev.SessionShutdown(reason=reason, target_session_file=target_file)
        for bound in bounds:
            try:
                await self._caller.call(bound, event)
            except BaseException as error:
                if isinstance(ownership(error).passing, trio.Cancelled):
                    text = "the handler took too long and was cancelled"
                    self.report_error(ErrorRecord(bound.extension.path, "session_shutdown", text))
                self._caller.failed(bound, error)

    def _end(self, reason: str) -> None:
        self.dialogs.close_all(for_good=_STALE.get(reason, reason))
        if self._surfaces is not None:
            self._surfaces.close_all()
        if self._display is not None:
            self._display.close()
        if self._items is not None:
            self._items.close_all()
        self.generation.end(_STALE.get(reason, reason))
        self._scope.cancel()
        if self._bus is not None:
            self._bus.close()
        for extension in self.extensions:
            extension.discard("stale")

    def provider(self, path: str, name: str, function: Function) -> "ExtensionProvider":
        """Return the provider whose `stream_simple` the extension at `path` registered."""
        from pinnace_agent.extensions.providers.stream import ExtensionProvider

        return ExtensionProvider(self._caller, path, name, function)

    def login(self, path: str, name: str, oauth: object, on_stored: Callable[[], None]) -> "ExtensionLogin":
        """Return the login of a provider that the extension at `path` registered; `on_stored` as of `ExtensionLogin`.

        Raises:
            TypeError: `oauth` is invalid; the text says why.
        """
        from pinnace_agent.extensions.providers.login import ExtensionLogin
        from pinnace_agent.extensions.registration.provider_config import read_oauth

        return ExtensionLogin(self._caller, path, name, read_oauth(name, oauth), on_stored)

    def instance_of(self, path: str) -> Instance:
        """Return the tasks of the extension at `path`."""
        return self.instances[self._paths[path]]

    def offer_command(self, path: str, command: CommandRegistration) -> None:
        """Add a command of the agent to the extension at `path`, unless an extension has one of that name."""
        if not any(command.name in extension.commands for extension in self.extensions):
            self._paths[path].commands[command.name] = command

    async def isolated(self, path: str, event: str, function: Callable[[], Awaitable[_Value]]) -> _Value:
        """Run an async function of the extension at `path` and return its result.

        Raises:
            ValueError: The function failed; the text is that of the failure.
        """
        try:
            return cast("_Value", await self._caller.run(Owner(path, event), function, in_thread=False, is_timed=False))
        except BaseException as error:
            passing, failure = ownership(error)
            if passing is not None:
                raise passing from None
            assert failure is not None
            raise ValueError(failure_text(failure)) from failure

    # Tools.

    def tools(self) -> Mapping[str, ExtensionTool]:
        """Return the tools by name; for a shared name, that of the extension loaded first."""
        found: dict[str, ExtensionTool] = {}
        for extension in self.extensions:
            for name, registration in extension.tools.items():
                known = self._tools.get(name)
                if name in found:
                    continue
                if known is None or known.definition is not registration.definition:
                    known = ExtensionTool(extension, registration.definition, self._binding, self._caller, self._room)
                found[name] = known
        self._tools = found
        return found


_STALE: Final[Mapping[str, str]] = {
    "quit": "the process is ending",
    "reload": "the extensions were reloaded",
    "new": "the session was replaced by a new one",
    "resume": "the session was replaced by another one",
    "fork": "the session was replaced by a fork of it",
}


def _drop(_record: Mapping[str, object]) -> None:
    """Drop a record: no client can answer dialogs."""
