"""Turns what a tool of an extension has returned, or raised, into a result (2.3).

Must not know how the tool was called, nor what the result is sent to.
"""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeGuard

from pinnace_agent.extensions.result_shapes import is_blocks, is_list, is_object
from pinnace_agent.extensions.results import ToolResult
from pinnace_agent.tools import base

if TYPE_CHECKING:
    from pydantic import BaseModel

_FIELDS: Final = {
    "content": "content",
    "details": "details",
    "structuredContent": "structured",
    "usage": "usage",
    "terminate": "terminate",
    "isError": "is_error",
}


def tool_result(value: object) -> ToolResult:
    """Return the result that a value stands for.

    Raises:
        TypeError: A tool can't return it; the text names what one can.
    """
    match value:
        case None:
            return ToolResult("")
        case str():
            return ToolResult(value)
        case ToolResult():
            return _checked(value)
        # Before lists: it is a tuple.
        case base.ToolResult():
            return ToolResult(
                value.content,
                value.details,
                value.structured,
                value.usage,
                terminate=value.terminate,
                is_error=value.is_error,
            )
        case _ if is_list(value):
            if not is_blocks(value):
                raise TypeError("a list that a tool returns must be of text and image blocks")
            return ToolResult(list(value))
        case _ if _is_model(value):
            return ToolResult(value.model_dump_json(), structured=value.model_dump(mode="json"))
        case _ if is_object(value) and "content" in value:
            return _of_wire(value)
        case _:
            raise TypeError(
                f"a tool can't return {type(value).__name__}: return a text, a list of blocks, a pydantic model, "
                "a ToolResult or None"
            )


def failed_result(error: BaseException) -> ToolResult:
    """Return what the model reads of a failure: the text of a `ToolError`, of others the type before it."""
    if isinstance(error, base.ToolError):
        return ToolResult(str(error) or "The tool failed", is_error=True)
    try:
        text = str(error)
    except Exception:  # a message that can't be made is no reason to lose the failure
        text = ""
    name = type(error).__name__
    return ToolResult(f"{name}: {text}" if text else name, is_error=True)


def base_result(result: ToolResult) -> base.ToolResult:
    """Return a result as tools of the agent give it."""
    details = result.details
    if details is not None and not is_object(details):
        details = {"value": details}
    return base.ToolResult(
        result.blocks, details, result.is_error, result.structured, result.usage, terminate=result.terminate
    )


def _checked(result: ToolResult) -> ToolResult:
    content: object = result.content
    if not isinstance(content, str) and not is_blocks(content):
        raise TypeError("the content of a ToolResult must be a text or a list of text and image blocks")
    if _is_model(result.details):
        result.details = result.details.model_dump(mode="json")
    return result


def _of_wire(value: Mapping[str, object]) -> ToolResult:
    if unknown := sorted(value.keys() - _FIELDS.keys()):
        raise TypeError(f"a tool's result has no field {unknown[0]!r}; there are {', '.join(_FIELDS)}")
    for name in ("terminate", "isError"):
        if not isinstance(value.get(name, False), bool):
            raise TypeError(f"{name} of a tool's result must be true or false")
    made = ToolResult()
    for wire_name, item in value.items():
        setattr(made, _FIELDS[wire_name], item)
    return _checked(made)


def _is_model(value: object) -> "TypeGuard[BaseModel]":
    # A model can only be there if pydantic is.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)
