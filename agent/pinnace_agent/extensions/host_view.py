"""What extensions may read of the running agent: the half of the port that changes nothing.

Implemented by whoever has the session. A view belongs to one session instance: when the session is replaced or
extensions are reloaded, the next instance gets its own. Types only. Must not know handlers, chains or records.

Unless a method says otherwise it is synchronous, never waits, may be called in every state of the agent, and raises
only for arguments that can't be right. "Idle" means that nothing runs and nothing is queued to run by itself: a retry
that waits, a compaction with work behind it and a queue that is about to be delivered are not idle.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import trio

from pinnace_spec.entries import Entry
from pinnace_spec.messages import ImageContent, Message, Model, TextContent, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.llm.base import Provider

Mode = Literal["tui", "rpc", "json", "print"]
DeliverAs = Literal["steer", "followUp", "nextTurn"]
ForkPosition = Literal["before", "at"]
Content = str | list[TextContent | ImageContent]


class ContextUsage(NamedTuple):
    """How full the model's window is. After a compaction nobody knows until the next answer: then None."""

    tokens: int | None
    context_window: int
    percent: float | None


class ToolInfo(NamedTuple):
    """One tool as extensions see it, whoever brought it."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """The JSON schema of its arguments."""
    source_info: Mapping[str, object]
    """As on the wire: path, source, scope, origin, baseDir."""
    prompt_guidelines: tuple[str, ...] = ()
    is_read_only: bool = False
    """Whether it changes nothing: `read`, `grep`, `find` and `ls` do not, of others their authors say so."""


class CommandInfo(NamedTuple):
    """One command as `/name` invokes it: of an extension, a prompt template or a skill."""

    name: str
    source: Literal["extension", "prompt", "skill"]
    source_info: Mapping[str, object]
    description: str | None = None


class SessionResult(NamedTuple):
    """What became of a request to replace the session or to move in it."""

    cancelled: bool
    """Whether a handler of the event before it refused; then nothing else has happened."""


class CustomDraft(NamedTuple):
    """A message of an extension that is not sent yet."""

    custom_type: str
    content: Content
    display: bool = True
    details: object = None


class TreeMove(NamedTuple):
    """How to go to another place of the session's tree."""

    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


class SessionWriter(Protocol):
    """A session that is not in force yet, for `setup` of a new one: what is appended is there when it begins."""

    def append_message(self, message: Message) -> str:
        """Append a message. Returns the entry's id."""
        ...

    def append_custom(self, custom_type: str, data: object) -> str:
        """Append an entry that no model reads. Returns its id."""
        ...

    def set_name(self, name: str | None) -> None:
        """Name it."""
        ...


Setup = Callable[[SessionWriter], object]
"""Fills a new session before it is in force; may be async."""
WithSession = Callable[..., Awaitable[None] | None]
"""Called with the context of the next instance, by its `Runner.run_with_session`, after `session_start`."""


class SessionView(Protocol):
    """One session for reading. Entries are the session's own: a context hands out copies that can't be changed."""

    @property
    def cwd(self) -> str:
        """The folder in which its tools work."""
        ...

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def path(self) -> str | None:
        """Its file; None in memory."""
        ...

    @property
    def folder(self) -> str | None:
        """Where sessions of this folder are kept; None when nothing is kept."""
        ...

    @property
    def name(self) -> str | None:
        """Its display name."""
        ...

    @property
    def header(self) -> Mapping[str, object]:
        """The first line of its file, or what it would be."""
        ...

    @property
    def leaf_id(self) -> str | None:
        """The id of the entry at which it is; None before the first."""
        ...

    def entries(self) -> Sequence[Entry]:
        """Return all entries in the order of the file."""
        ...

    def branch(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """Return the entries from the root to an entry, by default to the leaf.

        Raises:
            KeyError: There is no such entry.
        """
        ...

    def find(self, entry_id: str) -> Entry | None:
        """Return the entry with this id."""
        ...

    def label(self, entry_id: str) -> str | None:
        """Return the bookmark of an entry."""
        ...

    def tree(self) -> Sequence[Mapping[str, object]]:
        """Return the roots, with everything that hangs from them (`entry`, `children`, `label`)."""
        ...

    def messages(self) -> Sequence[Message]:
        """Return the context of the leaf: what a model would be shown."""
        ...


class RegistryView(Protocol):
    """The models there are, and what it takes to ask them (C6)."""

    def all(self) -> Sequence[Model]:
        """Return every model of the catalogue."""
        ...

    def available(self) -> Sequence[Model]:
        """Return those that can be asked."""
        ...

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return one of them."""
        ...

    def provider_for(self, model: Model) -> "Provider | None":
        """Return what speaks to a model; None: nothing does."""
        ...

    async def api_key_and_headers(self, model: Model) -> tuple[str | None, Mapping[str, str]]:
        """Return what a request to the model carries. Waits for a command or a token, if the key comes from one."""
        ...


class HostView(Protocol):
    """The agent for reading (C3-C10, C12, C14, C16, C17, K7). Looked up at each access, so never cached by contexts."""

    @property
    def mode(self) -> Mode:
        """How the program was started (C3)."""
        ...

    @property
    def session(self) -> SessionView:
        """The session of this instance (C4, C5)."""
        ...

    @property
    def registry(self) -> RegistryView:
        """The models (C6)."""
        ...

    @property
    def model(self) -> Model | None:
        """The active model (C7)."""
        ...

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The level in force, which the model can do (C8)."""
        ...

    @property
    def scoped_models(self) -> Sequence[Model]:
        """The models to cycle between; empty: all that are available (C8)."""
        ...

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """Where the open run works; None when there is none (C9). Cancelled means that the run is being aborted."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing will by itself (C10)."""
        ...

    @property
    def has_pending_messages(self) -> bool:
        """Whether a queue has texts (C12)."""
        ...

    @property
    def is_project_trusted(self) -> bool:
        """Whether what the project brings may configure this session (C17)."""
        ...

    def context_usage(self) -> ContextUsage | None:
        """Estimate how full the window is; None without a model (C14)."""
        ...

    def system_prompt(self) -> str:
        """Return the prompt of the next request (C16). Inside `before_agent_start` the runner answers instead."""
        ...

    def system_prompt_options(self) -> Mapping[str, object]:
        """Return what the prompt is made from (K7)."""
        ...
