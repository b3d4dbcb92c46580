"""What `pi` is made on: whose it is, whether it may still be used, and whom it asks.

While its extension loads it only takes registrations; bound to a session it acts as well; when the session instance is
over, or the extension has failed to load, everything raises. Must not know what can be registered or asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pinnace_agent.extensions.bus import EventBus
from pinnace_agent.extensions.flags import FlagValues
from pinnace_agent.extensions.host_port import HostActions
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.registrations import (
    Extension,
    ExtensionFailedError,
    ExtensionLoadingError,
)


class Background(Protocol):
    """Where tasks of an extension run that nobody waits for; they end with the session instance."""

    def start_soon(self, function: Callable[..., object], /, *args: object) -> None:
        """Start an async function. What it raises is told as an error of the extension and ends nothing else."""
        ...


class Services(NamedTuple):
    """What all extensions of one load share."""

    bus: EventBus
    flags: FlagValues
    extensions: Callable[[], Sequence[Extension]]
    """Those that are loaded, in load order."""
    cwd: str
    """Where programs run until there is a session."""
    environment: Mapping[str, str] | None = None
    """That of the programs which extensions run; None: that of the process without the keys of providers."""


@usable_from_any_thread()
class ApiBase:
    """The ground of `pi`."""

    def __init__(self, extension: Extension, services: Services) -> None:
        """Speak for `extension`."""
        self._extension = extension
        self._services = services
        self._bound: HostActions | None = None
        self._tasks: Background | None = None

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._extension.generation.thread

    def bind(self, actions: HostActions, background: Background) -> None:
        """Let the extension act on a session, from now on. For the host."""
        self._bound = actions
        self._tasks = background

    def _check_alive(self) -> None:
        self._extension.generation.check()
        if self._extension.state == "failed":
            raise ExtensionFailedError("this extension failed to load, so nothing can be done with its `pi`")

    def _check_registering(self) -> None:
        self._check_alive()

    @property
    def _actions(self) -> HostActions:
        self._check_alive()
        if self._bound is None:
            raise ExtensionLoadingError(
                "the session is not there yet: while it loads an extension only registers; act in a handler of "
                "session_start"
            )
        return self._bound
