"""Writes AWS's event stream encoding: frames with headers that are texts, as Amazon Bedrock streams answers.

Pure. Independent of what a frame means, and of the agent's own reader.
"""

import struct
from collections.abc import Mapping
from zlib import crc32

_LEAST_FRAME_BYTES = 16
_TEXT = 7


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    encoded = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    lengths = struct.pack(">II", _LEAST_FRAME_BYTES + len(encoded) + len(payload), len(encoded))
    checked = lengths + struct.pack(">I", crc32(lengths)) + encoded + payload
    return checked + struct.pack(">I", crc32(checked))


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(">B", len(name)) + name + struct.pack(">BH", _TEXT, len(value)) + value
