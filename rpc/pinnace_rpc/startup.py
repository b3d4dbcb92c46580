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
from pinnace_agent.resources.selection import Choice, Selection, select_initial
from pinnace_agent.resources.settings import Settings
from pinnace_agent.resources.system_prompt import assemble_system_prompt, read_prompt_argument
from pinnace_agent.resources.tool_selection import ToolSelection, select_tools
from pinnace_agent.session import Session
from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.base import Tool
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.options import Options, StartupError
from pinnace_rpc.outbox import Outbox
from pinnace_statechart.machine import Chart
from pinnace_statechart.queues import MessageQueue
from pinnace_statechart.state import ExtendedState, RetryPolicy


class Prepared(NamedTuple):
    """Everything that was read and chosen before the protocol starts."""

    profile: AgentProfile
    session: Session
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
    choice = Choice(options.provider, options.model, options.models, options.thinking)
    selection = select_initial(registry, settings, choice, options.api_key)
    if selection.error is not None:
        raise StartupError(selection.error)
    tools, warnings = _tools(options)
    _tell((*selection.warnings, *warnings))
    prompt = _Prompt(options, tuple(tools.values()), str(cwd))
    profile = AgentProfile(
        registry=registry,
        tools=tools,
        system_prompt=prompt.text,
        shell_path=shell_of(settings, os.environ),
        shell_command_prefix=settings.shell_command_prefix,
        scope=selection.scope,
    )
    session = Session(str(cwd), selection.model, selection.level, name=options.name)
    if options.session_id is not None:
        session.id = options.session_id
    return Prepared(profile, session, selection, settings)


def build_host(prepared: Prepared, outbox: Outbox, dispatcher: Dispatcher, jobs: Jobs) -> Host:
    """Put an agent together; it can take commands at once."""
    settings = prepared.settings
    state = ExtendedState(
        steering=MessageQueue(settings.steering_mode),
        follow_up=MessageQueue(settings.follow_up_mode),
        # Retries and compaction come with a later release: no outcome of this one asks for either.
        retry=RetryPolicy(enabled=False),
        auto_compaction=settings.compaction.is_enabled,
    )
    host = Host(Chart(state), prepared.session, prepared.profile, outbox, dispatcher, jobs)
    host.book = dispatcher
    host.preferred_level = prepared.selection.preferred_level
    dispatcher.host = host
    return host


def _tell(notices: Iterable[str]) -> None:
    for notice in notices:
        sys.stderr.write(f"pinnace: {notice}\n")


def _tools(options: Options) -> tuple[dict[str, Tool], tuple[str, ...]]:
    none = options.no_tools or options.no_builtin_tools
    try:
        return select_tools(builtin_tools(), ToolSelection(options.tools, options.exclude_tools, none=none))
    except ValueError as error:
        raise StartupError(str(error)) from None


class _Prompt:
    """The system prompt; its files are read once, its day is today's."""

    def __init__(self, options: Options, tools: tuple[Tool, ...], cwd: str) -> None:
        self._tools = tools
        self._cwd = cwd
        self._base = None if options.system_prompt is None else _read(options.system_prompt)
        self._appended = tuple(_read(argument) for argument in options.append_system_prompt)

    def text(self) -> str:
        """Return the prompt of a request that is sent now."""
        return assemble_system_prompt(
            self._tools, cwd=self._cwd, today=date.today(), base=self._base, appended=self._appended
        )


def _read(argument: str) -> str:
    read = read_prompt_argument(argument)
    if read.problem is not None:
        raise StartupError(read.problem)
    return read.text
