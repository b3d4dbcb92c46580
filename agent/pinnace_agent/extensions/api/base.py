"""The base of `pi`: its extension, its lifetime, and the actions of the session that it is bound to.

While the extension loads, `pi` only registers. Bound to a session it acts as well. After the session instance has
ended, or the extension failed to load, every method raises.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.ports.host_actions import HostActions
from pinnace_agent.extensions.registration.flags import FlagValues
from pinnace_agent.extensions.registration.registrations import (
    Extension,
    ExtensionFailedError,
    ExtensionLoadingError,
)
from pinnace_agent.extensions.services.bus import EventBus


class Background(Protocol):
    """Runs background tasks of an extension; they are cancelled when the session instance ends."""

    def start_soon(self, function: Callable[..., object], /, *args: object) -> None:
        """Start an async function. What it raises is reported as an error of the extension and ends nothing else."""
        ...


class Services(NamedTuple):
    """Services shared by all extensions of one load."""

    bus: EventBus
    flags: FlagValues
    extensions: Callable[[], Sequence[Extension]]
    """Returns the loaded extensions, in load order."""
    cwd: str
    """The working folder of programs until there is a session."""
    environment: Mapping[str, str] | None = None
    """The environment of programs; None: that of the process without the keys of providers."""


@usable_from_any_thread()
class ApiBase:
    """The base class of `pi`."""

    def __init__(self, extension: Extension, services: Services) -> None:
        """Belong to `extension`."""
        self._extension = extension
        self._services = services
        self._bound: HostActions | None = None
        self._tasks: Background | None = None

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._extension.generation.thread

    def bind(self, actions: HostActions, background: Background) -> None:
        """Let the extension act on a session from now on. Called by the runner."""
        self._bound = actions
        self._tasks = background

    def _check_alive(self) -> None:
        self._extension.generation.check()
        if self._extension.state == "failed":
            raise ExtensionFailedError("this extension failed to load, so its `pi` can't be used")

    def _check_registering(self) -> None:
        self._check_alive()

    @property
    def _actions(self) -> HostActions:
        self._check_alive()
        if self._bound is None:
            raise ExtensionLoadingError(
                "there is no session yet: while an extension loads it can only register; act in a handler of "
                "session_start"
            )
        return self._bound
