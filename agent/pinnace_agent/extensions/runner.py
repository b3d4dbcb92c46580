"""The extensions of one session instance, from its start to its end.

Decides the order of the lifecycle: bind, start, settle, shut down. A session that is replaced or
reloaded has another runner; nothing is carried over. The host calls the chains (`chains`, `gates`, `run_boundary`)
where their events happen. Must not know how a session is replaced, nor the chart. R8, R13, R20, R29, R32.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar, cast

import trio

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.api_base import Background
from pinnace_agent.extensions.boundaries import Preview, Proposal, run_boundary
from pinnace_agent.extensions.bus import EventBus
from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.chains import Chains, Found
from pinnace_agent.extensions.command_runs import CommandRuns
from pinnace_agent.extensions.contexts import Binding, Context
from pinnace_agent.extensions.dialogs import DialogMethod, DialogTable, SpanEdge
from pinnace_agent.extensions.error_records import failure_record, failure_text, ownership
from pinnace_agent.extensions.event_lane import EventLane
from pinnace_agent.extensions.extension_tool import ExtensionTool
from pinnace_agent.extensions.gates import Gates
from pinnace_agent.extensions.host_port import HostActions, HostPort
from pinnace_agent.extensions.instances import Instance
from pinnace_agent.extensions.registrations import CommandRegistration, ErrorRecord, Extension, Function, Generation
from pinnace_agent.extensions.session_events import ShutdownReason, StartReason
from pinnace_agent.extensions.session_reader import SessionReader
from pinnace_agent.extensions.user_interface import RpcUserInterface, UserInterface
from pinnace_agent.extensions.watchdog import Owner, Watchdog

if TYPE_CHECKING:  # loaded with the first provider that needs them
    from pinnace_agent.extensions.provider_login import ExtensionLogin
    from pinnace_agent.extensions.provider_stream import ExtensionProvider

_log = logging.getLogger("pinnace.extensions")

_Value = TypeVar("_Value")

# A client that ends us waits for a few seconds and then kills; everything else at exit has to fit as well (R32).
SHUTDOWN_LIMIT_S: Final = 5.0
# The rest is for background tasks, which have to unwind when the handlers are done.
_HANDLERS_SHARE: Final = 0.9


class Bindable(Protocol):
    """The `pi` of an extension, as far as a runner knows it."""

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
        """Bind to a session; start nothing.

        Args:
            extensions: In load order, live, all of `generation`.
            generation: Ends with this instance.
            port: The agent.
            apis: The `pi` of each, to be bound when it starts.
            bus: On which they talk to each other.
        """
        self.extensions = tuple(extensions)
        self.generation = generation
        self.watchdog = Watchdog()
        view, self.actions, tell, send, room = port
        self.dialogs = DialogTable(send or _nobody, self._tell_span)
        ui = UserInterface(generation) if send is None else RpcUserInterface(generation, self.dialogs, send)
        session = SessionReader(generation, lambda: view.session)
        self._binding = Binding(generation, view, self.actions, ui, session, self._start_task)
        self._contexts = {extension: Context(self._binding, extension.path) for extension in self.extensions}
        self._caller = Caller(self.extensions, generation, self._contexts.__getitem__, self.watchdog, tell)
        self.chains = Chains(self._caller, self._binding)
        self.gates = Gates(self.chains)
        self.has_handlers = self.chains.has_handlers
        self.lane = EventLane(self.chains)
        """Events of the runs that nobody has heard of yet."""
        self.tell_error = tell
        self._left = trio.Event()
        self.instances = {
            extension: Instance(extension, self._caller, self.chains, tell) for extension in self.extensions
        }
        """By extension: its `pi.background`."""
        self._paths = {extension.path: extension for extension in self.extensions}
        self._tell = tell
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
        """Keep the tasks of the extensions until `shutdown`. To be run as one task beside the session's others.

        Raises nothing of the extensions'. `start` waits until it is ready.
        """
        try:
            with self._scope, ExitStack() as watching:
                async with trio.open_nursery() as nursery:
                    if self.extensions:
                        watching.enter_context(self.watchdog)
                        nursery.start_soon(self.watchdog.watch_waits, name="extensions: slow handlers")
                        nursery.start_soon(self._tell_rest, name="extensions: events that were left")
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

    def tell_rest(self) -> None:
        """Have a task that no abort ends tell what is in the lane. Never waits."""
        self._left.set()

    async def _tell_rest(self) -> None:
        while True:
            await self._left.wait()
            self._left = trio.Event()
            await self.lane.drain()

    # The lifecycle.

    async def bind(self) -> None:
        """Let the extensions act on the session, and register the providers that they have brought. Once.

        `serve` has to be running, or about to.
        """
        await self._is_open.wait()
        if self._is_bound:
            return
        self._is_bound = True
        for extension, api in self._apis.items():
            api.bind(self.actions, self.instances[extension])
        self._flush_providers()

    async def start(self, reason: StartReason, previous_file: str | None = None) -> list[Found]:
        """Begin: bind, `session_start`, `resources_discover`. Returns the resources that were found."""
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
                    self._tell(failure_record(extension.path, "register_provider", error))

    async def settled(self, *, aborted: bool) -> None:
        """Tell that nothing more happens by itself. What handlers ask for begins when the last one is done (R29).

        What is left in the lane is told before.
        """
        await self.lane.drain()
        if not self.has_handlers("agent_settled"):
            return
        self.actions.begin_settling()
        try:
            await self.chains.notify("agent_settled", lambda: ev.AgentSettled(aborted=aborted))
        finally:
            self.actions.end_settling()

    async def boundary(
        self,
        name: Literal["turn_end", "agent_before_settle"],
        make: Callable[[], ev.TurnEnd | ev.AgentBeforeSettle],
        preview: Preview | None = None,
    ) -> Proposal:
        """Tell the end of a turn, or that the agent is about to settle, after what is left in the lane.

        See `run_boundary`.
        """
        await self.lane.drain()
        return await run_boundary(self.chains, name, make, preview)

    def later(self, event: str, make: Callable[[], ev.Event]) -> None:
        """Tell an event that nobody waits for (E6, E30, E39). Each extension handles its own in order."""
        if not self.has_handlers(event):
            return
        made = make()
        for extension, instance in self.instances.items():
            if event in extension.handlers:
                instance.queue(made)

    def _tell_span(self, edge: SpanEdge, kind: DialogMethod, title: str) -> None:
        if edge == "start":
            self.later("ui_prompt_start", lambda: ev.UiPromptStart(kind=kind, title=title))
        else:
            self.later("ui_prompt_end", lambda: ev.UiPromptEnd(kind=kind, title=title))

    def abort(self) -> None:
        """Tell that the user has aborted: open dialogs have their defaults, commands see it, or are cancelled."""
        self.dialogs.close_all()
        self.commands.abort()

    async def shutdown(
        self, reason: ShutdownReason, target_file: str | None = None, limit_s: float = SHUTDOWN_LIMIT_S
    ) -> None:
        """End the instance: `session_shutdown`, dialogs, tasks, and everything that was registered.

        Also when cancelled, and within the limit: a handler over it is cut and told. Afterwards everything is stale.
        A second call does nothing.
        """
        if self.generation.is_stale:
            return
        deadline = trio.current_time() + limit_s
        try:
            # A process that was refused its start ends what has never begun.
            if self._has_begun or not self._is_bound:
                with trio.move_on_after(limit_s * _HANDLERS_SHARE, shield=True):
                    await self._tell_shutdown(reason, target_file)
        finally:
            self._end(reason)
        if not self._is_open.is_set():
            return
        with trio.move_on_at(deadline, shield=True):
            await self._is_over.wait()
        if not self._is_over.is_set():
            _log.warning("extensions: background tasks are still ending after %g s", limit_s)

    async def _tell_shutdown(self, reason: ShutdownReason, target_file: str | None) -> None:
        bounds = self._caller.bound("session_shutdown")
        event = ev.SessionShutdown(reason=reason, target_session_file=target_file)
        for bound in bounds:
            try:
                await self._caller.call(bound, event)
            except BaseException as error:
                if isinstance(ownership(error).passing, trio.Cancelled):
                    text = "the handler took too long and was cut"
                    self._tell(ErrorRecord(bound.extension.path, "session_shutdown", text))
                self._caller.failed(bound, error)

    def _end(self, reason: str) -> None:
        self.dialogs.close_all(for_good=_STALE.get(reason, reason))
        self.generation.end(_STALE.get(reason, reason))
        self._scope.cancel()
        if self._bus is not None:
            self._bus.close()
        for extension in self.extensions:
            extension.discard("stale")

    def provider(self, path: str, name: str, function: Function) -> "ExtensionProvider":
        """Return what answers requests by `stream_simple` of a provider that the extension at `path` registers."""
        from pinnace_agent.extensions.provider_stream import ExtensionProvider

        return ExtensionProvider(self._caller, path, name, function)

    def login(self, path: str, name: str, oauth: object) -> "ExtensionLogin":
        """Return what logs in to a provider that the extension at `path` registers.

        Raises:
            TypeError: `oauth` can't be used; the text says why.
        """
        from pinnace_agent.extensions.provider_login import ExtensionLogin, read_oauth

        return ExtensionLogin(self._caller, path, name, read_oauth(name, oauth))

    def instance_of(self, path: str) -> Instance:
        """Return where the tasks of the extension at `path` run."""
        return self.instances[self._paths[path]]

    def offer_command(self, path: str, command: CommandRegistration) -> None:
        """Add a command of the agent to the extension at `path`, unless there is one of its name."""
        if not any(command.name in extension.commands for extension in self.extensions):
            self._paths[path].commands[command.name] = command

    async def isolated(self, path: str, event: str, function: Callable[[], Awaitable[_Value]]) -> _Value:
        """Run an async function of the extension at `path` and return what it returns.

        Raises:
            ValueError: It has raised something; the text is that of the failure.
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
        """Return the tools by name; of several with one name, that of the extension that was loaded first (R8)."""
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


def _nobody(_record: Mapping[str, object]) -> None:
    """There is nobody to ask."""
