"""What extensions may read of the agent: `HostView`, `SessionView` and `RegistryView`, and lists of tools and commands.

A view belongs to one session instance and keeps showing its session when another one is current. Changes nothing but
what is known of the client: the text of its editor, its theme, and what its user is warned of.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import trio

from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.core.frozen import frozen
from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.ports.host_view import CommandInfo, ContextUsage, Mode, ToolInfo
from pinnace_agent.extensions.runtime.extension_tool import ExtensionTool
from pinnace_agent.prompting.folder_resources import FolderResources
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import header_line
from pinnace_agent.tools import READ_ONLY_TOOLS, builtin_source
from pinnace_agent.tools.base import Tool
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.config.credentials.credentials import Credentials
    from pinnace_agent.engine.ports import ExtensibleAgent
    from pinnace_agent.llm.providers import Provider

_PROGRAM: Final = (sys.executable, "-P", "-m", "pinnace_rpc")


class AgentView:
    """The agent, for the extensions of one session instance."""

    def __init__(self, agent: "ExtensibleAgent", mode: Callable[[], Mode]) -> None:
        """Show the current session, and the mode of the process as it is."""
        self._agent = agent
        self._session = agent.session
        self._mode = mode
        self.session = SessionFacts(agent.session)
        self.registry = RegistryFacts(agent.profile.registry)

    @property
    def mode(self) -> Mode:
        """How the program was started, and whether a terminal draws what extensions draw."""
        return self._mode()

    @property
    def editor_text(self) -> str:
        """The text of the client's editor, as far as it is known."""
        return self._agent.editor_text

    def take_editor_text(self, text: str) -> None:
        """Take the text that an extension gives the client's editor."""
        self._agent.take_editor_text(text)

    @property
    def themes(self) -> Sequence[str] | None:
        """The names of the client's themes; None: it has not named any."""
        return self._agent.themes

    @property
    def theme(self) -> str | None:
        """The name of the theme that the client shows; None: it is unknown."""
        return self._agent.theme

    def take_theme(self, name: str) -> None:
        """Take the theme that an extension chooses."""
        self._agent.take_look(None, name, unfolds=None)

    @property
    def tools_expanded(self) -> bool:
        """Whether the client shows the outputs of tools unfolded, as far as it is known."""
        return self._agent.tools_expanded

    def take_tools_expanded(self, *, is_expanded: bool) -> None:
        """Take that an extension unfolds, or folds, the outputs of tools."""
        self._agent.take_look(None, None, unfolds=is_expanded)

    @property
    def model(self) -> Model | None:
        """The active model."""
        model = self._session.model
        return None if model is None else _shown(model)

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The current level."""
        return self._session.thinking_level

    @property
    def scoped_models(self) -> Sequence[Model]:
        """The models to cycle between."""
        return [_shown(scoped.model) for scoped in self._agent.settings.scope]

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """The cancel scope of the open run."""
        return self._agent.run_scope

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing will by itself."""
        return self._agent.idle.is_idle

    @property
    def has_pending_messages(self) -> bool:
        """Whether a queue has messages."""
        state = self._agent.chart.state
        return bool(len(state.steering) or len(state.follow_up))

    @property
    def is_project_trusted(self) -> bool:
        """Whether the project is trusted to configure this session."""
        return self._agent.profile.resources.is_trusted(self._agent.session.cwd)

    def agent_command(self, folder: str | None) -> list[str]:
        """Return what starts an agent with this one's approval of tools, sandbox, trust and limits, as they are now.

        Raises:
            ValueError: It would write beyond the folder that this one's sandbox allows.
        """
        profile, own = self._agent.profile, os.path.realpath(self._session.cwd)
        place = own if folder is None else os.path.realpath(os.path.join(own, folder))
        if profile.sandbox is not None and os.path.commonpath([own, place]) != own:
            raise ValueError(f"cwd: with a sandbox an agent works within {own}, not in {place}")
        words = [*_PROGRAM, "--mode", "rpc", "--tool-approval", self._agent.approval_mode]
        if profile.sandbox is not None:
            sandbox = profile.sandbox.record()
            words += ["--sandbox", str(sandbox["mode"]), "--sandbox-network", str(sandbox["network"])]
        words.append("--approve" if self.is_project_trusted and place == own else "--no-approve")
        words += [] if profile.asks_servers else ["--offline"]
        for option, limit in (("--max-turns", profile.limits.max_turns), ("--max-cost", profile.limits.max_cost)):
            words += [] if limit is None else [option, str(limit)]
        return words

    def context_usage(self) -> ContextUsage | None:
        """Estimate how full the window is."""
        from pinnace_agent.compaction.threshold import context_usage

        usage = context_usage(self._session)
        return None if usage is None else ContextUsage(usage["tokens"], usage["contextWindow"], usage["percent"])

    def system_prompt(self) -> str:
        """Return the prompt of the next request."""
        return self._agent.system_prompt()

    def system_prompt_options(self) -> Mapping[str, object]:
        """Return what the prompt is made from."""
        return self._agent.profile.resources.options(self._session.cwd)


class SessionFacts:
    """One session, to read."""

    def __init__(self, session: Session) -> None:
        """Show a session."""
        self._session = session

    @property
    def cwd(self) -> str:
        """The folder in which its tools work."""
        return self._session.cwd

    @property
    def id(self) -> str:
        """The id of the current session."""
        return self._session.id

    @property
    def path(self) -> str | None:
        """Its file."""
        return self._session.path

    @property
    def folder(self) -> str | None:
        """Where its file is."""
        return None if self._session.file is None else str(self._session.file.path.parent)

    @property
    def name(self) -> str | None:
        """Its display name."""
        return self._session.name

    @property
    def header(self) -> Mapping[str, object]:
        """The first line of its file, or what it would be."""
        session = self._session
        line = None if session.file is None else session.file.header
        if line is None:
            line = header_line(session.id, session.cwd, session.now_ms(), session.parent_session)
        header: Mapping[str, object] = json.loads(line)
        return header

    @property
    def leaf_id(self) -> str | None:
        """The id of the entry at which it is."""
        leaf = self._session.tree.leaf
        return None if leaf is None else str(self._session.tree.entries[leaf]["id"])

    def entries(self) -> Sequence[Entry]:
        """Return all entries in the order of the file."""
        return self._session.tree.entries

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """Return the entries from the root to an entry."""
        tree = self._session.tree
        if leaf_id is None:
            return tree.branch()
        place = tree.find(leaf_id)
        if place is None:
            raise KeyError(leaf_id)
        path: list[Entry] = []
        at: int | None = place
        while at is not None:
            path.append(tree.entries[at])
            at = tree.parent(at)
        return path[::-1]

    def find(self, entry_id: str) -> Entry | None:
        """Return the entry with this id."""
        place = self._session.tree.find(entry_id)
        return None if place is None else self._session.tree.entries[place]

    def label(self, entry_id: str) -> str | None:
        """Return the bookmark of an entry."""
        label = self._session.tree.labels.get(entry_id)
        return None if label is None else label.label

    def tree(self) -> "Sequence[Mapping[str, object]]":
        """Return the roots, with everything that hangs from them."""
        return list(self._session.tree.nodes())

    def messages(self) -> Sequence[Message]:
        """Return the context of the leaf."""
        return self._session.messages


@usable_from_any_thread()
class RegistryFacts:
    """The models, and what it takes to ask them."""

    def __init__(self, registry: ModelRegistry) -> None:
        """Show a registry."""
        self._registry = registry
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    def all(self) -> Sequence[Model]:
        """Return every model."""
        return [_shown(model) for model in self._registry.all()]

    def available(self) -> Sequence[Model]:
        """Return those that can be asked."""
        return [_shown(model) for model in self._registry.available()]

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return one of them."""
        model = self._registry.find(provider, model_id)
        return None if model is None else _shown(model)

    def provider_for(self, model: Model) -> "Provider | None":
        """Return what speaks to a model."""
        return self._registry.provider_for(model)

    async def api_key_and_headers(self, model: Model) -> tuple[str | None, Mapping[str, str]]:
        """Return what a request to the model carries.

        Raises:
            RuntimeError: There are no credentials; the text says why.
        """
        credentials = await self.credentials(model)
        return credentials.api_key, dict(credentials.headers)

    async def credentials(self, model: Model) -> "Credentials":
        """Return the credentials of a request to the model. Raises as `api_key_and_headers`."""
        credentials = await self._registry.credentials(model)
        if credentials.problem is not None:
            raise RuntimeError(credentials.problem)
        return credentials


def _shown(model: Model) -> Model:
    return cast("Model", frozen(model))  # cast: a copy of it, only to be read


def tool_info(tool: Tool) -> ToolInfo:
    """Describe a tool, built in or of an extension."""
    is_read_only = tool.is_read_only if isinstance(tool, ExtensionTool) else tool.name in READ_ONLY_TOOLS
    parameters, source = _frozen(tool.parameters), _frozen(tool_source(tool))
    hints = dict(tool.definition.annotations) if isinstance(tool, ExtensionTool) else {}
    return ToolInfo(tool.name, tool.description, parameters, source, tool.guidelines, is_read_only, hints)


def tool_source(tool: Tool) -> Mapping[str, object]:
    """Return where a tool comes from, as on the wire."""
    return tool.extension.source if isinstance(tool, ExtensionTool) else builtin_source(tool.name)


def _frozen(value: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", frozen(value))  # cast: a copy of it, only to be read


def resource_commands(resources: FolderResources) -> Sequence[CommandInfo]:
    """Describe templates, then skills."""
    templates = [
        CommandInfo(each.name, "prompt", each.origin.source_info(each.path), each.description)
        for each in resources.templates.values()
    ]
    skills = [
        CommandInfo(f"skill:{each.name}", "skill", each.origin.source_info(each.path), each.description)
        for each in resources.skills.values()
    ]
    return [*templates, *skills]
