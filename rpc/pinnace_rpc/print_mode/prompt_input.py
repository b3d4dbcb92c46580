"""The first prompt of a process that is asked on its command line: stdin, then files, then the first message.

They follow each other without anything between them, as in pi. A file is a picture if its content says so, and else a
text, or named by its kind and size (R-TOL-11). Whatever is no UTF-8 is replaced. Must not know modes. Reading waits in
a thread, or on stdin for its end; both can be cancelled.
"""

import base64
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.control_text import clean_text, visible_controls
from pinnace_agent.files.tool_calls import FileCall
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.images.header import SNIFF_BYTES, image_type
from pinnace_agent.tools.local.file_calls import FILE_CALLS
from pinnace_agent.tools.text.binary import binary_kind, binary_text
from pinnace_rpc.options.options import StartupError, UsageRefused
from pinnace_rpc.server import stdio
from pinnace_spec.records.flat_commands import COMMAND_NAMES
from pinnace_spec.records.messages import ImageContent
from pinnace_spec.wire.file_texts import file_text
from pinnace_spec.wire.framing import MAX_RECORD_BYTES
from pinnace_spec.wire.json_text import WireError, decode_line

MAX_INPUT_BYTES: Final = MAX_RECORD_BYTES
"""Of stdin, and of a file: as much as a record of mode rpc may have."""


class PromptInput(NamedTuple):
    """What is to be asked."""

    text: str
    images: tuple[ImageContent, ...] = ()


async def read_prompts(messages: Sequence[str], files: Sequence[str], *, resizes_images: bool) -> list[PromptInput]:
    """Read everything and return the prompts, which are none if all is empty.

    Files come first, since a missing one needs no waiting for stdin.

    Raises:
        StartupError: A file can't be read, something is too large, or stdin is binary or that of a client of mode rpc.
    """
    blocks = [await _file_block(path, resizes_images=resizes_images) for path in files]
    given = await _read_stdin(may_be_commands=bool(messages or files))
    text = "".join((given, *(block.text for block in blocks), *messages[:1]))
    first = PromptInput(text, tuple(image for block in blocks for image in block.images))
    return [prompt for prompt in (first, *map(PromptInput, messages[1:])) if prompt.text]


async def _read_stdin(*, may_be_commands: bool) -> str:
    """Read stdin to its end, unless it is a terminal, where no prompt for input is expected.

    Args:
        may_be_commands: Whether its first line may be a command of the protocol, since a question about it was given.
            Else it is a client's, which would wait for an answer while this waits for the end (R-CLI-04).
    """
    if os.isatty(0):
        return ""
    data = bytearray()
    async with stdio.open_stdin() as stdin:
        try:
            while chunk := await stdin.receive_some(stdio.READ_BYTES):
                data += chunk
                if not may_be_commands and b"\n" in data:
                    may_be_commands = True
                    _refuse_command(bytes(data.partition(b"\n")[0]))
                _check_size("stdin", len(data))
        except trio.BrokenResourceError:
            raise StartupError("stdin can't be read") from None
    if (kind := binary_kind(bytes(data))) is not None:
        raise StartupError(f"stdin is no text, but binary data ({kind}): give a file as @path, or convert it to UTF-8")
    if not may_be_commands:
        _refuse_command(bytes(data))
    return clean_text(data.decode("utf-8", "replace").strip())


def _refuse_command(line: bytes) -> None:
    """Raise if the first line of stdin is a command of the protocol."""
    if not line.lstrip().startswith(b"{"):
        return
    try:
        value = decode_line(line)
    except WireError:
        return
    name = value.get("type") if isinstance(value, dict) else None
    if name in COMMAND_NAMES:
        raise UsageRefused(f"stdin begins with a command of the protocol ({name}): a client needs --mode rpc")


async def _file_block(word: str, *, resizes_images: bool) -> PromptInput:
    path = _path_of(word)
    if FILE_CALLS.is_sandboxed:
        data = await _read_inside(path)
    else:
        data = await trio.to_thread.run_sync(_read_file, path, abandon_on_cancel=True)
    name = shown_path(path)
    if not data:
        return PromptInput("")
    if (found := image_type(data[:SNIFF_BYTES])) is None:
        if (kind := binary_kind(data)) is not None:
            return PromptInput(file_text(name, binary_text(kind, len(data), "")))
        return PromptInput(file_text(name, visible_controls(data.decode("utf-8", "replace"))))
    from pinnace_agent.tools.images.fitting import MAX_SOURCE_BYTES, UnfitImage, fit_image

    try:
        if len(data) > MAX_SOURCE_BYTES:
            raise UnfitImage("its file is too large.")
        image = await fit_image(data, found, resizes=resizes_images)
    except UnfitImage as error:
        return PromptInput(f'<file name="{name}">[Image omitted: {error}]</file>\n')
    content = base64.b64encode(image.data).decode()
    block: ImageContent = {"type": "image", "data": content, "mimeType": image.mime_type}
    return PromptInput(f'<file name="{name}">{" ".join(image.notes)}</file>\n', (block,))


def _path_of(word: str) -> str:
    return os.path.abspath(os.path.expanduser(word))


async def _read_inside(path: str) -> bytes:
    """Read a file as the tools do in the sandbox: what is hidden from the model is not handed to it either."""
    try:
        data = await FILE_CALLS.perform(FileCall("beginning", path, max_bytes=MAX_INPUT_BYTES + 1))
    except (OSError, ValueError, ToolError) as error:
        if isinstance(error, FileNotFoundError) and await trio.to_thread.run_sync(os.path.exists, path):
            raise StartupError(f"{shown_path(path)} is hidden by the sandbox: sandbox.readable shows it") from None
        raise _unreadable(path, error) from None
    assert isinstance(data, bytes)
    _check_size(shown_path(path), len(data))
    return data


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    _check_size(shown_path(path), len(data))
    return data


def _unreadable(path: str, error: OSError | ValueError | ToolError) -> StartupError:
    if isinstance(error, FileNotFoundError):
        return StartupError(f"file not found: {shown_path(path)}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StartupError(f"{shown_path(path)} can't be read: {reason}")


def _check_size(name: str, size: int) -> None:
    if size > MAX_INPUT_BYTES:
        raise StartupError(f"{name} is larger than {MAX_INPUT_BYTES // 1024**2} MiB")


def shown_path(path: str) -> str:
    """Return a path as a text that every record can hold: bytes that are no UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")
