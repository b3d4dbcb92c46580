"""Registering tools, commands, flags and providers: the half of `pi` that works while an extension loads.

Every argument is checked at once, so that an error points at the line that caused it.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar, get_args, overload

from pinnace_agent.core.json_values import is_list, same_json
from pinnace_agent.core.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.api.base import ApiBase
from pinnace_agent.extensions.api.contexts import CommandContext
from pinnace_agent.extensions.ports.arguments import given_text_or_none
from pinnace_agent.extensions.registration import flags
from pinnace_agent.extensions.registration.registrations import (
    CommandRegistration,
    FlagRegistration,
    Function,
    ItemRenderer,
    McpServerInfo,
    ProviderRegistration,
    ShortcutRegistration,
    ToolDefinition,
    ToolRegistration,
    registered_servers,
    shortcut_key,
)
from pinnace_agent.extensions.registration.signatures import check_function
from pinnace_spec.records.surface_items import ANY_TOOL, ItemKind, MarkdownType

if TYPE_CHECKING:  # loaded with the first provider
    from pinnace_agent.extensions.registration.provider_config import ProviderConfig

_FunctionT = TypeVar("_FunctionT", bound=Function)


class NotAvailableError(NotImplementedError):
    """pi has this feature; this program has not."""


_CommandT = TypeVar("_CommandT", bound=Callable[[CommandContext, str], object])

_SERVER_FIELDS: Final[Mapping[str, type]] = {"name": str, "state": str, "source": str, "transport": str, "tools": int}
_MARKDOWN_TYPES: Final[Sequence[str]] = get_args(MarkdownType)
# The function names that every provider accepts.
_TOOL_NAME: Final = r"[A-Za-z0-9_-]{1,64}"


class Completion(NamedTuple):
    """One completion of the arguments of a command."""

    value: str
    label: str | None = None
    description: str | None = None


@usable_from_any_thread(but=("tool", "command"))  # they only call `register_tool` and `register_command`
class Registering(ApiBase):
    """The registrations of `pi`."""

    @overload
    def tool(self, function: _FunctionT, /) -> _FunctionT: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        schema: Mapping[str, object] | None = None,
        prompt_snippet: str | None = None,
        prompt_guidelines: Sequence[str] = (),
        prepare_arguments: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None,
        sequential: bool = False,
        default_active: bool = True,
        read_only: bool = False,
        thread: bool = False,
    ) -> Callable[[_FunctionT], _FunctionT]: ...

    def tool(  # noqa: PLR0913  # the fields of a tool, nearly all with defaults
        self,
        function: _FunctionT | None = None,
        /,
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        schema: Mapping[str, object] | None = None,
        prompt_snippet: str | None = None,
        prompt_guidelines: Sequence[str] = (),
        prepare_arguments: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None,
        sequential: bool = False,
        default_active: bool = True,
        read_only: bool = False,
        thread: bool = False,
    ) -> _FunctionT | Callable[[_FunctionT], _FunctionT]:
        """Make a tool of a function `(ctx, ...)`; the model reads its name, docstring and parameters.

        Args:
            function: The function, when the decorator is used without arguments.
            name: Its name, if not the function's.
            label: A name for people.
            description: What the model reads, if not the docstring's first paragraph.
            schema: A JSON schema instead of that of the signature; then the function is called as `(ctx, params)`.
            prompt_snippet: One line for the list of tools in the system prompt.
            prompt_guidelines: Rules for the system prompt; each should name the tool.
            prepare_arguments: Repairs the arguments of models before they are validated.
            sequential: Whether a turn that calls it runs its calls one after another.
            default_active: Whether it is active from the start.
            read_only: Whether it changes nothing, so that approval hooks may allow it without asking.
            thread: Whether a sync function runs in a worker thread, since it blocks.

        Raises:
            TypeError: The function can't be a tool; the text says what to change.
        """
        from pinnace_agent.extensions.registration.tool_schema import names_around, tool_function

        local_names = names_around(1)

        def decorate(made_from: _FunctionT) -> _FunctionT:
            read = tool_function(made_from, schema, local_names)
            self.register_tool(
                ToolDefinition(
                    name or str(getattr(made_from, "__name__", "")),
                    description or read.description,
                    read.parameters,
                    read.execute,
                    label or "",
                    prompt_snippet,
                    (prompt_guidelines,) if isinstance(prompt_guidelines, str) else tuple(prompt_guidelines),
                    prepare_arguments,
                    sequential,
                    default_active,
                    thread,
                    read_only,
                )
            )
            return made_from

        return decorate if function is None else decorate(function)

    def register_tool(self, definition: ToolDefinition) -> None:
        """Register a tool; it replaces an earlier one of the same name of this extension.

        Raises:
            TypeError: The definition is invalid; the text says why.
        """
        self._check_registering()
        self._check_definition(definition)
        label = definition.label or definition.name
        parameters = same_json(definition.parameters, f"tool {definition.name}: parameters")
        definition = dataclasses.replace(definition, label=label, parameters=parameters)

        self._extension.tools[definition.name] = ToolRegistration(definition, self._extension.source)
        if self._bound is not None:
            self._bound.tools_changed(definition.name)

    def unregister_tool(self, name: str) -> None:
        """Take back a tool of this extension; models no longer see it. Without one of that name nothing happens."""
        self._check_registering()
        if self._extension.tools.pop(name, None) is not None and self._bound is not None:
            self._bound.tools_changed(None)

    def _check_definition(self, definition: ToolDefinition) -> None:
        name, description, guidelines, label, snippet = _unchecked(
            definition.name,
            definition.description,
            definition.prompt_guidelines,
            definition.label,
            definition.prompt_snippet,
        )
        what = f"tool {name}"
        if not isinstance(name, str) or not re.fullmatch(_TOOL_NAME, name):
            raise TypeError(f"{what}: a tool's name is up to 64 letters, digits, dashes and underscores")
        if not isinstance(description, str) or not description.strip():
            raise TypeError(f"{what}: the model needs a description: a docstring, or description=")
        if isinstance(guidelines, str):
            raise TypeError(f"{what}: prompt_guidelines is a list of strings, not a string")
        if not is_list(guidelines) or not all(isinstance(each, str) for each in guidelines):
            raise TypeError(f"{what}: prompt_guidelines must be a list of strings")
        for field, text in (("label", label), ("prompt_snippet", snippet)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what}: {field} must be a string, not {type(text).__name__}")
        from pinnace_agent.extensions.registration.json_schema import check_schema  # with the first tool

        check_schema(what, definition.parameters)
        check_function(definition.execute, what, "(ctx, params)", in_thread=definition.in_thread)

    def command(
        self,
        name: str,
        *,
        description: str | None = None,
        complete: Callable[[str], object] | None = None,
        thread: bool = False,
    ) -> Callable[[_CommandT], _CommandT]:
        """Make a slash command of a function `(ctx, args)`; see `register_command`."""

        def decorate(function: _CommandT) -> _CommandT:
            self.register_command(name, function, description=description, complete=complete, thread=thread)
            return function

        return decorate

    def register_command(
        self,
        name: str,
        handler: Callable[[CommandContext, str], object],
        *,
        description: str | None = None,
        complete: Callable[[str], object] | None = None,
        thread: bool = False,
        prompt_path: str | None = None,
    ) -> None:
        """Register a slash command.

        Args:
            name: The name behind the slash.
            handler: Called with the context and the text behind the first space.
            description: For lists of commands.
            complete: Called with the text typed so far; returns strings, `Completion`s or None.
            thread: Whether a sync handler runs in a worker thread.
            prompt_path: Where the prompt is, if the command is one of a library of prompts: clients see a prompt of
                this path instead of a command of the extension.

        Raises:
            ValueError: The name is empty or has spaces.
            TypeError: The handler doesn't take these parameters.
        """
        self._check_registering()
        bare = name.removeprefix("/")
        if not bare or any(each.isspace() for each in bare):
            raise ValueError(f"{name!r} can't be the name of a command")
        check_function(handler, f"command {bare}", "(ctx, args)", in_thread=thread)
        if complete is not None:
            check_function(complete, f"complete of command {bare}", "(prefix)")
        shown = given_text_or_none(f"description of command {bare}", description)
        self._extension.commands[bare] = CommandRegistration(bare, shown, handler, complete, thread, prompt_path)

    def unregister_command(self, name: str) -> None:
        """Take back a command of this extension; without one of that name nothing happens."""
        self._check_registering()
        self._extension.commands.pop(name.removeprefix("/"), None)

    def flag(
        self,
        name: str,
        *,
        type: flags.FlagType = bool,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """Add an option to the command line, as `--name`.

        Raises:
            ValueError: The name can't be that of an option.
            TypeError: The default is not of the type.
        """
        self._check_registering()
        bare = flags.flag_name(name)
        kind = flags.flag_kind(bare, type)
        value = flags.checked_default(bare, kind, default)
        self._extension.flags[bare] = FlagRegistration(bare, kind, value, description)

    def register_provider(
        self, name: str, config: "ProviderConfig | Mapping[str, object] | None" = None, **fields: object
    ) -> None:
        """Add or override a provider: at once, or when the session starts.

        Args:
            name: The provider's id.
            config: Its configuration: a `ProviderConfig`, or a dict in the spelling of models.json.
            **fields: The fields of `ProviderConfig`, instead of `config`.

        Raises:
            TypeError: There is no such field.
            ValueError: The session is open and can't use the configuration.
        """
        from pinnace_agent.extensions.registration.provider_config import wire_config

        self._check_registering()
        registration = ProviderRegistration(name, wire_config(name, config, fields))
        if self._bound is None:
            self._extension.providers.append(registration)
        else:
            self._bound.register_provider(self._extension.path, name, registration.config)

    def unregister_provider(self, name: str) -> None:
        """Remove a provider, and restore the one that it had overridden."""
        self._check_registering()
        waiting = self._extension.providers
        waiting[:] = [each for each in waiting if each.name != name]
        if self._bound is not None:
            self._bound.unregister_provider(name)

    def shortcut(self, key: str, *, description: str | None = None) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(ctx)` run when the user presses a key; one that waits may be async (R-UI-12).

        The terminal client binds the key, unless it is one of its own that no extension may have; of several
        extensions with one key, the last one has it. An abort does not end the function; the end of the session
        cancels it, and what it raises is reported.

        Args:
            key: Such as `ctrl+shift+p`, `alt+x`, `f5`. It replaces an earlier function of this extension.
            description: What it does, for lists of keys.

        Raises:
            TypeError: The function doesn't take a context alone, or the key is no string.
            ValueError: The key is empty.
        """
        self._check_registering()
        name = shortcut_key(_key_text(key))
        shown = given_text_or_none(f"description of shortcut {name}", description)

        def decorate(function: _FunctionT) -> _FunctionT:
            self._check_registering()
            check_function(function, f"shortcut {name}", "(ctx)")
            self._extension.shortcuts[name] = ShortcutRegistration(name, shown, function)
            return function

        return decorate

    # What is drawn of the conversation in the client's terminal (R-UI-13).

    def call_renderer(self, tool: str, *, framed: bool = True) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(item)` draw the calls of a tool, of whichever extension, in the client's terminal.

        It gets a `DrawnItem` and returns lines for its width, or an object with `render(width)`; None, an exception and
        more than two seconds leave the item to the client. It is called again when the call changes, when the user
        folds it or changes the width, and after `item.request_render()`.

        Args:
            tool: The name of the tool.
            framed: Whether the client shows it with its sign for the state of the call.

        Raises:
            TypeError: The function doesn't take an item alone, or the name is no string.
        """
        return self._renders("call", tool, is_framed=framed)

    def result_renderer(self, tool: str, *, framed: bool = True) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(item)` draw the results of a tool, also partial ones; see `call_renderer`."""
        return self._renders("result", tool, is_framed=framed)

    def message_renderer(self, custom_type: str) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(message, item, theme)` draw the custom messages of a type; see `call_renderer`."""
        return self._renders("message", custom_type, is_framed=False)

    def entry_renderer(self, custom_type: str) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(entry, item, theme)` draw custom entries of a type; others are not shown.

        See `call_renderer`.
        """
        return self._renders("entry", custom_type, is_framed=False)

    def _renders(self, kind: ItemKind, name: object, *, is_framed: bool) -> Callable[[_FunctionT], _FunctionT]:
        self._check_registering()
        if not isinstance(name, str) or not name:
            raise TypeError(f"renderer of {kind}: the name must be a string that is not empty, not {name!r}")

        def decorate(function: _FunctionT) -> _FunctionT:
            self._check_registering()
            is_of_call = kind in ("call", "result")
            shape = "(item)" if is_of_call else f"({kind}, item, theme)"
            check_function(function, f"renderer of {kind} {name}", shape)
            renderer = ItemRenderer(kind, name, function, is_framed, takes_record=not is_of_call)
            self._extension.renderers[kind, name] = renderer
            return function

        return decorate

    def tool_renderer(self, function: _FunctionT) -> _FunctionT:
        """Let a function `(item)` draw the calls and results of all tools, before their own renderers do.

        `item.kind` is `call` or `result`, `item.name` the tool. See `call_renderer`; None leaves an item to the
        functions of extensions that were loaded later, then to the renderer of the tool, then to the client (R-UI-32).
        """
        self._renders("call", ANY_TOOL, is_framed=True)(function)
        return self._renders("result", ANY_TOOL, is_framed=True)(function)

    def markdown_transformer(
        self, *, message_types: Sequence[MarkdownType] = ("user", "assistant", "assistant-thinking")
    ) -> Callable[[_FunctionT], _FunctionT]:
        """Let a function `(markdown, item)` change Markdown before the client draws it; another one replaces it.

        It returns the Markdown, or None to leave it. `item.name` is whose it is, `item.is_partial` whether it grows.
        What is stored and what the model receives stay as they are. A long answer comes in parts. Rule R-UI-33.

        Args:
            message_types: Whose Markdown it changes: `user`, `assistant`, `assistant-thinking`, `custom`, `summary`, or
                `changelog`, which no client of pinnace shows.

        Raises:
            TypeError: The function doesn't take Markdown and an item.
            ValueError: A type is unknown.
        """
        self._check_registering()
        types = (message_types,) if isinstance(message_types, str) else tuple(message_types)
        if unknown := [each for each in types if each not in _MARKDOWN_TYPES]:
            raise ValueError(f"markdown_transformer: {unknown[0]!r} is none of {', '.join(_MARKDOWN_TYPES)}")

        def decorate(function: _FunctionT) -> _FunctionT:
            self._check_registering()
            check_function(function, "markdown_transformer", "(markdown, item)")
            for each in _MARKDOWN_TYPES:
                self._extension.renderers.pop(("markdown", each), None)
            for each in types:
                renderer = ItemRenderer("markdown", each, function, is_framed=False, takes_record=False)
                self._extension.renderers["markdown", each] = renderer
            return function

        return decorate

    # MCP servers.

    def register_mcp_server(self, name: str, config: Mapping[str, object]) -> None:
        """Add an MCP server to the session, or replace the one that this extension has added.

        It is connected when the session starts, or at once. One of the same name in `mcp.json` takes precedence.

        Args:
            name: The name of the server.
            config: In the shape of an entry of `mcp.json`.

        Raises:
            TypeError: The configuration is not JSON.
            ValueError: The name or the configuration is invalid, or another extension has registered the name.
        """
        self._check_registering()
        from pinnace_agent.config.server_entries import InvalidEntry, read_entry  # with the first server

        copied = same_json(config, f"server {name}")
        try:
            read_entry(name, copied, "extension", self._extension.path)
        except InvalidEntry as error:
            raise ValueError(str(error)) from None
        for other in self._services.extensions():
            if other is not self._extension and name in other.mcp_servers:
                raise ValueError(f'server "{name}" is registered by the extension {other.path}')
        self._extension.mcp_servers[name] = copied
        if self._bound is not None:
            self._bound.mcp_servers_changed()

    def unregister_mcp_server(self, name: str) -> None:
        """Remove an MCP server that this extension has added; without one of that name nothing happens."""
        self._check_registering()
        if self._extension.mcp_servers.pop(name, None) is not None and self._bound is not None:
            self._bound.mcp_servers_changed()

    def get_mcp_servers(self) -> list[McpServerInfo]:
        """Return the MCP servers that extensions have registered, in load order."""
        self._check_alive()
        return registered_servers(self._services.extensions())

    def publish_mcp_servers(self, servers: Sequence[Mapping[str, object]]) -> None:
        """Let clients see the state of all MCP servers of the session: in `get_state`, and each change as `mcp_status`.

        For the extension that connects servers, which is the one that handles `mcp_servers_change`.

        Args:
            servers: Each with the fields of `mcp_status`: `name`, `state`, `source`, `transport`, `tools`, `error`.

        Raises:
            TypeError: They are not JSON, or a field is missing.
        """
        checked = [same_json(each, "server") for each in servers]
        for each in checked:
            for field, kind in _SERVER_FIELDS.items():
                if not isinstance(each.get(field), kind):
                    raise TypeError(f"server {each.get('name')}: {field} must be of type {kind.__name__}")
        self._actions.publish_mcp_servers(checked)

    # Features of pi that do not exist here.

    def register_virtual_model(self, *_: object, **__: object) -> NoReturn:
        """Raise NotAvailableError: there are no virtual models."""
        raise NotAvailableError("virtual models are not available in this version; register a provider instead")

    def unregister_virtual_model(self, *_: object, **__: object) -> NoReturn:
        """Raise NotAvailableError: there are no virtual models."""
        self.register_virtual_model()


def _key_text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key of a shortcut must be a string such as ctrl+shift+p, not {type(key).__name__}")
    if not key.strip():
        raise ValueError("the key of a shortcut is empty: expected one such as ctrl+shift+p")
    return key


def _unchecked(*values: object) -> tuple[object, ...]:
    """Return values as objects: annotations are not enforced in an extension."""
    return values
