"""What extensions show to a user and ask of him: `ctx.ui`.

`UserInterface` is the one of a mode without a user: every question has its refusing answer at once, everything shown
is dropped. `RpcUserInterface` writes frames for a client. What needs a terminal is there in both and does as little as
the original does without one. Durations are seconds here and milliseconds on the wire. Must not know the outbox.
Rule R-UI-01; U1 to U20.
"""

# ruff: noqa: ASYNC109 - the time of a dialog is part of its question: clients are told it

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeVar

import trio

from pinnace_agent.extensions.dialogs import DialogTable, Send, shown_texts
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.registrations import Generation
from pinnace_agent.extensions.theme import Theme
from pinnace_agent.extensions.watchdog import OWNER

ValueT = TypeVar("ValueT")
NotifyKind = Literal["info", "success", "warning", "error"]
Placement = Literal["aboveEditor", "belowEditor"]

_THEME: Final = Theme()
# What a client knows; everything else is information, as every terminal of the original shows it.
_WIRE_KINDS: Final = frozenset({"info", "warning", "error"})
_PLACEMENTS: Final[Mapping[str, Placement]] = {
    "aboveEditor": "aboveEditor",
    "above_editor": "aboveEditor",
    "belowEditor": "belowEditor",
    "below_editor": "belowEditor",
}


class ThemeResult(NamedTuple):
    """What became of `set_theme`."""

    success: bool
    error: str | None = None


@usable_from_any_thread()
class UserInterface:
    """The interface where there is no user (modes json and print)."""

    _no_themes = "UI not available"

    def __init__(self, generation: Generation) -> None:
        """Belong to one session instance: every member raises StaleContextError when that is over."""
        self._generation = generation

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._generation.thread

    # Dialogs (U1 to U4). Each is a checkpoint in every mode.

    async def select(
        self,
        title: str,
        options: Sequence[str],
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> str | None:
        """Let the user choose one of the options; None: he did not, or not in time.

        Args:
            title: The question.
            options: Texts.
            timeout: Seconds.
            tool_call_id: The call that the question is about, so that a client can show it there.
        """
        self._generation.check()
        _texts(options)
        await trio.lowlevel.checkpoint()
        return None

    async def confirm(
        self,
        title: str,
        message: str = "",
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> bool:
        """Ask yes or no; False: no, or no answer in time."""
        self._generation.check()
        await trio.lowlevel.checkpoint()
        return False

    async def input(
        self,
        title: str,
        placeholder: str | None = None,
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> str | None:
        """Let the user enter a line; None: he did not, or not in time."""
        self._generation.check()
        await trio.lowlevel.checkpoint()
        return None

    async def editor(self, title: str, prefill: str | None = None, *, tool_call_id: str | None = None) -> str | None:
        """Let the user edit a text, for as long as it takes; None: he gave it up."""
        self._generation.check()
        await trio.lowlevel.checkpoint()
        return None

    # What is shown (U5 to U10). Never waits.

    def notify(self, message: str, kind: NotifyKind | str | None = None) -> None:
        """Show a message.

        Args:
            message: A text.
            kind: `info`, `warning` or `error`. Any other text, `success` among them, is sent as `info`: a message
                whose kind is unknown must not fail the handler that shows it, which may be a gate.

        Raises:
            TypeError: The kind is no text.
        """
        fields: dict[str, object] = {"message": message}
        if kind is not None:
            # The annotation is a hint that an author may have passed over.
            if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"notify: the kind is a text such as 'info', not {kind!r}")
            fields["notifyType"] = kind if kind in _WIRE_KINDS else "info"
        self._show("notify", fields)

    def set_status(self, key: str, text: str | None = None) -> None:
        """Show a text under a key; None takes it away."""
        self._show("setStatus", {"statusKey": key} | ({} if text is None else {"statusText": text}))

    def set_widget(
        self, key: str, lines: Sequence[str] | Callable[..., object] | None = None, placement: str | None = None
    ) -> None:
        """Show lines under a key; None takes them away. A function that draws needs a terminal: nothing happens."""
        if callable(lines):
            self._generation.check()
            return
        fields: dict[str, object] = {"widgetKey": key}
        if lines is not None:
            fields["widgetLines"] = _texts(lines)
        if placement is not None:
            if placement not in _PLACEMENTS:
                raise ValueError(f"set_widget: the placement is aboveEditor or belowEditor, not {placement!r}")
            fields["widgetPlacement"] = _PLACEMENTS[placement]
        self._show("setWidget", fields)

    def set_title(self, title: str) -> None:
        """Name the client's window."""
        self._show("setTitle", {"title": title})

    def set_editor_text(self, text: str) -> None:
        """Put a text into the client's input."""
        self._show("set_editor_text", {"text": text})

    def paste_to_editor(self, text: str) -> None:
        """As `set_editor_text`."""
        self.set_editor_text(text)

    def _show(self, method: str, fields: Mapping[str, object]) -> None:
        self._generation.check()

    # What needs a terminal (U11 to U20).

    def get_editor_text(self) -> str:
        """Return nothing: the client's input cannot be seen."""
        self._generation.check()
        return ""

    async def custom(self, factory: Callable[..., object], **_options: object) -> None:
        """Return None at once; the factory is not called."""
        self._generation.check()
        await trio.lowlevel.checkpoint()

    def set_working_message(self, message: str | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_working_visible(self, visible: bool) -> None:
        """Do nothing."""
        self._generation.check()

    def set_working_indicator(self, *_arguments: object, **_options: object) -> None:
        """Do nothing."""
        self._generation.check()

    def set_hidden_thinking_label(self, label: str | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_footer(self, factory: Callable[..., object] | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_header(self, factory: Callable[..., object] | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_editor_component(self, factory: Callable[..., object] | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def get_editor_component(self) -> None:
        """Return None."""
        self._generation.check()

    def add_autocomplete_provider(self, *_arguments: object, **_options: object) -> None:
        """Do nothing."""
        self._generation.check()

    def on_terminal_input(self, handler: Callable[..., object]) -> Callable[[], None]:
        """Return what would take the handler away; it is never called."""
        self._generation.check()
        return _nothing

    @property
    def theme(self) -> Theme:
        """Styles for texts; `theme.plain` adds no escape sequences."""
        self._generation.check()
        return _THEME

    def get_all_themes(self) -> list[str]:
        """Return none."""
        self._generation.check()
        return []

    def get_theme(self, name: str) -> None:
        """Return None."""
        self._generation.check()

    def set_theme(self, theme: object) -> ThemeResult:
        """Refuse."""
        self._generation.check()
        return ThemeResult(False, self._no_themes)

    def get_tools_expanded(self) -> bool:
        """Return False."""
        self._generation.check()
        return False

    def set_tools_expanded(self, expanded: bool) -> None:
        """Do nothing."""
        self._generation.check()


@usable_from_any_thread()
class RpcUserInterface(UserInterface):
    """The interface of a client that reads frames."""

    _no_themes = "Theme switching not supported in RPC mode"

    def __init__(self, generation: Generation, dialogs: DialogTable, send: Send) -> None:
        """Ask with `dialogs`; show by `send`."""
        super().__init__(generation)
        self._dialogs = dialogs
        self._send = send

    async def select(
        self,
        title: str,
        options: Sequence[str],
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> str | None:
        """Let the user choose one of the options."""
        self._generation.check()
        return await _asked(self._dialogs.select(title, _texts(options), timeout_s=timeout, extra=_call(tool_call_id)))

    async def confirm(
        self,
        title: str,
        message: str = "",
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> bool:
        """Ask yes or no."""
        self._generation.check()
        return await _asked(self._dialogs.confirm(title, message, timeout_s=timeout, extra=_call(tool_call_id)))

    async def input(
        self,
        title: str,
        placeholder: str | None = None,
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
    ) -> str | None:
        """Let the user enter a line."""
        self._generation.check()
        return await _asked(self._dialogs.input(title, placeholder, timeout_s=timeout, extra=_call(tool_call_id)))

    async def editor(self, title: str, prefill: str | None = None, *, tool_call_id: str | None = None) -> str | None:
        """Let the user edit a text."""
        self._generation.check()
        return await _asked(self._dialogs.editor(title, prefill, extra=_call(tool_call_id)))

    def _show(self, method: str, fields: Mapping[str, object]) -> None:
        self._generation.check()
        texts = shown_texts(method, fields)
        # Also when nobody can answer any more: a client that has closed stdin may still read what is shown.
        self._send({"type": "extension_ui_request", "id": str(uuid.uuid4()), "method": method, **texts})


async def _asked(answer: Awaitable[ValueT]) -> ValueT:
    """Wait for a user's answer: who asks is not the one who takes long (R36)."""
    owner = OWNER.get()
    if owner is None:
        return await answer
    owner.dialogs += 1
    try:
        return await answer
    finally:
        owner.dialogs -= 1


def _texts(lines: Sequence[object]) -> list[str]:
    texts = [line for line in lines if isinstance(line, str)]
    if isinstance(lines, str) or len(texts) != len(lines):
        raise TypeError("options and lines are a sequence of texts")
    return texts


def _call(tool_call_id: str | None) -> Mapping[str, object]:
    return {} if tool_call_id is None else {"toolCallId": tool_call_id}


def _nothing() -> None:
    """There was nothing to take away."""
