"""Reads JSON values of records: the value of the expected type, or an empty one, so that no record stops the client."""

from collections.abc import Mapping, Sequence
from typing import cast

Record = Mapping[str, object]


def text(record: Record, key: str) -> str:
    """Return a string, or the empty one."""
    value = record.get(key)
    return value if isinstance(value, str) else ""


def number(record: Record, key: str) -> float:
    """Return a number, or 0."""
    value = record.get(key)
    return value if isinstance(value, int | float) else 0


def mapping(record: Record, key: str) -> Record:
    """Return an object, or an empty one."""
    return as_mapping(record.get(key))


def as_mapping(value: object) -> Record:
    """Return a value that is an object, or an empty one."""
    return cast("Record", value) if isinstance(value, Mapping) else {}


def objects(record: Record, key: str) -> list[Record]:
    """Return the objects of a list."""
    value = record.get(key)
    return [as_mapping(each) for each in cast("Sequence[object]", value)] if isinstance(value, list) else []


def texts(record: Record, key: str) -> list[str]:
    """Return the strings of a list."""
    value = record.get(key)
    return (
        [each for each in cast("Sequence[object]", value) if isinstance(each, str)] if isinstance(value, list) else []
    )


def content_text(record: Record, key: str = "content") -> str:
    """Return the text of a message's content, with a line that names each image."""
    if isinstance(content := record.get(key), str):
        return content
    parts: list[str] = []
    for block in objects(record, key):
        match block.get("type"):
            case "text":
                parts.append(text(block, "text"))
            case "image":
                parts.append(f"[image: {text(block, 'mimeType')}, {_size(text(block, 'data'))}]")
            case _:
                pass
    return "\n".join(parts)


def _size(base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size} bytes"
