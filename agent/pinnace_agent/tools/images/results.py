"""Resizes the images of a tool's result to the limits of providers, for every tool.

An image that is too large would fail every later request, since results stay in the history. Has no knowledge of the
tools. Rule R-TOL-05.
"""

import base64
import binascii
from typing import Final

import trio

from pinnace_agent.tools.base import ToolResult
from pinnace_agent.tools.images.fitting import MAX_BASE64_BYTES, UnfitImage, fit_image, is_within_limits
from pinnace_agent.tools.images.header import image_size, image_type
from pinnace_spec.records.messages import ImageContent, TextContent

_HEAD_CHARS: Final = 64 * 1024
"""The base64 that is decoded first: in nearly all images it contains the size. A multiple of four."""


async def with_fitting_images(result: ToolResult, *, resizes: bool) -> ToolResult:
    """Return a result whose images are within the limits. An image that can't be resized is left unchanged.

    Cancelling changes nothing in the result.
    """
    if not resizes or all(block["type"] == "text" or _fits(block) for block in result.content):
        return result
    content: list[TextContent | ImageContent] = []
    for block in result.content:
        content.append(block if block["type"] == "text" or _fits(block) else await _fitted(block))
    return result._replace(content=content)


def _fits(block: ImageContent) -> bool:
    """Return whether the head of an image shows that it is small enough, as for nearly all."""
    data = block["data"]
    if len(data) >= MAX_BASE64_BYTES:
        return False
    try:
        head = base64.b64decode(data[:_HEAD_CHARS])
    except (binascii.Error, ValueError):
        return True  # not base64: it can't be resized
    found = image_type(head)
    size = None if found is None else image_size(head, found)
    # An image of an unknown type can't be resized.
    return found is None or (size is not None and found != "image/bmp" and is_within_limits(size, len(data) * 3 // 4))


async def _fitted(block: ImageContent) -> ImageContent:
    try:
        data = await trio.to_thread.run_sync(base64.b64decode, block["data"])
        found = image_type(data)
        if found is None:
            return block
        image = await fit_image(data, found)
    except (UnfitImage, ValueError):
        return block
    encoded = await trio.to_thread.run_sync(base64.b64encode, image.data)
    return {**block, "data": encoded.decode("ascii"), "mimeType": image.mime_type}
