"""What an extension has registered, and the session instance that it belongs to.

Data only: `api` fills it, `loading` commits or discards it, the runner reads it. Everything in here is live: what
is taken out is not called again. Must not know how handlers run or what a host is. Rules of extensions: R3, R8 to
R13, R20.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NotRequired, TypeAlias

from typing_extensions import TypedDict

from pinnace_agent.extensions.loop_thread import LoopThread

Function: TypeAlias = Callable[..., object]
"""A function of an extension, sync or async: `(ctx, event)`, `(ctx, params)`, `(ctx, args)`."""
ExtensionState: TypeAlias = Literal["loading", "live", "stale", "failed"]
SourceScope: TypeAlias = Literal["user", "project", "temporary"]
SourceOrigin: TypeAlias = Literal["package", "top-level"]

_handler_numbers: Final[Iterator[int]] = itertools.count()


class StaleContextError(RuntimeError):
    """The session instance that this object belongs to is over; nothing can be done with it any more."""


class ExtensionLoadingError(RuntimeError):
    """An action was asked for while the extension is still loading: there is no session yet to act on."""


class ExtensionFailedError(RuntimeError):
    """The extension did not load, so its API is dead."""


class Generation:
    """One session instance, as a token that everything of its extensions shares (R20)."""

    __slots__ = ("_reason", "thread")

    def __init__(self) -> None:
        """Begin. To be made in the thread of the event loop."""
        self._reason: str | None = None
        self.thread = LoopThread()
        """Where everything of it is read and done (R37)."""

    @property
    def is_stale(self) -> bool:
        """Whether the instance is over."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it is over; empty while it is not."""
        return self._reason or ""

    def end(self, reason: str) -> None:
        """Make everything that belongs to it stale. The first reason stays."""
        if self._reason is None:
            self._reason = reason

    def check(self) -> None:
        """Do nothing while the instance lives.

        Raises:
            StaleContextError: It is over; the text says what to do instead.
        """
        if self._reason is not None:
            raise StaleContextError(
                f"this extension context is stale: {self._reason}. Objects of a session end with it: work that goes "
                "on in a new session belongs into `with_session`, and after a reload a handler should only return"
            )


class SourceInfo(TypedDict):
    """Where an extension comes from, as clients are told."""

    path: str
    source: str
    """`auto`, `local`, `cli`, `inline`, `builtin` or the name of a package."""
    scope: SourceScope
    origin: SourceOrigin
    baseDir: NotRequired[str]


@dataclass(slots=True, frozen=True)
class Handler:
    """One function that hears of an event."""

    event: str
    function: Function
    in_thread: bool = False
    """Whether a sync function runs in a worker thread."""
    tool_filter: str | None = None
    """For events of tools: the only tool it wants to hear of."""
    number: int = field(default_factory=lambda: next(_handler_numbers))
    """Grows with each registration; nothing else orders the handlers of one extension."""


@dataclass(slots=True, frozen=True)
class ToolDefinition:
    """A tool of an extension (T1 to T7). `dataclasses.replace` makes a variant of one."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """A JSON schema of type object."""
    execute: Function
    """Called as `execute(ctx, params)`, `params` a dict that fits `parameters`. Returns what a tool may return."""
    label: str = ""
    """For people; empty: the name."""
    prompt_snippet: str | None = None
    """One line for the system prompt; without it the tool is not in its list."""
    prompt_guidelines: tuple[str, ...] = ()
    prepare_arguments: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    """Repairs arguments before they are validated; must not change them in place."""
    is_sequential: bool = False
    """Whether a turn that calls it runs all its calls one after another."""
    default_active: bool = True
    in_thread: bool = False
    """Whether a sync `execute` runs in a worker thread."""
    is_read_only: bool = False
    """Whether it changes nothing, as its author says: gates may let it pass unasked."""


class ToolRegistration(NamedTuple):
    """A tool, and who brought it."""

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


class ShortcutRegistration(NamedTuple):
    """A key of a terminal; kept, and never fired without one (A4)."""

    key: str
    description: str | None
    function: Function


class FlagRegistration(NamedTuple):
    """A long option of the command line."""

    name: str
    """Without dashes."""
    kind: type[bool] | type[str]
    default: bool | str | None
    description: str | None = None


class ProviderRegistration(NamedTuple):
    """A provider to register or, without a config, to take back."""

    name: str
    config: Mapping[str, object] | None
    """In the spelling of a models.json provider."""


class RendererRegistration(NamedTuple):
    """A function that draws for a terminal or an export (A7 to A10); nothing headless calls it."""

    kind: Literal["message", "entry", "markdown", "tool"]
    types: tuple[str, ...]
    """Custom types or message types; empty: all."""
    function: Function


@dataclass(slots=True, eq=False)
class Extension:
    """One loaded extension: the object stands for this load of it."""

    path: str
    source: SourceInfo
    generation: Generation
    state: ExtensionState = "loading"
    is_replaceable: bool = False
    """Whether it gives way to one that registers the same tool, command or flag (D9)."""
    handlers: dict[str, list[Handler]] = field(default_factory=dict[str, list[Handler]])
    """By event, in the order of registration. No list is empty, so that a look-up answers whether anyone cares."""
    tools: dict[str, ToolRegistration] = field(default_factory=dict[str, ToolRegistration])
    commands: dict[str, CommandRegistration] = field(default_factory=dict[str, CommandRegistration])
    shortcuts: dict[str, ShortcutRegistration] = field(default_factory=dict[str, ShortcutRegistration])
    flags: dict[str, FlagRegistration] = field(default_factory=dict[str, FlagRegistration])
    providers: list[ProviderRegistration] = field(default_factory=list[ProviderRegistration])
    """Those that wait until a session is bound (R13)."""
    renderers: list[RendererRegistration] = field(default_factory=list[RendererRegistration])
    diagnostics: list[str] = field(default_factory=list[str])
    """What is odd but no error: an unknown event, say."""

    def add_handler(self, handler: Handler) -> Callable[[], None]:
        """Add a handler and return what takes this one, and no other, out again; harmless if it is out."""
        self.handlers.setdefault(handler.event, []).append(handler)

        def remove() -> None:
            handlers = self.handlers.get(handler.event, [])
            # A new list: a dispatch that is going on keeps its own.
            kept = [each for each in handlers if each is not handler]
            if kept:
                self.handlers[handler.event] = kept
            else:
                self.handlers.pop(handler.event, None)

        return remove

    def discard(self, state: Literal["failed", "stale"]) -> None:
        """Forget everything that was registered; the extension is dead (R3, R20)."""
        self.state = state
        for registry in (self.handlers, self.tools, self.commands, self.shortcuts, self.flags):
            registry.clear()
        self.providers.clear()
        self.renderers.clear()


class ErrorRecord(NamedTuple):
    """What went wrong in an extension (R16)."""

    extension_path: str
    event: str
    error: str
    """The message."""
    stack: str | None = None
    """A traceback for the log, never for the wire."""


ErrorSink: TypeAlias = Callable[[ErrorRecord], None]
"""Takes errors of extensions; must not raise."""
