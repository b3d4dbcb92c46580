"""What extensions see of the agent: `HostView`, `SessionView` and `RegistryView`, over the host.

A view belongs to one session instance and goes on showing its session when another one is in force. Changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import trio

from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_view import ContextUsage, Mode
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.session import Session
from pinnace_agent.session.library import header_line
from pinnace_spec.entries import Entry
from pinnace_spec.messages import Message, Model, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.host import Host
    from pinnace_agent.llm.base import Provider


class View:
    """The agent, for the extensions of one session instance."""

    def __init__(self, host: "Host", mode: Mode) -> None:
        """Show the session that is in force now."""
        self._host = host
        self._session = host.session
        self.mode: Mode = mode
        self.session = SessionFacts(host.session)
        self.registry = RegistryFacts(host.profile.registry)

    @property
    def model(self) -> Model | None:
        """The active model."""
        model = self._session.model
        return None if model is None else _shown(model)

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The level in force."""
        return self._session.thinking_level

    @property
    def scoped_models(self) -> Sequence[Model]:
        """The models to cycle between."""
        return [_shown(scoped.model) for scoped in self._host.profile.scope]

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """Where the open run works."""
        return self._host.run_scope

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing will by itself."""
        return self._host.idleness.is_idle

    @property
    def has_pending_messages(self) -> bool:
        """Whether a queue has texts."""
        state = self._host.chart.state
        return bool(len(state.steering) or len(state.follow_up))

    @property
    def is_project_trusted(self) -> bool:
        """Whether what the project brings may configure this session."""
        return self._host.profile.resources.is_trusted(self._host.session.cwd)

    def context_usage(self) -> ContextUsage | None:
        """Estimate how full the window is."""
        from pinnace_agent.session.usage import context_usage

        usage = context_usage(self._session)
        return None if usage is None else ContextUsage(usage["tokens"], usage["contextWindow"], usage["percent"])

    def system_prompt(self) -> str:
        """Return the prompt of the next request."""
        return self._host.system_prompt()

    def system_prompt_options(self) -> Mapping[str, object]:
        """Return what the prompt is made from."""
        return self._host.profile.resources.options(self._session.cwd)


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
        """Its id."""
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
        credentials = await self._registry.credentials(model)
        if credentials.problem is not None:
            raise RuntimeError(credentials.problem)
        return credentials.api_key, dict(credentials.headers)


def _shown(model: Model) -> Model:
    return cast("Model", frozen(model))  # cast: a copy of it, only to be read
