"""What extensions may register although nothing here uses it, and what they may not (A4, A7 to A10, A26, A27).

What only a terminal needs is kept, so that an extension which has it loads; what would be missed is refused.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NoReturn, TypeVar

from pinnace_agent.extensions.api_base import ApiBase
from pinnace_agent.extensions.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.registrations import Function, RendererRegistration, ShortcutRegistration
from pinnace_agent.extensions.signatures import check_function

_FunctionT = TypeVar("_FunctionT", bound=Function)


class NotAvailableError(NotImplementedError):
    """The original has it, this program has not."""


@usable_from_any_thread()
class UnusedParts(ApiBase):
    """The part of `pi` that registers for others."""

    def shortcut(self, key: str, *, description: str | None = None) -> Callable[[_FunctionT], _FunctionT]:
        """Keep a key of a terminal (A4); without a terminal it is never pressed."""
        self._check_registering()

        def decorate(function: _FunctionT) -> _FunctionT:
            check_function(function, f"shortcut {key}", "(ctx)")
            self._extension.shortcuts[key] = ShortcutRegistration(key, description, function)
            return function

        return decorate

    def message_renderer(self, custom_type: str) -> Callable[[_FunctionT], _FunctionT]:
        """Keep what draws messages of a type (A7); nothing draws them without a terminal."""
        return self._renderer("message", (custom_type,))

    def entry_renderer(self, custom_type: str) -> Callable[[_FunctionT], _FunctionT]:
        """Keep what draws entries of a type (A8)."""
        return self._renderer("entry", (custom_type,))

    def markdown_transformer(self, *, message_types: Sequence[str] = ()) -> Callable[[_FunctionT], _FunctionT]:
        """Keep what changes Markdown before it is drawn (A9)."""
        return self._renderer("markdown", tuple(message_types))

    def tool_renderer(self, function: _FunctionT) -> _FunctionT:
        """Keep what draws calls of tools (A10)."""
        return self._renderer("tool", ())(function)

    def register_virtual_model(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there are no virtual models (A26)."""
        raise NotAvailableError("virtual models are not available in this version; register a provider instead")

    def unregister_virtual_model(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there are no virtual models (A26)."""
        self.register_virtual_model()

    def register_mcp_server(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there are no MCP servers (A27)."""
        raise NotAvailableError("MCP servers are not available in this version; register tools instead")

    def unregister_mcp_server(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there are no MCP servers (A27)."""
        self.register_mcp_server()

    def get_mcp_servers(self) -> NoReturn:
        """Refuse: there are no MCP servers (A27)."""
        self.register_mcp_server()

    def _renderer(
        self, kind: Literal["message", "entry", "markdown", "tool"], types: tuple[str, ...]
    ) -> Callable[[_FunctionT], _FunctionT]:
        self._check_registering()

        def decorate(function: _FunctionT) -> _FunctionT:
            self._extension.renderers.append(RendererRegistration(kind, types, function))
            return function

        return decorate
