"""Builds one agent from its options and the user's files.

What can be wrong with a command line or a file is found here, before the protocol starts: an error ends the process
with a text on stderr and nothing on stdout; a notice goes to stderr and the process lives. Reads files, writes none.
"""

import os
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from pinnace_agent.host import Host
from pinnace_agent.jobs import Jobs
from pinnace_agent.profile import AgentProfile
from pinnace_agent.resources.configuration import load_configuration, shell_of
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.selection import Choice, Kept, Selection, select_initial
from pinnace_agent.resources.settings import Settings
from pinnace_agent.resources.system_prompt import assemble_system_prompt, read_prompt_argument
from pinnace_agent.resources.tool_selection import ToolSelection, select_tools
from pinnace_agent.session import Session
from pinnace_agent.session.library import Library
from pinnace_agent.session.tree import clean_name
from pinnace_agent.tools import DEFAULT_TOOLS, builtin_tools
from pinnace_agent.tools.base import Tool
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.options import Options, StartupError
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.session_choice import SessionChoice
from pinnace_spec.messages import THINKING_LEVELS, ThinkingLevel
from pinnace_statechart.machine import Chart
from pinnace_statechart.queues import MessageQueue
from pinnace_statechart.state import ExtendedState, RetryPolicy


class Prepared(NamedTuple):
    """Everything that was read and chosen before the protocol starts."""

    profile: AgentProfile
    session: Session
    library: Library
    selection: Selection
    settings: Settings


def prepare(options: Options) -> Prepared:
    """Read the user's files and resolve what the options name.

    Raises:
        StartupError: Something that was asked for is not there.
    """
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        raise StartupError("the current folder is gone: start in another one") from None
    settings, registry, notices = load_configuration(os.environ, cwd)
    # First, since they may be why what follows is an error.
    _tell(notices)
    sessions = SessionChoice(options, settings, os.environ, str(cwd))
    session = sessions.session()
    _tell(sessions.notices)
    try:
        selection = _selected(options, settings, registry, session)
        tools, warnings = _tools(options)
        prompt = _Prompt(options, tuple(tools.values()))
    except StartupError:
        if session.file is not None:
            session.file.abandon()
        raise
    _tell((*selection.warnings, *warnings))
    profile = AgentProfile(
        registry=registry,
        tools=tools,
        system_prompt=prompt.text,
        shell_path=shell_of(settings, os.environ),
        shell_command_prefix=settings.shell_command_prefix,
        compaction=settings.compaction,
        idle_timeout_s=settings.http_idle_timeout_ms / 1000 or None,
        scope=selection.scope,
    )
    session.model, session.thinking_level = selection.model, selection.level
    session.name = clean_name(options.name or "") or session.name
    return Prepared(profile, session, sessions.library, selection, settings)


def _selected(options: Options, settings: Settings, registry: ModelRegistry, session: Session) -> Selection:
    level: ThinkingLevel | None = None
    for known in THINKING_LEVELS:
        if known == session.recorded_level:
            level = known
    kept = Kept(session.recorded_model, level, has_messages=bool(session.messages))
    choice = Choice(options.provider, options.model, options.models, options.thinking)
    selection = select_initial(registry, settings, choice, options.api_key, kept)
    if selection.error is not None:
        raise StartupError(selection.error)
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
    host.sessions.preferred_level = prepared.selection.preferred_level
    dispatcher.host = host
    _save_name(prepared.session)
    return host


def _save_name(session: Session) -> None:
    """Keep a name of the command line in a session that is on the disk; a new one takes it with its first message."""
    is_saved = session.file is not None and session.file.exists and session.problem is None
    if is_saved and session.name != session.tree.name:
        session.choose(model=session.model, thinking_level=session.thinking_level, name=session.name)


def _retry_policy(settings: Settings) -> RetryPolicy:
    retry = settings.retry
    return RetryPolicy(retry.is_enabled, retry.max_retries, retry.base_delay_ms / 1000, retry.max_delay_ms / 1000)


def _tell(notices: Iterable[str]) -> None:
    for notice in notices:
        sys.stderr.write(f"pinnace: {notice}\n")


def _tools(options: Options) -> tuple[dict[str, Tool], tuple[str, ...]]:
    none = options.no_tools or options.no_builtin_tools
    try:
        selection = ToolSelection(options.tools, options.exclude_tools, none=none)
        return select_tools(builtin_tools(), selection, DEFAULT_TOOLS)
    except ValueError as error:
        raise StartupError(str(error)) from None


class _Prompt:
    """The system prompt; its files are read once, its day is today's."""

    def __init__(self, options: Options, tools: tuple[Tool, ...]) -> None:
        self._tools = tools
        self._base = None if options.system_prompt is None else _read(options.system_prompt)
        self._appended = tuple(_read(argument) for argument in options.append_system_prompt)

    def text(self, cwd: str) -> str:
        """Return the prompt of a request that is sent now, for tools that work in `cwd`."""
        return assemble_system_prompt(
            self._tools, cwd=cwd, today=date.today(), base=self._base, appended=self._appended
        )


def _read(argument: str) -> str:
    read = read_prompt_argument(argument)
    if read.problem is not None:
        raise StartupError(read.problem)
    return read.text
