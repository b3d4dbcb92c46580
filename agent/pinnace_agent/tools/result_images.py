"""Makes the images of a tool's result ones that providers take, whichever tool they are from.

A picture that is too large would fail every request from then on, since results stay in the history. Must not know the
tools. Rule R-TOL-05.
"""

import base64
import binascii
from typing import Final

import trio

from pinnace_agent.tools.base import ToolResult
from pinnace_agent.tools.image_fitting import MAX_BASE64_BYTES, UnfitImage, fit_image, is_within_limits
from pinnace_agent.tools.image_header import image_size
from pinnace_agent.tools.image_type import image_type
from pinnace_spec.messages import ImageContent, TextContent

_HEAD_CHARS: Final = 64 * 1024
"""How much base64 is decoded first: in nearly all images it has the size. A multiple of four."""


async def with_fitting_images(result: ToolResult, *, resizes: bool) -> ToolResult:
    """Return a result whose images are within the limits. An image that can't be made so is left as it is.

    Cancelling changes nothing of the result.
    """
    if not resizes or all(block["type"] == "text" or _fits(block) for block in result.content):
        return result
    content: list[TextContent | ImageContent] = []
    for block in result.content:
        content.append(block if block["type"] == "text" or _fits(block) else await _fitted(block))
    return result._replace(content=content)


def _fits(block: ImageContent) -> bool:
    """Tell whether the head of an image says that it is small enough; so nearly all are done with, at no cost."""
    data = block["data"]
    if len(data) >= MAX_BASE64_BYTES:
        return False
    try:
        head = base64.b64decode(data[:_HEAD_CHARS])
    except (binascii.Error, ValueError):
        return True  # nothing that could be made smaller
    found = image_type(head)
    size = None if found is None else image_size(head, found)
    # What is no image that we know can't be changed.
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
