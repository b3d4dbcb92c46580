"""The registrations of an extension, and the session instance that it belongs to.

Data only: `api` fills it, `loading` commits or discards it, the runner reads it. The registrations are live: a removed
handler is not called again.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NotRequired, TypeAlias

from typing_extensions import TypedDict

from pinnace_agent.core.loop_thread import LoopThread
from pinnace_agent.extensions.events.uncompiled import FrozenFields, frozen
from pinnace_spec.records.surface_items import ItemKind

Function: TypeAlias = Callable[..., object]
"""A function of an extension, sync or async: `(ctx, event)`, `(ctx, params)`, `(ctx, args)`."""
ExtensionState: TypeAlias = Literal["loading", "live", "stale", "failed"]
SourceScope: TypeAlias = Literal["user", "project", "temporary"]
SourceOrigin: TypeAlias = Literal["package", "top-level"]

_handler_numbers: Final[Iterator[int]] = itertools.count()


class StaleContextError(RuntimeError):
    """The session instance of this object has ended, so the object can no longer be used."""


class ExtensionLoadingError(RuntimeError):
    """An action was requested while the extension is loading: there is no session yet."""


class ExtensionFailedError(RuntimeError):
    """The extension failed to load, so its API can't be used."""


class Generation:
    """One session instance: a token shared by all objects of its extensions."""

    __slots__ = ("_reason", "thread")

    def __init__(self) -> None:
        """Start an instance. Must be called in the thread of the event loop."""
        self._reason: str | None = None
        self.thread = LoopThread()
        """The thread that its objects are used in."""

    @property
    def is_stale(self) -> bool:
        """Whether the instance has ended."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it ended; empty before."""
        return self._reason or ""

    def end(self, reason: str) -> None:
        """Make all objects of the instance stale. The first reason stays."""
        if self._reason is None:
            self._reason = reason

    def check(self) -> None:
        """Do nothing while the instance lives.

        Raises:
            StaleContextError: It has ended; the text says what to do instead.
        """
        if self._reason is not None:
            raise StaleContextError(
                f"this extension context is stale: {self._reason}. Objects of a session end with it: continue "
                "work in a new session in `with_session`; after a reload a handler should only return"
            )


class SourceInfo(TypedDict):
    """The origin of an extension, as clients receive it."""

    path: str
    source: str
    """`auto`, `local`, `cli`, `inline`, `builtin` or the name of a package."""
    scope: SourceScope
    origin: SourceOrigin
    baseDir: NotRequired[str]


@frozen
class Handler(FrozenFields):
    """One handler of an event."""

    event: str
    function: Function
    in_thread: bool = False
    """Whether a sync function runs in a worker thread."""
    tool_filter: str | None = None
    """For events of tools: the only tool that it is called for."""
    number: int = field(default_factory=lambda: next(_handler_numbers))
    """Grows with each registration: the order of the handlers of one extension."""


@frozen
class ToolDefinition(FrozenFields):
    """A tool of an extension. `dataclasses.replace` makes a variant of one."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """A JSON schema of type object."""
    execute: Function
    """Called as `execute(ctx, params)`, with a dict that fits `parameters`; returns a tool's result."""
    label: str = ""
    """A display name; empty: the name."""
    prompt_snippet: str | None = None
    """One line for the list of tools in the system prompt; None: the tool is not listed."""
    prompt_guidelines: tuple[str, ...] = ()
    prepare_arguments: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    """Repairs arguments before they are validated; must not change them in place."""
    is_sequential: bool = False
    """Whether a turn that calls it runs all its calls one after another."""
    default_active: bool = True
    in_thread: bool = False
    """Whether a sync `execute` runs in a worker thread."""
    is_read_only: bool = False
    """Whether its author declares that it changes nothing: approval hooks may allow it without asking."""
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Hints of where the tool comes from, such as an MCP server. They are shown, and decide nothing."""
    checks_itself: bool = False
    """Whether rare keywords of its schema, such as patterns, are left to it."""
    on_refused: Callable[..., object] | None = None
    """Called as `on_refused(ctx, reason)` when a provider refuses a request because of this tool; must not wait.

    It takes the tool back (`pi.unregister_tool`), and the request is sent once more. None: the run fails.
    """


class ToolRegistration(NamedTuple):
    """A tool and the origin of its extension."""

    definition: ToolDefinition
    source: SourceInfo


class CommandRegistration(NamedTuple):
    """A slash command."""

    name: str
    description: str | None
    function: Function
    """`(ctx, args)`."""
    complete: Function | None = None
    """`(prefix)` to completions or None."""
    in_thread: bool = False
    prompt_path: str | None = None
    """Clients see it as a prompt of this path, and not as a command of the extension; None: it is one."""


class ShortcutRegistration(NamedTuple):
    """What an extension does at a key."""

    key: str
    """As `shortcut_key` returns it."""
    description: str | None
    function: Function
    """`(ctx)`."""


class ItemRenderer(NamedTuple):
    """What draws items of the conversation in the client's terminal."""

    kind: ItemKind
    name: str
    """Of the tool, or the custom type."""
    function: Function
    """`(item)`, with a `DrawnItem`, to a text, lines, a component, or None: the client draws it."""
    is_framed: bool
    """Whether the client puts it into the frame of its own items."""
    takes_record: bool
    """Whether the function is `(record, item, theme)`."""


class FlagRegistration(NamedTuple):
    """A long option of the command line."""

    name: str
    """Without dashes."""
    kind: type[bool] | type[str]
    default: bool | str | None
    description: str | None = None


class McpServerInfo(TypedDict):
    """An MCP server that an extension has registered."""

    name: str
    config: Mapping[str, object]
    """In the shape of an entry of `mcp.json`."""
    extensionPath: str


class ProviderRegistration(NamedTuple):
    """A provider to register or, without a config, to remove."""

    name: str
    config: Mapping[str, object] | None
    """In the spelling of a models.json provider."""


@dataclass(slots=True, eq=False, repr=False)
class Extension:
    """One load of an extension."""

    path: str
    source: SourceInfo
    generation: Generation
    state: ExtensionState = "loading"
    is_replaceable: bool = False
    """Whether it is left out if another one registers the same tool, command or flag."""
    handlers: dict[str, list[Handler]] = field(default_factory=dict[str, list[Handler]])
    """By event, in the order of registration. No list is empty, so that a look-up finds whether there is a handler."""
    tools: dict[str, ToolRegistration] = field(default_factory=dict[str, ToolRegistration])
    commands: dict[str, CommandRegistration] = field(default_factory=dict[str, CommandRegistration])
    flags: dict[str, FlagRegistration] = field(default_factory=dict[str, FlagRegistration])
    shortcuts: dict[str, ShortcutRegistration] = field(default_factory=dict[str, ShortcutRegistration])
    """By key."""
    renderers: dict[tuple[str, str], ItemRenderer] = field(default_factory=dict[tuple[str, str], ItemRenderer])
    """By kind and name."""
    providers: list[ProviderRegistration] = field(default_factory=list[ProviderRegistration])
    """Registered while loading, until a session is bound."""
    mcp_servers: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """By name, the configurations of the MCP servers that it has registered."""
    diagnostics: list[str] = field(default_factory=list[str])
    """Problems that are no errors, such as an unknown event."""

    def add_handler(self, handler: Handler) -> Callable[[], None]:
        """Add a handler and return a function that removes exactly this one; calling it twice has no effect."""
        self.handlers.setdefault(handler.event, []).append(handler)

        def remove() -> None:
            handlers = self.handlers.get(handler.event, [])
            # A new list: a running chain keeps its own.
            kept = [each for each in handlers if each is not handler]
            if kept:
                self.handlers[handler.event] = kept
            else:
                self.handlers.pop(handler.event, None)

        return remove

    def discard(self, state: Literal["failed", "stale"]) -> None:
        """Drop all registrations: the extension can no longer be used."""
        self.state = state
        for registry in (self.handlers, self.tools, self.commands, self.flags, self.shortcuts, self.mcp_servers):
            registry.clear()
        self.renderers.clear()
        self.providers.clear()


_MODIFIERS: Final = ("ctrl", "shift", "alt", "super")


def shortcut_key(key: str) -> str:
    """Return the one name of a key, however its modifiers are ordered: `Shift+Ctrl+P` is `ctrl+shift+p`."""
    *held, name = key.strip().lower().split("+")
    if not name:  # of the key `+` itself
        held, name = held[:-1], "+"
    known = [each for each in _MODIFIERS if each in held]
    return "+".join([*known, *(each for each in held if each not in _MODIFIERS), name])


def registered_servers(extensions: Iterable[Extension]) -> list[McpServerInfo]:
    """Return the MCP servers that extensions have registered."""
    return [
        McpServerInfo(name=name, config=config, extensionPath=extension.path)
        for extension in extensions
        for name, config in extension.mcp_servers.items()
    ]


class ErrorRecord(NamedTuple):
    """An error of an extension."""

    extension_path: str
    event: str
    error: str
    """The message of the exception, for people."""
    stack: str | None = None
    """A traceback for the log, never for the wire."""


ErrorSink: TypeAlias = Callable[[ErrorRecord], None]
"""Takes errors of extensions. Must not raise."""
