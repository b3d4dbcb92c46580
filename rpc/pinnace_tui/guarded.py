"""Keeps an exception of one handler from ending the client: it is reported, and the next key is taken.

Textual ends the app at an exception of any handler. Screens and widgets that take keys are of a class here.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, Protocol, cast, runtime_checkable

from textual import events
from textual.message_pump import MessagePump

_HANDLERS: Final = ("on_", "action_")
_UNGUARDED: Final = frozenset({"on_event", "on_load", "on_compose", "on_mount", "on_unmount"})
_LIFE: Final = (events.Load, events.Compose, events.Mount, events.Unmount)


@runtime_checkable
class ReportsFailures(Protocol):
    """An app that shows what has failed."""

    def report_failure(self, error: Exception) -> None:
        """Show an exception of a handler."""


class Guarded(MessagePump):
    """Reports the exceptions of its handlers and of those of its base classes.

    Wraps each `on_…` and `action_…` of a class, and `on_event`, by which Textual calls the handlers of its own classes.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Guard the handlers of a class."""
        super().__init_subclass__(**options)
        for name, handler in list(vars(cls).items()):
            if name.startswith(_HANDLERS) and name not in _UNGUARDED and callable(handler):
                setattr(cls, name, _guarded(handler))

    async def on_event(self, event: events.Event) -> None:
        """Handle an event. What begins and ends a widget is not guarded: without it there is none."""
        if isinstance(event, _LIFE):
            await super().on_event(event)
            return
        try:
            await super().on_event(event)
        except Exception as error:
            report(self, error)


def report(pump: MessagePump, error: Exception) -> None:
    """Report an exception to the app.

    Raises:
        Exception: The app shows none.
    """
    app = cast("object", cast("Any", pump).app)  # whatever it returns
    if not isinstance(app, ReportsFailures):
        raise error
    app.report_failure(error)


def _guarded(handler: Callable[..., object]) -> Callable[..., object]:
    if iscoroutinefunction(handler):

        @wraps(handler)
        async def guarded(self: MessagePump, *arguments: object) -> object:
            try:
                return await cast("Awaitable[object]", handler(self, *arguments))
            except Exception as error:
                report(self, error)
                return None

        return guarded

    @wraps(handler)
    def guarded_at_once(self: MessagePump, *arguments: object) -> object:
        try:
            return handler(self, *arguments)
        except Exception as error:
            report(self, error)
            return None

    return guarded_at_once
