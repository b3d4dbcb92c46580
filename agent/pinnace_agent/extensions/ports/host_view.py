"""The port through which extensions read the running agent: `HostView`, and the types that both ports share.

Implemented by the extension host. A view belongs to one session instance: after the session is replaced or extensions
are reloaded, the next instance receives its own. Types only.

Unless a method says otherwise it is synchronous, never waits, may be called in every state of the agent, and raises
only for invalid arguments. "Idle" means that nothing runs and nothing is queued to run by itself: a retry
that waits, a compaction with work behind it and a queue that is about to be delivered are not idle.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import trio

from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import ImageContent, Message, Model, TextContent, ThinkingLevel

if TYPE_CHECKING:
    from pinnace_agent.config.credentials.credentials import Credentials
    from pinnace_agent.llm.providers import Provider

Mode = Literal["tui", "rpc", "json", "print"]
DeliverAs = Literal["steer", "followUp", "nextTurn"]
ForkPosition = Literal["before", "at"]
Content = str | list[TextContent | ImageContent]


class ContextUsage(NamedTuple):
    """Usage of the model's context window; after a compaction None, because it is unknown until the next answer."""

    tokens: int | None
    context_window: int
    percent: float | None


class ToolInfo(NamedTuple):
    """One tool of the agent or of an extension, as extensions see it."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """The JSON schema of its arguments."""
    source_info: Mapping[str, object]
    """As on the wire: path, source, scope, origin, baseDir."""
    prompt_guidelines: tuple[str, ...] = ()
    is_read_only: bool = False
    """Whether it changes nothing: true of `read`, `grep`, `find` and `ls`, and of tools whose authors declare it."""
    annotations: Mapping[str, bool] = {}
    """Hints of an MCP server, which it may get wrong."""


class CommandInfo(NamedTuple):
    """One command as `/name` invokes it: of an extension, a prompt template or a skill."""

    name: str
    source: Literal["extension", "prompt", "skill"]
    source_info: Mapping[str, object]
    description: str | None = None
    prompt_path: str | None = None
    """Where a prompt comes from that is no file."""


class SessionResult(NamedTuple):
    """The result of a request to replace the session or to move in it."""

    cancelled: bool
    """Whether a handler cancelled it; then nothing has changed."""


class CustomDraft(NamedTuple):
    """A message of an extension before it is sent."""

    custom_type: str
    content: Content
    display: bool = True
    details: object = None


class TreeMove(NamedTuple):
    """How to move to another entry of the session's tree."""

    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


class SessionWriter(Protocol):
    """Appends to a new session before it becomes the current one, for `setup`."""

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
"""Fills a new session before it becomes the current one; may be async."""
WithSession = Callable[..., Awaitable[None] | None]
"""Called with the context of the next instance after its `session_start`."""


class SessionView(Protocol):
    """One session, read-only. Entries are the session's own; contexts return immutable copies of them."""

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
        """Its file; None: it is in memory."""
        ...

    @property
    def folder(self) -> str | None:
        """The folder of its session files; None: sessions are not saved."""
        ...

    @property
    def name(self) -> str | None:
        """Its display name."""
        ...

    @property
    def header(self) -> Mapping[str, object]:
        """The first line of its file; in memory, what that line would be."""
        ...

    @property
    def leaf_id(self) -> str | None:
        """The id of the leaf, the entry that it continues from; None before the first."""
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
        """Return the roots of the tree, as nodes of `entry`, `children` and `label`."""
        ...

    def messages(self) -> Sequence[Message]:
        """Return the messages of the leaf's branch that a model would receive."""
        ...


class RegistryView(Protocol):
    """The catalogue of models, their providers and credentials."""

    def all(self) -> Sequence[Model]:
        """Return all models of the catalogue."""
        ...

    def available(self) -> Sequence[Model]:
        """Return the models that have credentials."""
        ...

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return one of them."""
        ...

    def provider_for(self, model: Model) -> "Provider | None":
        """Return the provider of a model; None: its API is not supported."""
        ...

    async def api_key_and_headers(self, model: Model) -> tuple[str | None, Mapping[str, str]]:
        """Return the key and the headers of a request. Waits if the key comes from a command or a login."""
        ...

    async def credentials(self, model: Model) -> "Credentials":
        """Return all that a request carries, also the variables of auth.json. Waits like `api_key_and_headers`."""
        ...


class HostView(Protocol):
    """The agent for reading. Contexts look values up at each access."""

    @property
    def mode(self) -> Mode:
        """How the program was started."""
        ...

    @property
    def editor_text(self) -> str:
        """The text of the client's editor, as far as it is known; empty without a client that draws."""
        ...

    def take_editor_text(self, text: str) -> None:
        """Take the text that an extension gives the client's editor."""
        ...

    @property
    def themes(self) -> Sequence[str] | None:
        """The names of the client's themes; None: it has not named any."""
        ...

    @property
    def theme(self) -> str | None:
        """The name of the theme that the client shows; None: it is unknown."""
        ...

    def take_theme(self, name: str) -> None:
        """Take the theme that an extension chooses."""
        ...

    @property
    def tools_expanded(self) -> bool:
        """Whether the client shows the outputs of tools unfolded, as far as it is known."""
        ...

    def take_tools_expanded(self, *, is_expanded: bool) -> None:
        """Take that an extension unfolds, or folds, the outputs of tools."""
        ...

    @property
    def session(self) -> SessionView:
        """The session of this instance."""
        ...

    @property
    def registry(self) -> RegistryView:
        """The models."""
        ...

    @property
    def model(self) -> Model | None:
        """The active model."""
        ...

    @property
    def thinking_level(self) -> ThinkingLevel:
        """The current thinking level, which the model supports."""
        ...

    @property
    def scoped_models(self) -> Sequence[Model]:
        """The models to cycle between; empty: all that are available."""
        ...

    @property
    def run_scope(self) -> trio.CancelScope | None:
        """The cancel scope of the open run, cancelled when the run is being aborted; None: there is no run."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is queued to run by itself."""
        ...

    @property
    def has_pending_messages(self) -> bool:
        """Whether messages are queued."""
        ...

    @property
    def is_project_trusted(self) -> bool:
        """Whether the project's files may configure this session."""
        ...

    def agent_command(self, folder: str | None) -> list[str]:
        """Return the command line of an agent in mode rpc that has no more rights than this one.

        Raises:
            ValueError: In this folder it would have more.
        """
        ...

    def context_usage(self) -> ContextUsage | None:
        """Estimate the usage of the context window; None without a model."""
        ...

    def system_prompt(self) -> str:
        """Return the system prompt of the next request. During `before_agent_start` contexts return their own."""
        ...

    def system_prompt_options(self) -> Mapping[str, object]:
        """Return the parts that the system prompt is built from."""
        ...
