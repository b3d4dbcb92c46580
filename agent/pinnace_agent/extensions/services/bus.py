"""The event bus between extensions of one session instance.

`emit` is synchronous: when it returns, sync listeners have run and async ones were started. An exception of a listener
is logged and not passed on. Subscriptions end with the instance, or when their extension fails to load.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar, cast, overload

from pinnace_agent.core.loop_thread import LoopThread, all_awaited, usable_from_any_thread
from pinnace_agent.extensions.registration.registrations import Extension, Generation
from pinnace_agent.extensions.services.error_records import failure_text, ownership

Listener = Callable[[object], object]
"""Takes the data of a channel; sync or async."""
_ListenerT = TypeVar("_ListenerT", bound=Callable[..., object])

MAX_PENDING: Final = 1_000
"""The most async listeners that may wait for the session to start. A bus in use while loading has a few."""


class Starter(Protocol):
    """Starts a task of an extension."""

    def __call__(self, path: str, event: str, work: Callable[[], Awaitable[object]], /) -> object:
        """Start `work` for the extension at `path`; its failure is reported with `event`."""
        ...


class _Work(NamedTuple):
    extension: Extension
    event: str
    run: Callable[[], Awaitable[object]]
    awaitable: Awaitable[object]
    """The awaitable in it, closed if it never runs."""


class _Subscription(NamedTuple):
    extension: Extension
    listener: Listener


class EventBus:
    """The bus of one session instance."""

    def __init__(self, generation: Generation, log: Callable[[str], None]) -> None:
        """Start without listeners; `log` takes one line for each failure of a listener."""
        self._generation = generation
        self._log = log
        self._channels: dict[str, list[_Subscription]] = {}
        self._start: Starter | None = None
        self._pending: list[_Work] = []

    def attach(self, start: Starter) -> None:
        """Use this to start async listeners from now on, and start those that waited for it."""
        self._start = start
        pending, self._pending = self._pending, []
        for each in pending:
            start(each.extension.path, each.event, each.run)

    def drop(self, extension: Extension) -> None:
        """End the subscriptions of an extension."""
        for channel, subscriptions in list(self._channels.items()):
            self._keep(channel, [each for each in subscriptions if each.extension is not extension])
        self._forget([each for each in self._pending if each.extension is extension])

    def close(self) -> None:
        """End all subscriptions, and drop waiting listeners."""
        self._channels.clear()
        self._forget(self._pending)

    def add(self, extension: Extension, channel: str, listener: Listener) -> Callable[[], None]:
        """Subscribe to a channel; the returned function ends exactly this subscription."""
        subscription = _Subscription(extension, listener)
        self._channels.setdefault(channel, []).append(subscription)

        def remove() -> None:
            self._keep(channel, [each for each in self._channels.get(channel, ()) if each is not subscription])

        return remove

    def emit(self, channel: str, data: object) -> None:
        """Deliver data to the current listeners. Listeners added meanwhile receive the next data."""
        for subscription in tuple(self._channels.get(channel, ())):
            if not self._generation.is_stale:
                self._deliver(subscription, channel, data)

    def _deliver(self, subscription: _Subscription, channel: str, data: object) -> None:
        try:
            with all_awaited():
                answer = subscription.listener(data)
        except BaseException as error:
            self._failed(subscription, channel, error)
            return
        if inspect.isawaitable(answer):
            awaitable = cast("Awaitable[object]", answer)

            async def listen() -> None:
                try:
                    with all_awaited():
                        await awaitable
                except BaseException as error:
                    self._failed(subscription, channel, error)

            work = _Work(subscription.extension, f"bus:{channel}", listen, awaitable)
            if self._start is not None:
                self._start(work.extension.path, work.event, work.run)
            elif len(self._pending) < MAX_PENDING:
                self._pending.append(work)
            else:
                _close(awaitable)
                self._failed(subscription, channel, RuntimeError("too many listeners wait for the session to start"))

    def _failed(self, subscription: _Subscription, channel: str, error: BaseException) -> None:
        """Log the failure of the extension; raise what is not the extension's."""
        passing, failure = ownership(error)
        if failure is not None:
            self._log(f"{subscription.extension.path}: a listener of {channel!r} failed: {failure_text(failure)}")
        if passing is not None:
            raise passing

    def _forget(self, work: Sequence[_Work]) -> None:
        gone = {id(each) for each in work}
        for each in work:
            _close(each.awaitable)
        self._pending = [each for each in self._pending if id(each) not in gone]

    def _keep(self, channel: str, subscriptions: list[_Subscription]) -> None:
        if subscriptions:
            self._channels[channel] = subscriptions
        else:
            self._channels.pop(channel, None)


@usable_from_any_thread()
class ExtensionBus:
    """The bus as one extension has it: `pi.events`."""

    def __init__(self, bus: EventBus, extension: Extension, check: Callable[[], None]) -> None:
        """Emit and subscribe for `extension`; `check` raises when it may no longer do so."""
        self._bus = bus
        self._extension = extension
        self._check = check

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._extension.generation.thread

    @overload
    def on(self, channel: str) -> Callable[[_ListenerT], _ListenerT]: ...

    @overload
    def on(self, channel: str, listener: Listener) -> Callable[[], None]: ...

    def on(
        self, channel: str, listener: Listener | None = None
    ) -> Callable[[], None] | Callable[[_ListenerT], _ListenerT]:
        """Subscribe to a channel: as a decorator, or with a listener; then the result ends the subscription."""
        self._check()
        if listener is not None:
            return self.__loop_thread__.wrap(self._bus.add(self._extension, channel, listener))

        def decorate(function: _ListenerT) -> _ListenerT:
            self.__loop_thread__.call(lambda: self._bus.add(self._extension, channel, function))
            return function

        return decorate

    def emit(self, channel: str, data: object = None) -> None:
        """Deliver data to the listeners of a channel; see `EventBus.emit`."""
        self._check()
        self._bus.emit(channel, data)


def _close(awaitable: Awaitable[object]) -> None:
    """Close a coroutine that will not run, so that Python does not warn of it."""
    if isinstance(awaitable, Coroutine):
        awaitable.close()
