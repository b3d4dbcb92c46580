"""The life of the extensions of a process: loaded for each session instance, and ended with it.

Decides the order: find, ask for trust, load, bind, begin; and end before the next instance begins. The statechart
decides when: an instance begins and ends while RUN is `switching`, so that commands wait and dialogs are answered.
Rule R-EXT-06.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import trio

from pinnace_agent.core.frozen import frozen
from pinnace_agent.core.ports.emitter import extension_error
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.extension_host.actions import Actions
from pinnace_agent.extension_host.instance_hooks import InstanceHooks
from pinnace_agent.extension_host.instance_loading import InstanceLoading, LoadedInstance
from pinnace_agent.extension_host.messages import MessageInjector
from pinnace_agent.extension_host.plan import ExtensionPlan, ExtensionStartError
from pinnace_agent.extension_host.prompt_hooks import PromptHooks
from pinnace_agent.extension_host.providers import ExtensionProviders
from pinnace_agent.extension_host.server_states import ServerStates
from pinnace_agent.extension_host.session_changes import allows, asked_before, fill, found_resources
from pinnace_agent.extension_host.tool_guard import ToolGuard
from pinnace_agent.extension_host.view import AgentView, resource_commands, tool_info, tool_source
from pinnace_agent.extensions.events.events import ModelSelect
from pinnace_agent.extensions.events.session_events import McpServersChange, ShutdownReason, StartReason
from pinnace_agent.extensions.handlers.chains import FoundResources
from pinnace_agent.extensions.ports.host_actions import HostPort
from pinnace_agent.extensions.ports.host_view import CommandInfo, Setup, ToolInfo
from pinnace_agent.extensions.registration.registrations import ErrorRecord, Generation, registered_servers
from pinnace_agent.extensions.runtime.commands import RUNTIME
from pinnace_agent.extensions.runtime.runner import SHUTDOWN_LIMIT_S, Runner
from pinnace_agent.extensions.services.dialogs import DialogTable
from pinnace_agent.extensions.services.watchdog import owners_at_work
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.replacement import EmptySession, SessionRequest, SwitchSession
from pinnace_agent.tools.base import Tool
from pinnace_spec.records.messages import Model
from pinnace_spec.rules import errors
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.extensions import EndReason, ModelSource, SurfaceInput
    from pinnace_agent.engine.ports import ExtensibleAgent
    from pinnace_agent.extensions.ports.host_view import Mode
    from pinnace_spec.records.surface_items import SurfaceItem

_log = logging.getLogger("pinnace.extensions")

_WITHOUT_FOUND: Final = "start without them by --no-extensions, or without those that fail by --keep-going"
_WITHOUT_NAMED: Final = (
    "an extension that -e names may be a gate, so nothing starts without it: correct it, or leave out its -e"
)
_REPLACED: Final = "the extensions were reloaded"
_LEFT: Final = "another session was opened, which loads its own extensions"


class ExtensionManager:
    """The extensions of one process: those of one session instance at a time."""

    def __init__(
        self,
        plan: ExtensionPlan,
        agent: "ExtensibleAgent",
        shutdown: Callable[[], None],
        has_open_commands: Callable[[], bool],
    ) -> None:
        """Load nothing yet.

        Args:
            plan: The user's decisions about extensions.
            agent: The agent.
            shutdown: Ends the process.
            has_open_commands: Returns whether the client waits for an answer.
        """
        self.plan = plan
        self.agent = agent
        self.messages = MessageInjector(self)
        self.prompt_hooks = PromptHooks(self, self.messages)
        self.providers = ExtensionProviders(self)
        self.servers = ServerStates(agent.emitter.emit if plan.mode == "rpc" else None)
        """The MCP servers, as clients see them."""
        self.setups: dict[int, Setup] = {}
        """Functions that fill new sessions, by the command that requests the session."""
        self.failure: ExtensionStartError | None = None
        """Why the process can't start."""
        self.ready = trio.Event()
        """Set when the instance of the start has begun."""
        self.registered = trio.Event()
        self.given_back: Sequence[int] = ()  # options, by place, that take no value: the words behind them are messages
        self._shutdown = shutdown
        self._has_open_commands = has_open_commands
        self._runner: Runner | None = None
        self._instance: InstanceHooks | None = None
        self._loaded: LoadedInstance | None = None
        self._loading = InstanceLoading(plan, agent, self.report)
        self._guard = ToolGuard(agent.toolbox)
        self._beginning: trio.CancelScope | None = None
        self._wants_shutdown, self._numbers = False, 0
        self._former_model: Model | None = None
        self._kept_tools: Sequence[str] | None = None
        self._closed: str | None = None

    @property
    def mode(self) -> "Mode":
        """The mode of the process, as extensions see it."""
        return "tui" if self.plan.mode == "rpc" and self.agent.draws_surfaces else self.plan.mode

    @property
    def runner(self) -> Runner | None:
        """The extensions of the current session; None: none is loaded now."""
        return self._runner

    @property
    def instance(self) -> InstanceHooks | None:
        """The same, as the engine asks them."""
        return self._instance

    @property
    def dialogs(self) -> DialogTable | None:
        """The questions of the current session's extensions; None: none is loaded now."""
        return None if self._runner is None else self._runner.dialogs

    @property
    def files(self) -> Sequence[str]:
        """Files and folders of the extensions of the current session."""
        return () if self._loaded is None else self._loaded.files

    # The life of an instance.

    async def start(self, job: int) -> None:
        """Let the instance of the start begin, and report."""
        try:
            await self._closed_until_begun("startup", partial(self._begin, "startup", choose=self._select_first))
        except ExtensionStartError as error:
            self.failure = error
            self._shutdown()
        finally:
            self.ready.set()
        self.agent.submit(InternalEvent("instance_ready", job))

    async def begin(
        self, reason: StartReason, previous_file: str | None = None, choose: Callable[[], None] | None = None
    ) -> None:
        """Load the extensions of the current session and let them begin.

        Whatever fails is reported, and no tool runs until a later instance has begun without a failure.

        Args:
            reason: Why the instance begins.
            previous_file: The file of the session before.
            choose: Chooses the model of the session; called when the providers of the extensions are there.
        """
        await self._closed_until_begun(reason, partial(self._begin, reason, previous_file, choose))

    async def _closed_until_begun(self, reason: StartReason, begin: Callable[[], Awaitable[None]]) -> None:
        """Let an instance begin; if that fails, no tool runs.

        Raises:
            ExtensionStartError: At the start of the process: some can't be loaded, or there is no such model.
        """
        self._guard.close()
        try:
            await begin()
        except ExtensionStartError:
            raise
        except Exception as error:  # the boundary: the session is there, and the client gets a report of what is not
            _log.exception("the extensions of the session can't be loaded")
            text = f"{type(error).__name__}: {error}"
            if reason == "startup":
                raise ExtensionStartError([f"the extensions can't be loaded: {text}"]) from error
            self._report_load(RUNTIME, self._guard.failed(text))
        finally:
            self.registered.set()

    async def _begin(
        self, reason: StartReason, previous_file: str | None = None, choose: Callable[[], None] | None = None
    ) -> None:
        agent = self.agent
        generation = Generation()
        loaded = await self._loading.load(generation)
        self._report_failures(loaded, reason)
        missing = self._guard.missing(
            agent.session.cwd, loaded.all, loaded.kept, loaded.failures, keeps_going=self.plan.keeps_going
        )
        self._loaded = loaded
        self.given_back = loaded.given_back
        runner = self._runner = self._bound(loaded, generation)
        self._instance = InstanceHooks(runner)
        self._numbers += 1
        agent.jobs.start(f"extensions:{self._numbers}", runner.serve, _ended)
        self._use_tools(runner, reason)
        agent.submit(InternalEvent("instance_began", enabled=True))
        await runner.bind()
        self.registered.set()
        with trio.CancelScope() as self._beginning:  # an abort ends waiting for models
            await self.providers.bound(is_refreshed=reason in ("startup", "reload"))
        self._beginning = None
        if choose is not None:
            choose()
        self.models_changed()
        found = await self._started(runner, reason, previous_file)
        self._check_tool_names(reason)
        self._check_servers(runner)
        if reason in ("resume", "fork") and (model := agent.session.model) is not None and model != self._former_model:
            self.model_selected(model, self._former_model, "restore")  # DEVIATION D-52
        added = found_resources(found)
        agent.profile.resources.add(agent.session.cwd, added.skills, added.templates)
        if (refusal := self._guard.open(missing)) is not None:
            self._report_load(RUNTIME, f"no tool runs: {refusal}")

    def _select_first(self) -> None:
        """Select the model of the start, which an extension may have brought."""
        agent, selection = self.agent, self.plan.select()
        if selection.error is not None:
            is_usage = selection.is_usage_error
            raise ExtensionStartError([selection.error], is_usage=is_usage, is_model=not is_usage)
        agent.session.model, agent.session.thinking_level = selection.model, selection.level
        agent.sessions.preferred_level = selection.preferred_level

    def models_changed(self) -> None:
        """Look up the active model and the models to cycle between as they are described now."""
        profile = self.agent.profile
        self.agent.settings.models_changed(profile.registry, profile.model_patterns)

    async def _started(
        self, runner: Runner, reason: StartReason, previous_file: str | None
    ) -> Sequence[FoundResources]:
        """Let an instance begin. An abort ends handlers that take too long: everything waits for them.

        Extensions whose handlers were ended, or not called, have not begun: their gates let nothing through.
        """
        found: Sequence[FoundResources] = ()
        with trio.CancelScope() as self._beginning:
            found = await runner.start(reason, previous_file)
        if self._beginning.cancelled_caught:
            self.report(
                ErrorRecord(RUNTIME, "session_start", "handlers were still running at an abort, and were ended")
            )
        self._beginning = None
        return found

    def _report_failures(self, loaded: LoadedInstance, reason: StartReason) -> None:
        warnings = self.agent.profile.warnings
        warnings.renew(("extension",), (Notice("extension", text) for text in loaded.notices))
        failures, flags = loaded.failures, loaded.flag_errors
        named = loaded.named_failures
        if reason == "startup" and (named or (not self.plan.keeps_going and (failures or flags))):
            texts = [f"{each.path}: {each.error}" for each in (named if self.plan.keeps_going else failures)]
            hint = [_WITHOUT_NAMED if named else _WITHOUT_FOUND] if failures else []
            raise ExtensionStartError([*texts, *hint, *([] if self.plan.keeps_going else flags)])
        for each in failures:
            self._report_load(each.path, each.error, each.traceback)
        for text in flags:
            warnings.add(Notice("extension", text))

    def _report_load(self, path: str, error: str, traceback: str = "") -> None:
        """Report that extensions are not there: a client that attaches later finds it among the warnings."""
        self.report(ErrorRecord(path, "load", error, traceback))
        text = error if path == RUNTIME else f"{path}: {error}"
        self.agent.profile.warnings.keep(Notice("extension", text, source=None if path == RUNTIME else path))

    def _bound(self, loaded: LoadedInstance, generation: Generation) -> Runner:
        agent = self.agent
        apis = {each.extension: each.api for each in loaded.kept}
        send = agent.emitter.emit if self.plan.mode == "rpc" else None
        view = AgentView(agent, lambda: self.mode)
        port = HostPort(view, Actions(self), self.report, send, agent.emitter.room, agent.emitter.progress)
        runner = Runner(list(apis), generation, port, apis=apis, bus=loaded.loader.bus)
        if self._closed is not None:
            runner.dialogs.close_all(for_good=self._closed)
        return runner

    async def end(
        self, reason: ShutdownReason, target_file: str | None = None, limit_s: float = SHUTDOWN_LIMIT_S
    ) -> None:
        """End the current instance, within the limit; afterwards everything of it is stale."""
        runner, loaded = self._runner, self._loaded
        self._guard.close()
        self._former_model = self.agent.session.model
        if runner is None or loaded is None:
            return
        self.registered = trio.Event()
        if reason != "quit":  # the end of the process ends logins by itself
            self.providers.end_logins(_REPLACED if reason == "reload" else _LEFT)
        await runner.shutdown(reason, target_file, limit_s)
        self._runner = self._instance = self._loaded = None
        self.servers.clear()
        self.providers.end()
        loaded.loader.unload(loaded.all, is_last=reason in ("reload", "quit"))

    async def fill(self, ref: int, session: Session) -> None:
        """Let the extension that requested a new session fill it. The extensions of the former session still live.

        An abort ends it.

        Raises:
            ClientError: It has failed, or was ended.
        """
        setup, runner = self.setups.get(ref), self._runner
        if setup is None or runner is None:
            return
        problem: str | None = "it still ran at an abort, and was ended"
        with trio.CancelScope() as self._beginning:
            try:
                await runner.isolated(RUNTIME, "setup", partial(fill, session, setup))
                problem = None
            except ValueError as error:
                problem = str(error)
        self._beginning = None
        if problem is not None:
            raise errors.ClientError(errors.session_not_filled(problem), errors.ErrorCode.REFUSED_BY_EXTENSION)

    # Replacing the session.

    def asks(self, request: SessionRequest) -> bool:
        """Return whether extensions are to be asked before a session command is carried out."""
        return self._runner is not None and self._runner.has_handlers(asked_before(request))

    async def allows(self, request: SessionRequest, leaf_id: str | None) -> bool:
        """Ask extensions about a session command."""
        return self._runner is None or await allows(self._runner, request, leaf_id)

    @staticmethod
    def reason_of(request: SessionRequest) -> "EndReason":
        """Return why the next instance begins, and this one ends."""
        if isinstance(request, EmptySession):
            return "new"
        return "resume" if isinstance(request, SwitchSession) else "fork"

    async def reload(self, make_current: Callable[[], None]) -> None:
        """End the extensions, let the files that were read become current, and load what is there now.

        Whatever fails is reported, and no tool runs until a later instance has begun without a failure.
        """
        await self._closed_until_begun("reload", partial(self._begin_again, make_current))

    async def _begin_again(self, make_current: Callable[[], None]) -> None:
        self._kept_tools = list(self.agent.toolbox)
        await self.end("reload")
        make_current()
        await self._begin("reload")

    # Dialogs.

    def answer(self, response: Mapping[str, object]) -> None:
        """Take an `extension_ui_response`."""
        tables = [self._loading.dialogs, None if self._runner is None else self._runner.dialogs]
        for table in tables:
            if table is not None and table.answer(response):
                return

    def offer_surfaces(self, *, is_offered: bool) -> None:
        """Let extensions draw in the client's terminal from now on, or not."""
        if self._runner is not None and self._closed is None:
            self._runner.offer_surfaces(is_offered=is_offered)

    def take_surface_input(self, given: "SurfaceInput") -> None:
        """Take what the user does with a surface."""
        if self._runner is not None:
            self._runner.take_surface_input(given)

    def draw_item(self, surface: str, columns: int, item: "SurfaceItem") -> None:
        """Have an item of the conversation drawn on a surface of the client."""
        if self._runner is not None and self._closed is None:
            self._runner.draw_item(surface, columns, item)

    def default_dialogs(self, *, for_good: bool) -> None:
        """Give every open dialog its default: an abort, or the client is gone."""
        if for_good:
            self._closed = "the client is gone"
            if self._runner is not None:
                self._runner.offer_surfaces(is_offered=False)
        self._loading.default_dialogs(for_good=self._closed)
        if self._runner is None:
            return
        if for_good:
            self._runner.dialogs.close_all(for_good=self._closed)
        else:
            self._runner.abort()

    def cut_start(self) -> None:
        """End the handlers that delay a session; extensions that have not begun refuse what they guard from then on."""
        if self._beginning is not None:
            self._beginning.cancel()

    # Tools and commands.

    def _use_tools(self, runner: Runner, reason: StartReason) -> None:
        tools = runner.tools()
        defaults = [name for name, tool in tools.items() if tool.definition.default_active]
        toolbox = self.agent.toolbox
        toolbox.use(tools, defaults, kept=self._kept_tools if reason == "reload" else None)
        self._kept_tools = None
        if reason != "reload" and self.agent.session.tree.kinds.get("message"):
            from pinnace_agent.engine.session_choices import restore_tools  # few sessions have a record

            restore_tools(toolbox, self.agent.session)
        self._show_tools()

    def _show_tools(self) -> None:
        """Let the system prompt name the active tools."""
        self.agent.profile.resources.use_tools(tuple(self.agent.toolbox.values()))

    def activate_tools(self, names: Sequence[str]) -> None:
        """Declare these tools from the next request on."""
        from pinnace_agent.engine.session_choices import choose_tools

        choose_tools(self.agent, names, is_command=False)

    def _check_tool_names(self, reason: StartReason) -> None:
        """Refuse, or report, tools that the user names and that no extension has brought by now."""
        unknown = self.agent.toolbox.unknown()
        if unknown.refusals and reason == "startup" and not self.plan.keeps_going:
            raise ExtensionStartError(unknown.refusals, is_usage=True)
        notices = (Notice("tools", warning) for warning in unknown.warnings)
        self.agent.profile.warnings.renew(("tools",), notices)

    def _check_servers(self, runner: Runner) -> None:
        """Report MCP servers that nothing connects."""
        if not runner.has_handlers(McpServersChange.type):
            for each in registered_servers(runner.extensions):
                text = f"server {each['name']} is not connected: MCP support is off (--no-mcp)"
                self.report(ErrorRecord(each["extensionPath"], "register_mcp_server", text))

    @property
    def left_out(self) -> Sequence[Mapping[str, object]]:
        """The extensions that were found or named for the session and are not loaded."""
        return (
            []
            if self._loaded is None
            else [{"path": each.path, "reason": each.error} for each in self._loaded.left_out]
        )

    @property
    def mcp_servers(self) -> Sequence[Mapping[str, object]]:
        """The MCP servers of the session, as clients have seen them last."""
        return self.servers.all

    def registered_servers_changed(self) -> None:
        """Publish `mcp_servers_change`."""
        runner = self._runner
        if runner is None:
            return
        self._check_servers(runner)
        self._numbers += 1
        servers = tuple(registered_servers(runner.extensions))
        # a copy of it
        event = partial(McpServersChange, servers=servers)
        work = partial(runner.chains.notify, McpServersChange.type, event)
        self.agent.jobs.start(f"servers:{self._numbers}", work, _ended)

    def tools_changed(self, registered: str | None) -> None:
        """Read the tools of the extensions again; a new one becomes active if it does so by itself."""
        if self._runner is None:
            return
        tools = self._runner.tools()
        new = tools.get(registered) if registered is not None else None
        is_activated = new is not None and new.definition.default_active
        self.agent.toolbox.refresh(tools, activated=registered if is_activated else None)
        self._show_tools()

    def tool_infos(self) -> list[ToolInfo]:
        """Return every tool, active or not."""
        return [tool_info(tool) for tool in self.agent.toolbox.all.values()]

    def is_read_only(self, tool: Tool) -> bool:
        """Return whether a tool is built in, or declared by its extension, as one that changes nothing."""
        return tool_info(tool).is_read_only

    def hints_of(self, tool: Tool) -> Mapping[str, bool]:
        """Return what the server of a tool says about it, which may be wrong."""
        return tool_info(tool).annotations

    def source_of(self, tool: Tool) -> Mapping[str, object]:
        """Return where a tool comes from, as on the wire."""
        return tool_source(tool)

    def command_infos(self) -> list[CommandInfo]:
        """Describe what `/name` can be: commands of extensions, then templates, then skills."""
        own = [] if self._runner is None else self._runner.commands.infos()
        return [*own, *resource_commands(self.agent.profile.resources.of(self.agent.session.cwd))]

    def settings(self) -> dict[str, object]:
        """Return the merged settings."""
        return self.plan.raw_settings()

    # Settling, and the end of the process.

    def settled(self, *, aborted: bool) -> None:
        """Publish `agent_settled`, and then perform the requests of its handlers."""
        runner = self._runner
        if runner is None:
            return
        self._numbers += 1
        self.agent.idle.settling += 1
        work, ended = partial(runner.settled, aborted=aborted), partial(self._has_settled, aborted)
        self.agent.jobs.start(f"settled:{self._numbers}", work, ended)

    def model_selected(self, model: Model, former: Model | None, source: "ModelSource") -> None:
        """Publish `model_select`."""
        runner = self._runner
        if runner is None or not runner.has_handlers("model_select"):
            return
        self._numbers += 1
        # casts: copies of them, only to be read
        shown, before = cast("Model", frozen(model)), cast("Model | None", frozen(former))
        event = partial(ModelSelect, model=shown, previous_model=before, source=source)
        self.agent.jobs.start(f"model:{self._numbers}", partial(runner.chains.notify, "model_select", event), _ended)

    def _has_settled(self, aborted: bool, _cancelled: bool, _failure: BaseException | None) -> None:
        self.agent.idle.settling -= 1
        self.messages.run_queued_commands(aborted=aborted)
        self._check_idle()

    def request_shutdown(self) -> None:
        """End the process as soon as it is idle and no command is open; only with a client."""
        if self.plan.mode != "rpc":
            return
        self._wants_shutdown = True
        name = "shutdown"
        if self.agent.jobs.scope(name) is None:  # once the calling task has come to a checkpoint
            self.agent.jobs.start(name, trio.lowlevel.checkpoint, lambda _cancelled, _failure: self._check_idle())

    def _check_idle(self) -> None:
        self.agent.idle.check()
        if self.agent.idle.is_idle:
            self.idle_reached()

    def idle_reached(self) -> None:
        """End the process if that was requested and no command is open. Called whenever the agent is idle."""
        if self._wants_shutdown and not self._has_open_commands():
            self._wants_shutdown = False
            self._shutdown()

    def handlers_at_work(self, task: trio.lowlevel.Task) -> list[str]:
        """Name the handlers that a task is in."""
        return [f"{path} on {event}" for path, event in owners_at_work(task)]

    async def wait_for_idle(self, *, for_commands: bool = False) -> None:
        """Wait until nothing runs and nothing will by itself, and with `for_commands` until no command runs either."""
        await self.agent.idle.wait(for_commands=for_commands)

    async def close(self, limit_s: float = SHUTDOWN_LIMIT_S) -> None:
        """End everything of extensions: the process ends."""
        await self.end("quit", limit_s=limit_s)

    # Errors.

    def report(self, record: ErrorRecord) -> None:
        """Report an error of an extension."""
        if record.stack:
            _log.info("%s: %s", record.extension_path, record.stack)
        self.agent.emitter.emit(extension_error(record.extension_path, record.event, record.error))


def _ended(_cancelled: bool, _failure: BaseException | None) -> None:
    """Nothing waits for this job."""
