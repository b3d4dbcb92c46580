"""The answer to `hello`: what the agent is and can do, for a client that has said what it is and offers."""

from collections.abc import Mapping
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from pinnace_agent.shell.child_processes import commands_at_once
from pinnace_rpc.options.release import program_version
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection
from pinnace_spec.profiles.profiles import CLIENT_PROFILES
from pinnace_spec.records.flat_commands import COMMAND_NAMES
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import PUBLISHED

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_spec.records.commands import Hello


def answer_hello(command: "Hello", agent: "AgentReads", outbox: Outbox, *, is_first: bool) -> Mapping[str, object]:
    """Take what a client is and offers; return what the agent is and can do.

    Args:
        command: What the client has sent.
        agent: Which takes the client's offers.
        outbox: Takes the generation that the client has chosen.
        is_first: Whether it is the client's first command: later ones can't choose a generation.

    Raises:
        ClientError: A folder is none, or a generation is chosen too late; what was offered before is not taken.
    """
    directories = None
    if command.directories is not None:
        from pinnace_rpc.server.directories import real_folders

        directories = real_folders(command.directories)
    if command.protocol is not None:
        if not is_first:
            raise errors.ClientError(errors.HELLO_TOO_LATE, errors.ErrorCode.TOO_LATE)
        outbox.projection = make_projection(command.protocol)
    unknown = outbox.projection.unknown_names
    if command.delegate is not None and "delegate" not in unknown:
        agent.offer_files(command.delegate)
    if command.surfaces is not None and "surfaces" not in unknown:
        agent.offer_surfaces(is_offered=command.surfaces)
    if command.subagents is not None and "subagents" not in unknown:
        agent.show_children(is_wanted=command.subagents)
    if "themes" not in unknown:
        agent.take_look(command.themes, command.theme, unfolds=command.toolsExpanded)
    if "directories" in unknown:
        directories = None
    elif directories is not None:
        from pinnace_rpc.server.directories import use_directories

        use_directories(agent, directories)
    # A generation that lacks the own commands of this agent lacks this field, too.
    sandbox = None if "get_tools" in unknown else agent.profile.sandbox
    return {
        "name": "pinnace",
        "version": program_version(),
        "protocols": CLIENT_PROFILES,
        "protocol": outbox.projection.profile,
        "commands": [name for name in COMMAND_NAMES if name not in unknown],
        "events": outbox.projection.event_names,
        "limits": {**PUBLISHED, "shells": commands_at_once()},
        "mcp": {
            "installed": PathFinder.find_spec("mcp") is not None,
            "servers": 0 if agent.extensions is None else len(agent.extensions.mcp_servers),
        },
        **({} if sandbox is None else {"sandbox": sandbox.record()}),
        **({} if directories is None else {"directories": directories}),
    }
