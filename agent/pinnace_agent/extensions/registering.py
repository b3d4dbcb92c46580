"""How tools, commands, flags, providers and the like are registered: the half of `pi` that works while loading.

Everything is checked at once, so that a mistake is told where it was made. Items A2, A3, A5, A24, A25.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar, overload

from pinnace_agent.extensions import flags
from pinnace_agent.extensions.command_context import CommandContext
from pinnace_agent.extensions.given import given_text_or_none
from pinnace_agent.extensions.json_schema import check_schema
from pinnace_agent.extensions.json_values import same_json
from pinnace_agent.extensions.loop_thread import usable_from_any_thread
from pinnace_agent.extensions.provider_config import ProviderConfig, wire_config
from pinnace_agent.extensions.registrations import (
    CommandRegistration,
    FlagRegistration,
    Function,
    ProviderRegistration,
    ToolDefinition,
    ToolRegistration,
)
from pinnace_agent.extensions.result_shapes import is_list
from pinnace_agent.extensions.signatures import check_function
from pinnace_agent.extensions.tool_schema import names_around, tool_function
from pinnace_agent.extensions.unused_parts import UnusedParts

_FunctionT = TypeVar("_FunctionT", bound=Function)
_CommandT = TypeVar("_CommandT", bound=Callable[[CommandContext, str], object])

# What every provider takes as the name of a function.
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Completion(NamedTuple):
    """One way in which the arguments of a command may go on."""

    value: str
    label: str | None = None
    description: str | None = None


@usable_from_any_thread(but=("tool", "command"))  # what `register_tool` and `register_command` do
class Registering(UnusedParts):
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

    def tool(  # noqa: PLR0913  # what a tool is made of, nearly all of it defaulted
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
        """Make a tool of a function `(ctx, ...)`; the model reads its name, docstring, parameters (2.3).

        Args:
            function: Set when the decorator has no arguments.
            name: Its name, if not the function's.
            label: A name for people.
            description: What the model reads, if not the docstring's first paragraph.
            schema: A JSON schema in place of one from the signature; then it is called as `(ctx, params)`.
            prompt_snippet: One line for the list of tools in the system prompt.
            prompt_guidelines: Rules for the system prompt; each should name the tool.
            prepare_arguments: Repairs what models send before it is validated.
            sequential: Whether a turn that calls it runs its calls one after another.
            default_active: Whether it is active from the start.
            read_only: Whether it changes nothing, so that gates may let it pass unasked.
            thread: Whether a sync function runs in a worker thread, since it blocks.

        Raises:
            TypeError: No tool can be made of it; the text says what to change.
        """
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
        """Register a tool; one of the same name that this extension had before is replaced (A2).

        Raises:
            TypeError: It can't be a tool; the text says why.
        """
        self._check_registering()
        self._check_definition(definition)
        label = definition.label or definition.name
        parameters = same_json(definition.parameters, f"tool {definition.name}: parameters")
        definition = dataclasses.replace(definition, label=label, parameters=parameters)

        self._extension.tools[definition.name] = ToolRegistration(definition, self._extension.source)
        if self._bound is not None:
            self._bound.tools_changed(definition.name)

    def _check_definition(self, definition: ToolDefinition) -> None:
        name, description, guidelines, label, snippet = _unchecked(
            definition.name,
            definition.description,
            definition.prompt_guidelines,
            definition.label,
            definition.prompt_snippet,
        )
        what = f"tool {name}"
        if not isinstance(name, str) or not _TOOL_NAME.match(name):
            raise TypeError(f"{what}: a tool's name is up to 64 letters, digits, dashes and underscores")
        if not isinstance(description, str) or not description.strip():
            raise TypeError(f"{what}: the model needs a description: a docstring, or description=")
        if isinstance(guidelines, str):
            raise TypeError(f"{what}: prompt_guidelines is a list of texts, not a text")
        if not is_list(guidelines) or not all(isinstance(each, str) for each in guidelines):
            raise TypeError(f"{what}: prompt_guidelines must be a list of texts")
        for field, text in (("label", label), ("prompt_snippet", snippet)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what}: {field} must be a text, not {type(text).__name__}")
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
        """Make a slash command of a function `(ctx, args)` (A3); see `register_command`."""

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
    ) -> None:
        """Register a slash command (A3).

        Args:
            name: What is typed behind the slash.
            handler: Called with the context and everything behind the first space.
            description: For lists of commands.
            complete: Called with what was typed so far; returns texts, `Completion`s or None.
            thread: Whether a sync handler runs in a worker thread.

        Raises:
            ValueError: The name can't be typed.
            TypeError: The handler can't be called so.
        """
        self._check_registering()
        bare = name.removeprefix("/")
        if not bare or any(each.isspace() for each in bare):
            raise ValueError(f"{name!r} can't be the name of a command")
        check_function(handler, f"command {bare}", "(ctx, args)", in_thread=thread)
        if complete is not None:
            check_function(complete, f"complete of command {bare}", "(prefix)")
        shown = given_text_or_none(f"description of command {bare}", description)
        self._extension.commands[bare] = CommandRegistration(bare, shown, handler, complete, thread)

    def flag(
        self,
        name: str,
        *,
        type: flags.FlagType = bool,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """Add an option to the command line, as `--name` (A5).

        Raises:
            ValueError: The name can't be an option's.
            TypeError: The default is not of the type.
        """
        self._check_registering()
        bare = flags.flag_name(name)
        kind = flags.flag_kind(bare, type)
        value = flags.checked_default(bare, kind, default)
        self._extension.flags[bare] = FlagRegistration(bare, kind, value, description)

    def register_provider(
        self, name: str, config: ProviderConfig | Mapping[str, object] | None = None, **fields: object
    ) -> None:
        """Add or override a provider (A24): at once, or when the session begins.

        Args:
            name: The provider's id.
            config: What it is; or the same as keyword arguments, or in the spelling of models.json.
            **fields: Those of `ProviderConfig`.

        Raises:
            TypeError: There is no such field.
            ValueError: The session is there and can't use it.
        """
        self._check_registering()
        registration = ProviderRegistration(name, wire_config(name, config, fields))
        if self._bound is None:
            self._extension.providers.append(registration)
        else:
            self._bound.register_provider(self._extension.path, name, registration.config)

    def unregister_provider(self, name: str) -> None:
        """Take a provider back, and give back what it had overridden (A25)."""
        self._check_registering()
        waiting = self._extension.providers
        waiting[:] = [each for each in waiting if each.name != name]
        if self._bound is not None:
            self._bound.unregister_provider(name)


def _unchecked(*values: object) -> tuple[object, ...]:
    """Forget the types of values: they are hints, and an extension need not heed them."""
    return values
