"""Builds one agent from its options and the user's files.

What can be wrong with a command line or a file is found here, before the protocol starts: an error ends the process
with a text on stderr and nothing on stdout; a notice goes to stderr and the process lives. Reads files, writes none.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.host import Host
from pinnace_agent.jobs import Jobs
from pinnace_agent.llm.base import THINKING_BUDGETS
from pinnace_agent.profile import AgentProfile
from pinnace_agent.resources.configuration import load_configuration, shell_of
from pinnace_agent.resources.folder_resources import FolderReader, ResourceChoice
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.resource_book import ResourceBook
from pinnace_agent.resources.selection import Choice, Kept, Selection, select_initial
from pinnace_agent.resources.settings import RunLimits, Settings
from pinnace_agent.resources.system_prompt import read_prompt_argument
from pinnace_agent.resources.tool_selection import ToolSelection, refused_names, select_tools
from pinnace_agent.session import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.tree import clean_name
from pinnace_agent.shell_environment import shell_environment
from pinnace_agent.toolbox import Chosen, Toolbox
from pinnace_agent.tools import DEFAULT_TOOLS, builtin_tools
from pinnace_agent.tools.base import Tool
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.extension_places import may_have_extensions, may_have_project_extensions
from pinnace_rpc.options import Options, StartupError, UnknownOption, UsageRefused
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.session_choice import SessionChoice
from pinnace_spec.messages import THINKING_LEVELS, ThinkingLevel
from pinnace_statechart.machine import Chart
from pinnace_statechart.queues import MessageQueue
from pinnace_statechart.state import ExtendedState, RetryPolicy

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extension_host.seat_plan import SeatPlan


_OFFLINE_VARIABLE: Final = "PI_OFFLINE"
_YES: Final = frozenset({"1", "true", "yes"})


def _no_plan(_cwd: Path) -> None:
    """There are no extensions in any folder."""


class Prepared(NamedTuple):
    """Everything that was read and chosen before the protocol starts."""

    profile: AgentProfile
    session: Session
    library: Library
    selection: Selection | None
    """None: extensions may bring the model, so it is selected when they are bound to the session."""
    settings: Settings
    extensions: "SeatPlan | None" = None
    """None: there can be none."""
    late_extensions: "Callable[[Path], SeatPlan | None]" = _no_plan
    """Returns the plan for a session in another folder, if its project may bring extensions and nothing else does."""


def prepare(options: Options) -> Prepared:
    """Read the user's files and resolve what the options name.

    Raises:
        StartupError: Something that was asked for is not there.
    """
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise StartupError("the current folder is gone: start in another one") from None
    configuration = load_configuration(os.environ, cwd, approved=options.approved)
    if configuration.refusals:
        raise UsageRefused("\n".join(configuration.refusals))
    settings, registry = configuration.settings, configuration.registry
    # First, since they may be why what follows is an error.
    _tell(configuration.notices)
    sessions = SessionChoice(options, settings, os.environ, str(cwd))
    session = sessions.session()
    _tell(sessions.notices)
    limits = _limits(options, settings)
    select = partial(_selected, options, settings, registry, session, limits)
    try:
        is_trusted = configuration.is_project_trusted
        reader = FolderReader(_resource_choice(options), settings, os.environ, cwd, is_trusted=is_trusted)
        has_extensions = may_have_extensions(options, configuration, os.environ, cwd)
        if session.cwd != str(cwd):
            has_extensions = has_extensions or may_have_project_extensions(options, reader, Path(session.cwd))
        selection = None if has_extensions else select()
        if selection is not None and selection.error is not None:
            raise (UsageRefused if selection.is_usage_error else StartupError)(selection.error)
        toolbox = _toolbox(options, settings)
    except StartupError:
        if session.file is not None:
            session.file.abandon()
        raise
    resources = ResourceBook(reader.read, tuple(toolbox.values()))
    resources.on_added = reader.add
    if not has_extensions and options.extension_flags:
        if session.file is not None:
            session.file.abandon()
        from pinnace_rpc.command import COMMAND
        from pinnace_rpc.option_words import no_such_option

        raise UnknownOption(no_such_option(options.extension_flags[0][0], COMMAND.params).format_message())
    # Extensions may bring what is not there yet.
    unknown = Chosen({}) if has_extensions else toolbox.unknown()
    if unknown.refusals:
        if session.file is not None:
            session.file.abandon()
        raise UsageRefused("\n".join(unknown.refusals))
    _tell((*unknown.warnings, *resources.renew(session.cwd)))
    profile = AgentProfile(
        registry=registry,
        tools=toolbox,
        system_prompt=resources.system_prompt,
        environment=shell_environment(os.environ, configuration.hidden_variables),
        shell_path=shell_of(settings, os.environ),
        shell_command_prefix=settings.shell_command_prefix,
        compaction=settings.compaction,
        idle_timeout_s=settings.idle_timeout_s,
        max_retry_after_s=settings.max_retry_after_s,
        thinking_budgets={**THINKING_BUDGETS, **settings.thinking_budgets},
        resizes_images=settings.resizes_images,
        blocks_images=settings.blocks_images,
        scope=() if selection is None else selection.scope,
        limits=limits,
        asks_servers=not (options.is_offline or os.environ.get(_OFFLINE_VARIABLE, "").lower() in _YES),
        tool_timeout_s=settings.tool_timeout_s,
        resources=resources,
    )
    if settings.http_proxy is not None:
        # Not at start for all: it loads TLS.
        from pinnace_agent.llm.client import use_proxy

        use_proxy(settings.http_proxy)
    if selection is not None:
        session.model, session.thinking_level = selection.model, selection.level
    session.name = clean_name(options.name or "") or session.name

    def plan() -> "SeatPlan":
        from pinnace_rpc.extension_plan import seat_plan

        return seat_plan(options, configuration, reader, cwd, select)

    def late_plan(folder: Path) -> "SeatPlan | None":
        return plan() if may_have_project_extensions(options, reader, folder) else None

    extensions = plan() if has_extensions else None
    return Prepared(profile, session, sessions.library, selection, settings, extensions, late_plan)


def _selected(
    options: Options, settings: Settings, registry: ModelRegistry, session: Session, limits: RunLimits
) -> Selection:
    """Select the model and the level of the start, and write its warnings to stderr."""
    level: ThinkingLevel | None = None
    for known in THINKING_LEVELS:
        if known == session.recorded_level:
            level = known
    kept = Kept(session.recorded_model, level, has_messages=session.message_count > 0)
    choice = Choice(options.provider, options.model, options.models, options.thinking)
    selection = select_initial(registry, settings, choice, options.api_key, kept)
    if selection.error is not None:
        return selection
    if limits.max_cost is not None:
        registry.require_prices()
        if selection.model is not None and (refusal := registry.price_refusal(selection.model)) is not None:
            return selection._replace(error=refusal.text, is_usage_error=True)
    _tell(selection.warnings)
    return selection


def build_host(prepared: Prepared, outbox: Outbox, dispatcher: Dispatcher, jobs: Jobs) -> Host:
    """Put an agent together; it can take commands at once."""
    settings = prepared.settings
    state = ExtendedState(
        steering=MessageQueue(settings.steering_mode),
        follow_up=MessageQueue(settings.follow_up_mode),
        retry=_retry_policy(settings),
        auto_compaction=settings.compaction.is_enabled,
    )
    host = Host(Chart(state), prepared.session, prepared.library, prepared.profile, outbox, dispatcher, jobs)
    host.book = dispatcher
    outbox.on_defect = host.record_failed
    if prepared.selection is not None:
        host.sessions.preferred_level = prepared.selection.preferred_level
    dispatcher.host = host
    if prepared.extensions is not None:
        add_extensions(host, prepared.extensions, dispatcher)
    _save_name(prepared.session)
    return host


def add_extensions(host: Host, plan: "SeatPlan", dispatcher: Dispatcher, *, is_late: bool = False) -> None:
    """Let a host have extensions; none is loaded yet. `is_late`: the process has begun without any."""
    from pinnace_agent.extension_host.seat import ExtensionSeat

    host.seat = ExtensionSeat(plan, host, first="reload" if is_late else "startup")
    host.seat.is_command_in_hand = lambda: dispatcher.is_command_in_hand


def _save_name(session: Session) -> None:
    """Keep a name of the command line in a session that is on the disk; a new one takes it with its first message."""
    is_saved = session.file is not None and session.file.exists and session.problem is None
    if is_saved and session.name != session.tree.name:
        session.choose(model=session.model, thinking_level=session.thinking_level, name=session.name)


def _retry_policy(settings: Settings) -> RetryPolicy:
    retry = settings.retry
    return RetryPolicy(retry.is_enabled, retry.max_retries, retry.base_delay_ms / 1000, retry.max_delay_ms / 1000)


def _limits(options: Options, settings: Settings) -> RunLimits:
    turns, cost, run_s = settings.limits
    return RunLimits(
        turns if options.max_turns is None else options.max_turns,
        cost if options.max_cost is None else options.max_cost,
        run_s if options.max_run_s is None else options.max_run_s,
    )


def _tell(notices: Iterable[str]) -> None:
    for notice in notices:
        sys.stderr.write(f"pinnace: {notice}\n")


def _toolbox(options: Options, settings: Settings) -> Toolbox:
    is_none = options.no_tools or options.no_builtin_tools

    def choose(tools: Mapping[str, Tool], added: Sequence[str]) -> Chosen:
        selection = ToolSelection(options.tools, options.exclude_tools, none=is_none)
        configured = settings.default_tools
        if configured is not None:
            configured = (*configured, *(f"+{name}" for name in added))
        active, warnings = select_tools(tools, selection, (*DEFAULT_TOOLS, *added), configured)
        if options.no_builtin_tools and not options.no_tools and options.tools is None:
            wanted = ToolSelection(added, options.exclude_tools)
            active, _ = select_tools(tools, wanted, ())
        return Chosen(active, warnings, refused_names(tools, selection, settings.default_tools))

    try:
        return Toolbox(builtin_tools(), choose)
    except ValueError as error:
        raise StartupError(str(error)) from None


def _resource_choice(options: Options) -> ResourceChoice:
    return ResourceChoice(
        skills=options.skills,
        templates=options.prompt_templates,
        has_usual_skills=not options.no_skills,
        has_usual_templates=not options.no_prompt_templates,
        has_context_files=not options.no_context_files,
        base=None if options.system_prompt is None else _read(options.system_prompt),
        appended=tuple(_read(argument) for argument in options.append_system_prompt),
        approved=options.approved,
    )


def _read(argument: str) -> str:
    read = read_prompt_argument(argument)
    if read.problem is not None:
        raise StartupError(read.problem)
    return read.text
