"""Makes a tool of a function: its description, and the JSON schema of its arguments.

The schema is made from the signature by pydantic, which is imported for the first tool, and reduced by `json_schema`.
Arguments are validated against the schema like those of every tool; pydantic then converts them to the annotated types.
"""

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from pinnace_agent.extensions.registration.json_schema import plain_schema
from pinnace_agent.extensions.registration.registrations import Function
from pinnace_agent.extensions.registration.signatures import is_async, positional
from pinnace_agent.tools.base import ToolError

if TYPE_CHECKING:
    from pydantic import BaseModel

_CONTEXT_NAMES: Final = frozenset({"ctx", "context", "_ctx", "_context", "_"})
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ToolFunction(NamedTuple):
    """A function as a tool uses it."""

    description: str
    """The first paragraph of its docstring."""
    parameters: Mapping[str, object]
    execute: Function
    """`(ctx, params)`."""


def tool_function(
    function: Function, schema: Mapping[str, object] | None, local_names: Mapping[str, object]
) -> ToolFunction:
    """Read a function.

    Args:
        function: Takes the context, then the arguments by name; or one model; or, with a schema, one dict.
        schema: A JSON schema to use unchanged.
        local_names: Names for its annotations besides those of its module.

    Raises:
        TypeError: The function can't be a tool; the text says what to change.
    """
    name = getattr(function, "__name__", repr(function))
    parameters = _parameters(function, name)
    description = _first_paragraph(function)
    if schema is not None:
        if len(parameters) != 1:
            raise TypeError(f"tool {name}: with schema= it is called as {name}(ctx, params)")
        return ToolFunction(description, schema, function)
    hints = _hints(function, name, parameters, local_names)
    whole = _whole_model(parameters, hints)
    if whole is not None:
        only = parameters[0].name
        execute = _calls(function, lambda params: {only: _validated(name, whole, params)})
        return ToolFunction(description, plain_schema(whole.model_json_schema()), execute)
    model = _model_of(name, parameters, hints)
    return ToolFunction(
        description, plain_schema(model.model_json_schema()), _calls(function, partial(_by_names, name, model))
    )


def _parameters(function: Function, name: str) -> list[inspect.Parameter]:
    """Return the parameters behind the context."""
    names = positional(function)
    if names is None:
        raise TypeError(f"tool {name}: its signature can't be read; give schema=")
    context, *others = inspect.signature(function).parameters.values() if names else (None,)
    is_context = context is not None and (
        context.name in _CONTEXT_NAMES or "Context" in str(getattr(context.annotation, "__name__", context.annotation))
    )
    if context is None or not is_context:
        raise TypeError(f"tool {name}: the first parameter is the context: {name}(ctx, ...)")
    for each in others:
        if each.kind in _VARIADIC:
            raise TypeError(f"tool {name}: {each} has no name that a model could give; use schema= and (ctx, params)")
        if each.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"tool {name}: {each.name} must not be positional-only")
    return others


def _hints(
    function: Function, name: str, parameters: list[inspect.Parameter], local_names: Mapping[str, object]
) -> dict[str, Any]:
    """Return the annotations, with strings resolved."""
    hints: dict[str, Any] = {}
    module_names = getattr(inspect.unwrap(function), "__globals__", {})
    for each in parameters:
        annotation = object if each.annotation is inspect.Parameter.empty else each.annotation
        # One by one: the annotations of the context and the result need not exist at run time.
        holder = types.SimpleNamespace(__annotations__={each.name: annotation})
        try:
            hints[each.name] = get_type_hints(holder, module_names, dict(local_names), include_extras=True)[each.name]
        except Exception as error:
            raise TypeError(f"tool {name}: the annotation of {each.name} can't be resolved: {error}") from error
    return hints


def _whole_model(parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> "type[BaseModel] | None":
    """Return the model that is the only parameter, if there is one."""
    if len(parameters) != 1 or (hint := hints[parameters[0].name]) is object:
        return None
    from pydantic import BaseModel

    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def _model_of(name: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> "type[BaseModel]":
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for number, each in enumerate(parameters):
        hint = hints[each.name]
        if get_origin(hint) is Annotated:
            kind, *notes = get_args(hint)
            hint = Annotated[(kind, *(Field(description=note) if isinstance(note, str) else note for note in notes))]
        default = ... if each.default is inspect.Parameter.empty else each.default
        # By an alias, because a model has attributes such as `copy` and `json`.
        fields[f"f{number}"] = (Annotated[hint, Field(alias=each.name)], default)
    try:
        model: type[BaseModel] = create_model(name, __config__=ConfigDict(arbitrary_types_allowed=False), **fields)
        model.model_json_schema()
    except Exception as error:
        raise TypeError(f"tool {name}: there is no JSON schema for its parameters: {error}") from error
    return model


def _calls(function: Function, arguments: Callable[[Mapping[str, object]], Mapping[str, object]]) -> Function:
    """Return a function of `(ctx, params)` that is async if `function` is."""

    def execute(ctx: object, params: Mapping[str, object]) -> object:
        return function(ctx, **arguments(params))

    async def execute_async(ctx: object, params: Mapping[str, object]) -> object:
        answer = execute(ctx, params)
        return await answer if inspect.isawaitable(answer) else answer

    return execute_async if is_async(function) else execute


def _by_names(name: str, model: "type[BaseModel]", params: Mapping[str, object]) -> dict[str, object]:
    """Return the given arguments; for the others the function has defaults."""
    made = _validated(name, model, params)
    given = made.model_fields_set
    return {str(field.alias): getattr(made, key) for key, field in type(made).model_fields.items() if key in given}


def _validated(name: str, model: "type[BaseModel]", params: Mapping[str, object]) -> "BaseModel":
    from pydantic import ValidationError

    try:
        return model.model_validate(params)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        lines = "\n".join(f"  - {'.'.join(map(str, each['loc'])) or 'root'}: {each['msg']}" for each in problems)
        raise ToolError(f'Validation failed for tool "{name}":\n{lines}') from error


def _first_paragraph(function: Function) -> str:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


def names_around(depth: int) -> Mapping[str, object]:
    """Return the local names where a decorator is used, `depth` calls above the caller."""
    return sys._getframe(depth + 1).f_locals  # pyright: ignore[reportPrivateUsage]  # inspect offers it only with sources
