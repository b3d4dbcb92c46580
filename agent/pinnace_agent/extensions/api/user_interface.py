"""The user interface of extensions: `ctx.ui`.

`UserInterface` is for modes without a user: every dialog returns its negative answer at once, and every display is
dropped. `RpcUserInterface` sends requests to a client, and draws components if the client does (`ctx.mode` is `tui`).
Methods that need more of a terminal exist in both and do nothing, as in pi's RPC mode. Durations are seconds here and
milliseconds on the wire, but for those in options with pi's names. Has no access to the outbox. Rules R-UI-01, R-UI-09.
"""

# ruff: noqa: ASYNC109 - the timeout of a dialog is part of the request that clients receive

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar, cast, get_args

import trio

from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.core.surroundings import random_uuid
from pinnace_agent.extensions.api.terminal_texts import Theme
from pinnace_agent.extensions.registration.registrations import Generation
from pinnace_agent.extensions.services.dialogs import DialogTable, Send, shown_texts
from pinnace_agent.extensions.services.watchdog import OWNER
from pinnace_spec.records.messages import SurfaceAnchor, SurfacePlace

if TYPE_CHECKING:  # loaded with the first component
    from pinnace_agent.extensions.services.client_display import ClientDisplay
    from pinnace_agent.extensions.services.components import Factory, Screen
    from pinnace_agent.extensions.services.surfaces import SurfaceTable

ValueT = TypeVar("ValueT")
NotifyKind = Literal["info", "success", "warning", "error"]
Placement = Literal["aboveEditor", "belowEditor"]
OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]

_THEME: Final = Theme()
_ANCHORS: Final = frozenset(get_args(SurfaceAnchor))
_EXTENT: Final = r"[0-9]{1,4}%?"
_OPTION_KINDS: Final = frozenset(get_args(OptionKind))
# The kinds that clients know; every other kind is sent as info, as pi's terminals show it.
_WIRE_KINDS: Final = frozenset({"info", "warning", "error"})
_PLACEMENTS: Final[Mapping[str, Placement]] = {
    "aboveEditor": "aboveEditor",
    "above_editor": "aboveEditor",
    "belowEditor": "belowEditor",
    "below_editor": "belowEditor",
}


class ThemeResult(NamedTuple):
    """The result of `set_theme`."""

    success: bool
    error: str | None = None


@usable_from_any_thread()
class UserInterface:
    """The interface of modes without a user (json and print)."""

    _no_themes = "UI not available"

    def __init__(self, generation: Generation) -> None:
        """Belong to one session instance: every member raises StaleContextError after its end."""
        self._generation = generation

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._generation.thread

    # Dialogs. Each is a checkpoint in every mode.

    async def select(
        self,
        title: str,
        options: Sequence[str],
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
        option_kinds: Sequence[OptionKind] | None = None,
        url: str | None = None,
    ) -> str | None:
        """Let the user choose one of the options; None: cancelled, or not answered in time.

        Args:
            title: The question.
            options: Strings.
            timeout: Seconds; None: no limit.
            tool_call_id: The tool call that the question is about, so that a client can show it there.
            option_kinds: For a question whether something may happen: what each option means, in their order, as
                `allow_once`, `allow_always`, `reject_once` or `reject_always`. A client may show it as a request for
                permission. What `always` means is for the caller to keep, and for the option's text to say.
            url: An address of the web that the user is asked to open, and that the title shows whole. A client may open
                it. The first option says that it was opened, the second declines.

        Raises:
            ValueError: There are not as many kinds as options, a kind is unknown, or `url` is no address of the web.
        """
        self._generation.check()
        _kinds(option_kinds, _texts(options))
        _address(url)
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
        """Ask for confirmation; False: denied, or not answered in time."""
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
        """Let the user enter a line; None: cancelled, or not answered in time."""
        self._generation.check()
        await trio.lowlevel.checkpoint()
        return None

    async def editor(self, title: str, prefill: str | None = None, *, tool_call_id: str | None = None) -> str | None:
        """Let the user edit a text, without a time limit; None: cancelled."""
        self._generation.check()
        await trio.lowlevel.checkpoint()
        return None

    @property
    def surfaces(self) -> "SurfaceTable | None":
        """What is drawn by extensions in another process; None: nothing can be."""
        self._generation.check()
        return None

    @property
    def statuses(self) -> Mapping[str, str]:
        """The status texts that are shown, by key."""
        self._generation.check()
        return {}

    # Displays. They never wait.

    def notify(self, message: str, kind: NotifyKind | str | None = None) -> None:
        """Show a message.

        Args:
            message: A string.
            kind: `info`, `warning` or `error`. Any other string, such as `success`, is sent as `info`: an unknown
                kind must not fail the handler, which may be an approval hook.

        Raises:
            TypeError: The kind is not a string.
        """
        fields: dict[str, object] = {"message": message}
        if kind is not None:
            # Annotations are not enforced at run time.
            if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"notify: the kind is a string such as 'info', not {kind!r}")
            fields["notifyType"] = kind if kind in _WIRE_KINDS else "info"
        self._show("notify", fields)

    def set_status(self, key: str, text: str | None = None) -> None:
        """Show a status text under a key; None removes it."""
        self._show("setStatus", {"statusKey": key} | ({} if text is None else {"statusText": text}))

    def set_widget(
        self, key: str, lines: Sequence[str] | Callable[..., object] | None = None, placement: str | None = None
    ) -> None:
        """Show lines under a key; None removes them. A drawing function needs a terminal and is ignored."""
        if callable(lines):
            self._generation.check()
            return
        fields: dict[str, object] = {"widgetKey": key}
        if lines is not None:
            fields["widgetLines"] = _texts(lines)
        if placement is not None:
            fields["widgetPlacement"] = self._placement(placement)
        self._show("setWidget", fields)

    def _placement(self, placement: str | None) -> Placement:
        if placement is not None and placement not in _PLACEMENTS:
            raise ValueError(f"set_widget: the placement is aboveEditor or belowEditor, not {placement!r}")
        return "aboveEditor" if placement is None else _PLACEMENTS[placement]

    def set_title(self, title: str) -> None:
        """Set the title of the client's window."""
        self._show("setTitle", {"title": title})

    def set_editor_text(self, text: str) -> None:
        """Set the text of the client's input."""
        self._show("set_editor_text", {"text": text})

    def paste_to_editor(self, text: str) -> None:
        """Insert a text into the client's input; clients of older generations replace what is there."""
        self._show("set_editor_text", {"text": text}, paste=True)

    def _show(self, method: str, fields: Mapping[str, object], **marks: bool) -> None:
        self._generation.check()

    # Methods that need a terminal.

    def get_editor_text(self) -> str:
        """Return the text of the client's editor: of one that draws (`ctx.mode` is `tui`); else an empty one (R-UI-21).

        It is the text that the client has reported last, some tenths of a second ago at most, or that was set since.
        """
        self._generation.check()
        return ""

    async def custom(
        self,
        factory: Callable[..., object],
        *,
        overlay: bool = False,
        overlay_options: Mapping[str, object] | None = None,
    ) -> object:
        """Show a component, which has all keys until it is done; return its result.

        Without a client that draws (`ctx.mode` is not `tui`) it returns None at once, and so it does when the user
        closes the component, at an abort, and when the client is gone. Cancelling closes the component.

        Args:
            factory: Called with a `Screen`, the theme, and `done`, which takes the result; returns the component, or an
                awaitable of it. A component has `render(width)`, which returns lines, and may have `handle_key(key)`,
                `handle_paste(text)` and `dispose()`. `screen.request_render()` draws it again.
            overlay: Whether it is drawn over the screen; else it has the place of the editor.
            overlay_options: `anchor`, `width`, `minWidth`, `maxHeight`, `row`, `column`, `offsetX`, `offsetY` and
                `margin`: numbers of cells, or shares of the screen such as `50%`.

        Raises:
            ValueError: An option is unknown or wrong.
            Exception: What the component raises.
        """
        self._generation.check()
        overlay_layout(overlay_options)
        await trio.lowlevel.checkpoint()
        return None

    def set_working_message(self, message: str | None = None) -> None:
        """Let a client that draws show other words while the agent works; None restores its own (R-UI-30).

        This and the methods below it set what a client that draws shows now, or will: until the session is replaced or
        loaded again, the last call counts, of whichever extension. Texts may have colours and styles.

        Raises:
            TypeError: It is no string.
        """
        self._generation.check()

    def set_working_visible(self, visible: bool) -> None:
        """Let a client that draws show that the agent works, or not."""
        self._generation.check()

    def set_working_indicator(self, options: Mapping[str, object] | None = None) -> None:
        """Let a client that draws show another sign while the agent works; None restores its own.

        Args:
            options: `frames`, up to 100 texts that are shown one after the other, none for no sign; `intervalMs`, for
                how long each is shown, in milliseconds.

        Raises:
            TypeError: An option has another type.
            ValueError: An option has a value that is no time, or too many frames.
        """
        self._generation.check()

    def set_hidden_thinking_label(self, label: str | None = None) -> None:
        """Let a client that draws show another text for thoughts that are folded; None restores its own.

        Raises:
            TypeError: It is no string.
        """
        self._generation.check()

    def set_footer(self, factory: Callable[..., object] | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_header(self, factory: Callable[..., object] | None = None) -> None:
        """Do nothing."""
        self._generation.check()

    def set_editor_component(self, factory: Callable[..., object] | None = None) -> None:
        """Draw the editor of messages by a component (R-UI-40); None restores that of the client.

        Without a client that draws (`ctx.mode` is not `tui`) nothing is drawn until there is one. A component that
        raises, or takes no key for two seconds, gives the text and the keys back to the client's own editor.

        Args:
            factory: Called with a `Screen` and the theme; returns the component. Beside `render(width)` it has
                `get_text()`, `set_text(text)` and `handle_key(key)`, which returns False for a key that is left to the
                client, such as `escape`; it may have `handle_paste(text)` and `dispose()`. `screen.submit(text)` sends
                a message.
        """
        self._generation.check()

    def get_editor_component(self) -> Callable[..., object] | None:
        """Return the factory that `set_editor_component` was given; None: the editor is that of the client."""
        self._generation.check()
        return None

    def add_autocomplete_provider(self, provider: Callable[..., object], *, triggers: str = "") -> None:
        """Complete the text of the editor of a client that draws (`ctx.mode` is `tui`), beside its own ones (R-UI-41).

        The provider that was added last is asked first, and those before it if it has nothing; all end with the session
        instance. One that fails or takes longer than two seconds is left out of that answer, and reported once.

        Args:
            provider: Called with the text before the cursor and that behind it; returns None, or the end of the text
                before the cursor with the completions that take its place: strings or `Completion`s. May be async.
            triggers: Characters with which a word must begin, unless the user asks for completions; empty: any text.

        Raises:
            TypeError: The provider can't be called.
        """
        self._generation.check()
        if not callable(provider):  # pyright: ignore[reportUnnecessaryComparison] - annotations are not enforced
            raise TypeError(f"add_autocomplete_provider: expected a function, not {provider!r}")

    def add_text_provider(self, provider: Callable[[str, str, bool], object], path: str | None = None) -> None:
        """Do nothing: no client draws."""
        self._generation.check()

    def on_terminal_input(self, handler: Callable[[str], object], path: str | None = None) -> Callable[[], None]:
        r"""See each key and paste of a client that draws (`ctx.mode` is `tui`) before the client does (R-UI-42).

        Handlers are called in the order in which they were added, also with what the user does in the place of the
        editor, not with answers to questions. While one takes longer than two seconds, the client takes the keys itself
        from then on, until a handler is added. What one raises is reported once, and the key stays as it is.

        Args:
            handler: Called with what a terminal sends (`"\x1b[A"` for the cursor up); may be async. Returns None for a
                key that stays as it is, `{"consume": True}` for one that is not to be done, or `{"data": ...}`, what is
                to be done in its place.
            path: Of the extension, for runtimes of other languages; None: the one whose code runs.

        Returns:
            What removes the handler.

        Raises:
            TypeError: The handler can't be called.
        """
        self._generation.check()
        if not callable(handler):  # pyright: ignore[reportUnnecessaryComparison] - annotations are not enforced
            raise TypeError(f"on_terminal_input: expected a function, not {handler!r}")
        return _nothing

    @property
    def theme(self) -> Theme:
        """Styles for texts; `theme.plain` adds no escape sequences."""
        self._generation.check()
        return _THEME

    def get_all_themes(self) -> list[str]:
        """Return the names of the themes of a client that draws (`ctx.mode` is `tui`); else an empty list (R-UI-22)."""
        self._generation.check()
        return []

    def get_theme(self, name: str) -> Theme | None:
        """Return the styles of a theme of the client, which are those of `theme`; None: it has none of this name."""
        self._generation.check()
        return None

    def set_theme(self, theme: str | Theme) -> ThemeResult:
        """Let the client show another theme.

        Args:
            theme: The name, or what `get_theme` has returned.

        Returns:
            Whether the client has the theme; without one that draws, a failure. One that has not named its themes yet,
            as at the start, is sent the name, and reports one that it does not have.
        """
        self._generation.check()
        return ThemeResult(False, self._no_themes)

    def get_tools_expanded(self) -> bool:
        """Return whether a client that draws shows the outputs of tools unfolded; without one False (R-UI-31)."""
        self._generation.check()
        return False

    def set_tools_expanded(self, expanded: bool) -> None:
        """Let a client that draws unfold, or fold, all outputs of tools."""
        self._generation.check()


class StartTask(Protocol):
    """Starts a task that belongs to an extension; its failure is reported and ends nothing else."""

    def __call__(self, path: str, event: str, work: Callable[[], Awaitable[object]]) -> None:
        """Start `work`; a failure is reported with `event`."""
        ...


class ClientView(Protocol):
    """The client's editor and themes, as far as they are known."""

    @property
    def mode(self) -> str:
        """`tui` while the client draws."""
        ...

    @property
    def editor_text(self) -> str:
        """The text of the editor; empty without a client that draws."""
        ...

    def take_editor_text(self, text: str) -> None:
        """Take the text that an extension gives the editor."""
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


class DrawingPort(NamedTuple):
    """What components need."""

    table: Callable[[], "SurfaceTable | None"]
    """Returns the surfaces of the session instance; None: nothing can be drawn."""
    start: StartTask
    view: "ClientView"
    """The client's editor and themes."""
    display: Callable[[], "ClientDisplay | None"]
    """Returns what is set of the client's own displays; None: nothing can be."""
    complete: Callable[[str, Callable[..., object]], None]
    """Adds what completes the text of the editor, for the extension at a path."""
    listen: Callable[[str, Callable[[str], object]], Callable[[], None]]
    """Adds a listener to the input of the terminal, likewise; returns what removes it."""


@usable_from_any_thread()
class RpcUserInterface(UserInterface):
    """The interface of a client that speaks RPC."""

    _no_themes = "Theme switching not supported in RPC mode"

    def __init__(
        self, generation: Generation, dialogs: DialogTable, send: Send, drawing: "DrawingPort | None" = None
    ) -> None:
        """Ask through `dialogs`; send displays with `send`; draw by `drawing`, None: nothing is drawn."""
        super().__init__(generation)
        self._dialogs = dialogs
        self._send = send
        self._drawing = drawing
        self._staying: dict[tuple[SurfacePlace, str], Screen] = {}
        """The components that stay, by place and key."""
        self._statuses: dict[str, str] = {}
        self._editor_factory: Callable[..., object] | None = None

    async def select(
        self,
        title: str,
        options: Sequence[str],
        timeout: float | None = None,
        *,
        tool_call_id: str | None = None,
        option_kinds: Sequence[OptionKind] | None = None,
        url: str | None = None,
    ) -> str | None:
        """Let the user choose one of the options."""
        self._generation.check()
        texts = _texts(options)
        extra = {**_call(tool_call_id), **_kinds(option_kinds, texts), **_address(url)}
        return await asked(self._dialogs.select(title, texts, timeout_s=timeout, extra=extra))

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
        return await asked(self._dialogs.confirm(title, message, timeout_s=timeout, extra=_call(tool_call_id)))

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
        return await asked(self._dialogs.input(title, placeholder, timeout_s=timeout, extra=_call(tool_call_id)))

    async def editor(self, title: str, prefill: str | None = None, *, tool_call_id: str | None = None) -> str | None:
        """Let the user edit a text."""
        self._generation.check()
        return await asked(self._dialogs.editor(title, prefill, extra=_call(tool_call_id)))

    # The editor of the client.

    def set_editor_text(self, text: str) -> None:
        """Set the text of the client's input."""
        super().set_editor_text(text)
        if self._drawing is not None:
            self._drawing.view.take_editor_text(text)

    def get_editor_text(self) -> str:
        """Return the text of the client's editor."""
        self._generation.check()
        return "" if self._drawing is None else self._drawing.view.editor_text

    # The themes of the client.

    def get_all_themes(self) -> list[str]:
        """Return the names of the client's themes."""
        self._generation.check()
        return [] if self._drawing is None else list(self._drawing.view.themes or ())

    def get_theme(self, name: str) -> Theme | None:
        """Return the styles of a theme of the client."""
        return Theme(name) if name in self.get_all_themes() else None

    @property
    def theme(self) -> Theme:
        """Styles for texts."""
        self._generation.check()
        name = None if self._drawing is None else self._drawing.view.theme
        return _THEME if name is None else Theme(name)

    def set_theme(self, theme: str | Theme) -> ThemeResult:
        """Let the client show another theme."""
        self._generation.check()
        view = None if self._drawing is None else self._drawing.view
        if view is None or view.mode != "tui":
            return ThemeResult(False, self._no_themes)
        name = theme.name if isinstance(theme, Theme) else theme
        if view.themes is not None and name not in view.themes:
            return ThemeResult(False, f"Theme not found: {name}")
        self._send({"type": "ui_theme", "theme": name})
        view.take_theme(name)
        return ThemeResult(True)

    # Keys and completions.

    def on_terminal_input(self, handler: Callable[[str], object], path: str | None = None) -> Callable[[], None]:
        """See each key and paste before the client does."""
        nothing = super().on_terminal_input(handler, path)
        return nothing if self._drawing is None else self._drawing.listen(path or _owner_path(), handler)

    def add_autocomplete_provider(self, provider: Callable[..., object], *, triggers: str = "") -> None:
        """Complete the text of the client's editor."""
        super().add_autocomplete_provider(provider, triggers=triggers)
        begins = re.compile(rf"(?:^|\s)[{re.escape(triggers)}]\S*\Z") if triggers else None

        def complete(before: str, after: str, is_forced: bool) -> object:
            if begins is not None and not is_forced and begins.search(before) is None:
                return None
            return provider(before, after)

        self.add_text_provider(complete)

    def add_text_provider(self, provider: Callable[[str, str, bool], object], path: str | None = None) -> None:
        """Complete the text by a function that decides itself whether the text is to be completed unasked."""
        if self._drawing is not None:
            self._drawing.complete(path or _owner_path(), provider)

    # The displays of the client.

    def _display(self) -> "ClientDisplay | None":
        self._generation.check()
        return None if self._drawing is None else self._drawing.display()

    def set_working_message(self, message: str | None = None) -> None:
        """Let the client show other words while the agent works."""
        if (display := self._display()) is not None:
            from pinnace_agent.extensions.services.client_display import shown_text

            display.set(workingMessage=shown_text("set_working_message", message))

    def set_working_visible(self, visible: bool) -> None:
        """Let the client show that the agent works, or not."""
        if (display := self._display()) is not None:
            display.set(workingVisible=None if visible else False)

    def set_working_indicator(self, options: Mapping[str, object] | None = None) -> None:
        """Let the client show another sign while the agent works."""
        if (display := self._display()) is not None:
            from pinnace_agent.extensions.services.client_display import indicator_fields

            display.set(**indicator_fields(options))

    def set_hidden_thinking_label(self, label: str | None = None) -> None:
        """Let the client show another text for thoughts that are folded."""
        if (display := self._display()) is not None:
            from pinnace_agent.extensions.services.client_display import shown_text

            display.set(hiddenThinkingLabel=shown_text("set_hidden_thinking_label", label))

    def get_tools_expanded(self) -> bool:
        """Return whether the client shows the outputs of tools unfolded."""
        self._generation.check()
        return self._drawing is not None and self._drawing.view.tools_expanded

    def set_tools_expanded(self, expanded: bool) -> None:
        """Let the client unfold, or fold, all outputs of tools."""
        self._generation.check()
        view = None if self._drawing is None else self._drawing.view
        if view is not None and view.mode == "tui" and view.tools_expanded is not bool(expanded):
            self._send({"type": "ui_tools_expanded", "expanded": bool(expanded)})
            view.take_tools_expanded(is_expanded=bool(expanded))

    # Components.

    @property
    def statuses(self) -> Mapping[str, str]:
        """The status texts that are shown, by key."""
        self._generation.check()
        return self._statuses

    def set_status(self, key: str, text: str | None = None) -> None:
        """Show a status text under a key; None removes it."""
        super().set_status(key, text)
        if text is None:
            self._statuses.pop(key, None)
        else:
            self._statuses[key] = text

    @property
    def surfaces(self) -> "SurfaceTable | None":
        """What is drawn by extensions in another process; None: nothing can be."""
        self._generation.check()
        return None if self._drawing is None else self._drawing.table()

    async def custom(
        self,
        factory: Callable[..., object],
        *,
        overlay: bool = False,
        overlay_options: Mapping[str, object] | None = None,
    ) -> object:
        """Show a component, which has all keys until it is done; return its result."""
        self._generation.check()
        layout = overlay_layout(overlay_options)
        table = None if self._drawing is None else self._drawing.table()
        if table is None or not table.is_offered:
            await trio.lowlevel.checkpoint()
            return None
        from pinnace_agent.extensions.services.components import run_component

        place: SurfacePlace = "overlay" if overlay else "editor"
        shown = run_component(table, place, cast("Factory", factory), _THEME, layout=layout)  # cast: it checks that
        return await asked(shown)

    def set_widget(
        self, key: str, lines: Sequence[str] | Callable[..., object] | None = None, placement: str | None = None
    ) -> None:
        """Show lines, or a component, under a key; None removes them."""
        place = self._placement(placement)
        for each in ("aboveEditor", "belowEditor"):
            self._end_staying(each, key)
        if not callable(lines):
            super().set_widget(key, lines, placement)
            return
        self._generation.check()
        self._stay(place, key, lines)

    def set_footer(self, factory: Callable[..., object] | None = None) -> None:
        """Draw the lines at the bottom by a component; None restores those of the client."""
        self._replace("footer", factory)

    def set_header(self, factory: Callable[..., object] | None = None) -> None:
        """Draw lines above the conversation by a component; None removes them."""
        self._replace("header", factory)

    def set_editor_component(self, factory: Callable[..., object] | None = None) -> None:
        """Draw the editor of messages by a component; None restores that of the client."""
        self._replace("input", factory)
        self._editor_factory = factory

    def get_editor_component(self) -> Callable[..., object] | None:
        """Return the factory that `set_editor_component` was given."""
        self._generation.check()
        return self._editor_factory

    def _replace(self, place: SurfacePlace, factory: Callable[..., object] | None) -> None:
        self._generation.check()
        self._end_staying(place, "")
        if factory is not None:
            self._stay(place, "", factory)

    def _stay(self, place: SurfacePlace, key: str, factory: Callable[..., object]) -> None:
        drawing = self._drawing
        table = None if drawing is None else drawing.table()
        if drawing is None or table is None:
            return
        from pinnace_agent.extensions.services.components import Screen, run_component

        screen = self._staying[place, key] = Screen()
        made = cast("Factory", factory)  # cast: it is checked when it is called
        work = partial(run_component, table, place, made, _THEME, key=key or None, screen=screen)
        drawing.start(_owner_path(), f"ui_{place}", work)

    def _end_staying(self, place: SurfacePlace, key: str) -> None:
        if (screen := self._staying.pop((place, key), None)) is not None:
            screen.done()

    def _show(self, method: str, fields: Mapping[str, object], **marks: bool) -> None:
        self._generation.check()
        texts = shown_texts(method, fields)
        # Sent even after stdin was closed: the client may still read displays.
        self._send({"type": "extension_ui_request", "id": random_uuid(), "method": method, **texts, **marks})


async def asked(answer: Awaitable[ValueT]) -> ValueT:
    """Wait for a user's answer, which doesn't count as slowness of the extension."""
    owner = OWNER.get()
    if owner is None:
        return await answer
    owner.dialogs += 1
    try:
        return await answer
    finally:
        owner.dialogs -= 1


def overlay_layout(given: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return options of an overlay as on the wire."""
    layout: dict[str, object] = {}
    for name, value in (given or {}).items():
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if name == "anchor":
            is_right, shown, expected = value in _ANCHORS, value, f"one of {', '.join(sorted(_ANCHORS))}"
        elif name in ("offsetX", "offsetY"):
            is_right, shown, expected = is_whole, value, "a whole number of cells"
        elif name == "margin":
            is_right, shown, expected = is_whole and cast("int", value) >= 0, value, "a number of cells"
        elif name in ("width", "minWidth", "maxHeight", "row", "column"):
            is_right = re.fullmatch(_EXTENT, str(value)) is not None and not isinstance(value, bool)
            shown, expected = str(value), "a number of cells, or a share of the screen such as 50%"
        else:
            raise ValueError(f"custom: overlay_options has no {name!r}")
        if not is_right:
            raise ValueError(f"custom: {name} of overlay_options must be {expected}, not {value!r}")
        layout[name] = shown
    return layout


def _texts(lines: Sequence[object]) -> list[str]:
    texts = [line for line in lines if isinstance(line, str)]
    if isinstance(lines, str) or len(texts) != len(lines):
        raise TypeError("options and lines must be a sequence of strings")
    return texts


def _address(url: str | None) -> Mapping[str, object]:
    if url is None:
        return {}
    if not str(url).startswith(("https://", "http://")):  # annotations are not enforced at run time
        raise ValueError(f"select: url must begin with https:// or http://, not {url!r}")
    return {"url": str(url)}


def _kinds(kinds: Sequence[OptionKind] | None, options: Sequence[str]) -> Mapping[str, object]:
    if kinds is None:
        return {}
    # Annotations are not enforced at run time.
    if isinstance(kinds, str) or len(kinds) != len(options) or not set(kinds) <= _OPTION_KINDS:
        expected = ", ".join(sorted(_OPTION_KINDS))
        raise ValueError(f"select: option_kinds must have one of {expected} for each option, not {kinds!r}")
    return {"optionKinds": list(kinds)}


def _call(tool_call_id: str | None) -> Mapping[str, object]:
    return {} if tool_call_id is None else {"toolCallId": tool_call_id}


def _owner_path() -> str:
    """Return the path of the extension whose code runs."""
    owner = OWNER.get()
    return "<runtime>" if owner is None else owner.path


def _nothing() -> None:
    """Do nothing: no handler was added."""
