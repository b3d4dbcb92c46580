"""The composition root: one agent, built whole from its options and the user's files.

`prepare` reads files and resolves options before the protocol starts: an error ends the process with a text on stderr
and nothing on stdout; a warning goes to stderr, and to the client later, and the process starts. `compose` builds the
objects of an agent in order, each with everything that it needs.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.config.configuration import Configuration, load_configuration, shell_of
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.selection import Choice, ResumedChoice, Selection, select_initial
from pinnace_agent.config.settings import RunLimits, Settings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.core.surroundings import CLIENT_SERVERS, environment, is_embedded, working_folder
from pinnace_agent.core.user_warnings import Notice, Warnings
from pinnace_agent.engine.interpreter import EffectInterpreter
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.prompting.folder_resources import FolderReader, ResourceChoice
from pinnace_agent.prompting.prompt_resources import PromptResources
from pinnace_agent.prompting.system_prompt import read_prompt_argument
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.tree import clean_name
from pinnace_agent.shell.child_processes import children as own_processes
from pinnace_agent.shell.environment import shell_environment
from pinnace_agent.tools import DEFAULT_TOOLS, builtin_tools
from pinnace_agent.tools.base import Tool
from pinnace_agent.tools.registry import ToolChoice, ToolRegistry
from pinnace_agent.tools.selection import ToolSelection, refused_names, select_tools
from pinnace_rpc.options.extension_hints import may_have_extensions, may_have_project_extensions
from pinnace_rpc.options.options import Options, StartupError, UnknownOption, UsageRefused, says_offline
from pinnace_rpc.options.streams import echo
from pinnace_rpc.server.dispatch import Dispatcher, OpenCommands
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.session_choice import SessionChoice
from pinnace_spec.records.messages import THINKING_LEVELS, ThinkingLevel, WarningKind
from pinnace_statechart.machine import Chart
from pinnace_statechart.queues import MessageQueue
from pinnace_statechart.state import ExtendedState, RetryPolicy

if TYPE_CHECKING:  # loaded with the first extension, or with a sandbox
    from pinnace_agent.extension_host.manager import ExtensionManager
    from pinnace_agent.extension_host.plan import ExtensionPlan
    from pinnace_agent.sandbox.sandbox import Sandbox
    from pinnace_rpc.server.user_files import UserFiles
    from pinnace_rpc.subagents.children import Children


_TAKEN_OUT: Final = ("OTEL_", CLIENT_SERVERS)
"""How variables begin that may be taken out of the environment of a process at its start."""


def _no_plan(_cwd: Path) -> None:
    """There are no extensions in any folder."""


class PreparedAgent(NamedTuple):
    """The configuration of an agent, before the protocol starts."""

    profile: AgentProfile
    session: Session
    library: Library
    selection: Selection | None
    """None: extensions may bring the model, so it is selected when they are bound to the session."""
    settings: Settings
    extensions: "ExtensionPlan | None" = None
    """None: there can be none."""
    late_extensions: "Callable[[Path], ExtensionPlan | None]" = _no_plan
    """Returns the plan for a session that is opened later, or at a reload, if by then there may be extensions."""


def prepare(options: Options) -> PreparedAgent:
    """Read the user's files and resolve what the options name.

    Raises:
        StartupError: Something that the options name does not exist or is invalid.
    """
    try:
        cwd = Path(working_folder())
    except FileNotFoundError:
        raise StartupError("the current folder does not exist any more: start in another one") from None
    configuration = load_configuration(environment(), cwd, approved=options.approved)
    if configuration.refusals:
        raise UsageRefused("\n".join(configuration.refusals))
    settings, registry = configuration.settings, configuration.registry
    if options.extensions and not _is_offline(options):
        _install_named(options.extensions, cwd)
    warnings = _warnings()
    # First, since they may explain an error below.
    warnings.renew((), configuration.notices)
    session, library = _open_session(options, settings, cwd, warnings)
    select = partial(_selected, options, settings, registry, session, _limits(options, settings), warnings)
    try:
        reader = FolderReader(
            _resource_choice(options, cwd), settings, environment(), cwd, is_trusted=configuration.is_project_trusted
        )
        has_extensions = may_have_extensions(options, configuration, environment(), cwd)
        if session.cwd != str(cwd):
            has_extensions = has_extensions or may_have_project_extensions(options, reader, Path(session.cwd))
        selection = None if has_extensions else select()
        if selection is not None and selection.error is not None:
            raise _refused_selection(selection.error, is_usage=selection.is_usage_error)
        # Before any program is started, also by code of an extension.
        sandbox = _sandbox(options, settings, session, warnings)
        children, make_children = _children(options, configuration, cwd)
        toolbox = _toolbox(options, settings, sandbox, session, children)
    except StartupError:
        if session.file is not None:
            session.file.abandon()
        raise
    configure = partial(_configure, options)

    @cache
    def files() -> "UserFiles":
        from pinnace_rpc.server.user_files import UserFiles

        return UserFiles(options, configuration, reader, cwd, configure, sandbox, warnings)

    if has_extensions:
        files()  # takes what no child is to have out of the environment
    resources = _resources(reader, toolbox, warnings)
    if not has_extensions and options.extension_flags:
        if session.file is not None:
            session.file.abandon()
        from pinnace_rpc.options.arguments import unknown_option

        raise UnknownOption(str(unknown_option(options.extension_flags[0][0])))
    # Extensions may add tools that do not exist yet.
    unknown = ToolChoice({}) if has_extensions else toolbox.unknown()
    if unknown.refusals:
        if session.file is not None:
            session.file.abandon()
        raise UsageRefused("\n".join(unknown.refusals))
    _warn(warnings, "tools", unknown.warnings)
    resources.renew(session.cwd)
    profile = AgentProfile(
        registry=registry,
        tools=toolbox,
        system_prompt=resources.system_prompt,
        scope=() if selection is None else selection.scope,
        asks_servers=not _is_offline(options),
        approval=options.tool_approval,
        sandbox=sandbox,
        children=children,
        make_children=make_children,
        has_user=options.mode == "rpc",
        # Older generations have no records of surfaces, and what waits on one would wait for ever.
        draws_surfaces=options.draws_surfaces and options.mode == "rpc" and options.protocol in ("pi", "1.5"),
        resources=resources,
        read_again=lambda: files().read_again(),
        warnings=warnings,
    )
    configure(configuration, profile)
    if settings.http_proxy is not None:
        # Not at start for all: it loads TLS.
        from pinnace_agent.llm.transport.proxies import use_proxy

        use_proxy(settings.http_proxy)
    if selection is not None:
        session.model, session.thinking_level = selection.model, selection.level
    session.name = clean_name(options.name or "") or session.name

    def late_plan(folder: Path) -> "ExtensionPlan | None":
        is_named = may_have_extensions(options, files().configuration, environment(), cwd)
        is_plausible = is_named or may_have_project_extensions(options, reader, folder)
        return files().extension_plan(select, folder) if is_plausible else None

    extensions = files().extension_plan(select) if has_extensions else None
    return PreparedAgent(profile, session, library, selection, settings, extensions, late_plan)


def _open_session(options: Options, settings: Settings, cwd: Path, warnings: Warnings) -> tuple[Session, Library]:
    """Return the session of the start and where the others are, and warn of what is wrong with its file."""
    sessions = SessionChoice(options, settings, environment(), str(cwd))
    session = sessions.session()
    _warn(warnings, "session", sessions.notices)
    return session, sessions.library


def _selected(
    options: Options,
    settings: Settings,
    registry: ModelRegistry,
    session: Session,
    limits: RunLimits,
    warnings: Warnings,
) -> Selection:
    """Select the model and the level of the start, and warn of what it leaves out."""
    level: ThinkingLevel | None = None
    for known in THINKING_LEVELS:
        if known == session.recorded_level:
            level = known
    kept = ResumedChoice(session.recorded_model, level, has_messages=session.message_count > 0)
    choice = Choice(options.provider, options.model, options.models, options.thinking)
    selection = select_initial(registry, settings, choice, options.api_key, kept)
    if selection.error is not None:
        return selection
    if limits.max_cost is not None:
        registry.require_prices()
        if selection.model is not None and (refusal := registry.price_refusal(selection.model)) is not None:
            return selection._replace(error=refusal.text, is_usage_error=True)
    _warn(warnings, "models", selection.warnings)
    return selection


def _refused_selection(text: str, *, is_usage: bool) -> StartupError:
    return UsageRefused(text) if is_usage else StartupError(text, "no_model")


def _nothing() -> None:
    """Do nothing."""


class ExtensionFactory:
    """Makes the extensions of one process: at its start, for a session that is opened later, or at a reload."""

    def __init__(
        self,
        prepared: PreparedAgent,
        commands: OpenCommands,
        shutdown: Callable[[], None],
        before: Callable[[], None],
    ) -> None:
        """Make none yet; `before` is called before extensions are made."""
        self.manager: ExtensionManager | None = None
        """The extensions; None: there are none, as yet."""
        self._prepared = prepared
        self._commands = commands
        self._shutdown = shutdown
        self._before = before

    def __call__(self, agent: EffectInterpreter, folder: str | None) -> "ExtensionManager | None":
        """Return the extensions of the start, or with a folder those of its session; None: there are none."""
        prepared, commands = self._prepared, self._commands
        plan = prepared.extensions if folder is None else prepared.late_extensions(Path(folder))
        if plan is None:
            return None
        from pinnace_agent.extension_host.manager import ExtensionManager

        self._before()
        self.manager = ExtensionManager(plan, agent, self._shutdown, lambda: commands.has_open)
        return self.manager


class StartedAgent(NamedTuple):
    """The objects of one agent; it can take commands."""

    interpreter: EffectInterpreter
    commands: OpenCommands
    dispatcher: Dispatcher
    extensions: ExtensionFactory


def compose(
    prepared: PreparedAgent,
    outbox: Outbox,
    jobs: Jobs,
    closed: Callable[[], None] = _nothing,
    *,
    shutdown: Callable[[], None] = _nothing,
    before_extensions: Callable[[], None] = _nothing,
) -> StartedAgent:
    """Build an agent.

    Args:
        prepared: What was read and chosen.
        outbox: Takes the records.
        jobs: Where work runs.
        closed: Called when everything is answered and closed.
        shutdown: Ends the process, for extensions.
        before_extensions: Called before extensions are made, since they may start programs and block the event loop.
    """
    settings = prepared.settings
    state = ExtendedState(
        steering=MessageQueue(settings.steering_mode),
        follow_up=MessageQueue(settings.follow_up_mode),
        retry=_retry_policy(settings),
        auto_compaction=settings.compaction.is_enabled,
    )
    warnings = prepared.profile.warnings
    warnings.begin()

    def first_answered() -> None:
        warnings.publish(outbox.emit)
        interpreter.first_answered()

    commands = OpenCommands(outbox, closed, on_first=first_answered)
    extensions = ExtensionFactory(prepared, commands, shutdown, before_extensions)
    interpreter = EffectInterpreter(
        Chart(state), prepared.session, prepared.library, prepared.profile, outbox, commands, jobs, extensions
    )
    if prepared.profile.sandbox is not None:
        prepared.profile.sandbox.follow(interpreter, outbox)
    if prepared.profile.children is not None:
        prepared.profile.children.follow(interpreter)
    if prepared.selection is not None:
        interpreter.sessions.preferred_level = prepared.selection.preferred_level
    _save_name(prepared.session)
    return StartedAgent(interpreter, commands, Dispatcher(commands, interpreter), extensions)


def _save_name(session: Session) -> None:
    """Keep a name of the command line in a session that is on the disk; a new one takes it with its first message."""
    is_saved = session.file is not None and session.file.exists and session.problem is None
    if is_saved and session.name != session.tree.name:
        session.choose(model=session.model, thinking_level=session.thinking_level, name=session.name)


def _retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(settings.retry.is_enabled, *settings.retry.delays)


def _limits(options: Options, settings: Settings) -> RunLimits:
    turns, cost, run_s = settings.limits
    return RunLimits(
        turns if options.max_turns is None else options.max_turns,
        cost if options.max_cost is None else options.max_cost,
        run_s if options.max_run_s is None else options.max_run_s,
    )


def _configure(options: Options, configuration: Configuration, profile: AgentProfile) -> None:
    """Let an agent use the settings of what was read, at the start and with a reload."""
    settings, limits = configuration.settings, _limits(options, configuration.settings)
    profile.registry.require_prices(is_required=limits.max_cost is not None)
    profile.use(
        settings,
        environment=shell_environment(environment(), configuration.hidden_variables),
        shell_path=shell_of(settings, environment()),
        limits=limits,
        model_patterns=options.models or settings.enabled_models,
    )


def _is_offline(options: Options) -> bool:
    return options.is_offline or says_offline(environment())


def _install_named(words: Sequence[str], cwd: Path) -> None:
    from pinnace_rpc.server.named_packages import install_named

    install_named(words, cwd, (lambda _text: None) if is_embedded() else _write_line)


def _write_line(text: str) -> None:
    echo(f"pinnace: {text}", is_error=True)


def _warnings() -> Warnings:
    """Return those of a new agent, with those of the commands that it starts from now on."""
    warnings = Warnings(None if is_embedded() else _write_line)
    own_processes().warn = lambda text: warnings.add(Notice("tools", text))
    return warnings


def _warn(warnings: Warnings, kind: WarningKind, texts: Iterable[str]) -> None:
    for text in texts:
        warnings.add(Notice(kind, text))


def _sandbox(options: Options, settings: Settings, session: Session, warnings: Warnings) -> "Sandbox | None":
    """Set up the sandbox, if anything asks for one."""
    mode, network = options.sandbox, options.sandbox_network
    is_wanted = mode not in (None, "off") or settings.sandbox is not None or settings.project_sandbox is not None
    if is_wanted and is_embedded():
        # It takes folders out of the module path, and variables out of the environment, of the whole process.
        raise StartupError("a sandbox needs a process of its own: start the agent with Client", "sandbox_unavailable")
    if mode in (None, "off") and settings.sandbox is settings.project_sandbox is None:
        if network is not None:
            raise UsageRefused("--sandbox-network needs a sandbox: add --sandbox")
        return None
    from pinnace_agent.sandbox.sandbox import Unavailable, start_sandbox

    try:
        return start_sandbox(
            mode,
            network,
            options.extensions,
            settings,
            session.cwd,
            session.path,
            notice=_write_line,
            warn=lambda text: warnings.add(Notice("sandbox", text)),
        )
    except Unavailable as error:
        raise StartupError(str(error), "sandbox_unavailable") from None


def _children(
    options: Options, configuration: Configuration, cwd: Path
) -> "tuple[Children | None, Callable[[], Children]]":
    """Return the sub-agents of this agent, if an option or a setting names their tool, and what makes them later.

    Called before anything is taken out of the environment: they get it, as this agent does.
    """
    env = {name: value for name, value in environment().items() if name.startswith(_TAKEN_OUT)}

    def make() -> "Children":
        from pinnace_rpc.subagents.children import children_of

        return children_of(options, configuration, cwd, env)

    named = (*(options.tools or ()), *options.exclude_tools, *(configuration.settings.default_tools or ()))
    is_named = any(word.lstrip("+-") == "subagent" for word in named)
    return make() if is_named else None, make


def _toolbox(
    options: Options,
    settings: Settings,
    sandbox: "Sandbox | None",
    session: Session,
    children: "Children | None",
) -> ToolRegistry:
    is_none = options.no_tools or options.no_builtin_tools
    tools = builtin_tools()
    if children is not None:
        from pinnace_agent.tools.subagent import SubagentTool

        tools["subagent"] = SubagentTool(children)

    def choose(tools: Mapping[str, Tool], added: Sequence[str], recorded: Collection[str] | None) -> ToolChoice:
        selection = ToolSelection(options.tools, options.exclude_tools, none=is_none)
        if recorded is not None and not is_none:
            return ToolChoice(select_tools(tools, selection, recorded)[0])
        configured = settings.default_tools
        if configured is not None:
            configured = (*configured, *(f"+{name}" for name in added))
        active, warnings = select_tools(tools, selection, (*DEFAULT_TOOLS, *added), configured)
        if options.no_builtin_tools and not options.no_tools and options.tools is None:
            active, _ = select_tools(tools, ToolSelection(added, options.exclude_tools), ())
        known = {**tools, "subagent": None}  # where it is named
        return ToolChoice(active, warnings, refused_names(known, selection, settings.default_tools))

    try:
        toolbox = ToolRegistry(tools if sandbox is None else sandbox.tools(tools), choose)
    except ValueError as error:
        raise StartupError(str(error)) from None
    if session.tree.kinds.get("message"):
        from pinnace_agent.engine.session_choices import restore_tools  # few sessions have a record

        restore_tools(toolbox, session)
    return toolbox


def _resource_choice(options: Options, cwd: Path) -> ResourceChoice:
    return ResourceChoice(
        skills=options.skills,
        templates=options.prompt_templates,
        has_usual_skills=not options.no_skills,
        has_usual_templates=not options.no_prompt_templates,
        has_context_files=not options.no_context_files,
        directories=_directories(options.directories, cwd),
        base=None if options.system_prompt is None else _read(options.system_prompt, cwd),
        appended=tuple(_read(argument, cwd) for argument in options.append_system_prompt),
        added=options.client_prompt,
        approved=options.approved,
        packages=options.extensions,
    )


def _resources(reader: FolderReader, toolbox: ToolRegistry, warnings: Warnings) -> PromptResources:
    resources = PromptResources(reader.read, tuple(toolbox.values()), warnings)
    resources.on_added = reader.add
    resources.on_directories = reader.use_directories
    return resources


def _directories(paths: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """Return the real paths of additional folders, each once.

    Raises:
        StartupError: One is no folder.
    """
    for path in paths:
        if not os.path.isdir(cwd / path):
            raise StartupError(f"--add-dir: {path} is no folder")
    return tuple(dict.fromkeys(os.path.realpath(cwd / path) for path in paths))


def _read(argument: str, cwd: Path) -> str:
    read = read_prompt_argument(argument, str(cwd))
    if read.problem is not None:
        raise StartupError(read.problem)
    return read.text
