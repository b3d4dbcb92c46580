"""Checks what an extension hands to the agent when it acts: texts, contents of messages, whole drafts.

What is returned is a copy, so that nothing of it changes afterwards. Errors go to the extension's own code. Must not
know who is handed what.
"""

import logging
import os
from typing import cast

from pinnace_agent.extensions.host_view import Content, CustomDraft
from pinnace_agent.extensions.json_values import json_copy
from pinnace_agent.extensions.result_shapes import is_blocks, is_list, is_object, known_blocks

_log = logging.getLogger("pinnace.extensions")


def given_name(name: str, value: object) -> str:
    """Return a text that must not be empty.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} must be a text that is not empty")
    return str.__str__(value)


def given_text(name: str, value: object) -> str:
    """Return a text to be shown; a path or a number is written as one.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return str(cast("object", value))  # cast: of what a path is does not matter here
    raise TypeError(f"{name} must be a text, not {type(value).__name__}")


def given_text_or_none(name: str, value: object) -> str | None:
    """Return a text to be shown, as `given_text`, or None."""
    return None if value is None else given_text(name, value)


def given_content(value: object) -> Content:
    """Return a text, or blocks.

    Raises:
        TypeError: It is neither, or something in it is no JSON.
    """
    if is_list(value):
        value = [_image_block(each) for each in value]
    content = json_copy(known_blocks(value, _left_out), "content")
    if isinstance(content, str) or is_blocks(content):
        return content
    raise TypeError("content must be a text, or a list of text and image blocks")


def _left_out(_key: str, text: str) -> None:
    _log.warning("%s", text)


def _image_block(block: object) -> object:
    """Return an image as records have it; `{type, source: {type: "base64", mediaType, data}}` says the same."""
    if not is_object(block) or block.get("type") != "image" or not is_object(source := block.get("source")):
        return block
    return {"type": "image", "data": source.get("data"), "mimeType": source.get("mediaType")}


def given_draft(custom_type: object, content: object, display: object, details: object) -> CustomDraft:
    """Return a message of an extension.

    Raises:
        TypeError: A part of it is not of its type, or no JSON.
    """
    if not isinstance(display, bool):
        raise TypeError(f"display must be True or False, not {type(display).__name__}")
    return CustomDraft(
        given_name("custom_type", custom_type), given_content(content), display, json_copy(details, "details")
    )
