"""Where the extensions of a process sit: loaded for each session instance, and ended with it.

Decides the order of a session instance's life: find, ask for trust, load, bind, begin; and end before another one takes
its place. The chart decides when: an instance begins and ends while RUN is `switching`, so that commands wait and
dialogs are answered. Must not know what an extension does, nor how a session is made. R6, R20, R21, R31, R32; rule
R-EXT-06.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import trio

from pinnace_agent.extension_host.actions import Actions
from pinnace_agent.extension_host.asking import asked_before, found_resources
from pinnace_agent.extension_host.desk import Desk
from pinnace_agent.extension_host.instance_loading import TOOL_APPROVAL, InstanceLoading, LoadedInstance
from pinnace_agent.extension_host.providers import ExtensionProviders
from pinnace_agent.extension_host.seat_plan import SeatError, SeatPlan
from pinnace_agent.extension_host.speech import Speech
from pinnace_agent.extension_host.tool_guard import ToolGuard
from pinnace_agent.extension_host.view import View
from pinnace_agent.extensions.chains import Found
from pinnace_agent.extensions.command_runs import RUNTIME
from pinnace_agent.extensions.events import ModelSelect
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_port import HostPort
from pinnace_agent.extensions.host_view import CommandInfo, Setup, ToolInfo
from pinnace_agent.extensions.registrations import ErrorRecord, Generation
from pinnace_agent.extensions.runner import SHUTDOWN_LIMIT_S, Runner
from pinnace_agent.extensions.session_events import ShutdownReason, StartReason
from pinnace_agent.notices import extension_error
from pinnace_agent.resources.model_scope import resolve_scope
from pinnace_agent.resources.models import clamp_level
from pinnace_agent.session import Session
from pinnace_agent.session.replacement import NewSession, SessionRequest, SwitchSession
from pinnace_spec import errors
from pinnace_spec.messages import Model
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:
    from pinnace_agent.host import Host

_log = logging.getLogger("pinnace.extensions")


class ExtensionSeat:
    """The extensions of one process: those of one session instance at a time."""

    def __init__(self, plan: SeatPlan, host: "Host", *, first: StartReason = "startup") -> None:
        """Load nothing yet; `first` is why `start` lets an instance begin the first time."""
        self.plan = plan
        self.host = host
        self.speech = Speech(self)
        self.setups: dict[int, Setup] = {}
        """What fills a new session, by the request for it."""
        self.failure: SeatError | None = None
        """Why the process can't start."""
        self.on_shutdown: Callable[[], None] | None = None
        """Ends the process."""
        self.is_command_in_hand: Callable[[], bool] = lambda: False
        self.ready = trio.Event()
        """The instance of the start, or of the last reload, is there."""
        self.desk = Desk(self)
        self.providers = ExtensionProviders(self)
        self.given_back: Sequence[int] = ()  # options, by place, that take no value: the words behind them are messages
        self._runner: Runner | None = None
        self._loaded: LoadedInstance | None = None
        self._loading = InstanceLoading(plan, host, self.tell)
        self._guard = ToolGuard(host.toolbox, () if plan.approval == "never" else (TOOL_APPROVAL,))
        self._beginning: trio.CancelScope | None = None
        self._wants_shutdown, self._numbers = False, 0
        self._former_model: Model | None = None
        self._kept_tools: Sequence[str] | None = None
        self._reason: StartReason = first
        self._closed: str | None = None
        host.toolbox.on_change = lambda: host.profile.resources.use_tools(tuple(host.toolbox.values()))
        host.choices.on_model = self._tell_model
        host.sessions.extensions = self
        host.idleness.on_idle = self.look

    @property
    def runner(self) -> Runner | None:
        """The extensions in force; None: there are none."""
        return self._runner

    # The life of an instance.

    async def start(self, job: int) -> None:
        """Begin as the chart asks for it, at the start of the process and for a reload."""
        reason, self._reason = self._reason, "reload"
        try:
            await self._closed_until_begun(reason, partial(self._start, reason))
        except SeatError as error:
            self.failure = error
            if self.on_shutdown is not None:
                self.on_shutdown()
        finally:
            self.ready.set()
        self.host.submit(Happening("instance_ready", job))

    async def _start(self, reason: StartReason) -> None:
        if reason == "reload":
            await self._before_reload()
        await self._begin(reason, choose=self._select_first if reason == "startup" else None)

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
            SeatError: At the start of the process: some extensions can't be loaded, or there is no such model.
        """
        self._guard.close()
        try:
            await begin()
        except SeatError:
            raise
        except Exception as error:  # the boundary: the session is there, and the client has to be told what is not
            _log.exception("the extensions of the session can't be loaded")
            text = f"{type(error).__name__}: {error}"
            if reason == "startup":
                raise SeatError([f"the extensions can't be loaded: {text}"]) from error
            self.tell(ErrorRecord(RUNTIME, "load", self._guard.failed(text)))

    async def _begin(
        self, reason: StartReason, previous_file: str | None = None, choose: Callable[[], None] | None = None
    ) -> None:
        host = self.host
        generation = Generation()
        loaded = await self._loading.load(generation)
        self._tell_failures(loaded, reason)
        missing = self._guard.missing(
            host.session.cwd, loaded.all, loaded.kept, loaded.failures, keeps_going=self.plan.keeps_going
        )
        self._loaded = loaded
        self.given_back = loaded.given_back
        runner = self._runner = host.extensions = self._bound(loaded, generation)
        self._numbers += 1
        host.jobs.start(f"extensions:{self._numbers}", runner.serve, _ended)
        self._use_tools(reason)
        host.submit(Happening("instance_began", enabled=True))
        await runner.bind()
        with trio.CancelScope() as self._beginning:  # an abort ends waiting for models
            await self.providers.bound(is_refreshed=reason in ("startup", "reload"))
        self._beginning = None
        if choose is not None:
            choose()
        self.models_changed()
        found = await self._started(runner, reason, previous_file)
        self._check_tool_names(reason)
        if reason == "resume" and (model := host.session.model) is not None and model != self._former_model:
            self._tell_model(model, self._former_model, "restore")  # DEVIATION D-52
        added = found_resources(found)
        for notice in host.profile.resources.add(host.session.cwd, added.skills, added.templates):
            _log.warning("%s", notice)
        if (refusal := self._guard.open(missing)) is not None:
            self.tell(ErrorRecord(RUNTIME, "load", f"no tool runs: {refusal}"))

    def _select_first(self) -> None:
        """Select the model of the start, which an extension may have brought."""
        host, selection = self.host, self.plan.select()
        if selection.error is not None:
            raise SeatError([selection.error], is_usage=selection.is_usage_error)
        host.session.model, host.session.thinking_level = selection.model, selection.level
        host.sessions.preferred_level = selection.preferred_level

    def models_changed(self) -> None:
        """Look up the active model and the models to cycle between as they are described now.

        An active model that is gone stays until another one is chosen; prompts are refused meanwhile.
        """
        host, session = self.host, self.host.session
        registry = host.profile.registry
        if session.model is not None:
            found = registry.find(session.model["provider"], session.model["id"])
            if found is not None and found != session.model:
                session.model = found
                session.thinking_level = clamp_level(found, host.sessions.preferred_level)
        if self.plan.model_patterns:
            # A pattern that matches nothing was reported at the start.
            scope = resolve_scope(self.plan.model_patterns, registry.available())
            host.profile = replace(host.profile, scope=scope.models)

    async def _started(self, runner: Runner, reason: StartReason, previous_file: str | None) -> Sequence[Found]:
        """Let an instance begin. An abort ends handlers that take too long: everything waits for them.

        Extensions whose handlers were ended, or not called, have not begun: their gates let nothing through.
        """
        found: Sequence[Found] = ()
        with trio.CancelScope() as self._beginning:
            found = await runner.start(reason, previous_file)
        if self._beginning.cancelled_caught:
            self.tell(ErrorRecord(RUNTIME, "session_start", "handlers were still running at an abort, and were ended"))
        self._beginning = None
        return found

    def _tell_failures(self, loaded: LoadedInstance, reason: StartReason) -> None:
        for text in loaded.notices:
            _log.warning("%s", text)
        failures, flags = loaded.failures, loaded.flag_errors
        if reason == "startup" and not self.plan.keeps_going and (failures or flags):
            texts = [f"{each.path}: {each.error}" for each in failures]
            hint = ["start without them by --no-extensions, or without those that fail by --keep-going"]
            raise SeatError([*texts, *(hint if failures else ()), *flags])
        for each in failures:
            self.tell(ErrorRecord(each.path, "load", each.error, each.traceback))
        for text in flags:
            _log.warning("%s", text)

    def _bound(self, loaded: LoadedInstance, generation: Generation) -> Runner:
        host = self.host
        apis = {each.extension: each.api for each in loaded.kept}
        send = host.emitter.emit if self.plan.mode == "rpc" else None
        port = HostPort(View(host, self.plan.mode), Actions(self), self.tell, send, host.emitter.room)
        runner = Runner(list(apis), generation, port, apis=apis, bus=loaded.loader.bus)
        if self._closed is not None:
            runner.dialogs.close_all(for_good=self._closed)
        return runner

    async def end(
        self, reason: ShutdownReason, target_file: str | None = None, limit_s: float = SHUTDOWN_LIMIT_S
    ) -> None:
        """End the instance in force, within the limit; afterwards everything of it is stale."""
        runner, loaded = self._runner, self._loaded
        self._guard.close()
        self._former_model = self.host.session.model
        if runner is None or loaded is None:
            return
        await runner.shutdown(reason, target_file, limit_s)
        self._runner = self._loaded = self.host.extensions = None
        self.providers.end()
        loaded.loader.unload(loaded.all)

    async def fill(self, ref: int, session: Session) -> None:
        """Let the extension that asked for a new session fill it. The extensions of the session before are still there.

        An abort ends it.

        Raises:
            ClientError: It has failed, or was ended.
        """
        setup, runner = self.setups.get(ref), self._runner
        if setup is None or runner is None:
            return
        from pinnace_agent.extension_host.session_setup import fill

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
        """Tell whether extensions are to be asked before a session command is carried out."""
        return self._runner is not None and self._runner.has_handlers(asked_before(request))

    async def allows(self, request: SessionRequest, leaf_id: str | None) -> bool:
        """Ask extensions about a session command (E7, E8)."""
        from pinnace_agent.extension_host.asking import allows

        return self._runner is None or await allows(self._runner, request, leaf_id)

    @staticmethod
    def reason_of(request: SessionRequest) -> Literal["new", "resume", "fork"]:
        """Return why the next instance begins, and this one ends."""
        if isinstance(request, NewSession):
            return "new"
        return "resume" if isinstance(request, SwitchSession) else "fork"

    async def reload(self) -> None:
        """Load settings, resources and extensions afresh, and let the session go on with them (K6, 1.9).

        Raises:
            RuntimeError: Something is in progress.
        """
        host = self.host
        if not host.idleness.is_idle:
            raise RuntimeError("reload: something runs; wait_for_idle() first")
        self.ready = trio.Event()
        host.submit(Happening("begin_instance"))
        await self.ready.wait()

    async def _before_reload(self) -> None:
        """End what was there, and read everything again."""
        if self._runner is None:
            return
        self._kept_tools = list(self.host.toolbox)
        await self.end("reload")
        notices = [*self.plan.reread(), *self.host.profile.resources.renew(self.host.session.cwd)]
        for notice in notices:
            _log.warning("%s", notice)

    # Dialogs.

    def answer(self, response: Mapping[str, object]) -> None:
        """Take an `extension_ui_response`."""
        tables = [self._loading.dialogs, None if self._runner is None else self._runner.dialogs]
        for table in tables:
            if table is not None and table.answer(response):
                return

    def default_dialogs(self, *, for_good: bool) -> None:
        """Give every open dialog its default: an abort, or nobody can answer any more."""
        if for_good:
            self._closed = "the client is gone"
        self._loading.default_dialogs(for_good=self._closed)
        if self._runner is None:
            return
        if for_good:
            self._runner.dialogs.close_all(for_good=self._closed)
        else:
            self._runner.abort()

    def cut_start(self) -> None:
        """End the handlers that let the session begin; what those guard who have not begun is refused from then on."""
        if self._beginning is not None:
            self._beginning.cancel()

    # Tools and commands.

    def _use_tools(self, reason: StartReason) -> None:
        assert self._runner is not None
        tools = self._runner.tools()
        defaults = [name for name, tool in tools.items() if tool.definition.default_active]
        toolbox = self.host.toolbox
        toolbox.use(tools, defaults, kept=self._kept_tools if reason == "reload" else None)
        self._kept_tools = None

    def _check_tool_names(self, reason: StartReason) -> None:
        """Refuse, or report, tools that the user names and that no extension has brought by now."""
        unknown = self.host.toolbox.unknown()
        if unknown.refusals and reason == "startup" and not self.plan.keeps_going:
            raise SeatError(unknown.refusals, is_usage=True)
        for warning in unknown.warnings:
            _log.warning("%s", warning)

    def tools_changed(self, registered: str | None) -> None:
        """Read the tools of the extensions again; a new one becomes active if it does so by itself."""
        if self._runner is None:
            return
        tools = self._runner.tools()
        new = tools.get(registered) if registered is not None else None
        is_activated = new is not None and new.definition.default_active
        self.host.toolbox.refresh(tools, activated=registered if is_activated else None)

    def tool_infos(self) -> list[ToolInfo]:
        """Return every tool, active or not."""
        from pinnace_agent.extension_host.lists import tool_info

        return [tool_info(tool) for tool in self.host.toolbox.all.values()]

    def command_infos(self) -> list[CommandInfo]:
        """Return what `/name` can be: extensions', then templates, then skills."""
        from pinnace_agent.extension_host.lists import resource_commands

        own = [] if self._runner is None else self._runner.commands.infos()
        return [*own, *resource_commands(self.host.profile.resources.of(self.host.session.cwd))]

    def settings(self) -> dict[str, object]:
        """Return the merged settings."""
        return self.plan.raw_settings()

    # Settling, and the end of the process.

    def settled(self, *, aborted: bool) -> None:
        """Tell that nothing more happens by itself, and do then what was asked for."""
        runner = self._runner
        if runner is None:
            return
        self._numbers += 1
        self.host.idleness.settling += 1
        work, ended = partial(runner.settled, aborted=aborted), partial(self._has_settled, aborted)
        self.host.jobs.start(f"settled:{self._numbers}", work, ended)

    def _tell_model(self, model: Model, former: Model | None, source: Literal["set", "cycle", "restore"]) -> None:
        runner = self._runner
        if runner is None or not runner.has_handlers("model_select"):
            return
        self._numbers += 1
        # casts: copies of them, only to be read
        shown, before = cast("Model", frozen(model)), cast("Model | None", frozen(former))
        event = partial(ModelSelect, model=shown, previous_model=before, source=source)
        self.host.jobs.start(f"model:{self._numbers}", partial(runner.chains.notify, "model_select", event), _ended)

    def _has_settled(self, aborted: bool, _cancelled: bool, _failure: BaseException | None) -> None:
        self.host.idleness.settling -= 1
        self.speech.run_queued_commands(aborted=aborted)
        self.host.idleness.look()

    def ask_for_shutdown(self) -> None:
        """End the process as soon as it is idle and no command is in hand (R31); only with a client."""
        if self.plan.mode == "rpc":
            self._wants_shutdown = True
            self.host.idleness.look_later()

    def look(self) -> None:
        """End the process if that was asked for and can be done now."""
        host = self.host
        if (
            self._wants_shutdown
            and host.idleness.is_idle
            and not self.is_command_in_hand()
            and self.on_shutdown is not None
        ):
            self._wants_shutdown = False
            self.on_shutdown()

    async def wait_for_idle(self, *, for_commands: bool = False) -> None:
        """Wait until nothing runs and nothing will by itself, and with `for_commands` until no command runs either."""
        await self.host.idleness.wait(for_commands=for_commands)

    async def close(self, limit_s: float = SHUTDOWN_LIMIT_S) -> None:
        """End everything of extensions: the process ends (R32)."""
        await self.end("quit", limit_s=limit_s)

    # Errors.

    def tell(self, record: ErrorRecord) -> None:
        """Tell an error of an extension (R16)."""
        if record.stack:
            _log.info("%s: %s", record.extension_path, record.stack)
        self.host.emitter.emit(extension_error(record.extension_path, record.event, record.error))


def _ended(_cancelled: bool, _failure: BaseException | None) -> None:
    """Nobody waits for this job."""
