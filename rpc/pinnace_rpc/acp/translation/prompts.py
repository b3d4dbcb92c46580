"""Content blocks of a prompt to a message for an agent, and the other way round for a replay.

A message is one text, then a text for each embedded resource, then the images. A link is written into the text at its
place; the file is not read. Text of a resource never starts a command.
"""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.params import InvalidParams, Params
from pinnace_spec.wire.file_texts import read_file_text

IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class PromptMessage(NamedTuple):
    """What an agent is asked."""

    text: str
    context: tuple[Mapping[str, str], ...]
    """Embedded resources: `uri` and `text`."""
    images: tuple[Mapping[str, str], ...]
    """As in a command of the agent's protocol."""
    blocks: tuple[Mapping[str, object], ...] = ()
    """The content blocks, as they came."""

    def fields(self) -> dict[str, object]:
        """Return the fields of a `prompt`, `steer` or `follow_up`."""
        fields: dict[str, object] = {"message": self.text}
        if self.context:
            fields["context"] = list(self.context)
        if self.images:
            fields["images"] = list(self.images)
        return fields


def read_prompt(params: Params) -> PromptMessage:
    """Read the blocks of a prompt.

    Raises:
        InvalidParams: A block is wrong or of a type that is not supported, or nothing is said. Names the block.
    """
    text: list[str] = []
    context: list[Mapping[str, str]] = []
    images: list[Mapping[str, str]] = []
    blocks: list[Mapping[str, object]] = []
    for block in params.objects("prompt"):
        blocks.append(block.fields)
        match block.text("type"):
            case "text":
                text.append(block.text("text"))
            case "resource_link":
                text.append(_link(block.text("name"), block.text("uri")))
            case "image":
                images.append(_image(block, block.text("mimeType"), "data"))
            case "resource":
                _read_resource(Params(block.fields.get("resource"), f"{block.path}.resource"), text, context, images)
            case other:
                raise block.invalid("type", f"{other} is not supported; use text, image, resource or resource_link")
    if not images and not "".join(text).strip():
        raise InvalidParams(f"{params.path}.prompt", "must have a text or an image")
    return PromptMessage("".join(text), tuple(context), tuple(images), tuple(blocks))


def _read_resource(
    resource: Params, text: list[str], context: list[Mapping[str, str]], images: list[Mapping[str, str]]
) -> None:
    uri = resource.text("uri")
    if not uri:
        raise resource.invalid("uri", "must not be empty")
    if isinstance(resource.fields.get("text"), str):
        text.append(_link(_last_segment(uri), uri))
        context.append({"uri": uri, "text": resource.text("text")})
        return
    mime_type = resource.optional_text("mimeType")
    if mime_type in IMAGE_TYPES:
        images.append(_image(resource, mime_type, "blob"))
        return
    size = len(_decoded(resource, "blob"))
    text.append(f"{_link(_last_segment(uri), uri)} (binary, {size} bytes, not included)")


def _image(block: Params, mime_type: str, field: str) -> Mapping[str, str]:
    if mime_type not in IMAGE_TYPES:
        raise block.invalid("mimeType", f"must be one of {', '.join(sorted(IMAGE_TYPES))}")
    _decoded(block, field)
    return {"type": "image", "data": block.text(field), "mimeType": mime_type}


def _decoded(block: Params, field: str) -> bytes:
    try:
        data = base64.b64decode(block.text(field), validate=True)
    except (binascii.Error, ValueError):
        raise block.invalid(field, "must be base64") from None
    if not data:
        raise block.invalid(field, "must not be empty")
    return data


def _link(name: str, uri: str) -> str:
    return f"[{name}]({uri})"


def _last_segment(uri: str) -> str:
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:  # it only looks like a URI
        path = uri
    return os.path.basename(path.rstrip("/")) or uri


def first_text(content: object) -> str:
    """Return the text of a stored message of the user, without what goes with it."""
    if isinstance(content, str):
        return content
    text = (as_object(next(iter(as_array(content)), None)) or {}).get("text")
    return text if isinstance(text, str) else ""


def user_blocks(content: object) -> Iterator[Mapping[str, object]]:
    """Yield the content blocks of a stored message of the user: what `read_prompt` was given, as far as it is known."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for index, each in enumerate(as_array(content)):
        block = as_object(each) or {}
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            embedded = read_file_text(text) if index else None
            if embedded is None:
                yield {"type": "text", "text": text}
            else:
                yield {"type": "resource", "resource": {"uri": embedded.name, "text": embedded.text}}
        elif block.get("type") == "image":
            yield {"type": "image", "data": block.get("data", ""), "mimeType": block.get("mimeType", "image/png")}
