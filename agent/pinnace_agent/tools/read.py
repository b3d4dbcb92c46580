"""The tool that shows one file: a window of a text, an image as an attachment, or what other content is.

Builds the texts of results and chooses by content; changes nothing. Rules R-TOL-02, R-TOL-05, R-TOL-11.
"""

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.control_text import visible_controls
from pinnace_agent.shell.truncation import MAX_BYTES, MAX_LINES, format_size
from pinnace_agent.tools.base import (
    ToolContext,
    ToolError,
    ToolResult,
    number_argument,
    text_argument,
    text_result,
)
from pinnace_agent.tools.images.fitting import MAX_SOURCE_BYTES, FittedImage, UnfitImage, fit_image
from pinnace_agent.tools.images.header import SNIFF_BYTES, ImageType, image_type
from pinnace_agent.tools.local.files import LOCAL_READ, is_same_outside, may_be_hidden
from pinnace_agent.tools.operations import DetectsImages, ReadOperations, StreamsFiles
from pinnace_agent.tools.parameters import FILE, fields, number
from pinnace_agent.tools.paths import existing_path, os_error_text, readable_paths
from pinnace_agent.tools.text.binary import binary_kind, binary_text
from pinnace_agent.tools.text.window import CHUNK_BYTES, TextWindow, WindowReader

PARAMETERS: Final = fields(
    {"path": FILE},
    {
        "offset": number("The first line to return, counted from 1"),
        "limit": number("How many lines to return at most"),
    },
)


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
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False
    prefers_strict: bool = True

    def __init__(self, operations: ReadOperations = LOCAL_READ) -> None:
        """Read through `operations`, by default files of this machine."""
        self._operations = operations

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Read the file. Cancelling ends the call at once, and leaves a hanging system call to its thread.

        Raises:
            ToolError: The file or line is missing, or a system call failed.
        """
        request = _Request(
            text_argument(args, "path"),
            number_argument(args, "offset"),
            number_argument(args, "limit"),
        )
        paths = readable_paths(request.path, ctx.cwd)
        client = ctx.client_files if self._operations is LOCAL_READ else None
        missing: OSError | None = None
        target = paths[0]
        try:
            target = await self._readable(paths)
        except FileNotFoundError as error:
            missing = error
            other = await existing_path(request.path, ctx.cwd, self._exists)
            if other != target and await self._exists(other):
                target, missing = other, None
        served: bytes | None = None
        if (
            client is not None
            and await is_same_outside(target, ctx.cwd)
            # Also a file that is not on the disk yet: an editor may have it open. Not if a sandbox may be hiding it.
            and (missing is None or not await may_be_hidden(target))
        ):
            served = await client.read(target)
        if served is None and missing is not None:
            raise ToolError(os_error_text(missing, "access", target)) from missing
        try:
            content = await self._content(target, request) if served is None else await _content(served, request)
        except OSError as error:
            # The error has a file name if the file can't be opened, and none if reading fails.
            operation = "open" if error.filename is not None else "read"
            raise ToolError(os_error_text(error, operation, target)) from error
        if content.binary_kind is not None:
            # DEVIATION D-43: its kind and size, not its bytes.
            encoding = content.binary_kind.removeprefix("text in ")
            hint = f": iconv -f {encoding} -t UTF-8" if encoding != content.binary_kind else ", e.g. file or strings"
            return text_result(binary_text(content.binary_kind, content.size, f". Use bash to look into it{hint}"))
        if content.image_type is None:
            return _text_result(request, content.window.window())
        return await _image_result(content, content.image_type, ctx)

    async def _readable(self, paths: list[str]) -> str:
        """Return the first path that exists, if it is readable.

        Raises:
            FileNotFoundError: None exists.
            ToolError: It is not readable.
        """
        missing: FileNotFoundError | None = None
        for path in paths:
            try:
                await self._operations.access(path)
                return path
            except FileNotFoundError as error:
                missing = missing or error
            except IsADirectoryError as error:
                raise ToolError(os_error_text(error, "read")) from error
            except OSError as error:
                raise ToolError(os_error_text(error, "access", path)) from error
        assert missing is not None  # there is at least one path
        raise missing

    async def _exists(self, path: str) -> bool:
        try:
            await self._operations.access(path)
        except FileNotFoundError:
            return False
        except IsADirectoryError:  # above the file
            return True
        except OSError as error:
            raise ToolError(os_error_text(error, "access", path)) from error
        return True

    async def _content(self, target: str, request: "_Request") -> "_Content":
        content = _Content(WindowReader(request.start, request.max_lines))
        if isinstance(self._operations, DetectsImages):
            content.decide(await self._operations.detect_image_type(target))
        if isinstance(self._operations, StreamsFiles):
            await self._operations.read_stream(target, content.take)
        else:
            data = await self._operations.read_file(target)
            await trio.to_thread.run_sync(content.take, data, abandon_on_cancel=True)
        content.finish()
        return content


async def _content(data: bytes, request: "_Request") -> "_Content":
    """Return a text that was read as a whole."""
    content = _Content(WindowReader(request.start, request.max_lines))
    content.decide(None)
    await trio.to_thread.run_sync(content.take, data, abandon_on_cancel=True)
    content.finish()
    return content


class _Request(NamedTuple):
    path: str
    offset: int | float | None
    limit: int | float | None

    @property
    def start(self) -> int:
        """The first line, from 0."""
        return max(0, math.floor(self.offset) - 1) if self.offset else 0

    @property
    def max_lines(self) -> int | None:
        # DEVIATION D-37: whole lines, none or more.
        return None if self.limit is None else max(0, math.floor(self.limit))


class _Content:
    """A file that is read piece by piece: all of an image unless it is too large, a window of a text, else its size.

    Memory does not grow with the file.
    """

    def __init__(self, window: WindowReader) -> None:
        self.window = window
        self.image_type: ImageType | None = None
        self.image = bytearray()
        self.size = 0
        self.binary_kind: str | None = None
        self._head = bytearray()
        self._is_decided = self._is_known = False

    def decide(self, found: ImageType | None) -> None:
        """Treat the content as an image of this type, or as no image."""
        self._is_decided = True
        self.image_type = found

    def take(self, piece: bytes) -> None:
        """Add the next bytes. Once there are enough of them, their kind is detected."""
        self.size += len(piece)
        if self._is_known:
            self._add(piece)
            return
        self._head += piece
        if len(self._head) >= SNIFF_BYTES:
            self.finish()

    def finish(self) -> None:
        """Detect the kind by what was read, unless it is known."""
        if self._is_known:
            return
        self._is_known = True
        head, self._head = bytes(self._head), bytearray()
        if not self._is_decided:
            self.decide(image_type(head[:SNIFF_BYTES]))
        if self.image_type is None:
            self.binary_kind = binary_kind(head)
        self._add(head)

    def _add(self, piece: bytes) -> None:
        if self.binary_kind is not None:
            return
        if self.image_type is None:
            for part in _parts(piece):
                self.window.feed(part)
        elif self.size <= MAX_SOURCE_BYTES:
            self.image += piece
        else:
            self.image.clear()  # only its size is needed from now on


def _parts(piece: bytes) -> Iterator[bytes]:
    """Split a file that was read as a whole: splitting lines takes several times the memory of its input."""
    if len(piece) <= CHUNK_BYTES:
        yield piece
        return
    for start in range(0, len(piece), CHUNK_BYTES):
        yield piece[start : start + CHUNK_BYTES]


def _text_result(request: _Request, window: TextWindow) -> ToolResult:
    start, total = request.start, window.total_lines
    if start >= total:
        offset = request.offset
        shown_offset = int(offset) if isinstance(offset, float) and offset.is_integer() else offset
        raise ToolError(f"Offset {shown_offset} is beyond end of file ({total} lines total)")
    shown = window.shown
    content = visible_controls(shown.content)
    if shown.first_line_exceeds_limit:
        size, limit = format_size(window.first_line_bytes), format_size(shown.max_bytes)
        hint = f"sed -n '{start + 1}p' {request.path} | head -c {shown.max_bytes}"
        text = f"[Line {start + 1} is {size}, exceeds {limit} limit. Use bash: {hint}]"
        return text_result(text, {"truncation": shown.record()})
    if shown.is_truncated:
        end = start + shown.output_lines
        limit = f" ({format_size(shown.max_bytes)} limit)" if shown.truncated_by == "bytes" else ""
        notice = f"[Showing lines {start + 1}-{end} of {total}{limit}. Use offset={end + 1} to continue.]"
        return text_result(f"{content}\n\n{notice}", {"truncation": shown.record()})
    if request.max_lines is not None and start + request.max_lines < total:
        end = start + request.max_lines
        notice = f"[{total - end} more lines in file. Use offset={end + 1} to continue.]"
        return text_result(f"{content}\n\n{notice}")
    return text_result(content)


async def _image_result(content: _Content, found: ImageType, ctx: ToolContext) -> ToolResult:
    try:
        if content.size > MAX_SOURCE_BYTES:
            size, limit = format_size(content.size), format_size(MAX_SOURCE_BYTES)
            raise UnfitImage(f"its file is too large ({size}, the limit is {limit}). Scale it down and read that.")
        image = await fit_image(bytes(content.image), found, resizes=ctx.resizes_images)
    except UnfitImage as error:
        return text_result(f"Read image file [{found}]\n[Image omitted: {error}]")
    hints = list(image.notes)
    if not ctx.supports_images:
        hints.append("[The current model cannot see images: this one will be left out of what it is sent.]")
    # Encoding takes milliseconds.
    return await trio.to_thread.run_sync(_attached, image, hints, abandon_on_cancel=True)


def _attached(image: FittedImage, hints: list[str]) -> ToolResult:
    text = "\n".join((f"Read image file [{image.mime_type}]", *hints))
    data = base64.b64encode(image.data).decode("ascii")
    return ToolResult([{"type": "text", "text": text}, {"type": "image", "data": data, "mimeType": image.mime_type}])
