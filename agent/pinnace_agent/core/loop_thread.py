"""The thread of the event loop, for objects that extensions may use from any other thread.

A class decorated with `usable_from_any_thread` runs each public method and property in the thread of its event loop; a
caller in another thread waits for the result. An async method raises in another thread at once.

What an async method returns must be awaited: a coroutine that is never awaited is true, so an approval hook that took
it for a boolean would allow the call. So it has no truth value, and dropping one unawaited fails the function that did
so (`all_awaited`).
"""

import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from types import TracebackType
from typing import Any, Final, NoReturn, ParamSpec, Protocol, TypeVar, cast

import trio

_T = TypeVar("_T")
_P = ParamSpec("_P")
_ClassT = TypeVar("_ClassT", bound=type)

DECISION: Final = "__thread_decision__"
"""The attribute that says how a member was wrapped: `loop`, or `awaited`. Read by tests."""


class WrongThreadError(RuntimeError):
    """An async method was called in another thread than the event loop's."""


class NotAwaitedError(TypeError):
    """The result of an async method was used, or dropped, without `await`."""

    def __init__(self, name: str) -> None:
        """Say what to write."""
        super().__init__(f"{name}() must be awaited: write `await ...{name}(...)`; without it there is no result yet")


_DROPPED: Final[ContextVar[list[str] | None]] = ContextVar("async calls that were dropped unawaited", default=None)


@contextmanager
def all_awaited() -> Generator[None, None, None]:
    """Run a function of an extension in this block.

    Raises:
        NotAwaitedError: It has dropped the result of an async method unawaited, so what it wanted was not done.
    """
    dropped: list[str] = []
    token = _DROPPED.set(dropped)
    try:
        yield
    finally:
        _DROPPED.reset(token)
    if dropped:
        raise NotAwaitedError(dropped[0])


class AsyncCall(Coroutine[object, object, object]):
    """What an async method returns: to be awaited, once, or handed to a nursery."""

    __slots__ = ("_coroutine", "_dropped", "_is_used", "_name")

    def __init__(self, name: str, coroutine: Coroutine[object, object, object]) -> None:
        self._name = name
        self._coroutine = coroutine
        self._is_used = False
        self._dropped = _DROPPED.get()

    def __await__(self) -> Generator[object, object, object]:
        self._is_used = True
        return self._coroutine.__await__()

    def send(self, value: object) -> object:
        """Continue, as a coroutine does."""
        self._is_used = True
        return self._coroutine.send(value)

    def throw(
        self, kind: object, value: object = None, trace: TracebackType | None = None
    ) -> object:  # the form of three arguments is deprecated, and never used by trio
        """Raise inside, as in a coroutine."""
        self._is_used = True
        return self._coroutine.throw(cast("BaseException", value if isinstance(value, BaseException) else kind))

    def close(self) -> None:
        """End it, as a coroutine."""
        self._is_used = True
        self._coroutine.close()

    def __bool__(self) -> NoReturn:
        """Raise: it is neither yes nor no."""
        raise NotAwaitedError(self._name)

    def __del__(self) -> None:
        """Fail the function that has dropped it; where there is none, Python warns of the coroutine."""
        if not self._is_used and self._dropped is not None:
            self._dropped.append(self._name)
            self._coroutine.close()


def must_be_awaited(function: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Return an async function whose results have no truth value, and must not be dropped."""

    @wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> Coroutine[Any, Any, _T]:
        # cast: it returns what the coroutine does
        return cast("Coroutine[Any, Any, _T]", AsyncCall(function.__name__, function(*arguments, **options)))

    return call


class LoopEndedError(RuntimeError):
    """The event loop of the process has ended, so the agent can no longer be used."""


class LoopThread:
    """The thread in which it was made, and the event loop that runs there."""

    __slots__ = ("_ident", "_token")

    def __init__(self) -> None:
        self._ident = threading.get_ident()
        self._token: trio.lowlevel.TrioToken | None = None
        self.attach()

    def attach(self) -> None:
        """Remember the event loop of this thread, if one is running."""
        if self._token is None and trio.lowlevel.in_trio_run():
            self._token = trio.lowlevel.current_trio_token()

    @property
    def is_here(self) -> bool:
        """Whether the caller is in that thread."""
        return threading.get_ident() == self._ident

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function in that thread, and return what it returns. Blocks a caller in another thread meanwhile.

        Raises:
            LoopEndedError: The event loop has ended.
        """
        if threading.get_ident() == self._ident:
            return function()
        try:
            return trio.from_thread.run_sync(function, trio_token=self._token)
        except trio.RunFinishedError:
            raise LoopEndedError("the process is ending: its event loop has ended") from None

    def call_and_wait(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Call an async function in the event loop, from another thread, and return what it returns.

        From a worker thread of trio it is a part of the task that waits for the thread, and is cancelled with it.

        Raises:
            trio.Cancelled: The work that this thread belongs to has been ended.
            LoopEndedError: The event loop has ended.
        """
        try:
            if _is_worker():
                return trio.from_thread.run(function)
            return trio.from_thread.run(function, trio_token=self._token)
        except trio.RunFinishedError:
            raise LoopEndedError("the process is ending: its event loop has ended") from None

    def wrap(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return a function that calls `function` in that thread."""
        return partial(self.call, function)

    def check(self, name: str) -> None:
        """Do nothing in that thread.

        Raises:
            WrongThreadError: The caller is in another one; the text says what to do instead.
        """
        if threading.get_ident() != self._ident:
            raise WrongThreadError(
                f"{name} is awaited, so it can't be called in another thread: call "
                f"trio.from_thread.run(...{name}, ...) there, or register the function with thread=True"
            )


def _is_worker() -> bool:
    """Return whether trio started this thread for a task."""
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    return True


class LoopBound(Protocol):
    """An object that belongs to a thread."""

    @property
    def __loop_thread__(self) -> LoopThread: ...


def usable_from_any_thread(*, but: tuple[str, ...] = ()) -> Callable[[_ClassT], _ClassT]:
    """Make the public methods and properties that a class defines usable from any thread.

    Args:
        but: Members that use nothing of the loop, which stay as they are.
    """

    def decorate(cls: _ClassT) -> _ClassT:
        for name, member in list(vars(cls).items()):
            if name.startswith("_") or name in but:
                continue
            if isinstance(member, property):
                setattr(cls, name, _property(member))
            elif inspect.isfunction(member):
                is_awaited = member.__code__.co_flags & inspect.CO_COROUTINE  # in less time than by `inspect`
                setattr(cls, name, _awaited(name, member) if is_awaited else _called(member))
        return cls

    return decorate


def _property(member: property) -> property:
    changed = member.getter(_called(member.fget)) if member.fget is not None else member
    return (
        changed
        if member.fset is None
        else changed.setter(cast("Callable[[object, object], None]", _called(member.fset)))
    )


def _called(method: Callable[..., object]) -> Callable[..., object]:
    @wraps(method)
    def call(self: object, /, *arguments: object, **options: object) -> object:
        thread = cast("LoopBound", self).__loop_thread__
        if thread.is_here:
            return method(self, *arguments, **options)
        return thread.call(partial(method, self, *arguments, **options))

    setattr(call, DECISION, "loop")
    return call


def _awaited(name: str, method: Callable[..., object]) -> Callable[..., object]:
    @wraps(method)
    def call(self: object, /, *arguments: object, **options: object) -> object:
        cast("LoopBound", self).__loop_thread__.check(name)
        coroutine = cast("Coroutine[object, object, object]", method(self, *arguments, **options))
        return AsyncCall(name, coroutine)

    setattr(call, DECISION, "awaited")
    return call
