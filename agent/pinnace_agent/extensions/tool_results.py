"""Turns what a tool of an extension has returned, or raised, into a result (2.3).

Must not know how the tool was called, nor what the result is sent to.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeGuard, cast

from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.result_shapes import is_blocks, is_list, is_object, known_blocks
from pinnace_agent.extensions.results import ToolResult
from pinnace_agent.session.message_repair import whole_usage
from pinnace_agent.tools import base
from pinnace_spec.messages import Usage

if TYPE_CHECKING:
    from pydantic import BaseModel

# DEVIATION D-72: without isError, which only raising, or a ToolResult, sets.
_FIELDS: Final = {
    "content": "content",
    "details": "details",
    "structuredContent": "structured",
    "usage": "usage",
    "terminate": "terminate",
}
_FLAGS: Final = ("terminate", "is_error")

ReportUnknown = Callable[[str, str], None]
"""Takes a key that is not known, and a sentence about it."""


def _ignore(_key: str, _text: str) -> None:
    """Nobody wants to know."""


def tool_result(value: object, unknown: ReportUnknown = _ignore) -> ToolResult:
    """Return the result that a value stands for: a copy, every part of which is JSON.

    Args:
        value: What a tool has returned.
        unknown: Takes each key of a dict, or of a block of content, that is not known; the others count.

    Raises:
        TypeError: A tool can't return it; the text names what one can, or the place in it that is wrong.
    """
    match value:
        case None:
            return ToolResult("")
        case str():
            return ToolResult(str.__str__(value))
        case ToolResult():
            return _checked(value, unknown)
        # Before lists: it is a tuple.
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
                raise TypeError("a list that a tool returns must be of text and image blocks")
            return _checked(ToolResult(list(value)), unknown)
        case _ if _is_model(value):
            return ToolResult(value.model_dump_json(), structured=json_copy(value, "structured"))
        case _ if is_object(value) and "content" in value:
            return _of_wire(value, unknown)
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


def _checked(result: ToolResult, unknown: ReportUnknown) -> ToolResult:
    """Return a copy of a result whose parts are of their types: nothing of it changes any more."""
    content = json_copy(known_blocks(result.content, unknown), "content")
    if not isinstance(content, str) and not is_blocks(content):
        raise TypeError("the content of a ToolResult must be a text or a list of text and image blocks")
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
        None if usage is None else cast("Usage", whole_usage(usage)),  # cast: every number of it is there now
        terminate=result.terminate,
        is_error=result.is_error,
    )


def _of_wire(value: Mapping[str, object], unknown: ReportUnknown) -> ToolResult:
    """Read a dict in the spelling of the wire, as tools of the original return it."""
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
    # A model can only be there if pydantic is.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.BaseModel)
