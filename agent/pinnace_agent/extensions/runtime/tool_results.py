"""Reads the value that a tool of an extension returned, or the exception that it raised, as a tool result."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeGuard, cast

from pinnace_agent.core.json_values import is_list, is_object, json_copy
from pinnace_agent.extensions.events.blocks import is_blocks, known_blocks
from pinnace_agent.extensions.events.results import ToolResult
from pinnace_agent.session.store.message_repair import whole_usage
from pinnace_agent.tools import base
from pinnace_spec.records.messages import Usage

if TYPE_CHECKING:
    from pydantic import BaseModel

# DEVIATION D-72: without isError, which only raising, a ToolResult, or an extension in TypeScript sets.
_FIELDS: Final = {
    "content": "content",
    "details": "details",
    "structuredContent": "structured",
    "usage": "usage",
    "terminate": "terminate",
}
_FLAGS: Final = ("terminate", "is_error")

ReportUnknown = Callable[[str, str], None]
"""Takes an unknown key and a sentence about it."""


def _ignore(_key: str, _text: str) -> None:
    """Drop the report."""


def tool_result(value: object, unknown: ReportUnknown = _ignore) -> ToolResult:
    """Return a value as a tool result: a copy that consists of JSON.

    Args:
        value: The value that a tool returned.
        unknown: Takes each unknown key of a dict or a content block; it is left out.

    Raises:
        TypeError: A tool can't return the value; the text names the allowed types, or the wrong place.
    """
    match value:
        case None:
            return ToolResult("")
        case str():
            return ToolResult(str.__str__(value))
        case ToolResult():
            return _checked(value, unknown)
        # Before lists, because it is a tuple.
        case base.ToolResult():
            return _checked(
                ToolResult(
                    value.content,
                    value.details,
                    value.structured,
                    value.usage,
                    terminate=value.terminate,
                    is_error=value.is_error,
                ),
                unknown,
            )
        case _ if is_list(value):
            if not is_blocks(value):
                raise TypeError("a list that a tool returns must hold text and image blocks")
            return _checked(ToolResult(list(value)), unknown)
        case _ if _is_model(value):
            return ToolResult(value.model_dump_json(), structured=json_copy(value, "structured"))
        case _ if is_object(value) and "content" in value:
            return _of_wire(value, unknown)
        case _:
            raise TypeError(
                f"a tool can't return {type(value).__name__}: return a string, a list of blocks, a pydantic model, "
                "a ToolResult or None"
            )


def failed_result(error: BaseException) -> ToolResult:
    """Return a failure as a result: the text of a `ToolError`; for other exceptions, the type and the text."""
    if isinstance(error, base.ToolError):
        return ToolResult(str(error) or "The tool failed", is_error=True)
    try:
        text = str(error)
    except Exception:  # a failing __str__ must not hide the failure
        text = ""
    name = type(error).__name__
    return ToolResult(f"{name}: {text}" if text else name, is_error=True)


def base_result(result: ToolResult) -> base.ToolResult:
    """Return a result as the agent's own tools return it."""
    details = result.details
    if details is not None and not is_object(details):
        details = {"value": details}
    return base.ToolResult(
        result.blocks, details, result.is_error, result.structured, result.usage, terminate=result.terminate
    )


def _checked(result: ToolResult, unknown: ReportUnknown) -> ToolResult:
    """Return a copy of a result, checked: later changes of the original have no effect."""
    content = json_copy(known_blocks(result.content, unknown), "content")
    if not isinstance(content, str) and not is_blocks(content):
        raise TypeError("the content of a ToolResult must be a string or a list of text and image blocks")
    for name in _FLAGS:
        flag: object = getattr(result, name)
        if not isinstance(flag, bool):
            raise TypeError(f"{name} of a ToolResult must be True or False, not {type(flag).__name__}")
    usage = json_copy(result.usage, "usage")
    if usage is not None and not is_object(usage):
        raise TypeError("usage of a ToolResult must be an object of token counts")
    return ToolResult(
        content,
        json_copy(result.details, "details"),
        json_copy(result.structured, "structured"),
        None if usage is None else cast("Usage", whole_usage(usage)),  # cast: whole_usage added all counts
        terminate=result.terminate,
        is_error=result.is_error,
    )


def _of_wire(value: Mapping[str, object], unknown: ReportUnknown) -> ToolResult:
    """Read a dict in wire spelling, as tools of pi return it."""
    if not isinstance(value.get("terminate", False), bool):
        raise TypeError("terminate of a tool's result must be true or false")
    made = ToolResult()
    for wire_name, item in value.items():
        name = _FIELDS.get(wire_name)
        if name is not None:
            setattr(made, name, item)
        else:
            unknown(wire_name, _unknown_text(wire_name))
    return _checked(made, unknown)


def _unknown_text(name: str) -> str:
    if name == "isError":
        return "isError of a returned dict marks no failure: raise ToolError, or return ToolResult(..., is_error=True)"
    return f"a tool's result has no field {name!r}, which is left out; there are {', '.join(_FIELDS)}"


def _is_model(value: object) -> "TypeGuard[BaseModel]":
    # A value can only be a model if pydantic was imported.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)
