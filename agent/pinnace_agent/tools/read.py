"""The tool that shows one file: a window of a text, or an image as an attachment.

Words results and chooses between text and image by content; must not change anything. Rules R-TOL-02,
R-TOL-05.
"""

import base64
import errno
import math
import os
import stat
from collections.abc import Mapping
from typing import BinaryIO, Final, NamedTuple

import trio

from pinnace_agent.tools.base import (
    ToolContext,
    ToolError,
    ToolResult,
    number_argument,
    text_argument,
    text_result,
)
from pinnace_agent.tools.image_type import SNIFF_BYTES, ImageType, image_type
from pinnace_agent.tools.paths import PATH_PARAMETER, os_error_text, readable_path
from pinnace_agent.tools.text_window import TextWindow, read_window
from pinnace_agent.truncation import MAX_BYTES, MAX_LINES, format_size

MAX_IMAGE_BASE64_BYTES: Final = 4_718_592
"""4.5 MiB: providers refuse 5 MB and more, and count the base64."""


class ReadTool:
    """Show a file."""

    name: str = "read"
    label: str = "read"
    description: str = (
        "Read a file. Works for text and for images (jpg, png, gif, webp, bmp), which come as attachments. "
        f"Of a text at most {MAX_LINES} lines or {MAX_BYTES // 1024}KB are returned, whichever is less: "
        "read large files with offset and limit, and go on with a larger offset until you have what you need."
    )
    snippet: str = "Read a file"
    guidelines: tuple[str, ...] = ("Look at files with read, not with cat or sed.",)
    parameters: Mapping[str, object] = {
        "type": "object",
        "required": ["path"],
        "properties": {
            "path": PATH_PARAMETER,
            "offset": {"type": "number", "description": "The first line to return, counted from 1"},
            "limit": {"type": "number", "description": "How many lines to return at most"},
        },
    }
    is_sequential: bool = False

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the arguments as they are."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Read the file. Cancelling ends the call at once; a read that hangs in the system is left behind.

        Raises:
            ToolError: There is no such file or line, or the system refused.
        """
        request = _Request(
            text_argument(args, "path"),
            ctx.cwd,
            number_argument(args, "offset"),
            number_argument(args, "limit"),
            ctx.supports_images,
        )
        return await trio.to_thread.run_sync(_read, request, abandon_on_cancel=True)


class _Request(NamedTuple):
    path: str
    cwd: str
    offset: int | float | None
    limit: int | float | None
    supports_images: bool

    @property
    def start(self) -> int:
        """The first line, from 0."""
        return max(0, math.floor(self.offset) - 1) if self.offset else 0

    @property
    def max_lines(self) -> int | None:
        return None if self.limit is None else max(0, math.floor(self.limit))


def _read(request: _Request) -> ToolResult:
    target = readable_path(request.path, request.cwd)
    operation = "access"
    try:
        if not stat.S_ISREG((status := os.stat(target)).st_mode):
            _refuse(status, target)
        operation = "open"
        with open(target, "rb", buffering=0) as file:
            operation = "read"
            found = image_type(file.read(SNIFF_BYTES))
            file.seek(0)
            if found is not None:
                return _image_result(file, found, status.st_size, request.supports_images)
            window = read_window(file, request.start, request.max_lines, trio.from_thread.check_cancelled)
    except OSError as error:
        raise ToolError(os_error_text(error, operation, target)) from error
    return _text_result(request, window)


def _refuse(status: os.stat_result, target: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    # A pipe or a device may never end, and reading may take what is meant for another.
    raise ToolError(f"Not a file with content, but a pipe, socket or device: {target}")


def _text_result(request: _Request, window: TextWindow) -> ToolResult:
    start, total = request.start, window.total_lines
    if start >= total:
        offset = request.offset
        shown_offset = int(offset) if isinstance(offset, float) and offset.is_integer() else offset
        raise ToolError(f"Offset {shown_offset} is beyond end of file ({total} lines total)")
    shown = window.shown
    if shown.first_line_exceeds_limit:
        size, limit = format_size(window.first_line_bytes), format_size(shown.max_bytes)
        hint = f"sed -n '{start + 1}p' {request.path} | head -c {shown.max_bytes}"
        text = f"[Line {start + 1} is {size}, exceeds {limit} limit. Use bash: {hint}]"
        return text_result(text, {"truncation": shown.record()})
    if shown.is_truncated:
        end = start + shown.output_lines
        limit = f" ({format_size(shown.max_bytes)} limit)" if shown.truncated_by == "bytes" else ""
        notice = f"[Showing lines {start + 1}-{end} of {total}{limit}. Use offset={end + 1} to continue.]"
        return text_result(f"{shown.content}\n\n{notice}", {"truncation": shown.record()})
    if request.max_lines is not None and start + request.max_lines < total:
        end = start + request.max_lines
        notice = f"[{total - end} more lines in file. Use offset={end + 1} to continue.]"
        return text_result(f"{shown.content}\n\n{notice}")
    return text_result(shown.content)


def _image_result(file: BinaryIO, found: ImageType, size: int, supports_images: bool) -> ToolResult:
    title = f"Read image file [{found}]"
    if found == "image/bmp":
        return text_result(f"{title}\n[Image omitted: a model can't be sent BMP. Convert it to PNG and read that.]")
    encoded_size = (size + 2) // 3 * 4
    if encoded_size >= MAX_IMAGE_BASE64_BYTES:
        sizes = f"{format_size(encoded_size)} when encoded, the limit is {format_size(MAX_IMAGE_BASE64_BYTES)}"
        return text_result(f"{title}\n[Image omitted: it is too large ({sizes}). Scale it down and read that.]")
    if not supports_images:
        title += "\n[The current model cannot see images: this one will be left out of what it is sent.]"
    data = base64.b64encode(file.read()).decode("ascii")
    return ToolResult([{"type": "text", "text": title}, {"type": "image", "data": data, "mimeType": found}])
