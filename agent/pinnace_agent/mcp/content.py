"""Results of tools and contents of resources, as a model reads them: the original's texts, so that models see the same.

A text that is too long loses its middle and goes to a file as a whole; what is neither text nor a picture goes to a
file. Nothing of a server names the file.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp import limits
from pinnace_agent.shell.output import make_output_file
from pinnace_spec.records.messages import ImageContent, TextContent

MOST_TEXT_BYTES: Final = 20 * 1024
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_EXTENSION: Final = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")

Block = TextContent | ImageContent
Save = Callable[[bytes], str]
"""Keeps bytes in a file, and returns its path. Raises OSError."""


@dataclass(slots=True)
class ModelContent:
    """What a model gets."""

    blocks: list[Block] = field(default_factory=list[Block])
    full_output_path: str | None = None

    @property
    def text(self) -> str:
        """The texts, joined."""
        return "\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    def say(self, text: str) -> None:
        """Add a text."""
        self.blocks.append({"type": "text", "text": text})


def save_output(data: bytes) -> str:
    """Keep bytes in the user's private folder of outputs, for the user alone.

    Raises:
        OSError: They can't be written.
    """
    path, number = make_output_file()
    with os.fdopen(number, "wb") as file:
        file.write(data)
    return path


def shown_result(
    server: str, tool: str, result: Mapping[str, object], save: Save, *, reads_resources: bool
) -> ModelContent:
    """Return what a model gets of the result of a call.

    Args:
        server: Its name.
        tool: What it calls the tool.
        result: The result, as it came.
        save: Keeps what is too long, or no text.
        reads_resources: Whether the model has the tool that reads resources.
    """
    shown = ModelContent()
    content = result.get("content")
    listed = content if is_list(content) else []
    blocks = [each for each in listed[: limits.BLOCKS] if is_object(each)]
    for block in blocks:
        _add_block(shown, server, block, save, reads_resources=reads_resources)
    if len(listed) > limits.BLOCKS:
        shown.say(left_out(listed))
    structured = result.get("structuredContent")
    is_blank = not shown.text.strip() and all(block["type"] == "text" for block in shown.blocks)
    if is_blank and (structured is not None if blocks else "structuredContent" in result):
        shown.blocks.clear()
        shown.say(pretty_json(structured))
    if result.get("isError") is True and not shown.text:
        shown.say(f"MCP tool {server}/{tool} returned an error")
    return limited(shown, save)


def shown_contents(contents: Sequence[Mapping[str, object]], save: Save) -> ModelContent:
    """Return what a model gets of the contents of a resource."""
    shown = ModelContent()
    for each in contents[: limits.BLOCKS]:
        _add_resource(shown, each, save)
    if len(contents) > limits.BLOCKS:
        shown.say(left_out(contents))
    return limited(shown, save)


def left_out(items: Sequence[object]) -> str:
    """Return what is said in place of the items behind the first thousand: nothing reads so many."""
    return f"[{len(items) - limits.BLOCKS} more omitted]"


def pretty_json(value: object) -> str:
    """Return JSON of a server with indentation, as the original does; the library's writer takes much at once."""
    import orjson  # is there where a server is

    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # too deep, or a number of more than 64 bits
        pass
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "[JSON that is nested too deeply to be shown]"


def limited(shown: ModelContent, save: Save) -> ModelContent:
    """Take the middle out of a text that is too long, and keep the whole in a file."""
    text = shown.text
    data = text.encode("utf-8", "replace")
    if len(data) <= MOST_TEXT_BYTES:
        return shown
    try:
        path = save(data)
        where = f"\n\n[Full output: {path} (read it with offset/limit)]"
    except OSError as error:
        path, where = None, f"\n\n[Could not save the full output: {error.strerror or error}]"
    half = MOST_TEXT_BYTES // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore")
    removed = len(text) - len(head) - len(tail)
    lines = text.count("\n") + (not text.endswith("\n"))
    notice = f"Warning: truncated output (original token count: {-(-len(data) // 4)})\nTotal output lines: {lines}"
    cut: Block = {"type": "text", "text": f"{notice}\n\n{head}…{removed} chars truncated…{tail}{where}"}
    return ModelContent([cut, *(block for block in shown.blocks if block["type"] == "image")], path)


def _add_block(
    shown: ModelContent, server: str, block: Mapping[str, object], save: Save, *, reads_resources: bool
) -> None:
    kind = block.get("type")
    resource = block.get("resource")
    match kind:
        case "text":
            shown.say(_text(block.get("text")))
        case "image":
            _add_image(shown, _text(block.get("data")), _text(block.get("mimeType")))
        case "audio":
            shown.say(f"[audio {_text(block.get('mimeType'))} omitted]")
        case "resource_link":
            shown.say(_link(server, block, reads_resources=reads_resources))
        case "resource" if is_object(resource):
            _add_resource(shown, resource, save)
        case _:
            shown.say(f"[unsupported MCP content {_text(kind)[:100]}]")


def _add_image(shown: ModelContent, data: str, mime_type: str) -> None:
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        shown.say(f"[image {mime_type[:100]} omitted: it is not valid base64]")
        return
    if mime_type not in _IMAGES:
        shown.say(f"[image {mime_type[:100]} omitted, {_size(size)}]")
        return
    shown.blocks.append({"type": "image", "data": data, "mimeType": mime_type})


def _add_resource(shown: ModelContent, resource: Mapping[str, object], save: Save) -> None:
    uri, mime_type, blob = _text(resource.get("uri")), _text(resource.get("mimeType")), resource.get("blob")
    if isinstance(resource.get("text"), str):
        shown.say(_text(resource["text"]))
        return
    if not isinstance(blob, str):
        shown.say(f"[resource {uri} has no content]")
        return
    if mime_type.startswith("image/"):
        _add_image(shown, blob, mime_type)
        return
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        shown.say(f"[Binary resource {uri} is not valid base64]")
        return
    if _is_text(mime_type):
        shown.say(data.decode("utf-8", "replace"))
        return
    kind = f"{mime_type or 'unknown type'}, {_size(len(data))}"
    try:
        shown.say(f"[Binary resource {uri} ({kind}) saved to {_saved(data, uri, save)}]")
    except OSError as error:
        shown.say(f"[Binary resource {uri} ({kind}) could not be saved: {error.strerror or error}]")


def _saved(data: bytes, uri: str, save: Save) -> str:
    """Keep bytes in a file with the ending that an address has: programs look at it."""
    path = save(data)
    try:
        ending = _EXTENSION.search(urlsplit(uri).path)
    except ValueError:
        ending = None
    named = f"{path.removesuffix('.log')}{ending[0] if ending else '.bin'}"
    os.rename(path, named)
    return named


def _link(server: str, block: Mapping[str, object], *, reads_resources: bool) -> str:
    size = block.get("size")
    details = [_text(block.get("mimeType")), _size(size) if isinstance(size, int) else ""]
    about = ", ".join(filter(None, details))
    title = _text(block.get("title")) or _text(block.get("name"))
    description = _text(block.get("description"))
    read = f'. Read it with read_mcp_resource (server "{server}")' if reads_resources else ""
    shown = f" ({about})" if about else ""
    return f'[Resource {_text(block.get("uri"))} "{title}"{shown}{f": {description}" if description else ""}{read}]'


def _is_text(mime_type: str) -> bool:
    kind = mime_type.split(";", 1)[0].strip().lower()
    return kind.startswith("text/") or kind == "application/json" or kind.endswith(("+json", "+xml"))


def _size(count: int) -> str:
    if count < 1024:
        return f"{count}B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f}KB"
    return f"{count / (1024 * 1024):.1f}MB"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
