"""Reads: snapshots of the state as it is, without any effect.

One function a command, with its name. Each sees every command that was admitted before it (R-ORD-02). Must not change
anything and must not await; reads that take longer are in `slow_reads`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from pinnace_agent.config.models.models import supported_levels
from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import system
from pinnace_agent.prompting.origin import Origin
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.tree import encode_nodes
from pinnace_agent.tools import builtin_source
from pinnace_spec.records.messages import AssistantMessage, Model
from pinnace_spec.rules import errors
from pinnace_statechart.effects import View

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.extensions import CommandInfo
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.session.cache_misses import FindModel
    from pinnace_agent.session.queue.history import ReturnedMessage
    from pinnace_agent.session.tree import EntryTree
    from pinnace_spec.records import commands as cmd
    from pinnace_spec.records.entries import Entry

Data = Mapping[str, object]


class Read(NamedTuple):
    """What a read can see."""

    agent: "AgentReads"
    view: View
    """The statechart, at the read's own turn."""
    command: Any
    """Of the class of its name."""


_LOCATIONS: Final[Mapping[str, str]] = {"user": "user", "project": "project", "temporary": "path"}
"""The location of templates and skills as the oldest generation names it."""


def get_state(read: Read) -> Data:
    """The state of the agent: its work, its settings and its queues."""
    agent, view = read.agent, read.view
    session, profile, extensions = agent.session, agent.profile, agent.extensions
    # DEVIATION D-11: with additive fields of this agent and those of the oldest generation.
    data: dict[str, object] = {
        "model": None if (model := session.model) is None else shown_model(model),
        "thinkingLevel": session.thinking_level,
        "isStreaming": view.is_streaming,
        "isCompacting": view.is_compacting,
        "isBashRunning": view.is_bash_running,
        "steeringMode": view.steering_mode,
        "followUpMode": view.follow_up_mode,
        "queueMode": view.steering_mode,
        "sessionId": session.id,
        "sessionStatus": session_status(session),
        "autoCompactionEnabled": view.auto_compaction,
        "messageCount": session.message_count,
        "pendingMessageCount": view.pending,
        "queuedMessageCount": view.pending,
        "queuePaused": view.is_queue_paused,
        "pid": system().getpid(),
        "cwd": session.cwd,
        "projectTrusted": profile.resources.is_trusted(session.cwd),
        "toolApproval": agent.approval_mode,
    }
    if profile.sandbox is not None:
        data["sandbox"] = profile.sandbox.record()
    instance = None if extensions is None else extensions.instance
    if instance is not None and (at_work := instance.at_work()):
        data["extensionsAtWork"] = at_work
    if instance is not None and agent.draws_surfaces and (renderers := instance.item_renderers()):
        data["itemRenderers"] = renderers
    if extensions is not None and (servers := extensions.mcp_servers):
        data["mcpServers"] = servers
    if profile.warnings.current:
        data["warnings"] = profile.warnings.records()
    if extensions is not None and (left_out := extensions.left_out):
        data["extensionsLeftOut"] = left_out
    if (interruption := session.interruption) is not None:
        data["interrupted"] = interruption
    if (path := session.path) is not None:
        data["sessionFile"] = path
    if (name := session.name) is not None:
        data["sessionName"] = name
    return data


def get_messages(read: Read) -> Data:
    """All messages of the context; one that is being streamed is not among them."""
    return {"messages": read.agent.session.encoded_messages()}


def get_last_assistant_text(read: Read) -> Data:
    """The text of the newest answer; one that was aborted while it was empty is skipped."""
    return last_assistant_text(read.agent.session)


def last_assistant_text(session: Session) -> Data:
    """Return what `get_last_assistant_text` answers of a session."""
    for message in session.newest_first():
        if message["role"] == "assistant" and (message["content"] or message["stopReason"] != "aborted"):
            return {"text": _text(message).strip() or None}
    # DEVIATION D-10: null, as published.
    return {"text": None}


def _text(message: AssistantMessage) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def get_available_models(read: Read) -> Data:
    """Every model that has credentials."""
    return {"models": shown_models(read.agent.profile.registry.available())}


def get_available_thinking_levels(read: Read) -> Data:
    """The levels of the current model."""
    model = read.agent.session.model
    return {"levels": supported_levels(model) if model is not None else ["off"]}


def session_status(session: Session) -> Data:
    """Return whether everything is saved, and which damage the file had: additive, for supervisors (R-SES-07)."""
    problem = session.problem
    status: dict[str, object] = {"saved": problem is None}
    if problem is not None:
        status["problem"] = problem
    if session.file is not None and session.file.unsaved:
        status["unsavedEntries"] = session.file.unsaved
    if session.file is not None and session.file.foreign_lines:
        status["foreignEntries"] = session.file.foreign_lines
    report = session.report
    if report.damaged_lines:
        status["damagedLines"] = report.damaged_lines
    if report.orphans:
        status["orphans"] = report.orphans
    if report.has_torn_tail:
        status["tornTail"] = True
    if report.damaged_copy is not None:
        status["damagedCopy"] = report.damaged_copy
    return status


def get_entries(read: Read) -> Data:
    """All entries of the file in its order, on whichever branch; or those after one of them."""
    command: cmd.GetEntries = read.command
    tree = read.agent.session.tree
    return {"entries": entries_since(tree, command.since_entry), "leafId": tree.leaf_id}


def entries_since(tree: "EntryTree", entry_id: str | None) -> "Sequence[Entry]":
    """Return the entries behind one of them, as they are now; None: all.

    Raises:
        ClientError: There is no such entry.
    """
    if entry_id is None:
        return tree.entries[:]
    if (place := tree.find(entry_id)) is None:
        raise errors.ClientError(errors.entry_not_found(entry_id), errors.ErrorCode.ENTRY_NOT_FOUND)
    return tree.entries[place + 1 :]


def get_tree(read: Read) -> Data:
    """All entries as a tree, and the session's leaf in it."""
    return {"tree": encode_nodes(read.agent.session.tree.nodes()), "leafId": read.agent.session.tree.leaf_id}


def get_fork_messages(read: Read) -> Data:
    """The user's messages with a text, on all branches."""
    from pinnace_agent.session.branch_copy import fork_messages  # not at start

    return {
        "messages": [{"entryId": entry_id, "text": text} for entry_id, text in fork_messages(read.agent.session.tree)]
    }


def get_branch_messages(read: Read) -> Data:
    """The same for the oldest generation, which counts entries."""
    from pinnace_agent.session.branch_copy import fork_messages  # not at start

    tree = read.agent.session.tree
    return {"messages": [{"entryIndex": tree.find(entry_id), "text": text} for entry_id, text in fork_messages(tree)]}


def get_session_stats(read: Read) -> Data:
    """Counts, tokens and cost of the context and of the whole session, what a cache missed; how full the context is."""
    return session_stats(read.agent.session, read.agent.profile.registry.find)


def session_stats(session: Session, find_model: "FindModel") -> Data:
    """Return what `get_session_stats` answers of a session."""
    from pinnace_agent.compaction.threshold import context_usage  # not at start: it loads all modules of compaction
    from pinnace_agent.session.totals import message_counts
    from pinnace_agent.session.warming_totals import cache_stats

    data: dict[str, object] = {
        "sessionId": session.id,
        **session.meter.counts(),
        "session": {**message_counts(session.tree.kinds), **session.totals.of(session.tree.entries)},
        **cache_stats(session, find_model),
    }
    if (path := session.path) is not None:
        data["sessionFile"] = path
    if (usage := context_usage(session)) is not None:
        data["contextUsage"] = usage
    return data


def get_commands(read: Read) -> Data:
    """Commands of extensions, then templates, then skills, each in the order of their precedence."""
    resources = read.agent.profile.resources.of(read.agent.session.cwd)
    templates = [
        {
            **_command(each.name, each.description, "prompt", each.path, each.origin),
            **({} if each.argument_hint is None else {"argumentHint": each.argument_hint}),
        }
        for each in resources.templates.values()
    ]
    # Hidden ones, too: they are hidden from models.
    skills = [
        _command(f"skill:{each.name}", each.description, "skill", each.path, each.origin)
        for each in resources.skills.values()
    ]
    return {"commands": [*_extension_commands(read.agent), *templates, *skills]}


def _extension_commands(agent: "AgentReads") -> list[Mapping[str, object]]:
    instance = None if agent.extensions is None else agent.extensions.instance
    return [] if instance is None else [_extension_command(info) for info in instance.command_infos()]


def _extension_command(info: "CommandInfo") -> Mapping[str, object]:
    source = info.source_info
    command: dict[str, object] = {"name": info.name, "source": info.source, "path": source["path"]}
    if info.description is not None:
        command["description"] = info.description
    return {**command, "sourceInfo": source}


def _command(name: str, description: str, source: str, path: str, origin: Origin) -> Mapping[str, object]:
    return {
        "name": name,
        "description": description,
        "source": source,
        "location": _LOCATIONS[origin.scope],
        "path": path,
        "sourceInfo": origin.source_info(path),
    }


def get_tools(read: Read) -> Data:
    """Every tool, in the order in which a model receives them."""
    toolbox, extensions = read.agent.toolbox, read.agent.extensions
    return {
        "tools": [
            {
                "name": name,
                "description": tool.description,
                "parameters": tool.parameters,
                "sourceInfo": builtin_source(name) if extensions is None else extensions.source_of(tool),
                "active": name in toolbox,
            }
            for name, tool in toolbox.all.items()
        ]
    }


def get_shortcuts(read: Read) -> Data:
    """The keys that extensions have registered."""
    extensions = read.agent.extensions
    instance = None if extensions is None else extensions.instance
    return {"shortcuts": [] if instance is None else instance.shortcuts()}


def get_queue(read: Read) -> Data:
    """The queued messages in the order of their delivery, and on request those that were returned."""
    command: cmd.GetQueue = read.command
    kinds = zip(("steer", "followUp"), read.view.queued, strict=True)
    messages = [
        {"messageId": item.message_id, "kind": kind, "text": item.text, "imageCount": _image_count(item.blocks)}
        for kind, items in kinds
        for item in items
    ]
    data: dict[str, object] = {"messages": messages, "paused": read.view.is_queue_paused}
    if command.returned:
        data["returned"] = [_returned(each) for each in read.agent.sessions.queue.returned()]
    return data


def _returned(returned: "ReturnedMessage") -> Data:
    message = returned.message
    shown: dict[str, object] = {
        "messageId": message.message_id,
        "kind": "steer" if message.kind == "steer" else "followUp",
        "text": message.text,
        "imageCount": _image_count(message.blocks),
        "reason": returned.reason,
    }
    return shown if returned.by is None else {**shown, "by": returned.by}


def _image_count(blocks: Iterable[object]) -> int:
    return sum((as_object(block) or {}).get("type") == "image" for block in blocks)


def list_agents(read: Read) -> Data:
    """The sub-agents that the session has started, with their ends."""
    from pinnace_rpc.server.agent_messages import shown_agents  # not at start

    return {"agents": shown_agents(read.agent)}


def auth_status(read: Read) -> Data:
    """Where the credentials of providers come from."""
    from pinnace_rpc.server.logins import statuses  # not at start

    command: cmd.AuthStatus = read.command
    return statuses(read.agent.profile.registry, command.provider)


def shown_model(model: Model) -> Model:
    """Return a model as clients see it: without the user name and password that its address may hold.

    Requests need the address as the user wrote it; a record with it would end in the log of some client.
    """
    address = model["baseUrl"]
    if "@" not in address:
        return model
    try:
        parts = urlsplit(address)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:  # no address at all, so a password may stand anywhere
        shown = ""
    return {**model, "baseUrl": shown}


def shown_models(models: Iterable[Model]) -> list[Model]:
    """Return models as clients see them."""
    return [shown_model(model) for model in models]


QUERIES: Final[Mapping[str, Callable[[Read], Data]]] = {
    query.__name__: query
    for query in (
        get_state,
        get_messages,
        get_last_assistant_text,
        get_available_models,
        get_available_thinking_levels,
        get_session_stats,
        get_fork_messages,
        get_branch_messages,
        get_entries,
        get_tree,
        get_commands,
        get_tools,
        get_shortcuts,
        get_queue,
        list_agents,
        auth_status,
    )
}
