"""Checks of the arguments that an extension passes to the agent: strings, message contents, drafts.

Returned values are copies, so that later changes have no effect. Errors are raised in the extension's own code.
"""

import logging
import os
from typing import cast

from pinnace_agent.core.json_values import is_list, is_object, json_copy
from pinnace_agent.extensions.events.blocks import is_blocks, known_blocks
from pinnace_agent.extensions.ports.host_view import Content, CustomDraft

_log = logging.getLogger("pinnace.extensions")


def given_name(name: str, value: object) -> str:
    """Return a string that is not empty.

    Raises:
        TypeError: The value is not one.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a string that is not empty")
    return str.__str__(value)


def given_text(name: str, value: object) -> str:
    """Return a string to display; a path or a number is converted.

    Raises:
        TypeError: The value is none of these.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return str(cast("object", value))  # cast: the type of the path's string does not matter here
    raise TypeError(f"{name} must be a string, not {type(value).__name__}")


def given_text_or_none(name: str, value: object) -> str | None:
    """Return a string to display, as `given_text` does, or None."""
    return None if value is None else given_text(name, value)


def given_content(value: object) -> Content:
    """Return a string, or content blocks.

    Raises:
        TypeError: The value is neither, or part of it is not JSON.
    """
    if is_list(value):
        value = [_image_block(each) for each in value]
    content = json_copy(known_blocks(value, _left_out), "content")
    if isinstance(content, str) or is_blocks(content):
        return content
    raise TypeError("content must be a string, or a list of text and image blocks")


def _left_out(_key: str, text: str) -> None:
    _log.warning("%s", text)


def _image_block(block: object) -> object:
    """Return an image block as in records, also of the form `{type, source: {type: "base64", mediaType, data}}`."""
    if not is_object(block) or block.get("type") != "image" or not is_object(source := block.get("source")):
        return block
    return {"type": "image", "data": source.get("data"), "mimeType": source.get("mediaType")}


def given_draft(custom_type: object, content: object, display: object, details: object) -> CustomDraft:
    """Return a message of an extension.

    Raises:
        TypeError: A part has the wrong type, or is not JSON.
    """
    if not isinstance(display, bool):
        raise TypeError(f"display must be True or False, not {type(display).__name__}")
    return CustomDraft(
        given_name("custom_type", custom_type), given_content(content), display, json_copy(details, "details")
    )
